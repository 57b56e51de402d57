//! Models, and frequencies, from a configuration.

use core::ffi::{CStr, c_char};

use std::boxed::Box;

use rope_core::Error;
use rope_models::{Config, Model, Rotation};

use crate::failure::Failure;
use crate::frequencies::{AnyFrequencies, rope_frequencies};
use crate::handle::{Head, free, handle, own};
use crate::memory::{Out, Region, Span, SpanMut, plain, read};
use crate::plan::rope_plan;
use crate::status::{rope_status, status_of};

/// The answers to questions that a config.json leaves open. A member at zero leaves its question open too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_config {
    /// The part of a composite model that is meant ("vision_config"); NULL: the text's. All texts of this struct end
    /// with a NUL.
    pub part: *const c_char,
    /// The model type, in place of the file's; NULL: the file's.
    pub model_type: *const c_char,
    /// The layer type that is meant ("full_attention", "sliding_attention"), where they differ; NULL: not said.
    pub layer_type: *const c_char,
    /// Keys of the file, separated by commas, that are not meant: the model's code counts as if they were not there;
    /// NULL: none.
    pub without: *const c_char,
    /// The length of the sequence, the largest position plus one, on which dynamic NTK and LongRoPE depend; 0: not
    /// said.
    pub length: u64,
    /// The channels of a head in the tensors that are rotated; 0: all of the model's. Multi-head latent attention
    /// rotates the last channels of a head (128..192 of DeepSeek-V3). rope_model_describe_layer gives the plan for
    /// whole heads, with `first_channel` 128. The plan of rope_frequencies_from_config has `first_channel` 0, so it
    /// refuses such a model unless this is the number of channels that rotate (64). These then are tensors of their
    /// own, or parts of longer heads: `data` points to the first of them.
    pub head_dim: usize,
    /// 0 refuses a file with a key about the rotation that the model's code ignores and that would change the result
    /// (ROPE_STATUS_UNREAD). 1 accepts the file and rotates as the code does; rope_model_ignored lists the keys.
    pub lenient: i32,
}
plain!(rope_config);

/// # Safety
///
/// A pointer that is not null is to a text with a NUL at its end, which nobody writes during `'a`.
pub(crate) unsafe fn text<'a>(
    name: &'static str,
    text: *const c_char,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises that the text ends with a NUL, and that nobody writes it during `'a`.
    let text = unsafe { CStr::from_ptr(text) };
    let valid = text.to_str().map(Some);
    valid.map_err(|error| Failure::utf8(name, text.to_bytes(), error))
}

/// The file with the caller's settings, and the caller's number of channels per head.
///
/// # Safety
///
/// A pointer is null or valid, and nobody writes there during the call.
unsafe fn file(
    json: *const c_char,
    length: usize,
    config: *const rope_config,
) -> Result<(Config, usize), Failure> {
    let json = Span::new("json", json.cast::<u8>(), length)?;
    // SAFETY: the caller promises that pointers are null or valid, and that nobody writes there during the call.
    let json = unsafe { json.get() };
    let decoded = core::str::from_utf8(json);
    let json = decoded.map_err(|error| Failure::utf8("json", json, error))?;
    let mut file = Config::from_json(json)?;
    let mut given = 0;
    if !config.is_null() {
        // SAFETY: the caller promises that pointers are null or valid, and that nobody writes there during the call.
        let (config, part, model_type, layer_type, without) = unsafe {
            let config = read("config", config)?;
            (
                config,
                text("part", config.part)?,
                text("model_type", config.model_type)?,
                text("layer_type", config.layer_type)?,
                text("without", config.without)?,
            )
        };
        if let Some(part) = part {
            file = file.with_part(part);
        }
        if let Some(model_type) = model_type {
            file = file.with_model_type(model_type);
        }
        if let Some(layer_type) = layer_type {
            file = file.with_layer_type(layer_type);
        }
        for key in without.into_iter().flat_map(|keys| keys.split(',')) {
            file = file.without(key.trim());
        }
        if config.length != 0 {
            file = file.with_length(config.length);
        }
        if config.lenient != 0 {
            file = file.lenient();
        }
        given = config.head_dim;
    }
    Ok((file, given))
}

