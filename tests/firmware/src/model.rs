//! The model whose golden values the firmware checks: Llama 3.1's frequencies, some heads of 128 channels.

use rope_core::Scaling;

use crate::golden::QUERIES;

pub(crate) const HEAD_DIM: usize = 128;
pub(crate) const PAIRS: usize = HEAD_DIM / 2;
pub(crate) const HEADS: usize = QUERIES.len() / HEAD_DIM;
pub(crate) const SHAPE: [usize; 4] = [1, 1, HEADS, HEAD_DIM];
pub(crate) const BASE: f64 = 500_000.0;
pub(crate) const SCALING: Scaling<'_> = Scaling::Llama3 {
    factor: 8.0,
    low_freq_factor: 1.0,
    high_freq_factor: 4.0,
    original_context: 8192,
};
