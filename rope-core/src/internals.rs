//! Internals for the other crates of this repository, and for no others: they change without notice.
//!
//! | function | reader |
//! |---|---|
//! | [`in_stages`] | the suites, which compare fused calls with it; `rope-bench stages`, which measures the gain |
//! | [`Executor`] | the suite `implementations`, which asserts the executor of each call |
//! | [`moving`] | the C API, whose `rope_angles` says whether rows move keys |
//! | [`rotate`], [`rotate_qk`], [`token_heads`] | the C API, which keeps layouts in prepared calls |
//! | [`rotate_raw`] | the C API, whose checked calls make no plan, layout and rows |
//! | [`rope`] | the C API, whose plans name their backend |
//! | [`over`] | the C API, whose prepared calls keep rows without their memory |
//! | [`AnySource`], [`AnyTarget`], [`AnyAngles`], [`AnyScales`] | the C API, which links one copy of a verb for all of them |
//! | [`head_groups`] | the C API, which finds the kind of rows at run time |
//! | [`check_query_and_key`], [`check_query_and_key_by`] | the C API, which cannot borrow Q and K of one packed row at once |
//! | [`tuned`], [`tuning`], [`TUNINGS`] | `rope-bench tune`, which measures other knobs; the suite `tuning` |
//! | [`Are`], [`Count`] | the C API, rope-models and the adapters, whose messages count things |
//! | [`ERRORS`] | the C API and the suites `messages` and `refused`, whose lists name every error |
//! | [`Renamed`] | the C API and rope-torch, whose messages name their own functions |

use core::fmt;

pub use crate::describe::cache::scales::AnyScales;
use crate::describe::tensor::BytesMut;
pub use crate::execute::choose::Executor;
use crate::kernel::element::Element;
use crate::plan::{self, Rope};
pub use crate::plan::{
    AnyAngles, AnySource, AnyTarget, InPlace, RawRows, RawTensor, TokenHeads, TokenRow, rotate_raw,
};
pub use crate::tuning::{Ahead, ROWS as TUNINGS, Tuning};
use crate::{AnyRows, Backend, Error, Layout, Output, Pairing, Rows, Shape, TensorMut};

pub use crate::base::error::{Are, Count, NAMES as ERRORS};

/// A message in which every Rust name is replaced by that of another language.
#[derive(Clone, Copy, Debug)]
pub struct Renamed<'a, T> {
    /// The message.
    pub text: T,
    /// Pairs of a Rust name, or of a phrase with one, and its replacement. If two match at one place, the first one
    /// applies.
    pub names: &'a [(&'a str, &'a str)],
}

impl<T: fmt::Display> fmt::Display for Renamed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names;
        fmt::write(&mut Renaming { f, names }, format_args!("{}", self.text))
    }
}

/// A writer that renames in each piece of text. A name must lie within one piece.
struct Renaming<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    names: &'a [(&'a str, &'a str)],
}

impl fmt::Write for Renaming<'_, '_> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        let found = |text: &str| {
            let of = |&(name, instead)| Some((find_word(text, name)?, name.len(), instead));
            self.names.iter().filter_map(of).min_by_key(|&(at, ..)| at)
        };
        while let Some((at, length, instead)) = found(text) {
            self.f.write_str(&text[..at])?;
            self.f.write_str(instead)?;
            text = &text[at + length..];
        }
        self.f.write_str(text)
    }
}

/// Finds a name that is not part of a longer one.
fn find_word(text: &str, name: &str) -> Option<usize> {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .map(|(at, _)| at)
        .find(|&at| !text[..at].ends_with(joins) && !text[at + name.len()..].starts_with(joins))
}

/// Returns a plan whose stages run one after the other over a tile even if a fused kernel exists: the same bits, more
/// slowly.
pub fn in_stages<S: Copy>(mut rope: Rope<S>) -> Rope<S> {
    rope.staged = true;
    rope
}

