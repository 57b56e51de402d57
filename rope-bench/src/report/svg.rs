//! Plots, drawn as SVG: light or dark as the reader's system is, legible without colours, and with the numbers in them.

use std::fmt::Write;

use crate::report::table::{self, count, digits, time};
use crate::results::{Accuracy, CaseResult, RowsResult, Run};
use crate::rows::LIBM;

/// What the plots and the page share.
pub const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fdfdfc;--ink:#1c2024;--soft:#5f6771;--line:#d9dce0;--own:#0a6e5c;--others:#8a93a0;
--c0:#0a6e5c;--c1:#b4500f;--c2:#3a5fc8;--c3:#a02c6d;--c4:#77700a}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e8eaec;--soft:#a0a8b2;--line:#363c43;--own:#3fc7a8;
--others:#727c89;--c0:#3fc7a8;--c1:#f0935a;--c2:#8aa6ff;--c3:#ee85bd;--c4:#cfc45a}}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .soft{fill:var(--soft)}
svg .line{stroke:var(--line);fill:none}
svg .own{fill:var(--own)}
svg .others{fill:var(--others)}
svg .spread{stroke:var(--ink);stroke-width:1.5}
svg .end{text-anchor:end}
svg .middle{text-anchor:middle}
";

/// Workloads that one roofline plot can tell apart.
pub const COLOURS: usize = 5;

/// A plot as a file: with its style, and a background.
pub fn standalone(plot: &str) -> String {
    let style = format!("<style>{STYLE}svg{{background:var(--paper)}}</style>");
    match plot.find('>') {
        Some(end) => format!("{}{style}{}", &plot[..=end], &plot[end + 1..]),
        None => String::new(),
    }
}

/// All plots of a run: name and drawing.
pub fn plots(run: &Run) -> Vec<(String, String)> {
    let file_name = |text: &str| {
        text.replace([' ', ',', '/', '[', ']'], "-")
            .replace("--", "-")
    };
    let mut plots: Vec<_> = run
        .cases
        .iter()
        .map(|case| {
            (
                file_name(&format!("{}-{}", case.workload, case.group)),
                bars(case),
            )
        })
        .collect();
    for group in groups(&run.cases) {
        for (index, part) in group.chunks(COLOURS).enumerate() {
            let number = if index > 0 {
                format!("-{}", index + 1)
            } else {
                String::new()
            };
            plots.push((
                file_name(&format!("roofline-{}{number}", part[0].group)),
                roofline(part),
            ));
        }
    }
    for accuracy in &run.accuracy {
        plots.push((
            file_name(&format!("accuracy-{}", accuracy.model)),
            errors(accuracy),
        ));
    }
    if let Some(rows) = &run.rows {
        for tokens in table::makers(rows).0 {
            plots.push((format!("rows-{tokens}"), makers(rows, tokens)));
        }
    }
    plots
}

/// Cases of one group behind one another.
pub fn groups(cases: &[CaseResult]) -> impl Iterator<Item = &[CaseResult]> {
    cases.chunk_by(|a, b| a.group == b.group)
}

/// How much of the roof each formulation reaches in a case.
pub fn bars(case: &CaseResult) -> String {
    const WIDTH: f64 = 480.0;
    const LABELS: f64 = 188.0;
    const SCALE: f64 = 158.0;
    const ROW: f64 = 20.0;
    let height = ROW * (case.measurements.len() as f64 + 1.0) + 6.0;
    let title = format!(
        "{} {}, {}: part of the roof that each formulation reaches",
        case.workload, case.shape, case.group
    );
    let mut svg = open(WIDTH, height, &title);
    let roof = case.roof();
    let full = LABELS + SCALE;
    let _ = write!(
        svg,
        r#"<line class="line" x1="{full}" y1="0" x2="{full}" y2="{height}"/><text class="soft" x="0" y="14">roof</text><text class="soft" x="{}" y="14">{}/ns, {}</text>"#,
        full + 6.0,
        digits(case.elements as f64 / roof),
        time(roof)
    );
    for (index, measurement) in case.measurements.iter().enumerate() {
        let y = ROW * (index as f64 + 1.0) + 3.0;
        let part = |time: f64| (SCALE * roof / time).clamp(0.5, SCALE * 1.05);
        let (best, middle) = (
            part(measurement.time.minimum),
            part(measurement.time.median),
        );
        let class = if is_own(&measurement.formulation) {
            "own"
        } else {
            "others"
        };
        let _ = write!(
            svg,
            r#"<g><title>{name}: {time}, {times_roof} times the roof, median {median}, spread {spread:.1} %, error {error:.0e}</title><text x="0" y="{text}">{name}</text><rect class="{class}" x="{LABELS}" y="{y}" width="{best:.1}" height="14" rx="2"/><line class="spread" x1="{x:.1}" x2="{x:.1}" y1="{top}" y2="{bottom}"/><text x="{value}" y="{text}">{speed}/ns <tspan class="soft">{time}</tspan></text></g>"#,
            name = escape(&measurement.formulation),
            time = time(measurement.time.minimum),
            median = time(measurement.time.median),
            spread = 100.0 * measurement.time.spread,
            times_roof = digits(measurement.times_roof),
            error = measurement.error,
            text = y + 11.0,
            x = LABELS + middle,
            top = y + 3.0,
            bottom = y + 11.0,
            value = full + 6.0,
            speed = digits(measurement.elements_per_ns),
        );
    }
    svg + "</svg>"
}

