//! The forms of a run: a table to read, a page to show, data to keep.

pub mod answer;
pub mod calls;
pub mod cells;
pub mod compare;
pub mod counts;
pub mod engines;
pub mod files;
pub mod html;
pub mod kind;
pub mod markdown;
pub mod playground;
pub mod range;
pub mod results;
pub mod svg;
pub mod table;
pub mod titles;
