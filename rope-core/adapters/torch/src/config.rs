//! Rotations of a model by positions, at exact angles, from the text of its `config.json`.
//!
//! The text is an argument of each call, as a tensor of bytes: a graph that was exported has it, and another process
//! can run it. What was read of it is kept.

use std::sync::{Arc, Mutex};

use rope_core::{AnyRows, Positions, Rows};
use rope_models::{Config, Error, Ignored, Model, Rotation};

use crate::plan::{Plan, Width};
use crate::rotate::{check_in_place, rotate_where_it_lies, rotated};
use crate::shim::{Dtype, Failure, RawTensor, Result, Tensor};
use crate::tables::{check_room, integers, reals};
use crate::tensor::{extents, with_adjacent_channels};

/// Rotations that were read, the last one used at the end.
static KNOWN: Mutex<Vec<(Vec<u8>, Arc<Known>)>> = Mutex::new(Vec::new());

/// A rotation, and what its file says besides that the model's code ignores.
struct Known {
    rotation: Rotation,
    ignored: Vec<Ignored>,
}

/// As many as the kinds of layers of several models.
const MOST_KNOWN: usize = 32;

/// The rotation of a text with choices after it, ended by zeros:
/// `json 0 layer_type 0 part 0 model_type 0 length 0 lenient 0 layer`.
fn known(config: RawTensor) -> Result<Arc<Known>> {
    let config = config.named("config")?;
    let bytes = match (config.dtype(), config.sizes(), config.strides()) {
        (Dtype::Uint8, [_], [1]) => config.elements::<u8>()?,
        _ => {
            return Err(Failure::new(
                "config must be the tensor of a rope_kernels.Rotation",
            ));
        }
    };
    let known = || KNOWN.lock().map_err(|_| Failure::new("a thread panicked"));
    {
        let mut known = known()?;
        if let Some(index) = known.iter().position(|(text, _)| text == bytes) {
            let used = known.remove(index);
            let found = used.1.clone();
            known.push(used);
            return Ok(found);
        }
    }
    let read = Arc::new(read(std::str::from_utf8(bytes)?)?);
    let mut known = known()?;
    if known.len() == MOST_KNOWN {
        known.remove(0);
    }
    known.push((bytes.to_vec(), read.clone()));
    Ok(read)
}

/// The file with what was chosen, and the number of a layer.
fn file(text: &str) -> Result<(Config, Option<usize>)> {
    let mut fields = text.split('\0');
    let mut next = || fields.next().filter(|field| !field.is_empty());
    let mut config = Config::from_json(next().unwrap_or_default())?;
    if let Some(layer_type) = next() {
        config = config.with_layer_type(layer_type);
    }
    if let Some(part) = next() {
        config = config.with_part(part);
    }
    if let Some(model_type) = next() {
        config = config.with_model_type(model_type);
    }
    if let Some(length) = next() {
        config = config.with_length(length.parse()?);
    }
    if next().is_some() {
        config = config.lenient();
    }
    let layer = next().map(str::parse).transpose()?;
    Ok((config, layer))
}

fn read(text: &str) -> Result<Known> {
    let (config, layer) = file(text)?;
    let model = config.model()?;
    let rotation = match layer {
        Some(layer) => rotation_of_layer(&model, layer)?,
        None => model.rotation()?.clone(),
    };
    if rotation.windows().count() > 1 {
        return Err(Failure::new(
            "this model pairs parts of a head by themselves, which these operators do not; rotate each by cos and sin",
        ));
    }
    let ignored = model.ignored().to_vec();
    Ok(Known { rotation, ignored })
}

fn rotation_of_layer(model: &Model, index: usize) -> Result<Rotation> {
    let layers = model.layers()?;
    let Some(layer) = layers.get(index) else {
        return Err(Failure::new(format!(
            "layer is {index}; it must be below the number of layers ({})",
            layers.len()
        )));
    };
    match layer.rotation {
        Some(rotation) => Ok(rotation.clone()),
        None => Err(Failure::new(format!(
            "layer {index} does not rotate; leave its queries and keys as they are"
        ))),
    }
}

