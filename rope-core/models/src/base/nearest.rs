//! The known name nearest to an unknown one, which is mostly the intended one.

/// The most compared bytes of a name. No known name is as long.
const MOST: usize = 64;

/// Returns the nearest of some names by edit distance, unless more than a third of its bytes differ.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> &'n str {
    let (mut found, mut least) = ("", usize::MAX);
    for known in known {
        // Each additional byte of a name is a difference.
        let longer = name.len().min(MOST).abs_diff(known.len());
        if longer >= least || 3 * longer > known.len() {
            continue;
        }
        let distance = distance(name.as_bytes(), known.as_bytes());
        if distance < least && 3 * distance <= known.len() {
            (found, least) = (known, distance);
        }
    }
    found
}

/// Returns the Levenshtein distance.
#[inline(never)]
pub(crate) fn distance(one: &[u8], other: &[u8]) -> usize {
    let (one, other) = (&one[..one.len().min(MOST)], &other[..other.len().min(MOST)]);
    let mut row = [0_usize; MOST + 1];
    for (index, cell) in row.iter_mut().enumerate() {
        *cell = index;
    }
    for (index, byte) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (place, other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// Sorts names by their distance from a missing one, then alphabetically.
#[cold]
#[inline(never)]
pub(crate) fn sort_nearest(names: &mut [&str], missing: &str) {
    // There are few names, and the standard library's sort adds 5 KB to every program that reads a file.
    let key = |name: &str| distance(name.as_bytes(), missing.as_bytes());
    for end in 1..names.len() {
        let (least, mut place) = (key(names[end]), end);
        while place > 0 && (least, names[place]) < (key(names[place - 1]), names[place - 1]) {
            names.swap(place - 1, place);
            place -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("sitting", "kitten", 3),
            ("flaw", "lawn", 2),
            ("qwen9", "qwen2", 1),
        ] {
            let found = distance(one.as_bytes(), other.as_bytes());
            assert_eq!(found, expected, "{one} {other}");
        }
        let long = [b'a'; 200];
        assert_eq!(distance(&long, b"a"), MOST - 1);
        assert_eq!(distance(&long, &long), 0);
    }

    #[test]
    fn the_nearest_is_named_if_it_is_near() {
        let known = ["llama", "llama4", "qwen2", "gemma3_text"];
        let nearest = |name| nearest(name, known.into_iter());
        assert_eq!(nearest("lama"), "llama");
        assert_eq!(nearest("llama5"), "llama");
        assert_eq!(nearest("qwen9"), "qwen2");
        assert_eq!(nearest("gemma4_txt"), "gemma3_text");
        assert_eq!(nearest("mamba-x"), "");
        assert_eq!(nearest(""), "");
    }
}
