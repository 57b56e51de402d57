//! What each maker of rows takes.

use maud::Markup;

use super::bars::{Bar, Ruler, draw};
use crate::report::kind::Kind;
use crate::report::range::Range;
use crate::report::table::{count, digits, time};
use crate::results::RowsResult;
use crate::rows::LIBM;

/// What each maker of rows takes for one cos and one sin.
pub fn makers(rows: &RowsResult, tokens: usize) -> Markup {
    let bars: Vec<_> = rows
        .made
        .iter()
        .filter(|made| made.tokens == tokens)
        .map(|made| {
            let range = Range::of(&made.time, made.time.minimum / made.ns_per_pair);
            let kind = match made.maker.as_str() {
                LIBM => Kind::Library,
                backend => Kind::Own { backend },
            };
            Bar {
                name: made.maker.clone(),
                value: format!(
                    "{} ns, {}",
                    digits(made.ns_per_pair),
                    time(made.time.minimum)
                ),
                class: kind.class(),
                low: range.low,
                high: range.high,
                is_first: false,
                about: format!(
                    "{}: {} ns for one cos and one sin",
                    made.maker,
                    digits(made.ns_per_pair)
                ),
            }
        })
        .collect();
    let slowest = bars
        .iter()
        .map(|bar| bar.low)
        .fold(f64::MIN_POSITIVE, f64::max);
    // Room for the slower rounds, as long as they do not decide how the others look.
    let most = 1.25 * slowest;
    let step = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
    ];
    let step = step
        .into_iter()
        .find(|step| most / step <= 5.0)
        .unwrap_or(slowest);
    let ruler = Ruler {
        most,
        ticks: (0..=5)
            .map(|tick| f64::from(tick) * step)
            .take_while(|tick| *tick <= most)
            .collect(),
        unit: "ns for one cos and one sin; right: for all of them",
        line: None,
    };
    let title = format!(
        "{} of {} pairs: nanoseconds for one cos and one sin",
        count(tokens, "row"),
        rows.pairs
    );
    draw(&title, &ruler, &bars)
}