/// Operations in a nanosecond against operations for each byte moved, below the bandwidth that each workload allows.
pub fn roofline(cases: &[CaseResult]) -> String {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 448.0;
    const LEFT: f64 = 52.0;
    const RIGHT: f64 = 706.0;
    const TOP: f64 = 14.0;
    const BOTTOM: f64 = 384.0;
    let Some(first) = cases.first() else {
        return String::new();
    };
    let title = format!(
        "Roofline, {}: flops per byte moved against Gflop/s",
        first.group
    );
    let mut svg = open(WIDTH, HEIGHT, &title);
    let points = || cases.iter().flat_map(|case| &case.measurements);
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| {
            (low.min(v), high.max(v))
        });
        (low.log10() - 0.25, high.log10() + 0.25)
    };
    let bandwidth = |case: &CaseResult| 2.0 * case.bytes as f64 / case.roof();
    let (x0, x1) = range(&mut points().map(|m| m.flops / m.bytes));
    let (y0, y1) = range(&mut points().map(|m| m.flops / m.time.minimum));
    let y1 = y1.max(
        cases.iter().map(bandwidth).fold(0.0, f64::max).log10()
            + points()
                .map(|m| m.flops / m.bytes)
                .fold(f64::INFINITY, f64::min)
                .log10()
            + 0.7,
    );
    let x = |value: f64| LEFT + (value.log10() - x0) / (x1 - x0) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - (value.log10() - y0) / (y1 - y0) * (BOTTOM - TOP);
    for (low, high, is_x) in [(x0, x1, true), (y0, y1, false)] {
        for power in low.floor() as i32..=high.ceil() as i32 {
            for step in [1.0, 2.0, 5.0] {
                let value = step * 10.0_f64.powi(power);
                if !(low..=high).contains(&value.log10()) {
                    continue;
                }
                let _ = if is_x {
                    let x = x(value);
                    write!(
                        svg,
                        r#"<line class="line" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{BOTTOM}"/><text class="soft middle" x="{x:.1}" y="{}">{value}</text>"#,
                        BOTTOM + 16.0
                    )
                } else {
                    let y = y(value);
                    write!(
                        svg,
                        r#"<line class="line" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/><text class="soft end" x="{}" y="{:.1}">{value}</text>"#,
                        LEFT - 6.0,
                        y + 4.0
                    )
                };
            }
        }
    }
    let _ = write!(
        svg,
        r#"<text class="soft end" x="{RIGHT}" y="{}">flops per byte moved</text><text class="soft" x="{LEFT}" y="{}">Gflop/s</text>"#,
        BOTTOM + 34.0,
        TOP + 2.0
    );
    for (index, case) in cases.iter().enumerate() {
        let colour = index % COLOURS;
        let limit = bandwidth(case);
        let (from, to) = (
            10.0_f64.powf(x0).max(10.0_f64.powf(y0) / limit),
            10.0_f64.powf(x1).min(10.0_f64.powf(y1) / limit),
        );
        if from < to {
            let _ = write!(
                svg,
                r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" style="stroke:var(--c{colour});stroke-width:1.5"><title>{}: {} GB/s</title></line>"#,
                x(from),
                y(from * limit),
                x(to),
                y(to * limit),
                escape(&case.workload),
                digits(limit)
            );
        }
        for m in &case.measurements {
            let (cx, cy) = (x(m.flops / m.bytes), y(m.flops / m.time.minimum));
            // A disc for rope-core, a ring for the others.
            let fill = if is_own(&m.formulation) {
                format!("var(--c{colour})")
            } else {
                "var(--paper)".into()
            };
            let _ = write!(
                svg,
                r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="4" style="fill:{fill};stroke:var(--c{colour});stroke-width:1.5"><title>{} in {}: {} Gflop/s, {} flops per byte</title></circle>"#,
                escape(&m.formulation),
                escape(&case.workload),
                digits(m.flops / m.time.minimum),
                digits(m.flops / m.bytes)
            );
        }
        let legend = LEFT + 118.0 * index as f64;
        let _ = write!(
            svg,
            r#"<circle cx="{}" cy="{}" r="5" style="fill:var(--c{colour})"/><text x="{}" y="{}">{}: {} GB/s</text>"#,
            legend + 5.0,
            HEIGHT - 8.0,
            legend + 14.0,
            HEIGHT - 4.0,
            escape(&case.workload),
            digits(limit)
        );
    }
    label_columns(&mut svg, first, x, y);
    svg + "</svg>"
}

