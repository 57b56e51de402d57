//! The results of a norm from its formula, for the heads of one token.

use half::{bf16, f16};
use rope_core::error::PlanError;
use rope_core::norm::{NormFormula, NormReach, NormResult, NormSum, Weights};
use rope_core::stages::StageOrder;

use crate::number::values;
use crate::{Number, Source};

/// An element type chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// Single precision, without further rounding.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl ElementKind {
    /// Returns the kind of an element type.
    ///
    /// # Panics
    ///
    /// If the type is unknown.
    pub fn of<E: Number>() -> ElementKind {
        match E::NAME {
            "f32" => ElementKind::F32,
            "f16" => ElementKind::F16,
            "bf16" => ElementKind::Bf16,
            other => panic!("no kind for {other}"),
        }
    }

    /// Rounds to the type and converts back to f32.
    pub fn round(self, x: f32) -> f32 {
        match self {
            ElementKind::F32 => x,
            ElementKind::F16 => f16::from_f32(x).to_f32(),
            ElementKind::Bf16 => bf16::from_f32(x).to_f32(),
        }
    }
}

/// Weights or biases.
#[derive(Clone, Debug)]
pub enum List {
    /// Values in single precision.
    F32(Vec<f32>),
    /// Values in IEEE binary16.
    F16(Vec<f16>),
    /// Values in bfloat16.
    Bf16(Vec<bf16>),
}

impl List {
    /// Returns `len` values of any type.
    pub fn any(source: &mut Source<'_>, len: usize) -> Self {
        match source.below(3) {
            0 => List::F32(values(source, len)),
            1 => List::F16(values(source, len)),
            _ => List::Bf16(values(source, len)),
        }
    }

    fn kind(&self) -> ElementKind {
        match self {
            List::F32(_) => ElementKind::F32,
            List::F16(_) => ElementKind::F16,
            List::Bf16(_) => ElementKind::Bf16,
        }
    }

    /// Returns the value of a channel of a head; the heads share one list, or each has its own.
    fn of(&self, head: usize, head_dim: usize, channel: usize) -> f32 {
        let len = match self {
            List::F32(list) => list.len(),
            List::F16(list) => list.len(),
            List::Bf16(list) => list.len(),
        };
        let at = if len == head_dim {
            channel
        } else {
            head * head_dim + channel
        };
        match self {
            List::F32(list) => list[at],
            List::F16(list) => list[at].to_f32(),
            List::Bf16(list) => list[at].to_f32(),
        }
    }

    /// Returns the list in the crate's form.
    pub fn given(&self) -> Weights<'_> {
        match self {
            List::F32(list) => list.into(),
            List::F16(list) => list.into(),
            List::Bf16(list) => list.into(),
        }
    }
}

/// A norm.
#[derive(Clone, Debug)]
pub struct Norm {
    /// Formula of the norm.
    pub formula: NormFormula,
    /// Number added to the mean.
    pub eps: f32,
    /// Weights, if the formula has them.
    pub weight: Option<List>,
    /// Biases, if the formula has them.
    pub bias: Option<List>,
    /// Elements of one mean: a head or all heads of a token.
    pub reach: NormReach,
    /// Position of the norm in the chain.
    pub order: StageOrder,
    /// Order and precision of the sum.
    pub sum: NormSum,
    /// Given sums, and their width.
    pub given: Option<(Vec<f32>, usize)>,
}

