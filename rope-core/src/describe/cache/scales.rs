//! Separate scales as a caller gives them: one list, or two.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use core::ops::Deref;

use bytemuck::Pod;

use super::format::ComputedScales;
use super::layout::CacheLayout;
use super::quant::ScaleLayout;
use crate::Error;
use crate::error::CacheError;

/// Separate scales as a caller gives them: a list of [`f32`], or of [`u8`] for scales of one byte. Two lists of one
/// type are the scales, and the zero points or minima, of [`U8`](super::GroupCodes::U8) and
/// [`U4`](super::GroupCodes::U4). `Bytes` is the memory of a list, to read or to write. Sealed.
///
/// ```
/// use rope_core::Error;
/// use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, IntoScales};
///
/// fn cache<'a>(
///     memory: &'a mut [u8],
///     layout: CacheLayout,
///     format: CacheFormat<'a>,
///     scales: impl IntoScales<Bytes = &'a mut [u8]>,
/// ) -> Result<CacheMut<'a>, Error> {
///     CacheMut::coded_with_scales(memory, layout, format, scales)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no separate scales",
    label = "neither a list (`&mut [T]`, `&mut [T; N]` or `&mut Vec<T>`, without `mut` to read it) nor an array of two",
    note = "scales are f32 or u8"
)]
pub trait IntoScales {
    /// The memory of a list: `&mut [u8]` to write it, `&[u8]` to read it.
    type Bytes;

    #[doc(hidden)]
    fn lists(self) -> ([Self::Bytes; 2], GivenScales);
}

/// The type of separate scales: [`f32`], or [`u8`] for scales of one byte. Sealed.
///
/// ```
/// use rope_core::Error;
/// use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, ScaleUnit};
///
/// fn cache<'a, S: ScaleUnit>(
///     memory: &'a mut [u8],
///     layout: CacheLayout,
///     format: CacheFormat<'a>,
///     scales: &'a mut [S],
/// ) -> Result<CacheMut<'a>, Error> {
///     CacheMut::coded_with_scales(memory, layout, format, scales)
/// }
/// ```
#[allow(private_bounds, reason = "the trait is sealed")]
pub trait ScaleUnit: ScaleBytes {}

impl ScaleUnit for f32 {}
impl ScaleUnit for u8 {}

/// The bytes of separate scales.
pub(crate) trait ScaleBytes: Pod {}

impl ScaleBytes for f32 {}
impl ScaleBytes for u8 {}

/// The lengths of separate scales.
#[derive(Clone, Copy, Debug)]
pub struct GivenScales {
    /// The numbers in each list.
    pub(super) counts: [usize; 2],
    /// Bytes of a number.
    pub(super) unit: usize,
    /// Zero points, or minima, have the second list.
    pub(super) is_pair: bool,
}

impl GivenScales {
    /// No scales.
    pub(super) const NONE: Self = GivenScales::of::<f32>([0; 2], false);

    const fn of<S>(counts: [usize; 2], is_pair: bool) -> Self {
        GivenScales {
            counts,
            unit: size_of::<S>(),
            is_pair,
        }
    }

    /// Checks separate scales of a cache.
    pub(super) fn check(
        self,
        computed: ComputedScales,
        layout: &CacheLayout,
        place: ScaleLayout,
    ) -> Result<(), Error> {
        let refused = |required| Err(Error::Cache(CacheError::Layout { required }));
        if self.is_pair && computed.numbers == 1 {
            return refused(
                "given with one list of separate scales: its codes have no zero points",
            );
        }
        if layout.end() <= layout.offset {
            return Ok(());
        }
        let (lists, of_list) = match self.is_pair {
            true => (2, computed.of_one_list()),
            false => (1, computed),
        };
        let needed = layout.scales_end(place, of_list.count(layout.shape.head_dim))?;
        for (given, what) in self
            .counts
            .into_iter()
            .zip(["scales", "zero points"])
            .take(lists)
        {
            if given < needed {
                return Err(Error::Storage {
                    what,
                    given,
                    needed,
                });
            }
        }
        match computed.unit {
            unit if unit == self.unit => Ok(()),
            1 => refused("given with its separate scales as bytes"),
            _ => refused("given with its separate scales as f32"),
        }
    }
}

/// Separate scales whose type and lists are found at run time.
#[derive(Debug)]
pub struct AnyScales<B> {
    /// The bytes of the scales.
    pub scales: B,
    /// The bytes of zero points, or of minima, in a list of their own.
    pub zeros: Option<B>,
    /// True if a scale is a byte, and not an f32.
    pub are_bytes: bool,
}

#[doc(hidden)]
impl<B: Default + Deref<Target = [u8]>> IntoScales for AnyScales<B> {
    type Bytes = B;

    fn lists(self) -> ([B; 2], GivenScales) {
        let unit = match self.are_bytes {
            true => size_of::<u8>(),
            false => size_of::<f32>(),
        };
        let is_pair = self.zeros.is_some();
        let lists = [self.scales, self.zeros.unwrap_or_default()];
        let counts = lists.each_ref().map(|list| list.len() / unit);
        let given = GivenScales {
            counts,
            unit,
            is_pair,
        };
        (lists, given)
    }
}

/// Implements [`IntoScales`] for a list of one mutability, and for two.
macro_rules! scale_lists {
    ($cast:path, $bytes:ty: $($(#[$attribute:meta])* [$($generics:tt)*] $list:ty),*) => {$(
        $(#[$attribute])*
        impl<'a, S: ScaleUnit, $($generics)*> IntoScales for $list {
            type Bytes = $bytes;

            fn lists(self) -> ([$bytes; 2], GivenScales) {
                let given = GivenScales::of::<S>([self.len(), 0], false);
                ([$cast(self), Default::default()], given)
            }
        }

        $(#[$attribute])*
        impl<'a, S: ScaleUnit, $($generics)*> IntoScales for [$list; 2] {
            type Bytes = $bytes;

            fn lists(self) -> ([$bytes; 2], GivenScales) {
                let given = GivenScales::of::<S>(self.each_ref().map(|list| list.len()), true);
                (self.map(|list| $cast(list)), given)
            }
        }
    )*};
}
scale_lists! {
    bytemuck::cast_slice, &'a [u8]:
    [] &'a [S], [const N: usize] &'a [S; N], #[cfg(feature = "alloc")] [] &'a Vec<S>
}
scale_lists! {
    bytemuck::cast_slice_mut, &'a mut [u8]:
    [] &'a mut [S], [const N: usize] &'a mut [S; N], #[cfg(feature = "alloc")] [] &'a mut Vec<S>
}
