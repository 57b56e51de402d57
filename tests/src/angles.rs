//! cos and sin of tokens, and the ways to store them and to pick them out of a table.

use std::ops::Range;

use rope_core::Rows;

use crate::Source;
use crate::number::Temper;

/// cos and sin of some tokens: plain data, without rope-core's idea of it.
#[derive(Clone, Debug)]
pub struct Angles {
    /// How many tokens.
    pub rows: usize,
    /// Of each, in a token.
    pub pairs: usize,
    /// `[row][pair]`.
    pub cos: Vec<f32>,
    /// `[row][pair]`.
    pub sin: Vec<f32>,
    /// What cos and sin are said to be multiplied by.
    pub attention_factor: f64,
}

impl Angles {
    /// Rows of one kind, which is the source's choice: mostly rotations, but the definition holds for any numbers.
    pub fn any(source: &mut Source<'_>, rows: usize, pairs: usize) -> Self {
        let kind = source.below(8);
        let mut value = |angle: &mut dyn FnMut(&mut Source<'_>) -> (f32, f32)| {
            (0..rows * pairs).map(|_| angle(source)).unzip()
        };
        let (cos, sin) = match kind {
            0 => value(&mut |source| {
                let quarter = [0.0, 1.0, 0.0, -1.0, -0.0_f32];
                (source.one_of(&quarter), source.one_of(&quarter))
            }),
            1 => value(&mut |source| (Temper::Spiked.value(source), Temper::Spiked.value(source))),
            2 => value(&mut |source| (Temper::Wild.value(source), Temper::Wild.value(source))),
            3 => value(&mut |_| (1.0, 0.0)),
            _ => value(&mut |source| {
                let (sin, cos) = (f64::from(source.unit()) * std::f64::consts::PI).sin_cos();
                (cos as f32, sin as f32)
            }),
        };
        let attention_factor = source.one_of(&[1.0, 1.0, 1.138_629_436_111_989, -0.3, 1e-30]);
        Angles {
            rows,
            pairs,
            cos,
            sin,
            attention_factor,
        }
    }

    /// cos and sin of a pair.
    pub fn get(&self, row: usize, pair: usize) -> (f32, f32) {
        let at = row * self.pairs + pair;
        (self.cos[at], self.sin[at])
    }

    /// Other rows of these.
    fn pick(&self, rows: &[usize]) -> Self {
        let gather = |values: &[f32]| {
            rows.iter()
                .flat_map(|&row| &values[row * self.pairs..][..self.pairs])
                .copied()
                .collect()
        };
        Angles {
            rows: rows.len(),
            cos: gather(&self.cos),
            sin: gather(&self.sin),
            ..*self
        }
    }
}

/// How rows are kept, and how they are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// How the table is kept.
    pub table: Table,
    /// What is taken from it.
    pub pick: Pick,
}

/// How a table is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `[cos | sin]`, borrowed.
    Joined,
    /// `[cos | sin]`, owned.
    Owned,
    /// cos and sin apart, each value once.
    Apart,
    /// cos and sin apart, each value twice, in two halves of a row.
    Twice,
}

/// What is taken from a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// All of it.
    All,
    /// A range.
    Range,
    /// Ids.
    I32,
    /// Ids.
    I64,
    /// Ids.
    U32,
    /// Ids.
    U64,
    /// Ids.
    Usize,
    /// Ids of a range, and a range of those ids.
    RangeOfIdsOfRange,
}

impl Form {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Form> {
        use {Pick::*, Table::*};
        [Joined, Owned, Apart, Twice].into_iter().flat_map(|table| {
            [All, Range, I32, I64, U32, U64, Usize, RangeOfIdsOfRange]
                .map(|pick| Form { table, pick })
        })
    }

    /// The source's choice.
    pub fn any(source: &mut Source<'_>) -> Form {
        let forms: Vec<Form> = Form::all().collect();
        source.one_of(&forms)
    }
}

/// Rows as they are stored somewhere, and what they should be.
#[derive(Debug)]
pub struct Stored {
    /// What the rows should be.
    pub angles: Angles,
    /// How they are stored.
    pub form: Form,
    table: (Vec<f32>, Vec<f32>),
    stride: usize,
    range: Range<usize>,
    ids: Vec<usize>,
}

impl Stored {
    /// Rows in any form.
    pub fn any(source: &mut Source<'_>, rows: usize, pairs: usize) -> Self {
        let form = Form::any(source);
        Stored::new(source, rows, pairs, form)
    }