/// Returns a plan with another tuning: the same bits in another time.
pub fn tuned<S: Copy>(mut rope: Rope<S>, tuning: &'static Tuning) -> Rope<S> {
    rope.tuning = tuning;
    rope
}

/// Returns the tuning of a plan.
pub fn tuning<S: Copy>(rope: &Rope<S>) -> &'static Tuning {
    rope.tuning
}

/// Marks rows as those of [`Frequencies::shift_from`](crate::Frequencies::shift_from), for cached keys.
pub fn moving(rows: Rows<'_>) -> Rows<'_> {
    rows.moving()
}

/// Returns the rows over other values, as many and in the same order. Without `sin` they are the cos and then
/// the sin of each row. A rotation by rows with fewer values panics.
#[inline]
pub fn over<'a>(rows: &Rows<'_>, cos: &'a [f32], sin: Option<&'a [f32]>) -> Rows<'a> {
    rows.over(cos, sin)
}

/// [`Rope::rotate`] of a tensor that is not made: its layout stays where it is.
///
/// # Errors
///
/// The errors of [`TensorMut::new`](crate::TensorMut::new) and of [`Rope::rotate`].
#[inline(always)]
pub fn rotate<E: Element>(
    rope: &Rope,
    data: &mut [E],
    layout: &Layout,
    rows: &Rows<'_>,
) -> Result<(), Error> {
    rope.rotate_bytes(BytesMut::new(data, layout)?, E::IN_PLACE, rows)
}

/// [`Rope::rotate_qk`] of tensors that are not made.
///
/// # Errors
///
/// The errors of [`TensorMut::new`](crate::TensorMut::new) and of [`Rope::rotate_qk`].
#[inline(always)]
pub fn rotate_qk<E: Element>(
    rope: &Rope,
    (q, query): (&mut [E], &Layout),
    (k, key): (&mut [E], &Layout),
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let (q, k) = (BytesMut::new(q, query)?, BytesMut::new(k, key)?);
    rope.rotate_qk_bytes([(q, E::IN_PLACE), (k, E::IN_PLACE)], rows)
}

/// Returns a plain call on one token by one row, without its memory and the values of the row; `None` if
/// [`Rope::rotate`] would do more, or refuse. Ids of rows are not kept.
pub fn token_heads<E: Element>(
    rope: &Rope,
    layout: &Layout,
    rows: &Rows<'_>,
) -> Option<TokenHeads> {
    rope.token_heads(layout, size_of::<E>(), E::IN_PLACE, rows)
}

/// [`Output::head_groups`] by rows of any kind.
pub fn head_groups<'a, E: Element>(
    y: &'a mut TensorMut<'_, E>,
    rows: &'a [AnyRows<'_>],
) -> Output<'a> {
    Output::any_head_groups(y, rows)
}

/// Returns a plan for a backend, or for the fastest one.
///
/// # Errors
///
/// The errors of [`Rope::with_backend`].
pub fn rope(pairing: Pairing, backend: Option<Backend>) -> Result<Rope, Error> {
    Rope::on(pairing, backend)
}

/// Checks Q and K of these shapes against each other and against rows.
///
/// # Errors
///
/// The errors of [`Rope::rotate_qk`] but [`RowsError::Magnitude`](crate::error::RowsError::Magnitude).
pub fn check_query_and_key_by(
    rope: &Rope,
    query: Shape,
    key: Shape,
    rows: &Rows<'_>,
) -> Result<(), Error> {
    rope.check_qk_shapes(query, key, rows)
}

/// Checks Q and K of these shapes against each other.
///
/// # Errors
///
/// [`ShapeError::QueryKeyMismatch`](crate::error::ShapeError::QueryKeyMismatch) unless they differ in their heads only.
pub fn check_query_and_key(query: Shape, key: Shape) -> Result<(), Error> {
    plan::check_query_and_key(query, key)
}
