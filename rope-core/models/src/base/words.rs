//! Lists of words, each stored as one text. In a position-independent program an array takes 40 bytes per word besides
//! the letters: a pointer, a length, and a relocation.

/// Returns true if a list, which may have commas, contains the word.
#[inline(never)]
pub(crate) fn has(list: &str, word: &str) -> bool {
    let mut words = list.as_bytes().split(|byte| b" ,".contains(byte));
    !word.is_empty() && words.any(|own| own == word.as_bytes())
}

/// Returns the word of a list at an index, which must exist.
#[inline(never)]
pub(crate) fn nth(list: &'static str, number: usize) -> &'static str {
    let word = list.split_ascii_whitespace().nth(number);
    debug_assert!(word.is_some(), "{list} has no word {number}");
    word.unwrap_or_default()
}

/// Returns the other word of the line that begins with this one.
#[inline(never)]
pub(crate) fn after(list: &'static str, word: &str) -> Option<&'static str> {
    let mut pairs = list.lines().filter_map(|line| line.split_once(' '));
    pairs.find_map(|(own, other)| (own == word).then_some(other))
}

/// Returns true if a name contains one of the words.
#[inline(never)]
pub(crate) fn any_within(list: &str, name: &str) -> bool {
    // `str::contains` links a linear-time search of 2 KB.
    list.split_ascii_whitespace().any(|word| {
        let mut parts = name.as_bytes().windows(word.len());
        parts.any(|part| part == word.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_whole_words() {
        let list = "rope rotary theta";
        assert!(has(list, "rope") && has(list, "rotary") && has(list, "theta"));
        for word in ["", "rop", "ropes", "rope rotary", " ", "heta"] {
            assert!(!has(list, word), "{word:?}");
            assert!(!has("", word), "{word:?}");
        }
        assert!(has("one, two", "one") && has("one, two", "two") && !has("one, two", "one,"));
        assert_eq!(
            [0, 1, 2].map(|number| nth(list, number)),
            ["rope", "rotary", "theta"]
        );
    }

    #[test]
    fn words_are_found_by_the_one_before() {
        let list = "rope theta\nrotary base\n";
        assert_eq!(after(list, "rope"), Some("theta"));
        assert_eq!(after(list, "rotary"), Some("base"));
        for word in ["", "theta", "rop", "rope theta"] {
            assert_eq!(after(list, word), None, "{word:?}");
        }
    }

    #[test]
    fn words_are_found_within_names() {
        let list = "rope theta";
        for name in ["rope", "use_rope", "rope_x", "a_theta_b", "ropropeo"] {
            assert!(any_within(list, name), "{name}");
        }
        for name in ["", "rop", "rotary", "thet", "r_o_p_e"] {
            assert!(!any_within(list, name), "{name}");
        }
    }
}