    /// Rows of any values in this form.
    pub fn new(source: &mut Source<'_>, rows: usize, pairs: usize, form: Form) -> Self {
        let (before, after) = match form.pick {
            Pick::All => (0, 0),
            _ => (source.below(3), source.below(3)),
        };
        let angles = Angles::any(source, before + rows + after, pairs);
        Stored::pick(source, angles, before..before + rows, form)
    }

    /// All of these rows, joined.
    pub fn plain(angles: Angles) -> Self {
        let form = Form {
            table: Table::Joined,
            pick: Pick::All,
        };
        let range = 0..angles.rows;
        Stored::pick(&mut Source::bytes(&[]), angles, range, form)
    }

    fn pick(source: &mut Source<'_>, all: Angles, range: Range<usize>, form: Form) -> Self {
        let pairs = all.pairs;
        let stride = match form.table {
            Table::Joined | Table::Owned => 2 * pairs,
            Table::Apart => pairs,
            Table::Twice => 2 * pairs,
        };
        let mut cos = Vec::new();
        let mut sin = Vec::new();
        for row in 0..all.rows {
            let values = |values: &[f32]| values[row * pairs..][..pairs].to_vec();
            cos.extend(values(&all.cos));
            match form.table {
                Table::Joined | Table::Owned => cos.extend(values(&all.sin)),
                Table::Apart => sin.extend(values(&all.sin)),
                Table::Twice => {
                    sin.extend(values(&all.sin));
                    // Of the second halves the last is compared with its first, and no other is read.
                    if row + 1 == all.rows {
                        cos.extend(values(&all.cos));
                        sin.extend(values(&all.sin));
                    }
                    cos.resize((row + 1) * stride, f32::NAN);
                    sin.resize((row + 1) * stride, f32::NAN);
                }
            }
        }
        // `ids` are rows of the table; `range` what is taken of it, or of them.
        let (range, ids, picked): (_, _, Vec<usize>) = match form.pick {
            Pick::All | Pick::Range => (range.clone(), Vec::new(), range.collect()),
            Pick::I32 | Pick::I64 | Pick::U32 | Pick::U64 | Pick::Usize => {
                let ids: Vec<usize> = range.map(|_| source.below(all.rows)).collect();
                (0..ids.len(), ids.clone(), ids)
            }
            Pick::RangeOfIdsOfRange => {
                let (first, rows) = (range.start, range.len());
                let some = all.rows - first;
                // An empty table has no ids.
                let first = if some == 0 { 0 } else { first };
                let range = first..first + rows;
                let ids: Vec<usize> = (0..first + rows).map(|_| source.below(some)).collect();
                let picked = ids[first..].iter().map(|id| id + first).collect();
                (range, ids, picked)
            }
        };
        Stored {
            angles: all.pick(&picked),
            form,
            table: (cos, sin),
            stride,
            range,
            ids,
        }
    }

    /// The rows as rope-core takes them.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn with<T>(&self, f: impl FnOnce(&Rows<'_>) -> T) -> T {
        let (cos, sin) = &self.table;
        let rotary_dim = 2 * self.angles.pairs;
        let table = match self.form.table {
            Table::Joined => Rows::new(cos, rotary_dim),
            Table::Owned => Rows::from_vec(cos.clone(), rotary_dim),
            Table::Apart | Table::Twice => {
                let shape = [cos.len() / self.stride, self.stride];
                Rows::from_cos_sin(cos, sin, shape, rotary_dim)
            }
        };
        let table = table
            .and_then(|table| table.with_attention_factor(self.angles.attention_factor))
            .expect("whole rows");
        const INSIDE: &str = "they are in the table";
        macro_rules! gathered {
            ($int:ty) => {{
                let ids = self.ids.iter().map(|&id| <$int>::try_from(id));
                let ids: Vec<$int> = ids.collect::<Result<_, _>>().expect("ids are small");
                f(&table.gather(&ids).expect(INSIDE))
            }};
        }
        match self.form.pick {
            Pick::All => f(&table),
            Pick::Range => f(&table.range(self.range.clone()).expect(INSIDE)),
            Pick::I32 => gathered!(i32),
            Pick::I64 => gathered!(i64),
            Pick::U32 => gathered!(u32),
            Pick::U64 => gathered!(u64),
            Pick::Usize => f(&table.gather(&self.ids).expect(INSIDE)),
            Pick::RangeOfIdsOfRange => {
                let table = table.range(self.range.start..table.len()).expect(INSIDE);
                let gathered = table.gather(&self.ids).expect(INSIDE);
                f(&gathered.range(self.range.clone()).expect(INSIDE))
            }
        }
    }
}