/// Makes frequencies from the text of a model's config.json (`length` bytes; no NUL needed). rope_frequencies_free
/// frees them.
///
/// `config` has the answers that the file lacks, or is NULL. If `plan` is not NULL, the call sets its pairings to
/// the model's and everything else in it to zero. If the file does not tell the pairing, or if the model does more than
/// a plan says, the call is refused, because a model with a wrong rotation still produces text. Layers that do not all
/// rotate alike have to be chosen by their type; the call is refused for those that do not rotate.
///
/// Returns ROPE_STATUS_JSON, ROPE_STATUS_MISSING, ROPE_STATUS_INVALID, ROPE_STATUS_UNKNOWN, ROPE_STATUS_AMBIGUOUS,
/// ROPE_STATUS_NO_SUCH, ROPE_STATUS_UNSUPPORTED, ROPE_STATUS_NOTHING_ROTATES, ROPE_STATUS_CHOOSE_PART,
/// ROPE_STATUS_UNREAD (rope_error_detail tells the key),
/// ROPE_STATUS_MODEL_HEAD if `head_dim` is neither all channels of a head nor those that rotate, or 0 for a model that
/// rotates others than the first; ROPE_STATUS_UTF8, ROPE_STATUS_MEMORY_OVERLAP if `plan` lies over `frequencies`, and
/// what rope_frequencies_new returns. The call cannot report a lack of memory: the process ends if the system
/// gives none for reading the text.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_from_config(
    json: *const c_char,
    length: usize,
    config: *const rope_config,
    frequencies: *mut *mut rope_frequencies,
    plan: *mut rope_plan,
) -> rope_status {
    status_of(|| {
        let out = Out::new("frequencies", frequencies)?;
        let plan = match plan.is_null() {
            true => None,
            false => {
                let place = Out::new("plan", plan)?;
                let other = Region::of("frequencies", frequencies);
                Region::of("plan", plan).apart_from(&[other])?;
                Some(place)
            }
        };
        // SAFETY: the caller promises that pointers are null or valid during the call.
        let (file, given) = unsafe { file(json, length, config) }?;
        let model = file.model()?;
        let rotation = model.rotation()?;
        let (head_dim, window) = (rotation.head_dim(), rotation.window());
        // The plan rotates from the first channel of its tensors on.
        let whole = window.start == 0 && (given == 0 || given == head_dim);
        if !whole && given != window.len() {
            let window = (window.start, window.end);
            return Err(Failure::ModelHead {
                given,
                head_dim,
                window,
            });
        }
        let made = rotation.frequencies().clone();
        let planned = match plan {
            None => None,
            Some(place) => {
                let more = rotation.rotates_values()
                    || rotation.is_full_width()
                    || rotation.unrotates_output();
                if more {
                    return Err(Failure::Model(rope_models::Error::Unsupported {
                        model: model.name(),
                        what: "its rotation is more than frequencies and a plan",
                    }));
                }
                let plan = rope_plan {
                    first_channel: 0,
                    head_dim: if whole { head_dim } else { given },
                    ..rope_plan::of_model(rotation)
                };
                Some((place, plan))
            }
        };
        let handle = own(AnyFrequencies::Axes(made))?;
        // SAFETY: the caller promises that the pointers, which were checked, are writable.
        unsafe {
            out.write(handle);
            if let Some((place, plan)) = planned {
                place.write(plan);
            }
        }
        Ok(())
    })
}

/// A model: the rotation of each of its layers, as its config.json and the code of its model type say it, or its GGUF
/// file and llama.cpp. A handle. rope_model_from_config and rope_model_from_gguf make it; rope_model_free frees it.
#[repr(align(64))]
#[derive(Debug)]
pub struct rope_model {
    head: Head,
    value: Box<Model>,
}
handle!(rope_model, Box<Model>, 0x726f_7065_5f6d_6f64, "model");

