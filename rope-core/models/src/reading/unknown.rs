//! The frequencies of a model of an unknown type.

use super::notes::Notes;
use super::parameters::{Parameters, rope_type};
use super::place::Place;
use super::scaling::known_type;
use super::{Choices, Reading, children};
use crate::base::error::{Result, missing};
use crate::types::{HALF, Sizes};
use alloc::vec::Vec;
use rope_core::Frequencies;
use rope_core::axes::Axes;

/// Computes the frequencies over given axes, from the base and the scaling of a file of an unknown model.
pub(crate) fn over(
    place: &Place<'_>,
    layer_type: Option<&str>,
    sequence: Option<u64>,
    axes: Axes<'_>,
    notes: Notes<'_>,
) -> Result<Frequencies<'static>> {
    let (row, config) = (HALF, place.object());
    let mut above = place.objects();
    above.pop();
    let parameters = Parameters::read(config, "unknown", &row, &notes)?;
    let reading = Reading {
        config,
        name: "unknown",
        row,
        parameters,
        sizes: Sizes::default(),
        choices: Choices {
            length: sequence,
            ..Choices::default()
        },
        above,
        unread: children::unread(place),
        notes,
    };
    let before = reading.notes.so_far();
    reading.notes.settle(before, || {
        let rope = reading
            .parameters
            .of(layer_type)?
            .ok_or_else(|| missing("the parameters of a type of layers"))?;
        let base = reading
            .inside_or_beside(rope, "rope_theta", "rope_theta")?
            .ok_or_else(|| missing("rope_theta"))?;
        let name = match rope_type(rope)? {
            "su" => "longrope",
            "mrope" | "axial" => "default",
            other => other,
        };
        known_type(name)?;
        reading.check_read(rope, name);
        reading.check_unknown(rope, name, base)?;
        reading.by_length(name, &mut |length| {
            let mut lists = (Vec::new(), Vec::new());
            let scaling = reading.scaling(name, rope, length, &mut lists)?;
            Ok(Frequencies::new(axes, base, &scaling)?)
        })
    })
}