/// Positions of tokens as a tensor has them: integers, or real numbers.
enum Given {
    Ids(Vec<i64>),
    Coordinates(Vec<f64>),
}

/// Positions `[tokens]` or `[batch, tokens]`, for several axes also `[axes, batch, tokens]`.
struct Places {
    given: Given,
    per_axis: bool,
    /// The extents without axes.
    extents: Vec<usize>,
}

impl Places {
    fn new(rotation: &Rotation, positions: RawTensor, name: &'static str) -> Result<Self> {
        let positions = positions.named(name)?;
        let axes = rotation.frequencies().axes();
        let (per_axis, extents) = match positions.sizes() {
            [first, rest @ ..] if axes > 1 && *first == axes && rest.len() == 2 => (true, rest),
            extents if extents.len() <= 2 => (false, extents),
            extents => {
                let required = match axes {
                    1 => String::new(),
                    _ => format!(
                        ", or [{axes}, batch, tokens] for a model whose positions have {axes} axes"
                    ),
                };
                return Err(Failure::new(format!(
                    "{name} is {extents:?}; it must be [tokens] or [batch, tokens]{required}"
                )));
            }
        };
        let extents = extents.to_vec();
        let given = match positions.dtype() {
            Dtype::Float32 | Dtype::Float64 => Given::Coordinates(reals(&positions)?),
            _ if rotation.has_real_positions() => {
                return Err(Failure::new(format!(
                    "{name} is {:?}; the positions of this model are coordinates in -1..1, of which an integer is a whole \
                     turn: pass float32 or float64",
                    positions.dtype()
                )));
            }
            Dtype::Int64 | Dtype::Int32 => Given::Ids(integers(&positions)?),
            other => {
                return Err(Failure::new(format!(
                    "{name} is {other:?}; it must be int64, int32, float64 or float32"
                )));
            }
        };
        Ok(Places {
            given,
            per_axis,
            extents,
        })
    }

    fn positions(&self) -> Positions<'_> {
        match (&self.given, self.per_axis) {
            (Given::Ids(ids), false) => Positions::from(&ids[..]),
            (Given::Ids(ids), true) => Positions::axis_major(&ids[..]),
            (Given::Coordinates(numbers), false) => Positions::from(&numbers[..]),
            (Given::Coordinates(numbers), true) => Positions::axis_major(&numbers[..]),
        }
    }

    fn check_room(&self, rotation: &Rotation) -> Result<()> {
        let tokens = match &self.given {
            Given::Ids(ids) => ids.len(),
            Given::Coordinates(numbers) => numbers.len(),
        };
        let width = rotation.frequencies().rotary_dim();
        check_room::<f32>(tokens.checked_mul(2 * width), "positions")
    }
}

/// The rows of positions, and their extents without axes.
fn rows(rotation: &Rotation, positions: RawTensor) -> Result<(AnyRows<'static>, Vec<usize>)> {
    let places = Places::new(rotation, positions, "positions")?;
    places.check_room(rotation)?;
    Ok((rotation.rows(places.positions())?, places.extents))
}

/// `rope_kernels::config_rotation`: numbers of a model's rotation: a plan, head_dim, the range of channels that rotate,
/// axes, whether the rows are full-width, the bits of the attention factor, and whether positions are real.
pub(crate) fn config_rotation(config: RawTensor) -> Result<Tensor> {
    let known = known(config)?;
    let rotation = &known.rotation;
    let window = rotation.window();
    let numbers = [
        Plan::bits_of_model(rotation),
        i64::try_from(rotation.head_dim())?,
        i64::try_from(window.start)?,
        i64::try_from(window.end)?,
        i64::try_from(rotation.frequencies().axes())?,
        i64::from(rotation.is_full_width()),
        rotation
            .frequencies()
            .attention_factor()
            .to_bits()
            .cast_signed(),
        i64::from(rotation.has_real_positions()),
    ];
    let mut result = Tensor::uninitialized("numbers", &[numbers.len()], &[1], Dtype::Int64)?;
    result.elements_mut::<i64>([])?.copy_from_slice(&numbers);
    Ok(result)
}

