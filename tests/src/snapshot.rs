//! Texts that files keep: `UPDATE=1` writes a file, and any other run compares it.

/// Compares a text with the file at a path below the crate's folder, or writes the file.
#[macro_export]
macro_rules! snapshot {
    ($file:expr, $found:expr) => {
        $crate::snapshot::compare(
            concat!(env!("CARGO_MANIFEST_DIR"), "/", $file),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $file)),
            $found,
        )
    };
}

/// Compares a text with that of a file, or writes the file.
///
/// # Panics
///
/// If the texts differ, with the first line that does, or if the file cannot be written.
#[track_caller]
pub fn compare(path: &str, kept: &str, found: &str) {
    if kept == found {
        return;
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, found).expect("the file can be written");
        return;
    }
    let (mut was, mut is) = (kept.lines(), found.lines());
    for line in 1.. {
        let (was, is) = (was.next(), is.next());
        assert_eq!(is, was, "line {line} of {path}; UPDATE=1 writes the file");
        if is.is_none() {
            break;
        }
    }
    panic!("{path} has other ends of lines; UPDATE=1 writes the file");
}
