//! Sources of choices: a seed, or the bytes of a fuzzer.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::seed;

/// A source of choices.
#[derive(Debug)]
pub struct Source<'a>(SourceKind<'a>);

#[derive(Debug)]
enum SourceKind<'a> {
    Random(Box<Xoshiro256PlusPlus>),
    Bytes(&'a [u8]),
}

impl Source<'static> {
    /// Returns the choices of a test, which depend only on its name and on [`seed::seed`]. Prints how to repeat them;
    /// the line is visible if the test fails.
    pub fn random(test: &str) -> Self {
        let seed = seed::seed();
        println!("{test}: repeat with {}={seed}", seed::VARIABLE);
        let name = test.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Source(SourceKind::Random(Box::new(
            Xoshiro256PlusPlus::seed_from_u64(seed ^ name),
        )))
    }
}

impl<'a> Source<'a> {
    /// Returns the choices of a fuzzer. After the end of the bytes, every choice is the first one.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Source(SourceKind::Bytes(bytes))
    }

    /// Returns 32 bits.
    pub fn word(&mut self) -> u32 {
        match &mut self.0 {
            SourceKind::Random(generator) => generator.random(),
            SourceKind::Bytes(bytes) => u32::from_le_bytes(take(bytes)),
        }
    }

    /// Returns 128 bits.
    pub fn wide(&mut self) -> u128 {
        (0..4).fold(0, |wide, _| wide << 32 | u128::from(self.word()))
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n < 2 {
            return 0;
        }
        match &mut self.0 {
            SourceKind::Random(generator) => generator.random_range(0..n),
            SourceKind::Bytes(bytes) if n <= 256 => usize::from(take::<1>(bytes)[0]) % n,
            SourceKind::Bytes(bytes) => u32::from_le_bytes(take(bytes)) as usize % n,
        }
    }

    /// Returns a number of a range, both ends included.
    pub fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// Returns true one time in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// Returns one of some values.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns a number of the interval -1..1 with 24 random bits.
    pub fn unit(&mut self) -> f32 {
        let bits = self.word();
        let magnitude = (bits >> 8) as f32 * (1.0 / 16_777_216.0);
        if bits & 1 == 0 { magnitude } else { -magnitude }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    let len = N.min(bytes.len());
    let (first, rest) = bytes.split_at(len);
    taken[..len].copy_from_slice(first);
    *bytes = rest;
    taken
}