/// `rope_kernels::config_refusal`: why a file has no rotation: 1 if nothing rotates, 2 if a part has to be chosen, 3
/// for a key that the model's code ignores, 0 for all else.
pub(crate) fn config_refusal(config: RawTensor) -> Result<Tensor> {
    let config = config.named("config")?;
    let text = std::str::from_utf8(config.elements::<u8>()?)?;
    let (config, _) = file(text)?;
    let found = config.model().and_then(|model| model.rotation().cloned());
    let kind = match found {
        Err(Error::NothingRotates { .. }) => 1,
        Err(Error::ChoosePart { .. }) => 2,
        Err(Error::Unread { .. }) => 3,
        _ => 0,
    };
    let mut result = Tensor::uninitialized("refusal", &[1], &[1], Dtype::Int64)?;
    result.elements_mut::<i64>([])?.copy_from_slice(&[kind]);
    Ok(result)
}

/// `rope_kernels::config_ignored`: the keys about the rotation that the model's code ignores, as a text in a tensor of
/// bytes: of each the path, the value, the reason, and 1 if it says something else than the code does, each ended by a
/// zero.
pub(crate) fn config_ignored(config: RawTensor) -> Result<Tensor> {
    let known = known(config)?;
    let mut text = String::new();
    for own in &known.ignored {
        let flag = if own.significant { "1" } else { "0" };
        for field in [&own.path, &own.value, own.reason, flag] {
            text.push_str(field);
            text.push('\0');
        }
    }
    let mut result = Tensor::uninitialized("ignored", &[text.len()], &[1], Dtype::Uint8)?;
    result
        .elements_mut::<u8>([])?
        .copy_from_slice(text.as_bytes());
    Ok(result)
}

/// `rope_kernels::config_rows`: cos and sin of positions, `[.., pairs]`, or with each value twice as the plan says;
/// rounded once to f32. The number of pairs is an argument for traces, which know no configuration.
pub(crate) fn config_rows(
    config: RawTensor,
    positions: RawTensor,
    pairs: i64,
    plan: i64,
) -> Result<[Tensor; 2]> {
    let (plan, known) = (Plan::new(plan)?, known(config)?);
    check_shared(&known.rotation)?;
    let (rows, extents) = rows(&known.rotation, positions)?;
    tables(rows.rows(), extents, pairs, &plan)
}

/// `rope_kernels::config_shift`: the rows that move rotated keys by deltas of their positions.
pub(crate) fn config_shift(
    config: RawTensor,
    deltas: RawTensor,
    pairs: i64,
    plan: i64,
) -> Result<[Tensor; 2]> {
    let (plan, known) = (Plan::new(plan)?, known(config)?);
    let rotation = &known.rotation;
    check_shared(rotation)?;
    let deltas = Places::new(rotation, deltas, "deltas")?;
    deltas.check_room(rotation)?;
    let rows = rotation.frequencies().shift(deltas.positions())?.rows()?;
    tables(&rows, deltas.extents, pairs, &plan)
}

/// `rope_kernels::config_shift_from`: the rows that move keys from positions `from` of the rotation `old` to positions
/// `to` of this configuration.
pub(crate) fn config_shift_from(
    [config, old]: [RawTensor; 2],
    [from, to]: [RawTensor; 2],
    pairs: i64,
    plan: i64,
) -> Result<[Tensor; 2]> {
    let plan = Plan::new(plan)?;
    let (known, old) = (known(config)?, known(old)?);
    let (new, old) = (&known.rotation, &old.rotation);
    check_shared(new)?;
    check_shared(old)?;
    if (new.pairing(), new.direction(), new.window())
        != (old.pairing(), old.direction(), old.window())
    {
        return Err(Failure::new(
            "both rotations must have one pairing, one direction and one window: keys of other ones cannot be moved",
        ));
    }
    let (from, to) = (
        Places::new(old, from, "before")?,
        Places::new(new, to, "after")?,
    );
    if from.extents != to.extents {
        return Err(Failure::new(format!(
            "before is {:?}, but after is {:?}; both must have one position for each token",
            from.extents, to.extents
        )));
    }
    to.check_room(new)?;
    let rows = new
        .frequencies()
        .shift_from(old.frequencies(), from.positions(), to.positions())?
        .rows()?;
    tables(&rows, to.extents, pairs, &plan)
}

