//! Reference data: files of `key value value ..` lines with numbers as hexadecimal bits. `golden/README.md` describes
//! their contents.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use half::{bf16, f16};
use rope_core::Pairing;

/// A golden file.
#[derive(Debug)]
pub struct Golden {
    /// Name of the file without the extension.
    pub name: String,
    file: String,
    text: String,
}

/// A type of the files' values.
pub trait Bits: Sized {
    /// Parses hexadecimal digits.
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
    u8: u8, |x| x;
}

/// Returns the path of a golden file: in `ROPE_GOLDEN`, a changed copy (`tests/tools/blind.py`), or beside this crate.
fn path(file: &str) -> PathBuf {
    let folder = std::env::var_os("ROPE_GOLDEN").map(PathBuf::from);
    folder
        .unwrap_or_else(|| [env!("CARGO_MANIFEST_DIR"), "../golden"].iter().collect())
        .join(file)
}

/// Appends the key that a test reads to the file `ROPE_GOLDEN_READS`; `tests/tools/blind.py` runs only these tests.
fn record(file: &str, key: &str) {
    let Some(log) = std::env::var_os("ROPE_GOLDEN_READS") else {
        return;
    };
    let log = fs::OpenOptions::new().create(true).append(true).open(log);
    log.and_then(|mut log| log.write_all(format!("{file} {key}\n").as_bytes()))
        .expect("a file that can be appended to");
}

/// Returns the text of a file, by its path in `golden/`.
///
/// # Panics
///
/// If the file cannot be read.
pub fn read(file: &str) -> String {
    record(file, "*");
    text(file)
}

fn text(file: &str) -> String {
    let path = path(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the lines of a file without comments, split into words.
///
/// # Panics
///
/// If the file cannot be read.
pub fn lines(file: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let text = read(file);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(words).collect()
}

/// Returns the next number of splitmix64, the generator of the data of some files.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Parses a number in hexadecimal bits.
///
/// # Panics
///
/// If the word is something else.
pub fn hex<T: Bits>(word: &str) -> T {
    T::parse(word).unwrap_or_else(|| panic!("{word:?}"))
}

impl Golden {
    /// Returns a file, by its path in `golden/`.
    ///
    /// # Panics
    ///
    /// If the file cannot be read.
    pub fn file(file: &str) -> Golden {
        let name = Path::new(file).file_stem().unwrap_or_default();
        Golden {
            name: name.to_string_lossy().into_owned(),
            file: file.to_owned(),
            text: text(file),
        }
    }

    /// Returns all files of a folder of `golden/`, sorted by name.
    ///
    /// # Panics
    ///
    /// If a file cannot be read.
    pub fn all(folder: &str) -> Vec<Golden> {
        let path = path(folder);
        let entries =
            fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut files: Vec<String> = entries
            .map(|entry| entry.expect("a directory that can be read").file_name())
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.ends_with(".txt"))
            .map(|name| format!("{folder}/{name}"))
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", path.display());
        files.iter().map(|file| Golden::file(file)).collect()
    }

    /// Returns the text after a key of one or several words, if the file has the key.
    ///
    /// # Panics
    ///
    /// If the key occurs twice.
    pub fn find(&self, key: &str) -> Option<&str> {
        let mut found = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        record(&self.file, key);
        let values = found.next()?;
        assert!(found.next().is_none(), "{}: {key} comes twice", self.name);
        Some(values)
    }

    /// Returns the text after a key.
    ///
    /// # Panics
    ///
    /// If the file has no such key.
    pub fn text(&self, key: &str) -> &str {
        self.find(key)
            .unwrap_or_else(|| panic!("{}: no {key}", self.name))
    }

    /// Returns the numbers after a key, given as hexadecimal bits.
    ///
    /// # Panics
    ///
    /// If the file has no such key, or something else after it.
    pub fn bits<T: Bits>(&self, key: &str) -> Vec<T> {
        self.each(key, T::parse)
    }

    /// Returns the decimal numbers after a key.
    ///
    /// # Panics
    ///
    /// If the file has no such key, or something else after it.
    pub fn decimals<T: FromStr>(&self, key: &str) -> Vec<T> {
        self.each(key, |word| word.parse().ok())
    }

    /// Returns the single decimal number after a key.
    ///
    /// # Panics
    ///
    /// If the file has no such key, or something else after it.
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

    /// Returns the bits of all cos and then all sin of a kind (`cr`, `hf`, ..) at a position of a table.
    pub fn row(&self, kind: &str, position: i64) -> Option<Vec<u32>> {
        let half = |function| {
            let words = self.find(&format!("{function}_{kind} {position}"))?;
            Some(words.split_whitespace().map(hex::<f32>).map(f32::to_bits))
        };
        Some(half("cos")?.chain(half("sin")?).collect())
    }

    /// Returns the pairings of input and output.
    ///
    /// # Panics
    ///
    /// If the layout is unknown.
    pub fn pairings(&self) -> (Pairing, Pairing) {
        match self.text("layout") {
            "interleaved" | "interleaved_mrope" => (Pairing::Interleaved, Pairing::Interleaved),
            "interleaved_in_half_out" => (Pairing::Interleaved, Pairing::Half),
            "half" | "half_mrope" | "half_imrope" | "half_axial2d" => {
                (Pairing::Half, Pairing::Half)
            }
            other => panic!("{}: layout {other}", self.name),
        }
    }

    /// Returns cos and sin of the exact angles times the attention factor, as `[token][pair]`, in f64.
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
