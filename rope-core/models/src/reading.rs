//! One configuration read by one line of the table: for a type of layers (or one layer) its rotation, or none.

use crate::error::{Error, Result, beginning, positive, quoted};
use crate::json::{Object, count, flag, given, length, number, numbers};
use crate::layers::{Rotation, count_of, kinds};
use crate::parameters::{FULL, Parameters, SLIDING, check_read, inside_or_beside, rope_type};
use crate::types::Model;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rope_core::{Axes, Direction, Frequencies, LongRope, Pairing, Scaling, Yarn};
use serde_json::Value;

/// A configuration, the line of its model type, and what the caller chose.
pub(crate) struct Reading<'c> {
    pub(crate) config: &'c Object,
    pub(crate) model: Model,
    pub(crate) parameters: Parameters,
    length: Option<u64>,
}

fn fails(model: Model) -> Error {
    Error::Unsupported {
        model: model.name(),
        what: "this partial rotation fails in the model's own code",
    }
}

/// What makes the rotation of one layer another than that of the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference<'k> {
    /// The type of the layer, where parameters or heads depend on it.
    pub(crate) kind: Option<Cow<'k, str>>,
    /// The base, where each layer has its own.
    base: Option<f64>,
    /// Whether the scaling is left out.
    unscaled: bool,
}

impl<'c> Reading<'c> {
    pub(crate) fn new(config: &'c Object, model: Model, length: Option<u64>) -> Result<Self> {
        let what = match model.pairing() {
            "none" => Some("it has no rotary embedding, so nothing rotates"),
            "part" => Some(
                "it holds parts that rotate in their own ways; choose one with Config::with_part",
            ),
            "refused" => Some(model.why()),
            _ => None,
        };
        if let Some(what) = what {
            return Err(Error::Unsupported {
                model: model.name(),
                what,
            });
        }
        let what =
            "it rotates with another choice of its configuration only, and not with this one";
        if let Some((key, wanted)) = model.keyed("if") {
            let found = given(config, key).map(Value::to_string).unwrap_or_default();
            if found.trim_matches('"') != wanted {
                return Err(Error::Unsupported {
                    model: model.name(),
                    what,
                });
            }
        }
        if let Some(key) = model.value("unless")
            && flag(config, key)? == Some(true)
        {
            return Err(Error::Unsupported {
                model: model.name(),
                what,
            });
        }
        let parameters = Parameters::read(config, model)?;
        Ok(Self {
            config,
            model,
            parameters,
            length,
        })
    }

