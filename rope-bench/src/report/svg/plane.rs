//! Two logarithmic axes, and their grid.

use maud::{Markup, html};

use super::{WIDTH, round};

/// How far along an axis, whose ends are given, a value lies, from 0 to 1; values beyond it lie on its ends.
fn part((low, high): (f64, f64), value: f64) -> f64 {
    ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

/// The part of a card between two axes, in its units.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// The values at the left and the right edge.
    pub x: (f64, f64),
    /// The values at the lower and the upper edge.
    pub y: (f64, f64),
    /// The left edge.
    pub left: f64,
    /// The right edge.
    pub right: f64,
    /// The upper edge.
    pub top: f64,
    /// The lower edge.
    pub bottom: f64,
}

impl Plane {
    /// Where a value of the axis below lies.
    pub fn x(&self, value: f64) -> f64 {
        round(self.left + part(self.x, value) * (self.right - self.left))
    }

    /// Where a value of the axis to the left lies.
    pub fn y(&self, value: f64) -> f64 {
        round(self.bottom - part(self.y, value) * (self.bottom - self.top))
    }

    /// Lines, their numbers, and the names of both axes.
    pub fn grid(&self, x: &[(f64, &str)], y: &[(f64, &str)], names: [&str; 2]) -> Markup {
        let Plane {
            left,
            right,
            top,
            bottom,
            ..
        } = *self;
        html! {
            @for (value, label) in x {
                line.grid x1=(self.x(*value)) x2=(self.x(*value)) y1=(top) y2=(bottom) {}
                // The last one stays on the card.
                text.soft.(if self.x(*value) + 12.0 > WIDTH { "end" } else { "middle" }) x=(self.x(*value))
                    y=(bottom + 16.0) { (label) }
            }
            @for (value, label) in y {
                line.grid x1=(left) x2=(right) y1=(self.y(*value)) y2=(self.y(*value)) {}
                text.soft.end x=(left - 5.0) y=(self.y(*value) + 4.0) { (label) }
            }
            text.soft.end x=(right) y=(bottom + 33.0) { (names[0]) }
            text.soft x="0" y="11" { (names[1]) }
        }
    }
}
