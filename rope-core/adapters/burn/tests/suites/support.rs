//! Random tensors in any memory layout, and rope-core's results for the same values.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use burn::tensor::{DType, Device, Element, Tensor, TensorData};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rope_burn::RotaryRows;
use rope_core::{Direction, Layout, Pairing, Rope, Rows, TensorMut};

/// Half the distance from 1 to the next `f32`: the relative error of one rounding.
pub(crate) const U: f64 = 1.0 / (1_u64 << 24) as f64;

/// A device that is not Flex.
#[allow(
    deprecated,
    reason = "burn's other backends need a GPU, a library, or a compiler of their own"
)]
pub(crate) fn other() -> Device {
    Device::ndarray()
}

/// A source of choices.
pub(crate) struct Source(Xoshiro256PlusPlus);

impl Source {
    /// Creates the choices of a test, which depend on its name and the seed only. Prints the seed, which a failing test
    /// shows.
    pub(crate) fn random(test: &str) -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        let seed = *SEED.get_or_init(|| match std::env::var("ROPE_SEED") {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("ROPE_SEED={text} is not a number")),
            Err(_) => RandomState::new().hash_one(0),
        });
        println!("{test}: repeat with ROPE_SEED={seed}");
        let name = test.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Source(Xoshiro256PlusPlus::seed_from_u64(seed ^ name))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Returns a number of either sign and of any of 12 magnitudes.
    pub(crate) fn value(&mut self) -> f32 {
        let magnitude = 2_f32.powi(self.below(12) as i32 - 8);
        magnitude * self.0.random_range(-2.0_f32..2.0)
    }

    pub(crate) fn values(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.value()).collect()
    }

    pub(crate) fn tensor<const D: usize>(
        &mut self,
        dims: [usize; D],
        dtype: DType,
        device: &Device,
    ) -> Tensor<D> {
        let data = TensorData::new(self.values(dims.iter().product()), dims);
        Tensor::<D>::from_data(data, (device, DType::F32)).cast(dtype)
    }

    /// Returns rows of any values, not of frequencies: shared by sequences and heads, or one of each.
    pub(crate) fn rows(&mut self, [batch, heads, tokens, _]: [usize; 4], pairs: usize) -> OwnRows {
        let (sequences, heads) = (self.one_of(&[1, batch]), self.one_of(&[1, heads]));
        let count = sequences * tokens * heads;
        let values = self.values(count * 2 * pairs);
        let rows =
            Rows::from_vec(values, [count, 2 * pairs]).and_then(|rows| rows.with_heads(heads));
        OwnRows {
            rows: rows.expect("rows of heads"),
            sequences,
        }
    }
}

/// Returns rope-core's rows of `sequences` sequences.
pub(crate) struct OwnRows {
    pub(crate) rows: Rows<'static>,
    pub(crate) sequences: usize,
}

impl OwnRows {
    pub(crate) fn on(&self, device: &Device) -> RotaryRows {
        RotaryRows::from_rows(&self.rows, self.sequences, device).expect("rows of sequences")
    }
}

/// Returns the same tensor in its own memory, without gaps.
pub(crate) fn dense<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    Tensor::from_data(x.to_data(), (&x.device(), x.dtype()))
}

/// The memory layouts of [`laid`].
pub(crate) const FORMS: [&str; 5] = [
    "dense",
    "tokens-major",
    "packed",
    "reversed",
    "channels apart",
];

/// Returns the same values in another memory layout.
pub(crate) fn laid(x: &Tensor<4>, form: &str) -> Tensor<4> {
    match form {
        "dense" => dense(x),
        "tokens-major" => dense(&x.clone().swap_dims(1, 2)).swap_dims(1, 2),
        "packed" => {
            let [_, heads, _, _] = x.dims();
            let noise = x.clone() * -3.0;
            Tensor::cat(vec![noise.clone(), x.clone(), noise], 1).narrow(1, heads, heads)
        }
        "reversed" => dense(&x.clone().flip([0, 2])).flip([0, 2]),
        "channels apart" => dense(&x.clone().swap_dims(2, 3)).swap_dims(2, 3),
        _ => unreachable!("{form}"),
    }
}

/// Returns the values of a tensor, which f32 holds exactly.
pub(crate) fn values<const D: usize>(x: &Tensor<D>) -> Vec<f32> {
    let data = x.to_data_as::<f32>();
    data.try_to_vec().expect("f32")
}

/// Returns the bits of these values.
pub(crate) fn bits<const D: usize>(x: &Tensor<D>) -> Vec<u32> {
    values(x).into_iter().map(f32::to_bits).collect()
}

/// Returns rope-core's rotation of a tensor `[batch, heads, tokens, head_dim]`.
pub(crate) fn rotated(
    x: &Tensor<4>,
    rows: &Rows<'_>,
    pairing: Pairing,
    direction: Direction,
) -> Vec<u32> {
    match x.dtype() {
        DType::F32 => rotated_elements::<f32>(x, rows, pairing, direction),
        DType::F16 => rotated_elements::<half::f16>(x, rows, pairing, direction),
        DType::BF16 => rotated_elements::<half::bf16>(x, rows, pairing, direction),
        dtype => unreachable!("{dtype:?}"),
    }
}

fn rotated_elements<E: rope_core::Element + Element>(
    x: &Tensor<4>,
    rows: &Rows<'_>,
    pairing: Pairing,
    direction: Direction,
) -> Vec<u32> {
    let mut values: Vec<E> = x.to_data().try_to_vec().expect("the tensor's type");
    let layout = Layout::bhsd(x.dims()).expect("a small shape");
    let mut target = TensorMut::new(&mut values, layout).expect("a tensor");
    let rope = Rope::new(pairing).with_direction(direction);
    rope.rotate(&mut target, rows).expect("rows that fit");
    let bits = |value: &E| value.to_f32().to_bits();
    values.iter().map(bits).collect()
}