    /// The rotation of the layers of that type, or of the layer with that index; `None` if they stand still.
    #[inline(never)]
    pub(crate) fn difference<'k>(
        &self,
        kind: Option<Cow<'k, str>>,
        layer: Option<(usize, usize)>,
    ) -> Result<Option<Difference<'k>>> {
        let model = self.model;
        let name = kind.as_deref();
        let sliding = name == Some(SLIDING);
        let still = match model.value("rotates") {
            Some("sliding") => !sliding,
            // Without a window all layers rotate.
            Some("sliding-or-all") => {
                !sliding
                    && self
                        .config
                        .get("sliding_window")
                        .is_none_or(|window| !window.is_null())
            }
            _ => false,
        };
        if still || (self.parameters.by_layer && self.parameters.of(name)?.is_none()) {
            let stands = still || model.is("null-stands-still");
            return match stands {
                true => Ok(None),
                false => Err(Error::Missing {
                    key: "the parameters of a type of layers",
                }),
            };
        }
        let (mut base, mut unscaled) = (None, false);
        if let Some(list) = self.rotating_layers()? {
            let (index, _) = layer.ok_or(Error::Unsupported {
                model: self.model.name(),
                what: "its layers rotate differently, by their number; use Config::layers",
            })?;
            if list(index)? == 0.0 {
                return Ok(None);
            }
        }
        if let Some(key) = model.value("bases").or(model.value("stills")) {
            if let Some(list) = numbers(self.config, key)? {
                let (index, _) = layer.ok_or(Error::Unsupported {
                    model: self.model.name(),
                    what: "its layers rotate differently, by their number; use Config::layers",
                })?;
                let own = *list
                    .get(index)
                    .ok_or_else(|| count_of("layer_rope_theta", list.len(), index + 1))?;
                if own == 0.0 {
                    return Ok(None);
                }
                match model.value("bases") {
                    Some(_) => base = Some(own),
                    // Others ask of the number only whether it is zero.
                    None => {
                        let rope = self.parameters.of(None)?.ok_or(Error::Missing { key })?;
                        if self.base(rope, None)? != own {
                            return Err(Error::Unread {
                                key: beginning(key),
                            });
                        }
                    }
                }
            } else if let (Some(_), Some((index, layers))) = (model.value("stills"), layer)
                && (layers - 1 - index) % 4 == 0
            {
                return Ok(None);
            } else if model.value("stills").is_some() && layer.is_none() {
                return Err(Error::Unsupported {
                    model: self.model.name(),
                    what: "its layers rotate differently, by their number; use Config::layers",
                });
            }
        }
        if let Some(key) = model.value("scaled-layers")
            && let Some(list) = numbers(self.config, key)?
        {
            let (index, _) = layer.ok_or(Error::Unsupported {
                model: self.model.name(),
                what: "its layers rotate differently, by their number; use Config::layers",
            })?;
            unscaled = !list.contains(&(index as f64));
        }
        if let Some((key, default)) = model.keyed("still-layers") {
            let list = match numbers(self.config, key)? {
                Some(list) => list,
                None => default
                    .split(',')
                    .filter_map(|index| index.parse().ok())
                    .collect(),
            };
            let (index, _) = layer.ok_or(Error::Unsupported {
                model: self.model.name(),
                what: "its layers rotate differently, by their number; use Config::layers",
            })?;
            if list.contains(&(index as f64)) {
                return Ok(None);
            }
        }
        let matters = self.parameters.by_layer || model.value("global-head").is_some();
        Ok(Some(Difference {
            kind: kind.filter(|_| matters),
            base,
            unscaled,
        }))
    }

    /// For models that name the layers without rotation: the number that says so, 0, of each layer.
    fn rotating_layers(&self) -> Result<Option<impl Fn(usize) -> Result<f64>>> {
        let Some(default) = self.model.value("no-rope") else {
            return Ok(None);
        };
        let every = match count(self.config, "no_rope_layer_interval")? {
            Some(every) => every,
            None => default.parse().unwrap_or(1),
        };
        let list = numbers(self.config, "no_rope_layers")?.filter(|list| !list.is_empty());
        Ok(Some(move |index: usize| match &list {
            Some(list) => list
                .get(index)
                .copied()
                .ok_or_else(|| count_of("no_rope_layers", list.len(), index + 1)),
            None => Ok(f64::from(!(index + 1).is_multiple_of(every))),
        }))
    }

    /// Whether the layer with that number rotates, for models that name the layers without rotation.
    pub(crate) fn rotates_by_number(&self, index: usize) -> Result<bool> {
        Ok(match self.rotating_layers()? {
            Some(list) => list(index)? != 0.0,
            None => true,
        })
    }

    /// Whether layers differ by more than their type, so that only a layer's number tells its rotation.
    pub(crate) fn by_number(&self) -> bool {
        [
            "no-rope",
            "bases",
            "stills",
            "still-layers",
            "scaled-layers",
        ]
        .iter()
        .any(|word| self.model.value(word).is_some())
    }

    /// The types of the layers, in their order; empty if the model has no types of layers.
    pub(crate) fn kinds(&self) -> Result<Vec<Cow<'c, str>>> {
        kinds(self)
    }

    /// How many layers there are.
    pub(crate) fn layer_count(&self) -> Result<Option<usize>> {
        let usual = self.dimension("num_hidden_layers", "depth-key")?;
        let Some(key) = self
            .model
            .value("depth")
            .and_then(|depth| depth.strip_prefix("2*"))
        else {
            return Ok(usual);
        };
        match (usual, count(self.config, key)?) {
            (Some(usual), Some(pairs)) if usual != pairs.saturating_mul(2) => {
                Err(Error::Ambiguous {
                    key: "num_hidden_layers",
                    choices: beginning(key),
                })
            }
            (usual, pairs) => Ok(pairs
                .map(|pairs| pairs.saturating_mul(2))
                .or(usual.map(|usual| usual & !1))),
        }
    }

    /// The same, or as many as the file has types for.
    pub(crate) fn layers(&self, kinds: &[Cow<'_, str>]) -> Result<usize> {
        match self.layer_count()? {
            Some(layers) => Ok(layers),
            None if kinds.is_empty() => Err(Error::Missing {
                key: "num_hidden_layers",
            }),
            None => Ok(kinds.len()),
        }
    }

    /// A number of the model's shape, by its usual key or by the one that this class calls it.
    #[inline(never)]
    fn dimension(&self, key: &'static str, other: &str) -> Result<Option<usize>> {
        let usual = count(self.config, key)?;
        let Some(other) = self.model.value(other) else {
            return Ok(usual);
        };
        match (usual, count(self.config, other)?) {
            (Some(usual), Some(own)) if usual != own => Err(Error::Ambiguous {
                key,
                choices: beginning(other),
            }),
            (usual, own) => Ok(own.or(usual)),
        }
    }

    #[inline(never)]
    fn width_over_heads(&self) -> Result<usize> {
        let width = match self.model.value("width") {
            Some(key) => count(self.config, key)?,
            None => self.dimension("hidden_size", "width-key")?,
        };
        let width = width.ok_or(Error::Missing { key: "hidden_size" })?;
        let heads = self
            .dimension("num_attention_heads", "heads-key")?
            .ok_or(Error::Missing {
                key: "num_attention_heads",
            })?;
        // The models' code divides and rounds down, or refuses; no published model has a rest.
        if width % heads != 0 {
            return Err(Error::Invalid {
                key: "hidden_size",
                value: quoted(format_args!("{width}")),
                required: "a multiple of num_attention_heads where head_dim is not given",
            });
        }
        Ok(width / heads)
    }

    /// The rotating and the other channels of multi-head latent attention.
    #[inline(never)]
    fn latent(&self) -> Result<Option<(usize, usize)>> {
        let Some((rest, rotating)) = self.model.value("mla").and_then(|mla| mla.split_once('+'))
        else {
            return Ok(None);
        };
        let or = |key, default: &str| {
            Ok::<usize, Error>(match count(self.config, key)? {
                Some(dim) => dim,
                None => default.parse().unwrap_or(0),
            })
        };
        let key = "head_dim";
        let renamed = match self.model.is("rope-head") {
            true => count(self.config, key)?,
            false => None,
        };
        let rotating = match (count(self.config, "qk_rope_head_dim")?, renamed) {
            (Some(own), Some(renamed)) if own != renamed => {
                return Err(Error::Unread {
                    key: beginning(key),
                });
            }
            (Some(dim), _) | (None, Some(dim)) => dim,
            (None, None) => rotating.parse().unwrap_or(0),
        };
        Ok(Some((rotating, or("qk_nope_head_dim", rest)?)))
    }

    /// The channels of a head that the rotary part of the code goes by, and those that are left before the window.
    pub(crate) fn head_dim(&self, kind: Option<&str>) -> Result<usize> {
        if let Some((rotating, _)) = self.latent()? {
            return Ok(rotating);
        }
        if self.model.is("memory") {
            let number =
                |key, default| Ok::<usize, Error>(count(self.config, key)?.unwrap_or(default));
            let width = number("memory_attention_hidden_size", 256)?;
            let rate = number("memory_attention_downsample_rate", 1)?;
            let heads = number("memory_attention_num_attention_heads", 1)?;
            return Ok(width / rate.saturating_mul(heads).max(1));
        }
        // Gemma 4's full-attention layers have heads of another size.
        if let Some(default) = self.model.number("global-head") {
            if self.config.contains_key("per_layer_config") {
                return Err(Error::Invalid {
                    key: "per_layer_config",
                    value: String::new(),
                    required: "left out: what single layers change is not read",
                });
            }
            if kind == Some(FULL) {
                return Ok(count(self.config, "global_head_dim")?.unwrap_or(default as usize));
            }
        }
        let own = match self.model.value("head-key") {
            Some(key) => count(self.config, key)?,
            None => count(self.config, "head_dim")?,
        };
        let made = match self.model.value("head") {
            Some("width/heads") => self.width_over_heads()?,
            Some("2*width/heads") => 2 * self.width_over_heads()?,
            default => {
                // A null is not an omission.
                let omitted = !self.config.contains_key("head_dim");
                let default = default.and_then(|dim| dim.parse().ok());
                return match own.or(default.filter(|_| omitted)) {
                    Some(dim) => Ok(dim),
                    None => self.width_over_heads(),
                };
            }
        };
        match own {
            Some(own) if own != made => Err(Error::Unread {
                key: "head_dim".into(),
            }),
            _ => Ok(made),
        }
    }

    /// The part of the head that the file asks to rotate, whether or not the code obeys it.
    #[inline(never)]
    fn partial(&self, rope: &Object, head_dim: usize) -> Result<Option<f64>> {
        let (key, default) = self
            .model
            .keyed("partial")
            .unwrap_or(("partial_rotary_factor", ""));
        let inside = "partial_rotary_factor";
        let partial = match key {
            "" => number(rope, inside)?,
            "rotary_dim" | "qk_rope_head_dim" => {
                match (number(rope, inside)?, count(self.config, key)?) {
                    (Some(inside), _) => Some(inside),
                    (None, Some(dim)) => Some(dim as f64 / head_dim as f64),
                    (None, None) => number(self.config, inside)?,
                }
            }
            key => inside_or_beside(rope, inside, self.config, key)?,
        };
        // The class puts it into its own parameters, and not into those that `rope_scaling` replaces them by.
        let replaced = given(self.config, "rope_scaling")
            .and_then(Value::as_object)
            .is_some_and(|old| !old.is_empty());
        let whole = match (self.model.is("whole") && !replaced, self.latent()?) {
            (true, Some((rotating, rest))) => Some(rotating as f64 / (rotating + rest) as f64),
            _ => None,
        };
        Ok(partial.or(whole).or(default.parse().ok()))
    }

    /// How many channels of the head rotate.
    #[inline(never)]
    fn rotary_dim(&self, rope: &Object, scaled: bool, head_dim: usize) -> Result<usize> {
        let model = self.model;
        if model.is("clvp") {
            let number =
                |key, default| Ok::<usize, Error>(count(self.config, key)?.unwrap_or(default));
            let heads =
                self.dimension("num_attention_heads", "heads-key")?
                    .ok_or(Error::Missing {
                        key: "num_attention_heads",
                    })?;
            return even(
                (number("projection_dim", 768)? / (2 * heads)).max(32),
                head_dim,
            );
        }
        if let Some(default) = model.value("rotary-dim") {
            let dim = count(self.config, "rotary_dim")?.or(default.parse().ok());
            return even(dim.unwrap_or(0), head_dim);
        }
        // Some count the other channels of latent attention among the head's, and undo it by the partial factor.
        let whole = match self.latent()? {
            Some((rotating, rest)) if model.is("whole") => rotating + rest,
            _ => head_dim,
        };
        let partial = self.partial(rope, head_dim)?;
        let asked = part_of(whole, partial.unwrap_or(1.0))?;
        if model.is("whole") && asked != head_dim {
            return Err(match partial {
                Some(_) => Error::Unread {
                    key: "partial_rotary_factor".into(),
                },
                None => fails(model),
            });
        }
        let made = match (rope_type(rope)?, scaled || model.is("obeys")) {
            ("proportional", _) => whole,
            (_, true) => asked,
            (_, false) => whole,
        };
        // A factor that the code does not obey has to say what it does.
        if made != asked && !scaled {
            return Err(Error::Unread {
                key: "partial_rotary_factor".into(),
            });
        }
        let fits = match (model.is("window"), model.is("own-window")) {
            (true, _) => made <= head_dim,
            (_, true) => made == asked,
            _ => made == head_dim,
        };
        if !fits {
            return Err(fails(model));
        }
        even(made, head_dim)
    }

    /// The base of that type of layers.
    #[inline(never)]
    fn base(&self, rope: &Object, kind: Option<&str>) -> Result<f64> {
        let word = match kind {
            Some(SLIDING) if self.model.value("sliding").is_some() => "sliding",
            _ => "base",
        };
        let (key, default) = match self.model.keyed(word) {
            Some((default, "")) => ("rope_theta", default),
            Some(found) => found,
            None => ("rope_theta", "1e4"),
        };
        let found = match key {
            "" => number(rope, "rope_theta")?,
            key => inside_or_beside(rope, "rope_theta", self.config, key)?,
        };
        found
            .or(default.parse().ok())
            .ok_or(Error::Missing { key: "rope_theta" })
    }

    /// The rotation of the layers that differ in this.
    pub(crate) fn rotation(&self, layer: &Difference<'_>) -> Result<Rotation> {
        let (model, kind) = (self.model, layer.kind.as_deref());
        let rope = self.parameters.of(kind)?.ok_or(Error::Missing {
            key: "the parameters of a type of layers",
        })?;
        let own_type = rope_type(rope)?;
        let scaling_name = match own_type {
            _ if layer.unscaled => "default",
            "axial" if model.is("axial") => "default",
            "mrope" if model.is("mrope-type") => "default",
            "su" | "yarn" if model.is("longrope") => "longrope",
            "dynamic" if model.is("alpha") && number(rope, "alpha")?.is_some_and(|a| a != 0.0) => {
                "alpha"
            }
            other => known_type(other)?,
        };
        let scaled = scaling_name != "default";
        let refused = (scaled && (model.is("axial") || model.is("unscaled")))
            || (model.is("longrope") && !["default", "longrope"].contains(&scaling_name))
            || (model.is("phimoe") && !["default", "longrope"].contains(&scaling_name));
        if refused {
            return Err(Error::Unsupported {
                model: self.model.name(),
                what: "this rope_type fails in the model's own code",
            });
        }
        if !layer.unscaled {
            check_read(rope, scaling_name, model)?;
        }
        let head_dim = self.head_dim(kind)?;
        let mut rotary_dim = self.rotary_dim(rope, scaled, head_dim)?;
        let base = match layer.base {
            Some(base) => base,
            None => self.base(rope, kind)?,
        };
        self.check_beside(rope, base, rotary_dim)?;
        let mut lists = (Vec::new(), Vec::new());
        let scaling = match model.is("turns") {
            true => Scaling::Turns,
            false => self.scaling(scaling_name, rope, &mut lists)?,
        };
        let axes = crate::axes::Arrangement::new(model, rope, &mut rotary_dim)?;
        let mut frequencies = axes.frequencies(base, &scaling)?;
        if !model.is("softmax") {
            frequencies = frequencies.with_softmax_factor(1.0)?;
        }
        let (input, output, direction) = self.pairing();
        let (whole, offset) = match self.latent()? {
            Some((rotating, rest)) => (rotating + rest, rest),
            None if model.is("end") => (head_dim, head_dim - rotary_dim),
            None => (head_dim, 0),
        };
        Ok(Rotation {
            frequencies,
            input,
            output,
            direction,
            head_dim: whole,
            offset,
            values: model.is("values") || self.values_too()?,
            turned_back: model.is("end"),
        })
    }

    /// The pairing, if it and the frequencies are all there is to the rotation.
    pub(crate) fn plain_pairing(&self) -> Result<Option<(Pairing, Pairing)>> {
        let (input, output, direction) = self.pairing();
        let plain = direction == Direction::Forward
            && !(self.model.is("end") || self.model.is("values") || self.values_too()?);
        Ok(plain.then_some((input, output)))
    }

    fn values_too(&self) -> Result<bool> {
        Ok(match self.model.value("values") {
            Some(key) => flag(self.config, key)?.unwrap_or(false),
            None => false,
        })
    }

    fn pairing(&self) -> (Pairing, Pairing, Direction) {
        let forward = Direction::default();
        match self.model.pairing() {
            "interleaved" => (Pairing::Interleaved, Pairing::Interleaved, forward),
            "interleaved>half"
                if !(self.model.is("interleave-key")
                    && self.config.get("rope_interleave") == Some(&Value::Bool(false))) =>
            {
                (Pairing::Interleaved, Pairing::Half, forward)
            }
            "negated" => (Pairing::Half, Pairing::Half, Direction::Transpose),
            _ => (Pairing::Half, Pairing::Half, forward),
        }
    }

    /// The scaling, its lists kept by the caller.
    fn scaling<'l>(
        &self,
        name: &str,
        rope: &Object,
        lists: &'l mut (Vec<f64>, Vec<f64>),
    ) -> Result<Scaling<'l>> {
        let required = |key| number(rope, key)?.ok_or(Error::Missing { key });
        let optional = |key| Ok::<f64, Error>(number(rope, key)?.unwrap_or(0.0));
        Ok(match name {
            "linear" => Scaling::Linear {
                factor: required("factor")?,
            },
            "alpha" => Scaling::NtkAlpha {
                alpha: required("alpha")?,
            },
            "dynamic" => Scaling::DynamicNtk {
                factor: required("factor")?,
                max_position_embeddings: self.context()?,
                length: self.sequence()?,
            },
            "yarn" => Scaling::Yarn(Yarn {
                beta_fast: optional("beta_fast")?,
                beta_slow: optional("beta_slow")?,
                truncate: self.parameters.truncate()?,
                attention_factor: number(rope, "attention_factor")?,
                mscale: optional("mscale")?,
                mscale_all_dim: optional("mscale_all_dim")?,
                ..Yarn::new(self.stretch(rope)?, self.original(rope)?)
            }),
            "longrope" => {
                let list = |key| numbers(rope, key)?.ok_or(Error::Missing { key });
                *lists = (list("short_factor")?, list("long_factor")?);
                self.longrope(rope, lists)?
            }
            "llama3" => Scaling::Llama3 {
                factor: required("factor")?,
                low_freq_factor: required("low_freq_factor")?,
                high_freq_factor: required("high_freq_factor")?,
                original_context: self.original(rope)?,
            },
            "proportional" => Scaling::Proportional {
                partial_rotary_factor: self.partial(rope, 1)?.unwrap_or(1.0),
                factor: number(rope, "factor")?.unwrap_or(1.0),
            },
            _ => Scaling::Default,
        })
    }

    fn longrope<'l>(&self, rope: &Object, lists: &'l (Vec<f64>, Vec<f64>)) -> Result<Scaling<'l>> {
        let (original_context, length) = (self.original(rope)?, self.sequence()?);
        let mut attention_factor = number(rope, "attention_factor")?;
        let (short_factor, mut long_factor) = (&lists.0[..], &lists.1[..]);
        if self.model.is("phimoe") {
            // The class has a factor for each list, and takes the short list whatever the length.
            let key = match length > original_context {
                true => "long_mscale",
                false => "short_mscale",
            };
            attention_factor = Some(number(rope, key)?.ok_or(Error::Missing { key })?);
            long_factor = short_factor;
        }
        Ok(Scaling::LongRope(LongRope {
            short_factor,
            long_factor,
            original_context,
            length,
            factor: self.stretch(rope)?,
            attention_factor,
        }))
    }

    fn context(&self) -> Result<u64> {
        let key = "max_position_embeddings";
        let usual = length(self.config, key)?;
        let other = match self.model.value("context-key") {
            Some(other) => length(self.config, other)?,
            None => None,
        };
        if self.model.is("no-context") {
            return Err(Error::Unsupported {
                model: self.model.name(),
                what: "this rope_type fails in the model's own code, which has no context",
            });
        }
        match (usual, other) {
            // Which of them counts depends on when the class reads them.
            (Some(usual), Some(other)) if usual != other => Err(Error::Ambiguous {
                key,
                choices: beginning(self.model.value("context-key").unwrap_or_default()),
            }),
            (usual, other) => usual.or(other).ok_or(Error::Missing { key }),
        }
    }

    fn sequence(&self) -> Result<u64> {
        self.length.ok_or(Error::Missing {
            key: "the length of the sequence (Config::with_length)",
        })
    }

    /// The context of the original training; a key beside the parameters counts before the one inside.
    fn original(&self, rope: &Object) -> Result<u64> {
        let key = "original_max_position_embeddings";
        let default = self
            .model
            .number("original")
            .map(|original| original as u64);
        let beside = match self.parameters.by_layer {
            true => None,
            false => length(self.config, key)?.or(default),
        };
        match (length(rope, key)?, beside) {
            (Some(inside), Some(beside)) if inside != beside => Err(Error::Invalid {
                key,
                value: String::new(),
                required: "the same in the parameters and beside them",
            }),
            (Some(original), _) | (None, Some(original)) => Ok(original),
            (None, None) => self.context(),
        }
    }

    fn stretch(&self, rope: &Object) -> Result<f64> {
        match number(rope, "factor")? {
            Some(factor) => Ok(factor),
            None => Ok(self.context()? as f64 / self.original(rope)? as f64),
        }
    }

    /// Refuses keys beside the parameters that other models read and that this one does not, unless they say what
    /// counts without them.
    fn check_beside(&self, rope: &Object, base: f64, rotary_dim: usize) -> Result<()> {
        for (key, value) in self.config.iter().filter(|(_, value)| !value.is_null()) {
            let key = key.as_str();
            let number = value.as_f64();
            let agrees = match key {
                "rope_theta" | "rotary_emb_base" | "rotary_embedding_base" | "rope_base" => {
                    number == Some(base)
                }
                "rotary_dim" | "qk_rope_head_dim" => number == Some(rotary_dim as f64),
                "rope_pct"
                | "rope_percent"
                | "rotary_pct"
                | "rotary_percent"
                | "partial_rotary_factor" => {
                    let head_dim = self.head_dim(None).unwrap_or(rotary_dim);
                    let partial = self.partial(rope, head_dim)?;
                    number.is_some_and(|part| {
                        part_of(head_dim, part).is_ok_and(|part| part == rotary_dim)
                            || partial == Some(part)
                    })
                }
                "alibi" | "use_alibi" | "use_dynamic_ntk" => value.as_bool() == Some(false),
                "rope_interleave" => {
                    value.as_bool() == Some(self.pairing().0 == Pairing::Interleaved)
                }
                "position_embedding_type" | "position_embeddings_type" => {
                    matches!(value.as_str(), Some("rope" | "rotary"))
                }
                "rope_local_base_freq"
                | "local_rope_theta"
                | "global_rope_theta"
                | "compress_rope_theta"
                | "swa_rope_theta"
                | "layer_rope_theta"
                | "no_rope_layers"
                | "no_rope_layer_interval"
                | "rope_scaling_layers"
                | "partial_rotary_factors"
                | "use_mem_rope"
                | "rotary_value"
                | "global_head_dim"
                | "kv_channels"
                | "mrope_section"
                | "xdrope_section" => false,
                "rope_ratio" => number == Some(1.0),
                "original_rope" => true,
                _ => key_is_irrelevant(key),
            };
            if !agrees && !self.reads(key) {
                return Err(Error::Unread {
                    key: beginning(key),
                });
            }
        }
        Ok(())
    }

    /// Whether the code of this model reads that key.
    #[inline(never)]
    fn reads(&self, key: &str) -> bool {
        let model = self.model;
        let words = [
            "partial",
            "base",
            "sliding",
            "bases",
            "stills",
            "still-layers",
            "scaled-layers",
            "if",
            "unless",
            "values",
            "head-key",
        ];
        let named = words
            .iter()
            .any(|word| model.keyed(word).is_some_and(|(own, _)| own == key));
        named
            || match key {
                // Inside and beside have been compared.
                "rope_theta" => {
                    self.parameters.by_layer
                        || model
                            .keyed("base")
                            .is_none_or(|(_, default)| default.is_empty())
                }
                "rotary_dim" => model.value("rotary-dim").is_some(),
                "rope_interleave" => model.is("interleave-key"),
                "no_rope_layers" | "no_rope_layer_interval" => model.value("no-rope").is_some(),
                "global_head_dim" => model.value("global-head").is_some(),
                "compress_rope_theta" => model.is("compress"),
                // zamba2 has both, and computes its heads itself.
                "kv_channels" => model.value("head") == Some("2*width/heads"),
                _ => false,
            }
    }
}