/// The largest error of each method against the position, both logarithmic.
pub fn errors(accuracy: &Accuracy) -> String {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 446.0;
    const LEFT: f64 = 52.0;
    const RIGHT: f64 = 706.0;
    const TOP: f64 = 26.0;
    const BOTTOM: f64 = 344.0;
    /// Decades.
    const LOWEST: f64 = -8.3;
    const HIGHEST: f64 = 0.6;
    const DASHES: [&str; COLOURS] = ["", "1 4", "9 3", "14 4 2 4", "4 4"];
    /// The level that the legend quotes: a context that is advertised today.
    const QUOTED: u32 = 1 << 17;
    let title = format!(
        "Largest error of cos and sin against position, {}",
        accuracy.model
    );
    let mut svg = open(WIDTH, HEIGHT, &title);
    let x = |position: u32| LEFT + f64::from(position).log2() / 31.0 * (RIGHT - LEFT);
    let y = |error: f64| {
        let part = (error.log10().clamp(LOWEST, HIGHEST) - LOWEST) / (HIGHEST - LOWEST);
        BOTTOM - part * (BOTTOM - TOP)
    };
    for (power, label) in [
        (0, "1"),
        (5, "32"),
        (10, "1 k"),
        (15, "32 k"),
        (20, "1 M"),
        (25, "32 M"),
        (31, "2 G"),
    ] {
        let (x, class) = (x(1 << power), if power == 31 { "end" } else { "middle" });
        let _ = write!(
            svg,
            r#"<line class="line" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{BOTTOM}"/><text class="soft {class}" x="{x:.1}" y="{}">{label}</text>"#,
            BOTTOM + 16.0
        );
    }
    for decade in -8..=0 {
        let y = y(10.0_f64.powi(decade));
        let label = if decade == 0 {
            "1".to_owned()
        } else {
            format!("1e{decade}")
        };
        let _ = write!(
            svg,
            r#"<line class="line" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/><text class="soft end" x="{}" y="{:.1}">{label}</text>"#,
            LEFT - 6.0,
            y + 4.0
        );
    }
    let _ = write!(
        svg,
        r#"<text class="soft" x="0" y="14">largest error of cos or sin</text><text class="soft end" x="{RIGHT}" y="{}">position</text>"#,
        BOTTOM + 34.0
    );
    // The first method is ours, and drawn over the others.
    for (index, method) in accuracy.methods.iter().enumerate().rev() {
        let (colour, dashes) = (index % COLOURS, DASHES[index % COLOURS]);
        let style = format!(
            "fill:none;stroke:var(--c{colour});stroke-width:2.5;stroke-dasharray:{}",
            if dashes.is_empty() { "none" } else { dashes }
        );
        let points: Vec<_> = accuracy
            .levels
            .iter()
            .zip(&method.errors)
            .map(|(&level, &error)| format!("{:.1},{:.1}", x(level), y(error)))
            .collect();
        let (name, about) = (escape(&method.name), escape(&method.about));
        let _ = write!(
            svg,
            r#"<polyline points="{}" style="{style}"><title>{name}: {about}</title></polyline>"#,
            points.join(" ")
        );
        let (left, line) = (
            LEFT + 340.0 * (index % 2) as f64,
            BOTTOM + 58.0 + 19.0 * (index / 2) as f64,
        );
        let quoted = accuracy.levels.iter().position(|&level| level == QUOTED);
        let quoted = quoted
            .and_then(|level| method.errors.get(level))
            .map_or_else(String::new, |error| format!("{error:.1e} up to {QUOTED}"));
        let _ = write!(
            svg,
            r#"<line x1="{left}" x2="{}" y1="{}" y2="{}" style="{style}"/><text x="{}" y="{line}">{name} <tspan class="soft">{quoted}</tspan></text>"#,
            left + 36.0,
            line - 4.0,
            line - 4.0,
            left + 44.0
        );
    }
    svg + "</svg>"
}

