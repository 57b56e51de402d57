//! The rotation of the layers of one kind, by the row of their model type.

use super::Reading;
use super::axes::Arrangement;
use super::layer_types::{FULL, SLIDING};
use super::parameters::rope_type;
use super::scaling::known_type;
use super::variants::{Facts, LayerVariant, PER_LAYER};
use crate::base::error::{Result, missing, positive};
use crate::base::json::{Object, Value, count, flag, given, number, object};
use crate::base::words;
use crate::model::Rotation;
use crate::types::*;
use alloc::vec::Vec;
use rope_core::{Direction, Pairing, Scaling};

/// The heads of layers with a window where a file of [`Latent::OfWindows`] has no `swa_num_attention_heads`.
const HEADS_OF_WINDOWS: usize = 64;

/// The types of `rope_parameters` without `rope_theta` that [`Form::New`] does not complete by the key beside them.
const NOT_COMPLETED: [&str; 3] = ["default", "llama3", "proportional"];

impl Reading<'_> {
    /// Returns a number that may be in the parameters or beside them; the one inside counts.
    pub(super) fn inside_or_beside(
        &self,
        rope: &Object,
        inside: &'static str,
        beside: &'static str,
    ) -> Result<Option<f64>> {
        let (own, other) = (number(rope, inside)?, number(self.config, beside)?);
        if let (Some(own), Some(other), Some(value)) = (own, other, self.config.get(beside)) {
            // Beside types of layers, it applies to full attention.
            let full = self.parameters.of(Some(FULL)).ok().flatten();
            let full = full.and_then(|full| full.get(inside)?.as_f64());
            let full = full.filter(|_| self.parameters.by_layer);
            let neutral = own == other || full == Some(other);
            let near = match (inside, given(self.config, "rope_scaling")) {
                ("rope_theta", Some(_)) => "rope_scaling.rope_theta",
                ("rope_theta", None) => "rope_parameters.rope_theta",
                (_, Some(_)) => "rope_scaling.partial_rotary_factor",
                (_, None) => "rope_parameters.partial_rotary_factor",
            };
            self.notes.beside(beside, value, neutral, near);
        }
        Ok(own.or(other))
    }

    /// Returns the separate base of layers with a window, if this file has one.
    pub(super) fn base_of_windows(&self) -> Option<Base> {
        match self.row.parameters {
            Form::OfWindows(_) if self.parameters.in_file => None,
            Form::Older(base) | Form::OlderAllScaled(base) | Form::OfWindows(base) => Some(base),
            _ => None,
        }
    }

    /// Returns the base of that type of layers.
    #[inline(never)]
    pub(super) fn base(&self, rope: &Object, kind: Option<&str>) -> Result<f64> {
        let base = match self.base_of_windows() {
            Some(base) if kind == Some(SLIDING) => base,
            _ => self.row.base,
        };
        let inside = "rope_theta";
        let (found, default) = match base {
            // Where `rope_parameters` is in the file, this class completes only the parameters of some scalings.
            Base::Or(_)
                if matches!(self.row.parameters, Form::New)
                    && self.config.contains_key("rope_parameters")
                    && (rope.is_empty() || NOT_COMPLETED.contains(&rope_type(rope)?))
                    && number(rope, inside)?.is_none() =>
            {
                return Err(self.unsupported(
                    "rope_parameters without rope_theta fail in the model's own code",
                ));
            }
            Base::Or(base) => (self.inside_or_beside(rope, inside, inside)?, base),
            Base::OrWithin(base, most) => {
                let found = self.inside_or_beside(rope, inside, inside)?;
                // The code for a longer context has a separate base.
                match found.is_some() || self.context()? <= most.into() {
                    true => (found, base),
                    false => return Err(missing(inside)),
                }
            }
            Base::KeyOr(key, base) => (self.inside_or_beside(rope, inside, key.name())?, base),
            // `rope_theta` of the file is that of the other layers.
            Base::KeyOrMain(key) => match number(self.config, key.name())? {
                Some(base) => return Ok(base),
                None => return self.base(rope, None),
            },
            Base::InsideOr(base) => (number(rope, inside)?, base),
            Base::Inside => return number(rope, inside)?.ok_or_else(|| missing(inside)),
            Base::Times(key, base) => {
                let factor = number(self.config, key.name())?.unwrap_or(1.0);
                let factor = positive(key.name(), factor)?;
                (Some(f64::from(base) * factor), base)
            }
            Base::Fixed(base) => {
                if let Some(own) = given(rope, inside) {
                    let same = own.as_f64() == Some(base.into());
                    self.notes.inside(inside, own, same, "");
                }
                (None, base)
            }
        };
        Ok(found.unwrap_or(default.into()))
    }

    /// Returns the rotation of the layers with this difference.
    pub(crate) fn rotation(&self, layer: &LayerVariant<'_, '_>) -> Result<Rotation> {
        let (row, kind) = (&self.row, layer.kind);
        let rope = self
            .parameters
            .of(kind)?
            .ok_or_else(|| missing("the parameters of a type of layers"))?;
        let own_type = rope_type(rope)?;
        let scaling_name = match (own_type, row.rope_types) {
            _ if layer.unscaled => "default",
            ("axial", RopeTypes::Images) | ("mrope", RopeTypes::Mrope) => "default",
            ("su" | "yarn", RopeTypes::LongRope(_) | RopeTypes::SuOrYarn(_)) => "longrope",
            ("deepseek_yarn", RopeTypes::DeepseekYarn) => "yarn",
            ("xdrope", _) if row.axes == AxesOf::ChannelSections => match number(rope, "alpha")? {
                Some(alpha) if alpha != 0.0 => "alpha",
                _ => "dynamic",
            },
            ("dynamic", RopeTypes::Alpha | RopeTypes::AlphaAlone)
                if number(rope, "alpha")?.is_some_and(|a| a != 0.0) =>
            {
                "alpha"
            }
            (other, RopeTypes::Unscaled) if other != "default" => {
                return Err(self.unsupported("how its code scales is not known here"));
            }
            (_, RopeTypes::AlphaAlone) => {
                return Err(
                    self.unsupported("its code rounds frequencies without an alpha to bf16")
                );
            }
            (_, RopeTypes::GrowingAlpha) => match flag(self.config, "use_dynamic_ntk")? {
                Some(false) => "default",
                _ => "growing alpha",
            },
            ("default", RopeTypes::Telechat) => "growing scale",
            (other, _) => known_type(other)?,
        };
        let scaled = scaling_name != "default";
        let known = match row.rope_types {
            RopeTypes::Images | RopeTypes::Default => !scaled,
            RopeTypes::LongRope(_) | RopeTypes::SuOrYarn(_) | RopeTypes::PhiMoe => {
                !scaled || scaling_name == "longrope"
            }
            RopeTypes::Older => words::has("default linear dynamic", scaling_name),
            RopeTypes::MiniCpm => words::has("default linear dynamic longrope", scaling_name),
            RopeTypes::Bailing => words::has("default linear dynamic yarn", scaling_name),
            RopeTypes::Telechat => scaling_name == "growing scale",
            RopeTypes::Usual
            | RopeTypes::Mrope
            | RopeTypes::Alpha
            | RopeTypes::AlphaAlone
            | RopeTypes::Unscaled
            | RopeTypes::DeepseekYarn
            | RopeTypes::GrowingAlpha => true,
        };
        let unset = row.head == Head::Unset && !self.config.contains_key("head_dim");
        if !known
            || unset && words::has("dynamic yarn longrope", scaling_name)
            || scaling_name == "longrope" && self.heads_differ()?
        {
            return Err(self.unsupported("this rope_type fails in the model's own code"));
        }
        let sections = "mrope_section";
        // Only the parameters of the class have the sections that this class requires.
        if matches!(row.axes, AxesOf::MropeInterleavedWhole(_))
            && row.rope_types == RopeTypes::Default
            && self.parameters.in_file
            && given(rope, sections).is_none()
        {
            return Err(missing(sections));
        }
        if !layer.unscaled {
            self.check_read(rope, scaling_name);
        }
        let head_dim = self.head_dim(kind, layer.own)?;
        let apart = match row.head {
            Head::QuotientApart => count(self.config, "head_dim")?,
            _ => None,
        };
        let rotary_dim = self.rotary_dim(rope, scaled, apart.unwrap_or(head_dim))?;
        if rotary_dim > head_dim {
            return Err(self.fails());
        }
        let base = match layer.base {
            Some(base) => base,
            None => self.base(rope, kind)?,
        };
        let facts = Facts {
            rope,
            scaling: scaling_name,
            base,
            head_dim,
            rotary_dim,
        };
        self.check_beside(&facts)?;
        let axes = Arrangement::new(row.axes, self.config, rope, rotary_dim)?;
        let frequencies = self.by_length(scaling_name, &mut |length| {
            let mut lists = (Vec::new(), Vec::new());
            let scaling = match row.turns {
                true => Scaling::Turns,
                false => self.scaling(scaling_name, rope, length, &mut lists)?,
            };
            let frequencies = axes.frequencies(base, &scaling)?;
            let frequencies = match row.rope_types {
                RopeTypes::Telechat => {
                    frequencies.with_attention_factor(self.growing_scale(length)?)?
                }
                _ => frequencies,
            };
            Ok(match row.softmax {
                true => frequencies,
                false => frequencies.with_softmax_factor(1.0)?,
            })
        })?;
        let (input, output, direction) = self.pairing();
        let (whole, offset) = match self.latent(kind, layer.own)? {
            Some((rotating, rest)) => (rotating + rest, rest),
            None if row.window == Window::End => (head_dim, head_dim - rotary_dim),
            None => (head_dim, 0),
        };
        Ok(Rotation {
            frequencies,
            input,
            output,
            direction,
            head_dim: whole,
            offset,
            values: match row.values {
                Values::Plain => false,
                Values::Rotated => true,
                Values::If(key) => flag(self.config, key.name())?.unwrap_or(false),
            },
            turned_back: row.window == Window::End,
            windows: match row.window {
                Window::Halves => 2,
                _ => 1,
            },
            full_width: row.axes.is_full_width(),
            real_positions: row.turns,
        })
    }

    /// Returns true if layers have other numbers of heads than the file, in a class that then fails on LongRoPE: its
    /// check reads one number for all layers.
    #[inline(never)]
    fn heads_differ(&self) -> Result<bool> {
        let Head::Latent {
            quirk: Latent::OfWindows,
            ..
        } = self.row.head
        else {
            return Ok(false);
        };
        let key = "num_attention_heads";
        let heads = self.dimension(key, self.row.heads, self.sizes.heads.into())?;
        if let Some(all) = object(self.config, PER_LAYER)? {
            let mut own = all.values().filter_map(|own| own.as_object()?.get(key));
            return Ok(own.any(|own| own.as_u64() != heads.map(|heads| heads as u64)));
        }
        let of_windows = count(self.config, "swa_num_attention_heads")?.unwrap_or(HEADS_OF_WINDOWS);
        Ok(heads != Some(of_windows) && self.kinds()?.contains(&SLIDING))
    }

    pub(super) fn pairing(&self) -> (Pairing, Pairing, Direction) {
        let forward = Direction::default();
        let halves = self.config.get("rope_interleave") == Some(&Value::Bool(false));
        match self.row.pairs {
            Pairs::Interleaved => (Pairing::Interleaved, Pairing::Interleaved, forward),
            Pairs::NegatedHalf => (Pairing::Half, Pairing::Half, Direction::Transpose),
            Pairs::Half => (Pairing::Half, Pairing::Half, forward),
            Pairs::InterleavedToHalfOrHalf if halves => (Pairing::Half, Pairing::Half, forward),
            Pairs::InterleavedToHalf | Pairs::InterleavedToHalfOrHalf => {
                (Pairing::Interleaved, Pairing::Half, forward)
            }
        }
    }
}