/// The rotation of queries and keys in a layer of a model.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_model_layer {
    /// 1 if the layer rotates them. Otherwise every member is 0.
    pub rotates: i32,
    /// The number of its rotation for rope_model_frequencies. Layers with the same number share rows.
    pub rotation: usize,
    /// The channels of a query's head.
    pub head_dim: usize,
    /// The first of them that rotates: 0, but for multi-head latent attention and DeepSeek-V4.
    pub first: usize,
    /// The number of channels that rotate, from `first` on.
    pub rotary_dim: usize,
    /// The plan for whole heads. With `first_channel` and `head_dim` 0 it is the plan for tensors of these channels
    /// alone, as multi-head latent attention has them.
    pub plan: rope_plan,
    /// 1 if the model rotates values as it rotates keys, else 0.
    pub rotates_values: i32,
    /// 1 if the model rotates the attention's output back in the same channels, else 0.
    pub unrotates_output: i32,
    /// 1 for full-width rows, else 0. Full-width rows have a frequency per channel: rope_rows_fill makes rows of them,
    /// which become full-width by `full_width = 1` and this layer's `rotary_dim`.
    pub full_width: i32,
}

/// Reads the text of a model's config.json (`length` bytes; no NUL needed) into the rotation of each layer.
/// rope_model_free frees the model.
///
/// `config` has the answers that the file lacks, or is NULL. Its `layer_type` and `head_dim` do not matter here.
///
/// Returns what rope_frequencies_from_config returns, but for ROPE_STATUS_MODEL_HEAD. The call cannot report a lack of
/// memory: the process ends if the system gives none for reading the text.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_from_config(
    json: *const c_char,
    length: usize,
    config: *const rope_config,
    model: *mut *mut rope_model,
) -> rope_status {
    status_of(|| {
        let out = Out::new("model", model)?;
        // SAFETY: the caller promises that pointers are null or valid during the call.
        let (file, _) = unsafe { file(json, length, config) }?;
        let made = file.model()?;
        made.layers()?;
        let handle = own(Box::new(made))?;
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Frees a model. NULL is left alone.
///
/// Returns ROPE_STATUS_HANDLE for memory that holds no model; ROPE_STATUS_MISALIGNED. The library cannot tell that a
/// handle was freed before.
///
/// # Threads
///
/// May be called from any thread; no other thread may use the model then or later.
///
/// # Safety
///
/// `model` is NULL or of this library, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_free(model: *mut rope_model) -> rope_status {
    // SAFETY: the caller promises that `model` is null or a handle that is no longer used.
    status_of(|| unsafe { free(model) })
}

/// Writes how many layers a model has.
///
/// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the model meanwhile, but not free it.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_layers(
    model: *const rope_model,
    layers: *mut usize,
) -> rope_status {
    status_of(|| {
        let out = Out::new("layers", layers)?;
        // SAFETY: the caller promises that `model` is null or a live handle.
        let (model, region) = unsafe { crate::handle::value(model) }?;
        Region::of("layers", layers).apart_from(&[region])?;
        let count = model.layers()?.len();
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(count) };
        Ok(())
    })
}

/// Writes how the layer with that index, from 0, rotates.
///
/// Returns ROPE_STATUS_COUNT if the model has fewer layers; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
/// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the model meanwhile, but not free it.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_describe_layer(
    model: *const rope_model,
    index: usize,
    layer: *mut rope_model_layer,
) -> rope_status {
    status_of(|| {
        let out = Out::new("layer", layer)?;
        // SAFETY: the caller promises that `model` is null or a live handle.
        let (model, region) = unsafe { crate::handle::value(model) }?;
        Region::of("layer", layer).apart_from(&[region])?;
        let layers = model.layers()?;
        let found = layers.get(index).ok_or(Error::Count {
            name: "layers",
            given: layers.len(),
            needed: index.saturating_add(1),
        })?;
        let mut made = rope_model_layer::STILL;
        if let Some(rotation) = found.rotation {
            let same = |other: &Rotation| core::ptr::eq(other, rotation);
            let window = rotation.window();
            made = rope_model_layer {
                rotates: 1,
                rotation: layers.rotations().iter().position(same).unwrap_or_default(),
                head_dim: rotation.head_dim(),
                first: window.start,
                rotary_dim: window.len(),
                plan: rope_plan::of_model(rotation),
                rotates_values: rotation.rotates_values().into(),
                unrotates_output: rotation.unrotates_output().into(),
                full_width: rotation.is_full_width().into(),
            };
        }
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(made) };
        Ok(())
    })
}

