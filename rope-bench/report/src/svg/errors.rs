//! The largest error of each method against the position, on two logarithmic axes.

use maud::{Markup, html};

use super::{COLORS, WIDTH, card, round};
use crate::results::Accuracy;

/// The axes: a value, and its label.
const POSITIONS: [(f64, &str); 6] = [
    (1.0, "1"),
    (1024.0, "1 k"),
    (32_768.0, "32 k"),
    (1_048_576.0, "1 M"),
    (33_554_432.0, "32 M"),
    (2_147_483_648.0, "2 G"),
];
const ERRORS: [f64; 5] = [1e-8, 1e-6, 1e-4, 1e-2, 1.0];

/// The plane between the axes, in units of the card.
const LEFT: f64 = 38.0;
const RIGHT: f64 = WIDTH - 2.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 250.0;

/// Returns the place of a position.
fn x(position: f64) -> f64 {
    round(LEFT + part((1.0, POSITIONS[5].0), position) * (RIGHT - LEFT))
}

/// Returns the place of an error.
fn y(error: f64) -> f64 {
    round(BOTTOM - part((5e-9, 4.0), error) * (BOTTOM - TOP))
}

/// Returns the place of a value along an axis with these ends, from 0 to 1; values beyond it are clamped.
fn part((low, high): (f64, f64), value: f64) -> f64 {
    ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

/// Returns the lines, their numbers, and the names of both axes.
fn grid() -> Markup {
    html! {
        @for (position, label) in POSITIONS {
            line.grid x1=(x(position)) x2=(x(position)) y1=(TOP) y2=(BOTTOM) {}
            // The last label stays on the card.
            text.soft.(if x(position) + 12.0 > WIDTH { "end" } else { "middle" }) x=(x(position)) y=(BOTTOM + 16.0) {
                (label)
            }
        }
        @for error in ERRORS {
            line.grid x1=(LEFT) x2=(RIGHT) y1=(y(error)) y2=(y(error)) {}
            text.soft.end x=(LEFT - 5.0) y=(y(error) + 4.0) { (if error < 1.0 { format!("{error:e}") } else { "1".into() }) }
        }
        text.soft.end x=(RIGHT) y=(BOTTOM + 33.0) { "position" }
        text.soft x="0" y="11" { "largest error of cos or sin" }
    }
}

/// Returns the errors of a model.
pub fn errors(accuracy: &Accuracy) -> Markup {
    /// The level quoted in the legend: an advertised context of today.
    const QUOTED: u32 = 1 << 17;
    const LINE: f64 = 19.0;
    let legend = BOTTOM + 56.0;
    let quoted = accuracy.levels.iter().position(|&level| level == QUOTED);
    let model = &accuracy.model;
    let title = format!("Largest error of cos and sin against position, {model}");
    let height = legend + LINE * accuracy.methods.len() as f64 - 8.0;
    let content = html! {
        (grid())
        // The first method is ours, drawn over the others.
        @for (index, method) in accuracy.methods.iter().enumerate().rev() {
            @let points = accuracy.levels.iter().zip(&method.errors)
                .map(|(&level, &error)| format!("{},{}", x(f64::from(level)), y(error)));
            @let line = legend + LINE * index as f64;
            g class={ "series-" (index % COLORS) } {
                title { (method.name) ": " (method.about) }
                polyline.series points=(points.collect::<Vec<_>>().join(" ")) {}
                line.series x1="0" x2="34" y1=(line - 4.0) y2=(line - 4.0) {}
                text x="42" y=(line) { (method.name) }
                @if let Some(error) = quoted.and_then(|level| method.errors.get(level)) {
                    text.soft.end x=(WIDTH) y=(line) { (format!("{error:.1e} up to {QUOTED}")) }
                }
            }
        }
    };
    card(&title, height, &content)
}
