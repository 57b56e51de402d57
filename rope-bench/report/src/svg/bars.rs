//! Bars under their names, as wide as the card: names and numbers stay legible on a phone.

use maud::{Markup, html};

use super::{WIDTH, card, round};
use crate::cells::{digits, time};
use crate::range;
use crate::results::CaseResult;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The text above the bar, to the left.
    pub name: String,
    /// The text above the bar, to the right.
    pub value: String,
    pub class: String,
    /// The end of the solid part.
    pub low: f64,
    /// The end of the pale part.
    pub high: f64,
    pub is_first: bool,
    /// The tooltip.
    pub about: String,
}

/// Returns the bar of the roof itself.
pub fn roof(case: &CaseResult) -> Bar {
    Bar {
        name: "the roof".into(),
        value: time(case.roof()),
        class: "roof".into(),
        low: 1.0,
        high: range::roof(case).high / case.roof(),
        is_first: false,
        about: format!(
            "The machine's limit: {}, {} elements/ns",
            time(case.roof()),
            digits(case.elements as f64 / case.roof())
        ),
    }
}

/// The height of a bar with its name.
const ROW: f64 = 31.0;

/// The top of the first bar.
const TOP: f64 = 34.0;

/// Returns the height of a card with these bars.
pub fn height(bars: &[Bar]) -> f64 {
    TOP + ROW * bars.len() as f64
}

/// Returns the distance of the 5 ticks of the ruler: it ends at 5 roofs, or at the reach of half of the bars.
fn tick(bars: &[Bar]) -> f64 {
    let mut ends: Vec<f64> = bars.iter().map(|bar| bar.low).collect();
    ends.sort_by(f64::total_cmp);
    let half = ends.get(ends.len() / 2).copied().unwrap_or(0.0);
    let mut ticks = [1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 100.0].into_iter();
    ticks.find(|tick| half <= 5.0 * tick).unwrap_or(200.0)
}

/// Draws the card: the multiples of the roof.
pub fn draw(title: &str, bars: &[Bar]) -> Markup {
    card(title, height(bars), &content(bars))
}

/// Returns the content of the card.
pub fn content(bars: &[Bar]) -> Markup {
    let (bottom, tick) = (height(bars), tick(bars));
    let most = 5.0 * tick;
    let dashes = format!("14 {}", ROW - 14.0);
    let x = |value: f64| round(1.0 + (WIDTH - 2.0) * (value / most).clamp(0.0, 1.0));
    html! {
        text.soft x="0" y="11" { "time / roof: shorter is faster, 1 is the machine's limit" }
        // The lines of the ruler are dashed: they cross the bars and skip the names.
        @for (at, anchor) in ["start", "middle", "middle", "middle", "middle", "end"].iter().enumerate() {
            @let value = tick * at as f64;
            line.grid x1=(x(value)) x2=(x(value)) y1=(TOP + 15.0) y2=(bottom) stroke-dasharray=(dashes) {}
            // Numbers at the edges stay on the card.
            text.soft.(anchor) x=(x(value)) y=(TOP - 6.0) { (value) }
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
                @if bar.high > most {
                    // Torn off: it is longer than the ruler.
                    path.torn d={ "M" (WIDTH - 9.0) " " (y + 28.0) "l4 -12m4 0l-4 12" } {}
                }
            }
        }
        line.limit x1=(x(1.0)) x2=(x(1.0)) y1=(TOP + 15.0) y2=(bottom) stroke-dasharray=(dashes) {}
    }
}
