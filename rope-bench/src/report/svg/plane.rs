//! Two axes, each logarithmic or linear, and their grid.

use maud::{Markup, html};

use super::{WIDTH, round};

/// The values at both ends of an axis.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// Equal distances are equal ratios.
    Logarithmic(f64, f64),
    /// Equal distances are equal differences.
    Linear(f64, f64),
}

impl Axis {
    /// How far along the axis a value lies, from 0 to 1; values beyond it lie on its ends.
    fn part(self, value: f64) -> f64 {
        let part = match self {
            Axis::Logarithmic(low, high) => (value / low).ln() / (high / low).ln(),
            Axis::Linear(low, high) => (value - low) / (high - low),
        };
        part.clamp(0.0, 1.0)
    }
}

/// The part of a card between two axes, in its units.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// From the left to the right edge.
    pub x: Axis,
    /// From the lower to the upper edge.
    pub y: Axis,
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
        round(self.left + self.x.part(value) * (self.right - self.left))
    }

    /// Where a value of the axis to the left lies.
    pub fn y(&self, value: f64) -> f64 {
        round(self.bottom - self.y.part(value) * (self.bottom - self.top))
    }

    /// Lines, their numbers, and the names of both axes.
    pub fn grid(&self, x: &[(f64, String)], y: &[(f64, String)], names: [&str; 2]) -> Markup {
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

/// Numbers between two values: 1, 2 and 5 of each power of ten, or the powers alone where that would be too many.
pub fn ticks((low, high): (f64, f64), most: usize) -> Vec<(f64, String)> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let of = |steps: &[f64]| -> Vec<f64> {
        (from..=to)
            .flat_map(|power| steps.iter().map(move |step| step * 10.0_f64.powi(power)))
            .filter(|value| (low..=high).contains(value))
            .collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    let chosen = if fine.len() <= most { fine } else { of(&[1.0]) };
    chosen
        .into_iter()
        // A product with a power of ten may be off by a bit; its three digits are not.
        .map(|value| {
            (
                value,
                format!("{value:.2e}").parse().unwrap_or(value).to_string(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let labels = |ends, most| ticks(ends, most).into_iter().map(|(_, label)| label);
        assert!(labels((0.09, 0.6), 9).eq(["0.1", "0.2", "0.5"]));
        assert!(labels((0.09, 1500.0), 9).eq(["0.1", "1", "10", "100", "1000"]));
    }
}
