//! Plots, drawn as SVG: light or dark as the reader's system is, legible without colors, and with the numbers in them.
//!
//! Every plot is a card of one width, which is what a phone has. Larger screens put cards side by side instead of
//! stretching them, so type has the same size everywhere.

pub mod bars;
pub mod errors;
pub mod makers;
pub mod plane;

use maud::{Markup, PreEscaped, html};

use self::bars::{Bar, Ruler};
use crate::report::kind::Kind;
use crate::report::range::{self, Range};
use crate::report::table::{digits, time};
use crate::results::CaseResult;

/// What the plots and the page share.
pub const STYLE: &str = include_str!("svg/style.css");

/// Units of a card's width: about the pixels of a phone.
pub const WIDTH: f64 = 350.0;

/// Lines that one plot can tell apart.
pub const COLOURS: usize = 5;

/// A plot: its frame, and what it is called.
fn card(title: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height.ceil()) } role="img"
            aria-label=(title) {
            title { (title) }
            (content)
        }
    }
}

/// Tenths of a unit are enough.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A plot as a file: with its style, and a background.
pub fn standalone(plot: &Markup) -> String {
    let style =
        html! { style { (PreEscaped(STYLE)) "svg{background:var(--paper)}" } }.into_string();
    match plot.0.find('>') {
        Some(end) => format!("{}{style}{}", &plot.0[..=end], &plot.0[end + 1..]),
        None => String::new(),
    }
}

/// Cases of one group one after another.
pub fn groups(cases: &[CaseResult]) -> impl Iterator<Item = &[CaseResult]> {
    cases.chunk_by(|a, b| a.group == b.group)
}

/// How many times the roof everything takes: up to 5, or as far as half of the bars reach.
pub fn roofs(bars: &[Bar]) -> Ruler {
    let mut ends: Vec<f64> = bars.iter().map(|bar| bar.low).collect();
    ends.sort_by(f64::total_cmp);
    let half = ends.get(ends.len() / 2).copied().unwrap_or(0.0);
    let step = [1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 100.0];
    let step = step
        .into_iter()
        .find(|step| half <= 5.0 * step)
        .unwrap_or(200.0);
    Ruler {
        most: 5.0 * step,
        ticks: (0..=5).map(|tick| f64::from(tick) * step).collect(),
        unit: "time / roof: shorter is faster, 1 is the machine's limit",
        line: Some(1.0),
    }
}

/// The bar of the roof itself.
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

/// How many times the roof each formulation takes in a case.
pub fn bars(case: &CaseResult) -> Markup {
    let mut bars = vec![roof(case)];
    for (m, is_first) in case.measurements.iter().zip(range::firsts(case)) {
        let range = Range::of(&m.time, case.roof());
        bars.push(Bar {
            name: m.formulation.clone(),
            value: format!("{} roofs, {}", digits(m.times_roof()), time(m.time.minimum)),
            class: Kind::of(&m.formulation).class(),
            low: range.low,
            high: range.high,
            is_first,
            about: format!(
                "{}: {} times the roof, {}, {} elements/ns; median {}, spread {:.1} %, error {:.0e}",
                m.formulation,
                digits(m.times_roof()),
                time(m.time.minimum),
                digits(case.elements_per_ns(m)),
                time(m.time.median),
                100.0 * m.time.spread,
                m.error
            ),
        });
    }
    let title = format!(
        "{} {}, {}: time over roof of each formulation",
        case.workload, case.shape, case.group
    );
    bars::draw(&title, &roofs(&bars), &bars)
}