fn check_shared(rotation: &Rotation) -> Result<()> {
    match rotation.is_full_width() {
        false => Ok(()),
        true => Err(Failure::new(
            "the channels of a pair have angles of their own in this model; rotate by positions, not by rows",
        )),
    }
}

/// cos and sin of rows, as tensors.
fn tables(
    rows: &Rows<'_>,
    mut extents: Vec<usize>,
    pairs: i64,
    plan: &Plan,
) -> Result<[Tensor; 2]> {
    if usize::try_from(pairs)? != rows.rotary_dim() / 2 {
        return Err(Failure::new(format!(
            "pairs is {pairs}; the model rotates {}",
            rows.rotary_dim() / 2
        )));
    }
    let pairs = rows.rotary_dim() / 2;
    let each = if plan.width == Width::Once { 1 } else { 2 };
    extents.push(each * pairs);
    let mut strides = vec![1; extents.len()];
    for dimension in (1..strides.len()).rev() {
        strides[dimension - 1] = strides[dimension] * extents[dimension].max(1);
    }
    let mut tables = [
        Tensor::uninitialized("cos", &extents, &strides, Dtype::Float32)?,
        Tensor::uninitialized("sin", &extents, &strides, Dtype::Float32)?,
    ];
    for (index, table) in tables.iter_mut().enumerate() {
        let values = table.elements_mut::<f32>([])?;
        for (row, target) in values.chunks_exact_mut((each * pairs).max(1)).enumerate() {
            let (cos, sin) = rows
                .row(row, 0)
                .ok_or_else(|| Failure::new("a row is missing"))?;
            let row = [cos, sin][index];
            for (channel, value) in target.iter_mut().enumerate() {
                let pair = match plan.width {
                    Width::Pairs => channel / 2,
                    _ => channel % pairs,
                };
                *value = row[pair];
            }
        }
    }
    Ok(tables)
}

/// The first channel of a tensor's heads that rotates: heads of the model, or the channels that rotate alone.
fn first_channel(x: &Tensor, plan: &Plan, rotation: &Rotation) -> Result<usize> {
    let ([.., given], window) = (extents(x, plan)?, rotation.window());
    if given == rotation.head_dim() {
        Ok(window.start)
    } else if given == window.len() {
        Ok(0)
    } else {
        Err(Error::ModelHead {
            given,
            head_dim: rotation.head_dim(),
            window: (window.start, window.end),
        }
        .into())
    }
}

/// `rope_kernels::rotate_by_config`
pub(crate) fn rotate_by_config(
    x: RawTensor,
    config: RawTensor,
    positions: RawTensor,
    plan: i64,
) -> Result<Tensor> {
    let known = known(config)?;
    let rotation = &known.rotation;
    let plan = Plan::of_model(plan, rotation)?;
    let x = with_adjacent_channels(x.named("x")?)?;
    let first = first_channel(&x, &plan, rotation)?;
    let (rows, _) = rows(rotation, positions)?;
    rotated("y", &x, &plan, &[], &rows, first)
}

/// `rope_kernels::rotate_by_config_`
pub(crate) fn rotate_by_config_in_place(
    x: RawTensor,
    config: RawTensor,
    positions: RawTensor,
    plan: i64,
) -> Result<()> {
    let known = known(config)?;
    let rotation = &known.rotation;
    let plan = Plan::of_model(plan, rotation)?;
    let mut x = x.named_mut("x")?;
    let first = first_channel(&x, &plan, rotation)?;
    let (rows, _) = rows(rotation, positions)?;
    check_in_place(&mut x, &plan, &[], &rows, first)?;
    rotate_where_it_lies(&mut x, &plan, &rows, first)?;
    x.count_write()
}