impl Norm {
    /// Returns any norm for a number of tokens and heads.
    pub fn any(source: &mut Source<'_>, tokens: usize, heads: usize, head_dim: usize) -> Self {
        const NAMED: [NormFormula; 7] = [
            NormFormula::LLAMA,
            NormFormula::OLMO2,
            NormFormula::GEMMA,
            NormFormula::LLAMA4,
            NormFormula::LAYER_NORM,
            NormFormula::CHAMELEON,
            NormFormula::ONCE,
        ];
        let mut formula = if source.once_in(2) {
            let mut flag = || source.once_in(2);
            let [centered, one_plus_weight, rounds_normed, rounds_product] =
                [flag(), flag(), flag(), flag()];
            let results = [NormResult::Kept, NormResult::Rounded, NormResult::Promoted];
            NormFormula {
                centered,
                weighted: true,
                one_plus_weight,
                rounds_normed,
                rounds_product,
                result: source.one_of(&results),
            }
        } else {
            source.one_of(&NAMED)
        };
        let reach = source.one_of(&[NormReach::Head, NormReach::Head, NormReach::Token]);
        let list = |source: &mut Source<'_>| {
            let len = source.one_of(&[head_dim, heads * head_dim]);
            List::any(source, len)
        };
        let weight = (!source.once_in(4)).then(|| list(source));
        formula.weighted = weight.is_some();
        let bias = source.once_in(3).then(|| list(source));
        let given = (!formula.centered && source.once_in(6)).then(|| {
            let len = match reach {
                NormReach::Head => tokens * heads,
                NormReach::Token => tokens,
            };
            let sums = (0..len).map(|_| 1000.0 * source.unit().abs()).collect();
            (sums, source.within(1, 5000))
        });
        Norm {
            formula,
            eps: source.one_of(&[1e-6, 1e-5, 0.0, 1.0]),
            weight,
            bias,
            reach,
            order: source.one_of(&[StageOrder::BeforeRotation, StageOrder::AfterRotation]),
            sum: source.one_of(&[NormSum::PyTorch, NormSum::PyTorch, NormSum::F64]),
            given,
        }
    }

    /// Returns the norm in the crate's form.
    pub fn given(&self) -> rope_core::norm::Norm<'_> {
        let mut norm = rope_core::norm::Norm::new(self.formula, self.eps)
            .with_reach(self.reach)
            .with_order(self.order)
            .with_sum(self.sum);
        if let Some(weight) = &self.weight {
            norm = norm.with_weight(weight.given());
        }
        if let Some(bias) = &self.bias {
            norm = norm.with_bias(bias.given());
        }
        if let Some((sums, width)) = &self.given {
            norm = norm.with_sum_of_squares(sums, *width);
        }
        norm
    }

    /// Returns the norm with weights that the formula lacks, or without the weights that it needs; and the error.
    pub fn weights_amiss(&self, head_dim: usize) -> (rope_core::norm::Norm<'_>, rope_core::Error) {
        let mut norm = rope_core::norm::Norm::new(self.formula, self.eps).with_reach(self.reach);
        let error = match self.formula.weighted {
            true => rope_core::Error::Plan(PlanError::WeightMissing { needed: head_dim }),
            false => {
                norm = norm.with_weight(&[1.0_f32; 3]);
                rope_core::Error::Plan(PlanError::WeightUnused { given: 3 })
            }
        };
        (norm, error)
    }

    /// Norms the heads of a token, numbered over all sequences; returns the type of the results.
    pub fn apply(&self, kind: ElementKind, token: usize, heads: &mut [Vec<f32>]) -> ElementKind {
        let formula = self.formula;
        let other = |list: &Option<List>| list.as_ref().is_some_and(|list| list.kind() != kind);
        let promotes =
            formula.result == NormResult::Promoted && (other(&self.weight) || other(&self.bias));
        let result = match formula.result {
            NormResult::Kept => ElementKind::F32,
            NormResult::Promoted if promotes => ElementKind::F32,
            NormResult::Promoted | NormResult::Rounded => kind,
        };
        let row = self.moments(&heads.concat());
        let count = heads.len();
        for (index, head) in heads.iter_mut().enumerate() {
            let head_dim = head.len();
            let (mean, square) = match (&self.given, self.reach) {
                (Some((sums, width)), NormReach::Token) => (0.0, sums[token] / *width as f32),
                (Some((sums, width)), NormReach::Head) => {
                    (0.0, sums[token * count + index] / *width as f32)
                }
                (None, NormReach::Token) => row,
                (None, NormReach::Head) => self.moments(head),
            };
            let root = 1.0 / (square + self.eps).sqrt();
            for (channel, x) in head.iter_mut().enumerate() {
                let mut y = if formula.centered {
                    (*x - mean) * root
                } else {
                    *x * root
                };
                if formula.rounds_normed {
                    y = kind.round(y);
                }
                if let Some(weight) = &self.weight {
                    let weight = weight.of(index, head_dim, channel);
                    y *= if formula.one_plus_weight {
                        1.0 + weight
                    } else {
                        weight
                    };
                }
                if let Some(bias) = &self.bias {
                    if formula.rounds_product && self.weight.is_some() && !promotes {
                        y = kind.round(y);
                    }
                    y += bias.of(index, head_dim, channel);
                }
                *x = result.round(y);
            }
        }
        if promotes { ElementKind::F32 } else { kind }
    }

    /// Returns the mean (0 unless the formula subtracts it) and the mean square.
    fn moments(&self, row: &[f32]) -> (f32, f32) {
        if !self.formula.centered {
            return (0.0, mean(self.sum, row, 0.0));
        }
        let center = match self.sum {
            NormSum::PyTorch => pytorch_sum(row) / row.len() as f32,
            NormSum::F64 => wide_mean(row.iter().map(|&x| f64::from(x)), row.len()),
        };
        (center, mean(self.sum, row, center))
    }
}

