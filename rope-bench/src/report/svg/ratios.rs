//! Another run against the first: a strip for each formulation, a mark for each case that both have measured.

use maud::{Markup, html};

use super::plane::{Axis, Plane};
use super::{WIDTH, card, round};
use crate::report::kind::Kind;
use crate::report::table::digits;

/// What two runs say about a formulation.
#[derive(Clone, Debug)]
pub struct Strip {
    /// The formulation.
    pub name: String,
    /// For each case its name, the ratio, and whether the rounds of the two runs lie apart.
    pub ratios: Vec<(String, f64, bool)>,
}

impl Strip {
    fn median(&self) -> f64 {
        let mut ratios: Vec<_> = self.ratios.iter().map(|(_, ratio, _)| *ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// The card. Marks beyond a factor of four lie on its edge.
pub fn ratios(title: &str, unit: &str, strips: &[Strip]) -> Markup {
    const STRIP: f64 = 36.0;
    const TOP: f64 = 34.0;
    const TICKS: [f64; 9] = [0.25, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0];
    let widest = strips.iter().flat_map(|strip| &strip.ratios);
    let widest = widest
        .map(|(_, ratio, _)| ratio.ln().abs())
        .fold(0.0, f64::max)
        .exp();
    let widest = TICKS
        .into_iter()
        .find(|&tick| tick >= widest.max(1.25))
        .unwrap_or(4.0);
    let bottom = TOP + STRIP * strips.len() as f64;
    let plane = Plane {
        x: Axis::Logarithmic(1.0 / widest, widest),
        y: Axis::Logarithmic(1.0, 2.0),
        left: 7.0,
        right: WIDTH - 7.0,
        top: TOP,
        bottom,
    };
    let ticks = TICKS
        .into_iter()
        .filter(|tick| (1.0 / widest - 0.01..=widest).contains(tick));
    let ticks: Vec<f64> = ticks
        .filter(|tick| widest < 2.0 || ![0.67, 0.8, 1.25, 1.5].contains(tick))
        .collect();
    card(
        title,
        bottom,
        &html! {
            text.soft x="0" y="11" { (unit) }
            // Dashed so that they cross the marks and leave the names alone.
            @for tick in ticks {
                line.(if tick == 1.0 { "limit" } else { "grid" }) x1=(plane.x(tick)) x2=(plane.x(tick)) y1=(TOP + 16.0)
                    y2=(bottom) stroke-dasharray={ "16 " (STRIP - 16.0) } {}
                text.soft.(if tick == widest { "end" } else if tick < 1.0 / widest + 0.01 { "start" } else { "middle" })
                    x=(plane.x(tick)) y=(TOP - 6.0) { (tick) }
            }
            @for (index, strip) in strips.iter().enumerate() {
                @let y = TOP + STRIP * index as f64;
                @let apart = strip.ratios.iter().filter(|(_, _, apart)| *apart).count();
                g class=(Kind::of(&strip.name).class()) {
                    text.first[apart > 0] x="0" y=(y + 13.0) { (strip.name) }
                    text.end x=(WIDTH) y=(y + 13.0) {
                        "median " (digits(strip.median())) ", " (apart) " of " (strip.ratios.len())
                    }
                    @for (case, ratio, apart) in &strip.ratios {
                        @let look = if *apart { "apart" } else { "noise" };
                        circle.(look) cx=(plane.x(*ratio)) cy=(round(y + 24.0)) r="4.5" {
                            title { (strip.name) " in " (case) ": " (digits(*ratio)) }
                        }
                    }
                }
            }
        },
    )
}
