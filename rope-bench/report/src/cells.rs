//! Tables: their cells, aligned for a terminal by comfy-table, or as HTML.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use maud::{Markup, html};

/// Returns a row of a table: its name, and its cells.
pub fn row(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.into()).chain(cells).collect()
}

/// Returns the cells of a heading.
pub fn texts<'a>(cells: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    cells.into_iter().map(String::from).collect()
}

/// Returns a cell that may be empty.
pub(super) fn or_empty<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(String::new, text)
}

/// Returns `1 row`, `16 rows`.
pub fn count(number: usize, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

/// Formats nanoseconds in a suitable unit.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{} ns", digits(ns)),
        ns if ns < 1e6 => format!("{} us", digits(ns / 1e3)),
        ns => format!("{} ms", digits(ns / 1e6)),
    }
}

/// Formats three digits.
pub fn digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Aligns columns: the first to the left, the others to the right.
pub fn align(rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            column.set_padding((0, 0));
        } else {
            column.set_padding((3, 0));
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

/// Returns a table of the page: its heading, then its rows.
pub(super) fn rectangle(rows: &[Vec<String>]) -> Markup {
    html! {
        div.wide { table { @for (index, row) in rows.iter().enumerate() {
            tr { @for cell in row { @if index == 0 { th { (cell) } } @else { td { (cell) } } } }
        } } }
    }
}