/// Returns the mean of the squared differences from a center.
fn mean(sum: NormSum, row: &[f32], center: f32) -> f32 {
    match sum {
        NormSum::PyTorch => sum_of_squares(row.iter().map(|&x| x - center)) / row.len() as f32,
        NormSum::F64 => {
            let differences = row.iter().map(|&x| f64::from(x) - f64::from(center));
            wide_mean(differences.map(|x| x * x), row.len())
        }
    }
}

/// Returns the sum of the squares of a row in PyTorch's order.
pub fn sum_of_squares(row: impl Iterator<Item = f32>) -> f32 {
    let squares: Vec<f32> = row.map(|x| x * x).collect();
    pytorch_sum(&squares)
}

/// Returns the mean of exact products: eight lanes in f64, added one after the other, and one rounding at the end.
fn wide_mean(terms: impl Iterator<Item = f64>, len: usize) -> f32 {
    (wide_sum(terms) / len as f64) as f32
}

/// Returns a sum in f64: term `i` goes to lane `i mod 8`, and the lanes are added one after the other.
pub fn wide_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut lanes = [0.0; 8];
    for (index, term) in terms.enumerate() {
        lanes[index % 8] += term;
    }
    lanes.iter().fold(0.0, |sum, lane| sum + lane)
}

/// Returns a sum in the order of `vectorized_inner_sum` of PyTorch's `SumKernel.cpp` with eight lanes: four vectors
/// side by side in a cascade of four levels; the remaining vectors; the four vectors into one; the remaining numbers,
/// then the lanes.
fn pytorch_sum(terms: &[f32]) -> f32 {
    let vectors = terms.len() / 8;
    let blocks = vectors / 4;
    let log = if blocks <= 1 {
        0
    } else {
        (blocks - 1).ilog2() + 1
    };
    let power = (log / 4).max(4);
    let step = 1 << power;
    let mut levels = [[0.0_f32; 32]; 4];
    let mut block = 0;
    let add = |levels: &mut [[f32; 32]; 4], block: usize| {
        for (lane, sum) in levels[0].iter_mut().enumerate() {
            *sum += terms[32 * block + lane];
        }
    };
    while block + step <= blocks {
        for _ in 0..step {
            add(&mut levels, block);
            block += 1;
        }
        for level in 1..4 {
            let below = std::mem::replace(&mut levels[level - 1], [0.0; 32]);
            for (sum, below) in levels[level].iter_mut().zip(below) {
                *sum += below;
            }
            if block & ((step - 1) << (level as u32 * power)) != 0 {
                break;
            }
        }
    }
    for rest in block..blocks {
        add(&mut levels, rest);
    }
    let [mut sum, above @ ..] = levels;
    for level in above {
        for lane in 0..32 {
            sum[lane] += level[lane];
        }
    }
    for vector in 4 * blocks..vectors {
        for lane in 0..8 {
            sum[lane] += terms[8 * vector + lane];
        }
    }
    for group in 1..4 {
        for lane in 0..8 {
            sum[lane] += sum[8 * group + lane];
        }
    }
    let rest = terms[8 * vectors..]
        .iter()
        .fold(0.0, |sum, term| sum + term);
    sum[..8].iter().fold(rest, |sum, lane| sum + lane)
}