/// Writes a key that a model's config.json has and that the model's code ignores, though it is about the rotation: as a
/// text with a NUL at its end, `path is value: reason`. `significant` becomes 1 if the key says something else than the
/// code does, which `lenient` let pass, and 0 if it changes nothing. Keys are numbered from 0.
///
/// Returns ROPE_STATUS_COUNT if there are no more; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE,
/// ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP. A text that does not fit is cut off at a character's end.
///
/// # Threads
///
/// May be called from any thread; others may use the model meanwhile, but not free it.
///
/// # Safety
///
/// `buffer` has room for `size` bytes, and the other pointers are NULL or valid for the length of the
/// call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_ignored(
    model: *const rope_model,
    index: usize,
    buffer: *mut c_char,
    size: usize,
    significant: *mut i32,
) -> rope_status {
    status_of(|| {
        let flag = Out::new("significant", significant)?;
        let span = SpanMut::new("buffer", buffer.cast::<u8>(), size)?;
        // SAFETY: the caller promises that `model` is null or a live handle.
        let (model, region) = unsafe { crate::handle::value(model) }?;
        let place = Region::of("significant", significant);
        place.apart_from(&[region])?;
        let ignored = model.ignored();
        let own = ignored.get(index).ok_or(Error::Count {
            name: "ignored keys",
            given: ignored.len(),
            needed: index.saturating_add(1),
        })?;
        let text = std::string::ToString::to_string(own);
        // SAFETY: the caller promises that `buffer` has `size` writable bytes.
        let target = unsafe { span.get(&[region, place]) }?;
        if let Some(room) = target.len().checked_sub(1) {
            let end = text.floor_char_boundary(room.min(text.len()));
            target[..end].copy_from_slice(&text.as_bytes()[..end]);
            target[end] = 0;
        }
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { flag.write(own.significant.into()) };
        Ok(())
    })
}

/// Makes the frequencies of a rotation (rope_model_layer.rotation). rope_frequencies_free frees them; they outlive the
/// model.
///
/// Returns ROPE_STATUS_COUNT if the model has fewer rotations; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
/// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP, ROPE_STATUS_OUT_OF_MEMORY.
///
/// # Threads
///
/// May be called from any thread; others may use the model meanwhile, but not free it.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_frequencies(
    model: *const rope_model,
    rotation: usize,
    frequencies: *mut *mut rope_frequencies,
) -> rope_status {
    status_of(|| {
        let out = Out::new("frequencies", frequencies)?;
        // SAFETY: the caller promises that `model` is null or a live handle.
        let (model, region) = unsafe { crate::handle::value(model) }?;
        Region::of("frequencies", frequencies).apart_from(&[region])?;
        let rotations = model.layers()?.rotations();
        let found = rotations.get(rotation).ok_or(Error::Count {
            name: "rotations",
            given: rotations.len(),
            needed: rotation.saturating_add(1),
        })?;
        let handle = own(AnyFrequencies::Axes(found.frequencies().clone()))?;
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(handle) };
        Ok(())
    })
}

impl rope_model_layer {
    const STILL: rope_model_layer = rope_model_layer {
        rotates: 0,
        rotation: 0,
        head_dim: 0,
        first: 0,
        rotary_dim: 0,
        plan: rope_plan::NONE,
        rotates_values: 0,
        unrotates_output: 0,
        full_width: 0,
    };
}
