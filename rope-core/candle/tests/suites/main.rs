//! The suites of rope-candle.

mod functions;
mod gradients;
mod random;
mod refused;
mod rotary;