/// Keys whose names sound like a rotation, and that say something else: the parameters themselves, which are read by
/// another rule, and the indexers of sparse attention. Every other key with such a name is refused.
fn key_is_irrelevant(key: &str) -> bool {
    let sounds = ["rope", "rotary", "theta"]
        .iter()
        .any(|part| key.contains(part));
    let known = [
        "rope_scaling",
        "rope_parameters",
        "rope_theta",
        "indexer_rope_interleave",
        "relation_bias_theta",
        "memory_attention_rope_feat_sizes",
        "memory_attention_rope_k_sizes",
        "memory_attention_rope_dropout",
    ];
    !sounds || known.contains(&key)
}

fn even(rotary_dim: usize, head_dim: usize) -> Result<usize> {
    match rotary_dim {
        2.. if rotary_dim.is_multiple_of(2) && rotary_dim <= head_dim => Ok(rotary_dim),
        _ => Err(Error::Rope(rope_core::Error::RotaryDim {
            rotary_dim,
            required: "even, above 0, and not above head_dim",
        })),
    }
}

/// The types of scaling that are known, for a refusal too.
const TYPES: &str = "default, linear, dynamic, yarn, longrope, llama3, proportional";

fn known_type(name: &str) -> Result<&str> {
    if TYPES.split(", ").any(|known| known == name) {
        return Ok(name);
    }
    Err(Error::Unknown {
        key: "rope_type",
        value: beginning(name),
        known: TYPES,
    })
}

