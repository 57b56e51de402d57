//! The largest error of each method against the position.

use maud::{Markup, html};

use super::plane::Plane;
use super::{COLOURS, WIDTH, card};
use crate::results::Accuracy;

/// The errors of a model, both axes logarithmic.
pub fn errors(accuracy: &Accuracy) -> Markup {
    /// The level that the legend quotes: a context that is advertised today.
    const QUOTED: u32 = 1 << 17;
    const LINE: f64 = 19.0;
    let plane = Plane {
        x: (1.0, f64::from(1_u32 << 31)),
        y: (5e-9, 4.0),
        left: 38.0,
        right: WIDTH - 2.0,
        top: 22.0,
        bottom: 250.0,
    };
    let x = [
        (0, "1"),
        (10, "1 k"),
        (15, "32 k"),
        (20, "1 M"),
        (25, "32 M"),
        (31, "2 G"),
    ];
    let x = x.map(|(power, label)| (f64::from(1_u32 << power), label));
    let y = [
        (1e-8, "1e-8"),
        (1e-6, "1e-6"),
        (1e-4, "1e-4"),
        (1e-2, "1e-2"),
        (1.0, "1"),
    ];
    let legend = plane.bottom + 56.0;
    let quoted = accuracy.levels.iter().position(|&level| level == QUOTED);
    let title = format!(
        "Largest error of cos and sin against position, {}",
        accuracy.model
    );
    let height = legend + LINE * accuracy.methods.len() as f64 - 8.0;
    card(
        &title,
        height,
        &html! {
            (plane.grid(&x, &y, ["position", "largest error of cos or sin"]))
            // The first method is ours, and drawn over the others.
            @for (index, method) in accuracy.methods.iter().enumerate().rev() {
                @let points = accuracy.levels.iter().zip(&method.errors)
                    .map(|(&level, &error)| format!("{},{}", plane.x(f64::from(level)), plane.y(error)));
                @let line = legend + LINE * index as f64;
                g class={ "series-" (index % COLOURS) } {
                    title { (method.name) ": " (method.about) }
                    polyline.series points=(points.collect::<Vec<_>>().join(" ")) {}
                    line.series x1="0" x2="34" y1=(line - 4.0) y2=(line - 4.0) {}
                    text x="42" y=(line) { (method.name) }
                    @if let Some(error) = quoted.and_then(|level| method.errors.get(level)) {
                        text.soft.end x=(WIDTH) y=(line) { (format!("{error:.1e} up to {QUOTED}")) }
                    }
                }
            }
        },
    )
}
