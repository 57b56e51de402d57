//! What a run looks like: a table to read, a page to show, data to keep.

pub mod files;
pub mod html;
pub mod playground;
pub mod svg;
pub mod table;
