//! The rotations that a model runs under.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use candle_core::{DType, Result, Tensor};
use candle_nn::rotary_emb;

/// The function that rotates the queries and keys of a model.
#[derive(Clone, Copy, Debug)]
pub enum Rotation<'a> {
    /// candle's function, by the tables that the model's code made.
    Candle,
    /// rope-candle's function, by the same tables: what a change of the function alone does.
    Function,
    /// rope-candle's function by these tables of the step's tokens (or, of f64, candle's own). The model's are ignored:
    /// this is what its code would compute, had it made tables in this way.
    Tables(&'a Tensor, &'a Tensor),
    /// candle's function or, if true, rope-candle's, by the model's tables; adds its time to [`spent`].
    Timed(bool),
}

thread_local! {
    /// cos and sin that take the place of the model's.
    static TABLES: RefCell<Option<(Tensor, Tensor)>> = const { RefCell::new(None) };
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the time that [`Rotation::Timed`] took on this thread since the last call.
pub fn spent() -> Duration {
    SPENT.take()
}

impl Rotation<'_> {
    /// Runs a step of a model.
    pub(crate) fn run<T>(self, step: impl FnOnce() -> T) -> T {
        let rope = match self {
            Rotation::Candle => rotary_emb::rope_of_candle,
            Rotation::Function => rope_candle::rope,
            Rotation::Tables(cos, sin) => {
                TABLES.set(Some((cos.clone(), sin.clone())));
                by_tables
            }
            Rotation::Timed(false) => timed_candle,
            Rotation::Timed(true) => timed_ours,
        };
        rotary_emb::within(rope, step)
    }
}

fn timed_candle(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    timed(rotary_emb::rope_of_candle, x, cos, sin)
}

fn timed_ours(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    timed(rope_candle::rope, x, cos, sin)
}

fn timed(rope: rotary_emb::Rope, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let start = Instant::now();
    let result = rope(x, cos, sin);
    SPENT.set(SPENT.get() + start.elapsed());
    result
}

fn by_tables(xs: &Tensor, _: &Tensor, _: &Tensor) -> Result<Tensor> {
    TABLES.with_borrow(|tables| match tables {
        Some((cos, sin)) if xs.dtype() == DType::F64 => rotary_emb::rope_of_candle(xs, cos, sin),
        Some((cos, sin)) => rope_candle::rope(xs, cos, sin),
        None => candle_core::bail!("a rotation outside of a step"),
    })
}
