//! cos and sin of tokens, the ways to store them, and the ways to select them from a table.

use std::ops::Range;

use rope_core::Rows;

use crate::number::Temper;
use crate::{Placed, Source};

/// cos and sin of tokens as plain data, without types of rope-core.
#[derive(Clone, Debug)]
pub struct Angles {
    /// Number of rows.
    pub rows: usize,
    /// Number of heads with rows of their own; 1 if the heads share a row.
    pub heads: usize,
    /// Pairs of a row.
    pub pairs: usize,
    /// `[row][head][pair]`.
    pub cos: Vec<f32>,
    /// `[row][head][pair]`.
    pub sin: Vec<f32>,
    /// The attention factor that cos and sin are declared to contain.
    pub attention_factor: f64,
}

impl Angles {
    /// Returns rows of one kind, chosen by the source: mostly rotations, but the definition holds for any numbers.
    pub fn any(source: &mut Source<'_>, rows: usize, pairs: usize) -> Self {
        Angles::of_heads(source, [rows, 1], pairs)
    }

    /// Returns rows of one kind for a number of heads.
    pub fn of_heads(source: &mut Source<'_>, [rows, heads]: [usize; 2], pairs: usize) -> Self {
        let kind = source.below(8);
        let attention_factor = match kind {
            3 => 1.0,
            _ => source.one_of(&[1.0, 1.0, 1.138_629_436_111_989, -0.3, 1e-10]),
        };
        // Sometimes the rows lack the declared factor; their inverse is then refused.
        let magnitude = if source.once_in(6) {
            1.0
        } else {
            attention_factor
        };
        let mut value = |angle: &mut dyn FnMut(&mut Source<'_>) -> (f32, f32)| {
            (0..rows * heads * pairs).map(|_| angle(source)).unzip()
        };
        let (cos, mut sin): (Vec<f32>, Vec<f32>) = match kind {
            0 => value(&mut |source| {
                let quarter = [0.0, 1.0, 0.0, -1.0, -0.0_f32];
                (source.one_of(&quarter), source.one_of(&quarter))
            }),
            1 => value(&mut |source| (Temper::Spiked.value(source), Temper::Spiked.value(source))),
            2 => value(&mut |source| (Temper::Wild.value(source), Temper::Wild.value(source))),
            3 => value(&mut |_| (1.0, 0.0)),
            _ => value(&mut |source| {
                let (sin, cos) = (f64::from(source.unit()) * std::f64::consts::PI).sin_cos();
                ((magnitude * cos) as f32, (magnitude * sin) as f32)
            }),
        };
        // Joined rows are refused if the cos and the sin of the last row are all equal.
        let first = cos.len().saturating_sub(pairs);
        let bits = |value: &f32| value.to_bits();
        if cos[first..]
            .iter()
            .map(bits)
            .eq(sin[first..].iter().map(bits))
            && let Some(last) = sin.last_mut()
        {
            *last = -*last;
        }
        Angles {
            rows,
            heads,
            pairs,
            cos,
            sin,
            attention_factor,
        }
    }

    /// Returns cos and sin of a pair of a head.
    pub fn get(&self, row: usize, head: usize, pair: usize) -> (f32, f32) {
        let head = if self.heads == 1 { 0 } else { head };
        let at = (row * self.heads + head) * self.pairs + pair;
        (self.cos[at], self.sin[at])
    }

    /// Returns the rows with these indices.
    fn pick(&self, rows: &[usize]) -> Self {
        let row_len = self.heads * self.pairs;
        let gather = |values: &[f32]| {
            rows.iter()
                .flat_map(|&row| &values[row * row_len..][..row_len])
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

/// A storage of rows, and a selection from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Storage of the table.
    pub table: Table,
    /// Selection from the table.
    pub pick: Pick,
}

/// The storage of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `[cos | sin]`, borrowed.
    Joined,
    /// `[cos | sin]`, owned.
    Owned,
    /// Separate cos and sin, each value once.
    Apart,
    /// Separate cos and sin, each value twice, in the two halves of a row.
    Twice,
    /// Separate cos and sin with any strides of sequences, tokens and heads.
    Strided,
}

/// A selection from a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// All rows.
    All,
    /// A range of rows.
    Range,
    /// Ids of type i32.
    I32,
    /// Ids of type i64.
    I64,
    /// Ids of type u32.
    U32,
    /// Ids of type u64.
    U64,
    /// Ids of type usize.
    Usize,
    /// Ids into a range of rows, and a range of those ids.
    RangeOfIdsOfRange,
}