/// `int(dim * partial)`, the product rounded to a double as in the models' code.
fn part_of(dim: usize, partial: f64) -> Result<usize> {
    let product = positive("partial_rotary_factor", partial)? * dim as f64;
    match product < 4_294_967_296.0 {
        true => Ok(product as usize),
        false => Err(Error::Invalid {
            key: "partial_rotary_factor",
            value: quoted(format_args!("{partial:?}")),
            required: "at most 1",
        }),
    }
}

/// The frequencies over given axes, from the base and the scaling of a file whose model is not known.
pub(crate) fn over(
    config: &Object,
    layer_type: Option<&str>,
    length: Option<u64>,
    axes: Axes<'_>,
) -> Result<Frequencies<'static>> {
    let model = crate::types::UNKNOWN;
    let parameters = Parameters::read(config, model)?;
    let reading = Reading {
        config,
        model,
        parameters,
        length,
    };
    let rope = reading.parameters.of(layer_type)?.ok_or(Error::Missing {
        key: "the parameters of a type of layers",
    })?;
    let base = inside_or_beside(rope, "rope_theta", config, "rope_theta")?
        .ok_or(Error::Missing { key: "rope_theta" })?;
    let name = match rope_type(rope)? {
        "su" => "longrope",
        "mrope" | "axial" => "default",
        other => other,
    };
    known_type(name)?;
    check_read(rope, name, model)?;
    let mut lists = (Vec::new(), Vec::new());
    let scaling = reading.scaling(name, rope, &mut lists)?;
    Ok(Frequencies::new(axes, base, &scaling)?)
}
