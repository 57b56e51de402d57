//! Plots as SVG: light or dark by the reader's system, legible without colors, and with the numbers in them.
//!
//! Every plot is a card with the width of a phone. Larger screens put cards side by side instead of stretching them, so
//! type has the same size everywhere.

pub mod bars;
pub mod errors;

use maud::{Markup, html};

/// The common style of the plots and the page.
pub const STYLE: &str = include_str!("svg/style.css");

/// Units of a card's width: about the pixels of a phone.
pub const WIDTH: f64 = 350.0;

/// The most distinguishable lines in one plot.
pub const COLORS: usize = 5;

/// Returns a plot: its frame and its title.
fn card(title: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height.ceil()) } role="img"
            aria-label=(title) {
            title { (title) }
            (content)
        }
    }
}

/// Rounds to tenths of a unit.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
