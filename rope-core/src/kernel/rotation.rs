//! The rotation stage: its arithmetic, and cos and sin in registers, in the order of the elements.

use core::marker::PhantomData;

use super::pairs::PairLayout;
use crate::simd::Simd;

/// Computes `(x, y) <- (x cos - y sin, x sin + y cos)`: two products and a sum or difference, each rounded by itself.
#[inline(always)]
pub(crate) fn rotate<S: Simd>(s: S, [x, y]: [S::F32; 2], cos: S::F32, sin: S::F32) -> [S::F32; 2] {
    [
        s.sub(s.mul(x, cos), s.mul(y, sin)),
        s.add(s.mul(x, sin), s.mul(y, cos)),
    ]
}

/// Rotates alternating members, `x y x y ..`, with each cos twice and each sin as `-sin sin`. A difference is a sum
/// with the negated operand, and sums commute: the bits are those of [`rotate`].
#[inline(always)]
fn rotate_alternating<S: Simd>(s: S, xy: S::F32, cos: S::F32, sin: S::F32) -> S::F32 {
    s.add(s.mul(xy, cos), s.mul(s.swap(xy), sin))
}

/// The factors of a direction on cos and sin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowFactors {
    pub(crate) cos: f32,
    pub(crate) sin: f32,
}

impl RowFactors {
    /// The factors of a rotation without scaling.
    pub(crate) const UNSCALED: RowFactors = RowFactors { cos: 1.0, sin: 1.0 };
}

/// The lane order of a group's elements, which determines the order of cos and sin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneOrder {
    /// First members in one double, second members in the other, in order.
    Apart,
    /// First and second members in separate doubles, each as even and odd elements.
    ApartEvenOdd,
    /// Even and odd elements, which are first and second members in order.
    EvenOdd,
    /// First and second members alternate, and are unzipped.
    Unzipped,
    /// First and second members alternate, and stay so: two lanes of cos and of sin per pair.
    Doubled,
}

impl LaneOrder {
    /// Returns the order for a pairing and an element size. cos and sin are doubled only if many heads share them.
    pub(crate) const fn of<S: Simd, P: PairLayout>(
        even_odd: bool,
        bytes: usize,
        shared: bool,
    ) -> LaneOrder {
        match (P::ALTERNATING, even_odd) {
            (false, false) => LaneOrder::Apart,
            (false, true) => LaneOrder::ApartEvenOdd,
            (true, true) => LaneOrder::EvenOdd,
            (true, false) if bytes <= S::INTERLEAVED_MAX_BYTES && shared => LaneOrder::Doubled,
            (true, false) => LaneOrder::Unzipped,
        }
    }
}

/// A [`LaneOrder`] as a type: rustc drops the code of the other orders. With a value, LLVM inlines all five into each
/// kernel before it drops four, which takes a quarter of the time of its passes.
pub(crate) trait ConstOrder {
    const ORDER: LaneOrder;

    /// True if elements are read as even and odd.
    const EVEN_ODD: bool = matches!(Self::ORDER, LaneOrder::ApartEvenOdd | LaneOrder::EvenOdd);
}

macro_rules! orders {
    ($($Order:ident),+) => {
        $(
            pub(crate) struct $Order;

            impl ConstOrder for $Order {
                const ORDER: LaneOrder = LaneOrder::$Order;
            }
        )+
    };
}
orders!(Apart, ApartEvenOdd, EvenOdd, Unzipped, Doubled);

/// Evaluates an expression that names a constant order by its type.
macro_rules! with_order {
    ($order:expr, $O:ident => $e:expr) => {
        if const { matches!($order, LaneOrder::Apart) } {
            type $O = rotation::Apart;
            $e
        } else if const { matches!($order, LaneOrder::ApartEvenOdd) } {
            type $O = rotation::ApartEvenOdd;
            $e
        } else if const { matches!($order, LaneOrder::EvenOdd) } {
            type $O = rotation::EvenOdd;
            $e
        } else if const { matches!($order, LaneOrder::Unzipped) } {
            type $O = rotation::Unzipped;
            $e
        } else {
            type $O = rotation::Doubled;
            $e
        }
    };
}
pub(super) use with_order;

/// cos and sin of a group, in registers. The two vectors of each pair differ only if the order is doubled.
pub(crate) struct AngleVectors<S: Simd, O> {
    cos: [[S::F32; 2]; 2],
    sin: [[S::F32; 2]; 2],
    order: PhantomData<O>,
}

impl<S: Simd, O> Clone for AngleVectors<S, O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd, O> Copy for AngleVectors<S, O> {}

