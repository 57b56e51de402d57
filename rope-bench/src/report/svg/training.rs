//! A training: how its loss falls, and the ways of frequencies to those that were planted.

use maud::{Markup, html};

use super::plane::{Axis, Plane};
use super::{WIDTH, card};
use crate::results::Training;

/// Loss and error, logarithmic, against the step.
pub fn descent(training: &Training) -> Markup {
    const LINE: f64 = 19.0;
    /// Decades from one number of the axis to the next.
    const DECADES: usize = 4;
    let points = &training.points;
    let values = points.iter().flat_map(|point| [point.loss, point.error]);
    let (low, high) = values
        .chain([training.bound, 1.0])
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    // One more above, for what stands there.
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32 + 1;
    let power = |decade: i32| 10.0_f64.powi(decade);
    let steps = training.steps as f64;
    let plane = Plane {
        x: Axis::Linear(0.0, steps),
        y: Axis::Logarithmic(power(*decades.start()), power(*decades.end())),
        left: 44.0,
        right: WIDTH - 2.0,
        top: 22.0,
        bottom: 250.0,
    };
    let x: Vec<_> = (0..=4)
        .map(|quarter| training.steps * quarter / 4)
        .map(|step| (step as f64, step.to_string()))
        .collect();
    let name = |decade| match decade {
        0 => "1".to_owned(),
        _ => format!("1e{decade}"),
    };
    let y: Vec<_> = decades
        .rev()
        .filter(|decade| decade % DECADES as i32 == 0)
        .map(|decade| (power(decade), name(decade)))
        .collect();
    let series: [(&str, Vec<f64>); 2] = [
        (
            "loss: mean square of the scores' errors",
            points.iter().map(|point| point.loss).collect(),
        ),
        (
            "error: of the farthest pair",
            points.iter().map(|point| point.error).collect(),
        ),
    ];
    let legend = plane.bottom + 56.0;
    let grown = training.grown as f64;
    let sides = [0, training.grown].map(|first| {
        let from = points.iter().find(|point| point.step >= first);
        (first as f64, from.map_or(0, |point| point.side))
    });
    card(
        "Loss and error of a training against its steps",
        legend + LINE * 3.0 - 8.0,
        &html! {
            (plane.grid(&x, &y, ["step", "loss and error; images of so many patches"]))
            line.grid x1=(plane.x(grown)) x2=(plane.x(grown)) y1=(plane.top) y2=(plane.bottom) {}
            @for (first, side) in sides {
                text.soft x=(plane.x(first) + 5.0) y=(plane.top + 12.0) { (side) " x " (side) }
            }
            line.limit x1=(plane.left) x2=(plane.right) y1=(plane.y(training.bound)) y2=(plane.y(training.bound)) {}
            @for (index, (name, values)) in series.iter().enumerate() {
                @let line = legend + LINE * index as f64;
                @let drawn = points.iter().zip(values)
                    .map(|(point, &value)| format!("{},{}", plane.x(point.step as f64), plane.y(value)));
                g class={ "series-" (2 * index) } {
                    title { (name) }
                    polyline.series points=(drawn.collect::<Vec<_>>().join(" ")) {}
                    line.series x1="0" x2="34" y1=(line - 4.0) y2=(line - 4.0) {}
                    text x="42" y=(line) { (name) }
                    @if let Some(last) = values.last() {
                        text.soft.end x=(WIDTH) y=(line) { (format!("{last:.0e}")) }
                    }
                }
            }
            @let line = legend + LINE * 2.0;
            line.limit x1="0" x2="34" y1=(line - 4.0) y2=(line - 4.0) {}
            text x="42" y=(line) { "below it the error has to end" }
            text.soft.end x=(WIDTH) y=(line) { (format!("{:.0e}", training.bound)) }
        },
    )
}

/// The frequencies of a head's pairs on their way: the one on axis 0 against the one on axis 1.
pub fn paths(training: &Training, head: usize) -> Markup {
    let [_, _, pairs] = training.shape;
    let points = training.points.iter().map(|point| &point.frequencies);
    let reach = points
        .chain([&training.planted])
        .flatten()
        .fold(0.0_f64, |reach, value| reach.max(value.abs()));
    let end = 1.08 * reach;
    let left = 38.0;
    let plane = Plane {
        x: Axis::Linear(-end, end),
        y: Axis::Linear(-end, end),
        left,
        right: WIDTH - 2.0,
        top: 22.0,
        bottom: 22.0 + WIDTH - 2.0 - left,
    };
    let step = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0];
    let step = step.into_iter().find(|step| end / step < 3.0);
    let ticks: Vec<_> = (-2..=2)
        .map(|tick| f64::from(tick) * step.unwrap_or(end))
        .filter(|tick| tick.abs() <= end)
        .map(|tick| (tick, tick.to_string()))
        .collect();
    let all = (0..pairs).filter_map(|pair| {
        let way = training.points.iter();
        let way: Vec<_> = way
            .filter_map(|point| training.pair(&point.frequencies, head, pair))
            .map(|[x, y]| (plane.x(x), plane.y(y)))
            .collect();
        let planted = training.pair(&training.planted, head, pair)?;
        Some((pair, *way.first()?, way, planted))
    });
    card(
        &format!("Frequencies of head {head} on their way to those that were planted"),
        plane.bottom + 38.0,
        &html! {
            (plane.grid(&ticks, &ticks, ["on axis 0", "radians a patch, on axis 1"]))
            @for (pair, start, way, [x, y]) in all {
                @let (planted_x, planted_y) = (plane.x(x), plane.y(y));
                g {
                    title { "pair " (pair) ": planted " (format!("{x:.4} {y:.4}")) }
                    polyline.way points=(way.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")) {}
                    circle.start cx=(start.0) cy=(start.1) r="3" {}
                    path.planted d={
                        "M" (planted_x - 5.0) " " (planted_y) "h10M" (planted_x) " " (planted_y - 5.0) "v10"
                    } {}
                    text.soft x=(planted_x + 6.0) y=(planted_y - 5.0) { (pair) }
                }
            }
        },
    )
}