impl Form {
    /// Returns all forms except the strided ones, of which there are as many as layouts.
    pub fn all() -> impl Iterator<Item = Form> {
        use {Pick::*, Table::*};
        [Joined, Owned, Apart, Twice].into_iter().flat_map(|table| {
            [All, Range, I32, I64, U32, U64, Usize, RangeOfIdsOfRange]
                .map(|pick| Form { table, pick })
        })
    }

    /// Returns a form chosen by the source.
    pub fn any(source: &mut Source<'_>) -> Form {
        let forms: Vec<Form> = Form::all().collect();
        source.one_of(&forms)
    }
}

/// Stored rows, and the values that they must have.
#[derive(Debug)]
pub struct Stored {
    /// Values of the rows.
    pub angles: Angles,
    /// Form of the storage.
    pub form: Form,
    table: (Vec<f32>, Vec<f32>),
    stride: usize,
    place: Option<Placed>,
    range: Range<usize>,
    ids: Vec<usize>,
    /// Rows of the table, the ids of a struct of C.
    #[cfg(feature = "capi")]
    picked: Vec<usize>,
}

impl Stored {
    /// Returns rows in any form.
    pub fn any(source: &mut Source<'_>, rows: usize, pairs: usize) -> Self {
        let form = Form::any(source);
        Stored::new(source, rows, pairs, form)
    }

    /// Returns rows in any form for tensors of a shape: shared by sequences, by heads, by both, or by neither.
    pub fn for_shape(source: &mut Source<'_>, shape: [usize; 4], pairs: usize) -> Self {
        let [batch, tokens, heads, _] = shape;
        let batch = if source.once_in(2) { 1 } else { batch };
        let heads = if source.once_in(2) { 1 } else { heads.max(1) };
        if source.once_in(3) {
            return Stored::strided(source, [batch, tokens, heads], pairs);
        }
        let form = Form::any(source);
        Stored::of_heads(source, [batch * tokens, heads], pairs, form)
    }

    /// Returns rows of any values with any strides.
    pub fn strided(source: &mut Source<'_>, extents: [usize; 3], pairs: usize) -> Self {
        let [batch, tokens, heads] = extents;
        let place = Placed::any(source, [batch, tokens, heads, pairs]);
        let angles = Angles::of_heads(source, [batch * tokens, heads], pairs);
        Stored::placed(angles, place)
    }

    /// Returns these rows with a layout of the shape `[batch, tokens, heads, pairs]`.
    pub fn placed(angles: Angles, place: Placed) -> Self {
        let [_, tokens, _, pairs] = place.view.shape;
        let mut table = (vec![f32::NAN; place.len], vec![f32::NAN; place.len]);
        for [batch, token, head] in place.view.heads() {
            for pair in 0..pairs {
                let at = place.view.index([batch, token, head, pair]);
                (table.0[at], table.1[at]) = angles.get(batch * tokens + token, head, pair);
            }
        }
        Stored {
            form: Form {
                table: Table::Strided,
                pick: Pick::All,
            },
            table,
            stride: 0,
            range: 0..angles.rows,
            angles,
            place: Some(place),
            ids: Vec::new(),
            #[cfg(feature = "capi")]
            picked: Vec::new(),
        }
    }

    /// Returns rows of any values in a form.
    pub fn new(source: &mut Source<'_>, rows: usize, pairs: usize, form: Form) -> Self {
        Stored::of_heads(source, [rows, 1], pairs, form)
    }

    /// Returns rows of any values in a form, for a number of heads.
    pub fn of_heads(
        source: &mut Source<'_>,
        [rows, heads]: [usize; 2],
        pairs: usize,
        form: Form,
    ) -> Self {
        let (before, after) = match form.pick {
            Pick::All => (0, 0),
            _ => (source.below(3), source.below(3)),
        };
        let angles = Angles::of_heads(source, [before + rows + after, heads], pairs);
        Stored::pick(source, angles, before..before + rows, form)
    }

