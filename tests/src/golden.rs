//! Reference data: files of `key value value ..` lines with numbers as hexadecimal bits. `golden/README.md` says what
//! is in them.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use half::{bf16, f16};
use rope_core::Pairing;

/// A file.
#[derive(Debug)]
pub struct Golden {
    /// Its name, without the extension.
    pub name: String,
    lines: HashMap<String, String>,
}

/// A type that the files hold.
pub trait Bits: Sized {
    /// From hexadecimal digits.
    fn parse(digits: &str) -> Option<Self>;
}

macro_rules! bits {
    ($($type:ty: $int:ty, $from:expr;)*) => {$(
        impl Bits for $type {
            fn parse(digits: &str) -> Option<Self> {
                let whole = digits.len() == 2 * size_of::<$int>();
                <$int>::from_str_radix(digits, 16).ok().filter(|_| whole).map($from)
            }
        }
    )*};
}
bits! {
    f32: u32, f32::from_bits;
    f64: u64, f64::from_bits;
    f16: u16, f16::from_bits;
    bf16: u16, bf16::from_bits;
    u128: u128, |x| x;
}

impl Golden {
    /// All files of a folder of `golden/`, by name.
    ///
    /// # Panics
    ///
    /// If it cannot be read, or a line is not what it should be.
    pub fn all(folder: &str) -> Vec<Golden> {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "golden", folder]
            .iter()
            .collect();
        let entries =
            fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut files: Vec<Golden> = entries
            .map(|entry| entry.expect("a directory that can be read").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
            .map(|path| {
                let text = fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let name = path.file_stem().unwrap_or_default();
                Golden::parse(&name.to_string_lossy(), &text)
            })
            .collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!files.is_empty(), "{} is empty", path.display());
        files
    }

    /// Reads the text of a file.
    ///
    /// # Panics
    ///
    /// If a key comes twice.
    pub fn parse(name: &str, text: &str) -> Golden {
        let mut lines = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            let before = lines.insert(key.to_owned(), rest.to_owned());
            assert!(before.is_none(), "{name}: {key} comes twice");
        }
        Golden {
            name: name.to_owned(),
            lines,
        }
    }

    /// What follows a key, if the file has it.
    pub fn find(&self, key: &str) -> Option<&str> {
        self.lines.get(key).map(String::as_str)
    }

    /// What follows a key.
    ///
    /// # Panics
    ///
    /// If the file has no such key.
    pub fn text(&self, key: &str) -> &str {
        self.find(key)
            .unwrap_or_else(|| panic!("{}: no {key}", self.name))
    }

    /// The numbers after a key, which are hexadecimal bits.
    ///
    /// # Panics
    ///
    /// If there is something else.
    pub fn bits<T: Bits>(&self, key: &str) -> Vec<T> {
        self.each(key, T::parse)
    }

    /// The numbers after a key, which are decimal.
    ///
    /// # Panics
    ///
    /// If there is something else.
    pub fn decimals<T: FromStr>(&self, key: &str) -> Vec<T> {
        self.each(key, |word| word.parse().ok())
    }

    /// The one decimal number after a key.
    ///
    /// # Panics
    ///
    /// If there is something else.
    pub fn decimal(&self, key: &str) -> usize {
        match self.decimals(key)[..] {
            [number] => number,
            ref numbers => panic!("{}: {} numbers after {key}", self.name, numbers.len()),
        }
    }

    fn each<T>(&self, key: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        self.text(key)
            .split_ascii_whitespace()
            .map(|word| {
                parse(word).unwrap_or_else(|| panic!("{}: {word:?} after {key}", self.name))
            })
            .collect()
    }

    /// The pairing of input and output.
    ///
    /// # Panics
    ///
    /// If the layout is unknown.
    pub fn pairings(&self) -> (Pairing, Pairing) {
        match self.text("layout") {
            "interleaved" => (Pairing::Interleaved, Pairing::Interleaved),
            "interleaved_in_half_out" => (Pairing::Interleaved, Pairing::Half),
            "half" | "half_mrope" | "half_imrope" | "half_axial2d" => {
                (Pairing::Half, Pairing::Half)
            }
            other => panic!("{}: layout {other}", self.name),
        }
    }

    /// cos and sin of the exact angles, as `[token][pair]`, times the attention factor, in f64.
    pub fn exact_angles(&self) -> Vec<(f64, f64)> {
        let steps: Vec<u128> = self.bits("turn_step_u128");
        let axes: Vec<usize> = self.decimals("pair_axis");
        let factor = self.bits::<f64>("attention_factor_f64")[0];
        let positions: Vec<Vec<i64>> = (0..3)
            .map(|axis| format!("positions_axis{axis}"))
            .take_while(|key| self.find(key).is_some())
            .map(|key| self.decimals(&key))
            .collect();
        (0..self.decimal("tokens"))
            .flat_map(|token| {
                let positions = &positions;
                steps.iter().zip(&axes).map(move |(&step, &axis)| {
                    let (cos, sin) = crate::exact::cos_sin(positions[axis][token], step);
                    (factor * cos, factor * sin)
                })
            })
            .collect()
    }
}
