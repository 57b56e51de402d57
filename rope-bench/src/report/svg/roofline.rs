//! Operations in a nanosecond against operations for each byte moved, below the bandwidth of the roof.

use maud::{Markup, html};

use super::plane::{Axis, Plane, ticks};
use super::{WIDTH, card, round};
use crate::report::kind::Kind;
use crate::report::range::Range;
use crate::report::table::digits;
use crate::results::CaseResult;

/// The roofline of a case. Every mark has its name beside the plane, and a line leads to it.
pub fn roofline(case: &CaseResult) -> Markup {
    /// From one name to the next.
    const GAP: f64 = 15.0;
    const TOP: f64 = 34.0;
    let bandwidth = 2.0 * case.bytes as f64 / case.roof();
    let mut marks: Vec<_> = case.measurements.iter().collect();
    marks.sort_by(|a, b| (b.flops / b.time.minimum).total_cmp(&(a.flops / a.time.minimum)));
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let x = ends(&mut marks.iter().map(|m| m.flops / m.bytes));
    let x = (x.0 / 1.6, x.1 * 1.6);
    let y = ends(&mut marks.iter().map(|m| m.flops / m.time.minimum));
    let y = (y.0 / 1.6, (x.1 * bandwidth).min(y.1 * 6.0).max(y.1 * 1.6));
    let plane = Plane {
        x: Axis::Logarithmic(x.0, x.1),
        y: Axis::Logarithmic(y.0, y.1),
        left: 38.0,
        right: 140.0,
        top: TOP,
        bottom: TOP + (GAP * marks.len() as f64).max(180.0),
    };
    // The roof from edge to edge of the plane.
    let (from, to) = (x.0.max(y.0 / bandwidth), x.1.min(y.1 / bandwidth));
    let names = apart(
        &marks
            .iter()
            .map(|m| plane.y(m.flops / m.time.minimum))
            .collect::<Vec<_>>(),
        GAP,
        plane.bottom,
    );
    let title = format!(
        "Roofline, {} {}: flops per byte moved against Gflop/s",
        case.workload, case.group
    );
    card(
        &title,
        plane.bottom + 38.0,
        &html! {
            (plane.grid(&ticks(x, 3), &ticks(y, 8), ["flops per byte moved", "Gflop/s"]))
            line.limit x1=(plane.x(from)) y1=(plane.y(from * bandwidth)) x2=(plane.x(to))
                y2=(plane.y(to * bandwidth)) {}
            text x=(plane.left + 44.0) y="11" { "roof: " (digits(bandwidth)) " GB/s" }
            @for (m, name) in marks.iter().zip(names) {
                @let range = Range::of(&m.time, m.flops);
                @let (cx, cy) = (plane.x(m.flops / m.bytes), plane.y(1.0 / range.low));
                g class=(Kind::of(&m.formulation).class()) {
                    title {
                        (m.formulation) ": " (digits(m.flops / m.time.minimum)) " Gflop/s, " (digits(m.flops / m.bytes))
                        " flops per byte"
                    }
                    line.whisker x1=(cx) x2=(cx) y1=(cy) y2=(plane.y(1.0 / range.high)) {}
                    @let beside = name - 4.0;
                    polyline.leader points={
                        (cx) "," (cy) " " (plane.right + 4.0) "," (beside) " " (plane.right + 11.0) "," (beside)
                    } {}
                    circle.mark cx=(cx) cy=(cy) r="4" {}
                    text x=(plane.right + 14.0) y=(name) { (m.formulation) }
                }
            }
            text.soft.end x=(WIDTH) y=(plane.bottom + 33.0) { "fastest first" }
        },
    )
}

/// Base lines for names that want to lie at these heights, in order, at least a gap from each other and above `bottom`.
fn apart(wanted: &[f64], gap: f64, bottom: f64) -> Vec<f64> {
    let mut last = f64::NEG_INFINITY;
    let mut lines: Vec<f64> = Vec::new();
    for at in wanted {
        last = (at + 4.0).max(last + gap);
        lines.push(last);
    }
    let mut next = bottom + gap;
    for line in lines.iter_mut().rev() {
        *line = round(line.min(next - gap));
        next = *line;
    }
    lines
}
