//! The input of a reading: a configuration, the row of its model type, and the choices of the caller.

use super::children;
use super::notes::Notes;
use super::parameters::Parameters;
use super::place::Place;
use crate::base::error::{Refusal, Result, missing, still, unsupported};
use crate::base::json::{Object, Value, count, flag, given};
use crate::types::{Condition, LayerTypes, Row, Sizes, sizes_of};
use alloc::string::String;
use alloc::vec::Vec;

/// A configuration, the row of its model type, and the caller's choices.
pub(crate) struct Reading<'c> {
    pub(crate) config: &'c Object,
    /// The model type.
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    pub(crate) parameters: Parameters,
    pub(super) sizes: Sizes,
    pub(super) choices: Choices,
    /// The objects above the part that is read, with their paths.
    pub(super) above: Vec<(String, &'c Object)>,
    /// The objects that no class reads, with their paths.
    pub(super) unread: Vec<(String, &'c Object)>,
    pub(crate) notes: Notes<'c>,
}

/// The caller's choices, and what they mean for the file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Choices {
    /// The length of the sequence.
    pub(crate) length: Option<u64>,
    /// The caller overrides the file's `model_type`.
    pub(crate) other_type: bool,
    /// The file omits the part that is read.
    pub(crate) omitted: bool,
}

impl<'c> Reading<'c> {
    pub(crate) fn new(
        place: &Place<'c>,
        name: &'static str,
        row: Row,
        choices: Choices,
        notes: Notes<'c>,
    ) -> Result<Self> {
        let (config, mut above) = (place.object(), place.objects());
        above.pop();
        let rotates = match row.condition {
            Condition::Always => true,
            Condition::If(key, wanted) => {
                let found = given(config, key.name()).and_then(Value::as_str);
                found == Some(wanted.name())
            }
            Condition::IfOrOmitted(key, wanted) => {
                let found = config.get(key.name());
                found.is_none_or(|found| found.as_str() == Some(wanted.name()))
            }
            Condition::IfTrue(key) => flag(config, key.name())? == Some(true),
            Condition::Unless(key) => flag(config, key.name())? != Some(true),
            Condition::Baichuan => {
                given(config, "max_position_embeddings").is_some()
                    && count(config, "num_attention_heads")? != Some(40)
            }
            Condition::UnlessFalse(key) => flag(config, key.name())? != Some(false),
        };
        if !rotates {
            return Err(still(
                name,
                "it rotates with another choice of its configuration only, and not with this one",
            ));
        }
        let types = "layer_types";
        if matches!(row.layers, LayerTypes::Needed) && given(config, types).is_none() {
            return Err(missing(types));
        }
        let parameters = Parameters::read(config, name, &row, &notes)?;
        let reading = Self {
            config,
            name,
            row,
            parameters,
            sizes: sizes_of(name),
            choices,
            above,
            unread: children::unread(place),
            notes,
        };
        reading.check_numbers()?;
        Ok(reading)
    }

    pub(super) fn unsupported(&self, what: &'static str) -> Refusal {
        unsupported(self.name, what)
    }

    /// Returns the error for a partial rotation without code in the class.
    pub(super) fn fails(&self) -> Refusal {
        self.unsupported("this partial rotation fails in the model's own code")
    }
}
