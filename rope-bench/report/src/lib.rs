//! The forms of a run of `rope-bench`: [data](results) to keep, tables, figures, a page, and a comparison of two.
//!
//! It measures nothing and links no kernel. It runs once per run, so it is compiled to be small, beside the kernels.
#![allow(
    missing_docs,
    reason = "the library is the program's own; schema/run.json describes its output"
)]
#![forbid(unsafe_code)]

pub mod answer;
pub mod calls;
pub mod cells;
pub mod compare;
pub mod counts;
pub mod engines;
pub mod files;
pub mod html;
pub mod kind;
pub mod machine;
pub mod markdown;
pub mod names;
pub mod playground;
pub mod range;
pub mod results;
pub mod svg;
pub mod table;
pub mod time;
pub mod titles;