/// What each maker of rows takes for one cos and one sin.
pub fn makers(rows: &RowsResult, tokens: usize) -> String {
    const WIDTH: f64 = 460.0;
    const LABELS: f64 = 96.0;
    const SCALE: f64 = 230.0;
    const ROW: f64 = 20.0;
    let made: Vec<_> = rows
        .made
        .iter()
        .filter(|made| made.tokens == tokens)
        .collect();
    let slowest = made
        .iter()
        .map(|made| made.ns_per_pair)
        .fold(f64::MIN_POSITIVE, f64::max);
    let title = format!(
        "{} of {} pairs: nanoseconds for one cos and one sin",
        count(tokens, "row"),
        rows.pairs
    );
    let mut svg = open(WIDTH, ROW * made.len() as f64 + 4.0, &title);
    for (index, made) in made.iter().enumerate() {
        let y = ROW * index as f64 + 3.0;
        let class = if made.maker == LIBM { "others" } else { "own" };
        let width = SCALE * made.ns_per_pair / slowest;
        let _ = write!(
            svg,
            r#"<text x="0" y="{text}">{}</text><rect class="{class}" x="{LABELS}" y="{y}" width="{width:.1}" height="14" rx="2"/><text x="{:.1}" y="{text}">{} ns <tspan class="soft">{}</tspan></text>"#,
            escape(&made.maker),
            LABELS + width + 6.0,
            digits(made.ns_per_pair),
            time(made.time.minimum),
            text = y + 11.0,
        );
    }
    svg + "</svg>"
}

/// Below each column of points, the formulations that it is made of.
fn label_columns(
    svg: &mut String,
    case: &CaseResult,
    x: impl Fn(f64) -> f64,
    y: impl Fn(f64) -> f64,
) {
    let family = |name: &str| match name.split_once('/') {
        Some(("matrix", _)) | None => name.to_owned(),
        Some((family, _)) => family.to_owned(),
    };
    let mut columns: Vec<(f64, f64, Vec<String>)> = Vec::new();
    for m in &case.measurements {
        let (at, low, name) = (
            x(m.flops / m.bytes),
            y(m.flops / m.time.minimum),
            family(&m.formulation),
        );
        match columns
            .iter_mut()
            .find(|column| (column.0 - at).abs() < 1.0)
        {
            Some(column) => {
                column.1 = column.1.max(low);
                if !column.2.contains(&name) {
                    column.2.push(name);
                }
            }
            None => columns.push((at, low, vec![name])),
        }
    }
    let leftmost = columns
        .iter()
        .map(|column| column.0)
        .fold(f64::INFINITY, f64::min);
    for (at, low, names) in &columns {
        let (y, names) = (low + 22.0, escape(&names.join(", ")));
        // Away from each other.
        let (x, class) = if *at == leftmost && columns.len() > 1 {
            (at + 12.0, "soft end")
        } else {
            (at - 8.0, "soft")
        };
        let _ = write!(
            svg,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{names}</text>"#
        );
    }
}

/// Whether a formulation is rope-core's.
pub fn is_own(formulation: &str) -> bool {
    formulation.starts_with(crate::formulations::fused::PREFIX)
}

/// For text and attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn open(width: f64, height: f64, title: &str) -> String {
    let title = escape(title);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title>"#
    )
}
