//! Nouns and verbs of numbers.

use core::fmt;

/// A number and its noun, given in the plural: `1 head`, `2 heads`.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub usize, pub &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Count(number, plural) = self;
        let (noun, rest) = plural.split_at(plural.find(' ').unwrap_or(plural.len()));
        match (number, noun) {
            (1, "axes") => write!(f, "1 axis{rest}"),
            (1, _) => write!(f, "1 {}{rest}", noun.strip_suffix('s').unwrap_or(noun)),
            _ => write!(f, "{number} {plural}"),
        }
    }
}

/// The verb of a number of things: `is` or `are`.
#[derive(Clone, Copy, Debug)]
pub struct Are(pub usize);

impl fmt::Display for Are {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 == 1 { "is" } else { "are" })
    }
}