    /// Returns all of these rows, joined.
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
            Table::Apart | Table::Strided => pairs,
            Table::Twice => 2 * pairs,
        };
        let mut cos = Vec::new();
        let mut sin = Vec::new();
        let rows = all.rows * all.heads;
        for row in 0..rows {
            let values = |values: &[f32]| values[row * pairs..][..pairs].to_vec();
            cos.extend(values(&all.cos));
            match form.table {
                Table::Joined | Table::Owned => cos.extend(values(&all.sin)),
                Table::Apart | Table::Strided => sin.extend(values(&all.sin)),
                Table::Twice => {
                    sin.extend(values(&all.sin));
                    // Only the last of the second halves is compared with its first half; the others are not read.
                    if row + 1 == rows {
                        cos.extend(values(&all.cos));
                        sin.extend(values(&all.sin));
                    }
                    cos.resize((row + 1) * stride, f32::NAN);
                    sin.resize((row + 1) * stride, f32::NAN);
                }
            }
        }
        // `ids` are rows of the table; `range` selects from the table, or from the ids.
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
            place: None,
            range,
            ids,
            #[cfg(feature = "capi")]
            picked,
        }
    }

    /// Returns the rows as a struct of C: its ids are of the whole table.
    #[cfg(feature = "capi")]
    pub fn over_c(&self) -> rope::rope_angles {
        use rope::{rope_angles, rope_number, rope_rows_apart, rope_rows_joined};
        let offset = self.place.as_ref().map_or(0, |place| place.view.offset);
        let (cos, len) = (self.table.0[offset..].as_ptr(), self.table.0.len() - offset);
        let sin = self.table.1.get(offset..).unwrap_or(&[]).as_ptr();
        let rotary_dim = 2 * self.angles.pairs;
        let rows = len.checked_div(self.stride).unwrap_or(0);
        let table = match self.form.table {
            Table::Joined | Table::Owned => rope_rows_joined(cos, len, rotary_dim),
            Table::Apart | Table::Twice => rope_rows_apart(cos, sin, rows, self.stride, rotary_dim),
            Table::Strided => {
                let place = self.place.as_ref().expect("strided rows are placed");
                crate::c::strided_rows(cos, sin, len, place.layout.into())
            }
        };
        let ids = match self.form.pick {
            Pick::All => std::ptr::null(),
            _ => self.picked.as_ptr().cast(),
        };
        let number = match usize::BITS {
            64 => rope_number::U64,
            _ => rope_number::U32,
        };
        rope_angles {
            heads: self.angles.heads,
            attention_factor: self.angles.attention_factor,
            ids,
            ids_count: self.picked.len(),
            ids_number: number as i32,
            ..table
        }
    }

    /// Calls `f` with the rows in rope-core's form.
    ///
    /// # Panics
    ///
    /// If rope-core refuses them.
    pub fn with<T>(&self, f: impl FnOnce(&Rows<'_>) -> T) -> T {
        let (mut f, mut result) = (Some(f), None);
        self.visit(&mut |rows| result = f.take().map(|f| f(rows)));
        result.expect("they were visited")
    }

    /// Calls `f` once with the rows. Compiled once: a copy for each closure was half of this library's code.
    fn visit(&self, f: &mut dyn FnMut(&Rows<'_>)) {
        let (cos, sin) = &self.table;
        let rotary_dim = 2 * self.angles.pairs;
        // Strided rows have no row stride.
        let shape = [cos.len().checked_div(self.stride).unwrap_or(0), self.stride];
        let table = match self.form.table {
            Table::Joined => Rows::new(cos, shape),
            Table::Owned => Rows::from_vec(cos.clone(), shape),
            Table::Apart | Table::Twice => Rows::from_cos_sin(cos, sin, shape, rotary_dim),
            Table::Strided => {
                let place = self.place.as_ref().expect("strided rows are placed");
                Rows::strided(cos, sin, place.layout)
            }
        };
        let table = table
            .and_then(|table| match self.form.table {
                Table::Strided => Ok(table),
                _ => table.with_heads(self.angles.heads),
            })
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
            Pick::Range => f(&table.narrow(self.range.clone()).expect(INSIDE)),
            Pick::I32 => gathered!(i32),
            Pick::I64 => gathered!(i64),
            Pick::U32 => gathered!(u32),
            Pick::U64 => gathered!(u64),
            Pick::Usize => f(&table.gather(&self.ids).expect(INSIDE)),
            Pick::RangeOfIdsOfRange => {
                let table = table.narrow(self.range.start..table.len()).expect(INSIDE);
                let gathered = table.gather(&self.ids).expect(INSIDE);
                f(&gathered.narrow(self.range.clone()).expect(INSIDE))
            }
        }
    }
}