impl<S: Simd, O: ConstOrder> AngleVectors<S, O> {
    /// Loads two vectors of cos and two of sin. A product with 1 or -1 is exact.
    #[inline(always)]
    pub(crate) fn load(
        s: S,
        [c0, c1]: [S::Chunk<f32>; 2],
        [s0, s1]: [S::Chunk<f32>; 2],
        factors: Option<&RowFactors>,
    ) -> Self {
        let mut cos = [s.load_f32(c0), s.load_f32(c1)];
        let mut sin = [s.load_f32(s0), s.load_f32(s1)];
        if let Some(factors) = factors {
            let factor = s.splat(factors.cos);
            cos = [s.mul(cos[0], factor), s.mul(cos[1], factor)];
            let factor = s.splat(factors.sin);
            sin = [s.mul(sin[0], factor), s.mul(sin[1], factor)];
        }
        if const { matches!(O::ORDER, LaneOrder::ApartEvenOdd) } {
            (cos, sin) = (even_odd(s, cos), even_odd(s, sin));
        }
        if const { matches!(O::ORDER, LaneOrder::Unzipped) } {
            (cos, sin) = (to_deinterleaved(s, cos), to_deinterleaved(s, sin));
        }
        let ([c0, c1], [s0, s1]) = (cos, sin);
        if const { matches!(O::ORDER, LaneOrder::Doubled) } {
            let minus = s.splat(-1.0);
            return AngleVectors {
                cos: [s.interleave([c0, c0]), s.interleave([c1, c1])],
                sin: [
                    s.interleave([s.mul(s0, minus), s0]),
                    s.interleave([s.mul(s1, minus), s1]),
                ],
                order: PhantomData,
            };
        }
        AngleVectors {
            cos: [[c0, c0], [c1, c1]],
            sin: [[s0, s0], [s1, s1]],
            order: PhantomData,
        }
    }

    /// Rotates one vector of pairs of a group, read as two vectors.
    #[inline(always)]
    pub(crate) fn rotate_half(&self, s: S, half: usize, xy: [S::F32; 2]) -> [S::F32; 2] {
        let (cos, sin) = (self.cos[half], self.sin[half]);
        if const { matches!(O::ORDER, LaneOrder::Doubled) } {
            return [
                rotate_alternating(s, xy[0], cos[0], sin[0]),
                rotate_alternating(s, xy[1], cos[1], sin[1]),
            ];
        }
        if const { matches!(O::ORDER, LaneOrder::Unzipped) } {
            return s.zip(rotate(s, s.unzip(xy), cos[0], sin[0]));
        }
        rotate(s, xy, cos[0], sin[0])
    }

    /// Rotates a group.
    #[inline(always)]
    pub(crate) fn rotate(&self, s: S, [a, b]: [[S::F32; 2]; 2]) -> [[S::F32; 2]; 2] {
        if const { matches!(O::ORDER, LaneOrder::Apart | LaneOrder::ApartEvenOdd) } {
            let [x0, y0] = self.rotate_half(s, 0, [a[0], b[0]]);
            let [x1, y1] = self.rotate_half(s, 1, [a[1], b[1]]);
            return [[x0, x1], [y0, y1]];
        }
        [self.rotate_half(s, 0, a), self.rotate_half(s, 1, b)]
    }
}

#[inline(always)]
fn to_deinterleaved<S: Simd>(s: S, [a, b]: [S::F32; 2]) -> [S::F32; 2] {
    [s.to_deinterleaved(a), s.to_deinterleaved(b)]
}

/// Returns the even and the odd lanes of two vectors, in order.
#[inline(always)]
pub(crate) fn even_odd<S: Simd>(s: S, ab: [S::F32; 2]) -> [S::F32; 2] {
    let [even, odd] = s.unzip(ab);
    [s.undo_deinterleaved(even), s.undo_deinterleaved(odd)]
}

/// Separates alternating first and second members, to change the pairing of a rotated group.
#[inline(always)]
pub(crate) fn deinterleave<S: Simd>(s: S, [a, b]: [[S::F32; 2]; 2]) -> [[S::F32; 2]; 2] {
    let ([x0, y0], [x1, y1]) = (even_odd(s, a), even_odd(s, b));
    [[x0, x1], [y0, y1]]
}

/// Interleaves first and second members: the inverse of `deinterleave`.
#[inline(always)]
pub(crate) fn interleave<S: Simd>(
    s: S,
    [[x0, x1], [y0, y1]]: [[S::F32; 2]; 2],
) -> [[S::F32; 2]; 2] {
    [s.interleave([x0, y0]), s.interleave([x1, y1])]
}
