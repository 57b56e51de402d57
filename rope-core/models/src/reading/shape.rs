//! The sizes of a model: its width, heads, the channels of a head, and how many of them rotate.

use super::Reading;
use super::layer_types::{FULL, SLIDING};
use super::parameters::rope_type;
use super::variants::PER_LAYER;
use crate::base::error::{Error, Refusal, Result, missing, out_of_range, positive, quoted};
use crate::base::json::{Object, Value, count, given, number};
use crate::types::{Head, Latent, Name, Part, Window};
use rope_core::error::RowsError;

impl Reading<'_> {
    /// Returns a number of the model's shape, by its usual key, by the key of this class, or by the default of the
    /// class.
    #[inline(never)]
    pub(super) fn dimension(
        &self,
        usual: &'static str,
        name: Name,
        default: usize,
    ) -> Result<Option<usize>> {
        let (other, times) = match name {
            Name::Usual => (usual, 1),
            Name::Or(key) | Name::Only(key) => (key.name(), 1),
            Name::Twice(key) => (key.name(), 2),
            Name::Absent => return Ok(None),
            Name::Sum(one, other) => {
                let one = count(self.config, one.name())?;
                let other = count(self.config, other.name())?;
                return Ok(one.zip(other).map(|(one, other)| one.saturating_add(other)));
            }
        };
        let usual = match name {
            Name::Only(_) => other,
            _ => usual,
        };
        let own = count(self.config, other)?.map(|own| own.saturating_mul(times));
        // A null is not an omission.
        let omitted = ![usual, other]
            .iter()
            .any(|key| self.config.contains_key(key));
        match (count(self.config, usual)?, own) {
            (Some(usual_one), Some(own)) if usual_one != own => {
                let sign = if times == 1 { "" } else { "2 * " };
                Err(contradiction(usual, usual_one, other, own, sign))
            }
            (usual, own) => Ok(own
                .or(usual.map(|usual| usual / times * times))
                .or((omitted && default > 0).then_some(default))),
        }
    }

    pub(super) fn heads(&self) -> Result<usize> {
        let key = "num_attention_heads";
        self.dimension(key, self.row.heads, self.sizes.heads.into())?
            .ok_or_else(|| missing(key))
    }

    #[inline(never)]
    pub(super) fn width_over_heads(&self) -> Result<usize> {
        let key = "hidden_size";
        let width = self.dimension(key, self.row.width, self.sizes.width.into())?;
        let width = width.ok_or_else(|| missing(key))?;
        let heads = self.heads()?;
        // The models' code rounds the quotient down, or refuses it; no published model has a remainder.
        if width % heads != 0 {
            return Err(out_of_range(
                key,
                format_args!("{width}"),
                "a multiple of num_attention_heads where head_dim is not given",
            ));
        }
        Ok(width / heads)
    }

    /// Returns the rotating and the other channels of multi-head latent attention.
    #[inline(never)]
    pub(super) fn latent(
        &self,
        kind: Option<&str>,
        layer: Option<&Object>,
    ) -> Result<Option<(usize, usize)>> {
        let Head::Latent {
            still,
            rotating,
            quirk,
        } = self.row.head
        else {
            return Ok(None);
        };
        let key = "head_dim";
        let renamed = match quirk {
            Latent::HeadDimRotates => count(self.config, key)?,
            _ => None,
        };
        let by_layer = self.config.contains_key(PER_LAYER);
        if quirk == Latent::OfWindows && kind == Some(SLIDING) && !by_layer {
            let still = self.number_or("swa_qk_nope_head_dim", 192)?;
            let whole = self.number_or("swa_head_dim", 256)?;
            let rest = whole.saturating_sub(still);
            return Ok(Some((self.number_or("swa_qk_rope_head_dim", rest)?, still)));
        }
        let of_layer = |key| match layer.filter(|layer| layer.contains_key(key)) {
            Some(layer) => count(layer, key),
            None => count(self.config, key),
        };
        let own = of_layer("qk_rope_head_dim")?;
        if renamed.is_some()
            && own.is_some_and(|own| Some(own) != renamed)
            && let Some(value) = self.config.get(key)
        {
            self.notes.beside(key, value, false, "qk_rope_head_dim");
        }
        let default = usize::from(rotating);
        let rotating = own.or(renamed).unwrap_or(default);
        if quirk == Latent::HeadDimAlike && self.number_or(key, default)? != rotating {
            return Err(out_of_range(
                "qk_rope_head_dim",
                format_args!("{rotating}"),
                "as many channels as head_dim, or as its default of 64",
            ));
        }
        let still = of_layer("qk_nope_head_dim")?.unwrap_or(still.into());
        Ok(Some((rotating, still)))
    }

    /// Returns the channels of a head for the rotary code, without those before the window.
    pub(crate) fn head_dim(&self, kind: Option<&str>, layer: Option<&Object>) -> Result<usize> {
        if let Some((rotating, _)) = self.latent(kind, layer)? {
            return Ok(rotating);
        }
        let own = count(self.config, "head_dim");
        let (own, default) = match self.row.head {
            Head::Memory => return self.memory_head(),
            Head::Quotient => return self.quotient(own?),
            Head::QuotientApart => return self.width_over_heads(),
            Head::TwiceQuotient => {
                let other = count(self.config, "attention_head_dim")?;
                return own?
                    .or(other)
                    .map_or_else(|| Ok(2 * self.width_over_heads()?), Ok);
            }
            // Heads of Gemma 4's full-attention layers have another size, which is a key of the file, or of the layer.
            Head::Global(default, _) if self.config_by_layer()?.is_some() => {
                let of_layer = layer.map(|own| count(own, "head_dim")).transpose()?;
                (
                    of_layer.flatten().map_or(own, |own| Ok(Some(own)))?,
                    Some(default),
                )
            }
            Head::Global(_, default) if kind == Some(FULL) => {
                let own = count(self.config, "global_head_dim")?;
                return Ok(own.unwrap_or(default.into()));
            }
            Head::Global(default, _) | Head::Or(default) => (own?, Some(default)),
            // A null is not a number of channels, and does not stand for the width over the heads.
            Head::KeyOr(key, default) => {
                let key = key.name();
                return match (self.config.contains_key(key), own?) {
                    (true, own) => {
                        let made = count(self.config, key)?;
                        Ok(self.only(made.ok_or_else(|| missing(key))?, own))
                    }
                    // For some of these types the usual key is an alias.
                    (false, Some(own)) if own != usize::from(default) => Err(missing(key)),
                    (false, _) => Ok(default.into()),
                };
            }
            Head::Given => return own?.ok_or_else(|| missing("head_dim")),
            Head::OfWindows(key) if kind == Some(SLIDING) => (
                count(self.config, key.name())?.map_or(own, |own| Ok(Some(own)))?,
                None,
            ),
            Head::Usual | Head::OfWindows(_) | Head::Unset | Head::Latent { .. } => (own?, None),
        };
        // A null is not an omission.
        let omitted = !self.config.contains_key("head_dim");
        match own.or(default.filter(|_| omitted).map(usize::from)) {
            Some(dim) => Ok(dim),
            None => self.width_over_heads(),
        }
    }

    /// Returns the width over the heads, which a `head_dim` of the file does not change.
    pub(super) fn quotient(&self, own: Option<usize>) -> Result<usize> {
        Ok(self.only(self.width_over_heads()?, own))
    }

    /// Returns the channels of a head, which a `head_dim` of the file does not change.
    pub(super) fn only(&self, made: usize, own: Option<usize>) -> usize {
        if let (Some(own), Some(value)) = (own, self.config.get("head_dim")) {
            self.notes.beside("head_dim", value, own == made, "");
        }
        made
    }

    pub(super) fn number_or(&self, key: &'static str, default: usize) -> Result<usize> {
        Ok(count(self.config, key)?.unwrap_or(default))
    }

    pub(super) fn memory_head(&self) -> Result<usize> {
        let width = self.number_or("memory_attention_hidden_size", 256)?;
        let rate = self.number_or("memory_attention_downsample_rate", 1)?;
        let heads = self.number_or("memory_attention_num_attention_heads", 1)?;
        Ok(width / rate.saturating_mul(heads).max(1))
    }

    /// Returns the rotated part of the head according to the file, whether or not the code obeys it; `None` if it has
    /// none.
    #[inline(never)]
    pub(super) fn partial(&self, rope: &Object, head_dim: usize) -> Result<Option<f64>> {
        let inside = "partial_rotary_factor";
        let partial = match self.row.part {
            Part::Factor(key, _) => self.inside_or_beside(rope, inside, key.name())?,
            Part::Count(key, _) => match (number(rope, inside)?, count(self.config, key.name())?) {
                (Some(inside), _) => Some(inside),
                (None, Some(dim)) => Some(dim as f64 / head_dim as f64),
                (None, None) => number(self.config, inside)?,
            },
            Part::Inside(_) | Part::Unscaled(_) => number(rope, inside)?,
            Part::Channels(_) => None,
            Part::Clvp => self.inside_or_beside(rope, inside, inside)?,
        };
        // The class writes it into its own parameters, but not into those of `rope_scaling`, which replace them.
        let replaced = given(self.config, "rope_scaling")
            .and_then(Value::as_object)
            .is_some_and(|old| !old.is_empty());
        let whole = match (self.both_parts() && !replaced, self.latent(None, None)?) {
            (true, Some((rotating, rest))) => rotating as f64 / (rotating + rest) as f64,
            _ => return Ok(partial),
        };
        // A key beside them does not count then.
        if let (None, Some(beside)) = (given(rope, inside), given(self.config, inside)) {
            let same = beside.as_f64() == Some(whole);
            self.notes.beside(inside, beside, same, "");
            return Ok(Some(whole));
        }
        Ok(partial.or(Some(whole)))
    }

    /// Returns the default of the rotated part of the head.
    pub(super) fn usual_part(&self, scaled: bool) -> f64 {
        match self.row.part {
            Part::Unscaled(_) if scaled => 1.0,
            Part::Factor(_, part)
            | Part::Count(_, part)
            | Part::Inside(part)
            | Part::Unscaled(part) => part,
            Part::Channels(_) | Part::Clvp => 1.0,
        }
    }

    /// Returns true if the parameters of latent attention cover both parts of its heads.
    pub(super) fn both_parts(&self) -> bool {
        matches!(
            self.row.head,
            Head::Latent {
                quirk: Latent::FactorOfBoth,
                ..
            }
        )
    }

    /// Returns true if layers with a window have latent attention of another shape.
    pub(super) fn of_windows(&self) -> bool {
        matches!(
            self.row.head,
            Head::Latent {
                quirk: Latent::OfWindows,
                ..
            }
        )
    }

    /// Returns true if the rotating channels of latent attention are this part of a whole head: of both parts, or of
    /// `head_dim`.
    fn is_part_of_whole(&self, part: Option<f64>, rotating: usize) -> Result<bool> {
        let (Some((own, rest)), Some(part)) = (self.latent(None, None)?, part) else {
            return Ok(false);
        };
        let head_dim = count(self.config, "head_dim")?.unwrap_or_default();
        let is = |whole| part_of(whole, part).is_ok_and(|made| made == rotating);
        Ok(own == rotating && (is(head_dim) || is(own + rest)))
    }

    /// Returns the number of rotated channels of the head.
    #[inline(never)]
    pub(super) fn rotary_dim(&self, rope: &Object, scaled: bool, head_dim: usize) -> Result<usize> {
        match self.row.part {
            Part::Clvp => {
                let width = self.number_or("projection_dim", 768)?;
                return even((width / (2 * self.heads()?)).max(32), head_dim);
            }
            Part::Channels(default) => {
                return even(self.number_or("rotary_dim", default.into())?, head_dim);
            }
            // The class overwrites the part in the parameters with the one from its keys.
            _ if self.of_windows() => {
                return match rope_type(rope)? {
                    "proportional" => Err(self.fails()),
                    _ => even(head_dim, head_dim),
                };
            }
            _ => {}
        }
        // Some count the other channels of latent attention as part of the head, and compensate by the partial factor.
        let whole = match self.latent(None, None)? {
            Some((rotating, rest)) if self.both_parts() => rotating + rest,
            _ => head_dim,
        };
        let partial = self.partial(rope, head_dim)?;
        let asked = part_of(whole, partial.unwrap_or(self.usual_part(scaled)))?;
        if self.both_parts() && asked != head_dim {
            return Err(self.fails());
        }
        let made = match (rope_type(rope)?, scaled || self.row.obeys) {
            ("proportional", _) => whole,
            (_, true) => asked,
            (_, false) => whole,
        };
        // A factor that the code ignores must agree with it.
        if made != asked && !scaled {
            let key = "partial_rotary_factor";
            let same = self.is_part_of_whole(partial, made)?;
            match (given(rope, key), given(self.config, key)) {
                (Some(own), _) => self.notes.inside(key, own, same, ""),
                (None, Some(own)) => self.notes.beside(key, own, same, ""),
                _ => return Err(self.fails()),
            }
        }
        let fits = match self.row.window {
            Window::Part | Window::End => made <= head_dim,
            Window::ExactPart => made == asked || !scaled && !self.row.obeys,
            Window::Whole | Window::Halves => made == head_dim,
        };
        if !fits {
            return Err(self.fails());
        }
        even(made, head_dim)
    }
}

pub(super) fn even(rotary_dim: usize, head_dim: usize) -> Result<usize> {
    match rotary_dim {
        2.. if rotary_dim.is_multiple_of(2) && rotary_dim <= head_dim => Ok(rotary_dim),
        _ => Err(Error::Rope(rope_core::Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even, above 0, and not above head_dim",
        }))
        .into()),
    }
}

/// Returns the error for two keys of one number that contradict each other.
#[cold]
#[inline(never)]
pub(super) fn contradiction(
    key: &'static str,
    number: impl core::fmt::Display,
    other: &str,
    own: impl core::fmt::Display,
    sign: &str,
) -> Refusal {
    Error::Ambiguous {
        key,
        choices: quoted(format_args!("{number} ({key}), {own} ({sign}{other})")),
    }
    .into()
}

/// Computes `int(dim * partial)`, with the product rounded to f64 as in the models' code.
pub(super) fn part_of(dim: usize, partial: f64) -> Result<usize> {
    let product = positive("partial_rotary_factor", partial)? * dim as f64;
    match product < 4_294_967_296.0 {
        true => Ok(product as usize),
        false => Err(out_of_range(
            "partial_rotary_factor",
            format_args!("{partial:?}"),
            "at most 1",
        )),
    }
}
