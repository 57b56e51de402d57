//! The suites of rope-candle.

mod caches;
mod functions;
mod gradients;
mod random;
mod refused;
mod rotary;
