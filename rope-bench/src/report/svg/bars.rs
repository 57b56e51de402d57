//! Bars under their names, as wide as the card: names and numbers stay legible on a phone.

use maud::{Markup, html};

use super::{WIDTH, card, round};

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Stands above it, to the left.
    pub name: String,
    /// Stands above it, to the right.
    pub value: String,
    /// Its look.
    pub class: String,
    /// Where the solid part ends.
    pub low: f64,
    /// Where the pale part ends.
    pub high: f64,
    /// Whether its name is printed bold.
    pub is_first: bool,
    /// What a pointer that rests on it is told.
    pub about: String,
}

/// What bars are measured on.
#[derive(Clone, Debug)]
pub struct Ruler {
    /// The number at the right edge. Longer bars are cut there, which shows.
    pub most: f64,
    /// The numbers below the ruler.
    pub ticks: Vec<f64>,
    /// What is counted.
    pub unit: &'static str,
    /// A line through all bars.
    pub line: Option<f64>,
}

/// What a bar takes, with its name.
const ROW: f64 = 31.0;

/// Where the first one begins.
const TOP: f64 = 34.0;

/// How high a card of such bars is.
pub fn height(bars: &[Bar]) -> f64 {
    TOP + ROW * bars.len() as f64
}

/// The card.
pub fn draw(title: &str, ruler: &Ruler, bars: &[Bar]) -> Markup {
    let bottom = height(bars);
    let dashes = format!("14 {}", ROW - 14.0);
    let x = |value: f64| round(1.0 + (WIDTH - 2.0) * (value / ruler.most).clamp(0.0, 1.0));
    card(
        title,
        bottom,
        &html! {
            text.soft x="0" y="11" { (ruler.unit) }
            // The lines of the ruler are dashed so that they cross the bars and leave the names alone.
            @for &tick in &ruler.ticks {
                line.grid x1=(x(tick)) x2=(x(tick)) y1=(TOP + 15.0) y2=(bottom) stroke-dasharray=(dashes) {}
                text.soft.(anchor(tick, ruler.most)) x=(x(tick)) y=(TOP - 6.0) { (tick) }
            }
            @for (index, bar) in bars.iter().enumerate() {
                @let y = TOP + ROW * index as f64;
                @let (low, high) = (x(bar.low), x(bar.high));
                g class=(bar.class) {
                    title { (bar.about) }
                    text class=[bar.is_first.then_some("first")] x="0" y=(y + 13.0) { (bar.name) }
                    text.end x=(WIDTH) y=(y + 13.0) { (bar.value) }
                    rect.pale x=(low) y=(y + 18.0) width=(round(high - low)) height="8" {}
                    rect.bar x="1" y=(y + 18.0) width=(round(low - 1.0)) height="8" {}
                    @if bar.high > ruler.most {
                        // Torn off: it is longer than the ruler.
                        path.torn d={ "M" (WIDTH - 9.0) " " (y + 28.0) "l4 -12m4 0l-4 12" } {}
                    }
                }
            }
            @if let Some(line) = ruler.line {
                line.limit x1=(x(line)) x2=(x(line)) y1=(TOP + 15.0) y2=(bottom) stroke-dasharray=(dashes) {}
            }
        },
    )
}

/// Numbers at the edges stay on the card.
fn anchor(tick: f64, most: f64) -> &'static str {
    if tick == 0.0 {
        "start"
    } else if tick == most {
        "end"
    } else {
        "middle"
    }
}
