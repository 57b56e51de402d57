//! How an operator rotates, as one integer: cheaper to pass than words, and the same for all operators.

use rope_core::{Direction, Pairing, Rope};
use rope_models::Rotation;

use crate::shim::{Failure, Result};

/// Which pairs rotate, which way, and how tensors and tables are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    pub(crate) direction: Direction,
    /// `[batch, tokens, heads, head_dim]`, and not `[batch, heads, tokens, head_dim]`.
    pub(crate) tokens_major: bool,
    pub(crate) width: Width,
    /// True if the caller left open how often a row has each value: rows that have each twice are refused.
    pub(crate) is_width_open: bool,
    /// True if 16-bit results are rounded after every operation, as eager PyTorch rounds them.
    pub(crate) eager: bool,
    pub(crate) strict: Option<Strict>,
}

/// The requirements of a function of transformers. Other arguments are refused, and the function computes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strict {
    /// Rows must be as wide as a head.
    pub(crate) is_full: bool,
    /// The result has the type of a product of `x` and cos, which must be that of `x`.
    pub(crate) is_promoted: bool,
}

/// How often a row of cos or sin has each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Once: `rotary_dim / 2` values.
    Once,
    /// Twice, as `cat((freqs, freqs), -1)`.
    Halves,
    /// Twice, as `repeat_interleave(2, -1)`.
    Pairs,
}

const INPUT: i64 = 1;
const OUTPUT: i64 = 2;
const TRANSPOSE: i64 = 4;
const INVERSE: i64 = 8;
const TOKENS_MAJOR: i64 = 16;
const HALVES: i64 = 32;
const PAIRS: i64 = 64;
const EAGER: i64 = 128;
const OPEN: i64 = 256;
const STRICT: i64 = 512;
const FULL: i64 = 1024;
const PROMOTED: i64 = 2048;

impl Plan {
    pub(crate) fn new(bits: i64) -> Result<Self> {
        let has = |bit| bits & bit != 0;
        let refused = || {
            Failure::new(format!(
                "plan is {bits}; it must be a result of rope_kernels.plan"
            ))
        };
        if !(0..2 * PROMOTED).contains(&bits) {
            return Err(refused());
        }
        let pairing = |bit| match has(bit) {
            true => Pairing::Interleaved,
            false => Pairing::Half,
        };
        Ok(Plan {
            input: pairing(INPUT),
            output: pairing(OUTPUT),
            direction: match (has(TRANSPOSE), has(INVERSE)) {
                (false, false) => Direction::Forward,
                (true, false) => Direction::Transpose,
                (false, true) => Direction::Inverse,
                (true, true) => return Err(refused()),
            },
            tokens_major: has(TOKENS_MAJOR),
            width: match (has(HALVES), has(PAIRS)) {
                (false, false) => Width::Once,
                (true, false) => Width::Halves,
                (false, true) => Width::Pairs,
                (true, true) => return Err(refused()),
            },
            is_width_open: has(OPEN) && !has(HALVES) && !has(PAIRS),
            eager: has(EAGER),
            strict: has(STRICT).then_some(Strict {
                is_full: has(FULL),
                is_promoted: has(PROMOTED),
            }),
        })
    }

    /// A rotation of a model, as this plan says where the rest is the model's: its layout, and whether it is
    /// transposed, which makes a rotation its gradient.
    pub(crate) fn of_model(bits: i64, rotation: &Rotation) -> Result<Self> {
        let plan = Plan::new(bits)?;
        if bits & !(TRANSPOSE | TOKENS_MAJOR) != 0 {
            return Err(Failure::new(format!(
                "plan is {bits}; a model's rotation takes layout, and \"transpose\" as direction: the rest is the model's"
            )));
        }
        let ((input, output), forward) = (
            rotation.pairing(),
            rotation.direction() == Direction::Forward,
        );
        let turned = plan.direction == Direction::Transpose;
        let (input, output) = if turned {
            (output, input)
        } else {
            (input, output)
        };
        let direction = match forward == turned {
            true => Direction::Transpose,
            false => Direction::Forward,
        };
        Ok(Plan {
            input,
            output,
            direction,
            ..plan
        })
    }

    /// A model's pairing and direction, as the integer that other operators take.
    pub(crate) fn bits_of_model(rotation: &Rotation) -> i64 {
        let flag = |set: bool, bit: i64| if set { bit } else { 0 };
        let (input, output) = rotation.pairing();
        flag(input == Pairing::Interleaved, INPUT)
            | flag(output == Pairing::Interleaved, OUTPUT)
            | flag(rotation.direction() == Direction::Transpose, TRANSPOSE)
    }

    /// Refuses PyTorch's rounding of each operation, which no cache has.
    pub(crate) fn check_rounded_once(&self) -> Result<()> {
        match self.eager {
            false => Ok(()),
            true => Err(Failure::new(
                "rounding is \"eager\"; into a cache it must be \"once\"",
            )),
        }
    }

    pub(crate) fn rope(&self) -> Rope {
        Rope::new(self.input)
            .with_output_pairing(self.output)
            .with_direction(self.direction)
    }

    /// Numbers that tensors have for each dimension, as `[batch, tokens, heads, channels]`.
    pub(crate) fn sorted(
        [batch, second, third, channels]: [usize; 4],
        tokens_major: bool,
    ) -> [usize; 4] {
        match tokens_major {
            true => [batch, second, third, channels],
            false => [batch, third, second, channels],
        }
    }
}
