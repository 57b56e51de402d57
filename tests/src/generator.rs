//! Tensors with every memory layout that a [`Layout`] can describe.

use rope_core::Dimension;
use rope_core::Layout;

use crate::Source;

/// The places of a tensor's elements in the harness's own words and arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// `[batch, tokens, heads, head_dim]`.
    pub shape: [usize; 4],
    /// Strides of sequences, tokens and heads, in elements.
    pub strides: [usize; 3],
    /// Index of the first element.
    pub offset: usize,
}

impl View {
    /// Returns the index of an element in the buffer.
    pub fn index(&self, [batch, token, head, channel]: [usize; 4]) -> usize {
        let [per_batch, per_token, per_head] = self.strides;
        self.offset + batch * per_batch + token * per_token + head * per_head + channel
    }

    /// Returns one past the last index, or the offset if the tensor is empty.
    pub fn end(&self) -> usize {
        if self.shape.contains(&0) {
            return self.offset;
        }
        self.index(self.shape.map(|extent| extent - 1)) + 1
    }

    /// Returns the heads, as `[batch, token, head]`.
    pub fn heads(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let [batch, tokens, heads, _] = self.shape;
        (0..batch * tokens * heads)
            .map(move |i| [i / (tokens * heads), i / heads % tokens, i % heads])
    }

    /// Returns the element at an index of the buffer, if there is one.
    pub fn find(&self, index: usize) -> Option<[usize; 4]> {
        self.heads().find_map(|[batch, token, head]| {
            let first = self.index([batch, token, head, 0]);
            (first..first + self.shape[3])
                .contains(&index)
                .then(|| [batch, token, head, index - first])
        })
    }
}

/// A tensor in a buffer: the layout under test, and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The places of the elements.
    pub view: View,
    /// The crate's layout of the tensor.
    pub layout: Layout,
    /// Length of the buffer; it may exceed the end of the tensor.
    pub len: usize,
}

impl Placed {
    /// Pairs a layout with its meaning and compares the two.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn new(layout: Layout, view: View, margin: usize) -> Self {
        let shape = layout.shape();
        let got = View {
            shape: [shape.batch, shape.tokens, shape.heads, shape.head_dim],
            strides: [
                layout.strides().batch,
                layout.strides().token,
                layout.strides().head,
            ],
            offset: layout.offset(),
        };
        assert_eq!(got, view, "{layout:?}");
        assert_eq!(layout.end(), view.end(), "{layout:?}");
        Placed {
            view,
            layout,
            len: view.end() + margin,
        }
    }

    /// Returns `[batch][tokens][heads][head_dim]` without margins.
    pub fn bshd(shape: [usize; 4]) -> Self {
        let layout = Layout::bshd(shape).expect("a small shape");
        Placed::new(layout, dense(shape, [0, 1, 2]), 0)
    }

    /// Returns `[batch][heads][tokens][head_dim]` without margins.
    pub fn bhsd(shape: [usize; 4]) -> Self {
        let [batch, tokens, heads, head_dim] = shape;
        let layout = Layout::bhsd([batch, heads, tokens, head_dim]).expect("a small shape");
        Placed::new(layout, dense(shape, [0, 2, 1]), 0)
    }

    /// Returns a tensor from any constructor below.
    pub fn any(source: &mut Source<'_>, shape: [usize; 4]) -> Self {
        match source.below(6) {
            0 => Placed::bshd(shape),
            1 => Placed::bhsd(shape),
            2 => Placed::dense(source, shape),
            3 => Placed::packed(source, shape),
            4 => Placed::window(source, shape),
            _ => Placed::strided(source, shape),
        }
    }

    /// Returns one of the named layouts, perhaps with a margin after it.
    pub fn dense(source: &mut Source<'_>, shape: [usize; 4]) -> Self {
        let margin = source.below(9);
        let [batch, tokens, heads, head_dim] = shape;
        let (layout, order) = match source.below(4) {
            0 => (Layout::bshd(shape), [0, 1, 2]),
            1 => (Layout::bhsd([batch, heads, tokens, head_dim]), [0, 2, 1]),
            2 => (Layout::sbhd([tokens, batch, heads, head_dim]), [1, 0, 2]),
            _ if batch == 1 => (Layout::thd([tokens, heads, head_dim]), [0, 1, 2]),
            _ => (Layout::bshd(shape), [0, 1, 2]),
        };
        Placed::new(layout.expect("a small shape"), dense(shape, order), margin)
    }

    /// Returns some heads of longer rows: Q, K or V of a packed row.
    pub fn packed(source: &mut Source<'_>, shape: [usize; 4]) -> Self {
        let [batch, tokens, heads, head_dim] = shape;
        let (before, after) = (source.below(4), source.below(4));
        let whole = [batch, tokens, before + heads + after, head_dim];
        let layout = Layout::bshd(whole)
            .and_then(|layout| layout.narrow(Dimension::Heads, before..before + heads))
            .expect("heads that are there");
        let mut view = dense(whole, [0, 1, 2]);
        view.shape = shape;
        view.offset = if shape.contains(&0) {
            0
        } else {
            before * head_dim
        };
        Placed::new(layout, view, after * head_dim)
    }

    /// Returns some channels of longer heads.
    pub fn window(source: &mut Source<'_>, shape: [usize; 4]) -> Self {
        let [batch, tokens, heads, head_dim] = shape;
        let (before, after) = (source.below(70), source.below(9));
        let whole = [batch, tokens, heads, before + head_dim + after];
        let (whole_layout, order) = if source.once_in(2) {
            (Layout::bshd(whole), [0, 1, 2])
        } else {
            let whole = [batch, heads, tokens, before + head_dim + after];
            (Layout::bhsd(whole), [0, 2, 1])
        };
        let layout = whole_layout
            .and_then(|layout| layout.narrow(Dimension::Channels, before..before + head_dim))
            .expect("channels that are there");
        let mut view = dense(whole, order);
        view.shape = shape;
        view.offset = if shape.contains(&0) { 0 } else { before };
        Placed::new(layout, view, after)
    }

    /// Returns any order of the dimensions, with gaps between them and margins on both sides.
    pub fn strided(source: &mut Source<'_>, shape: [usize; 4]) -> Self {
        let mut order = [0, 1, 2];
        for i in (1..3).rev() {
            order.swap(i, source.below(i + 1));
        }
        let mut strides = [0; 3];
        let mut span = shape[3];
        for dimension in order.into_iter().rev() {
            if shape[dimension] == 1 && source.once_in(2) {
                // The stride of an extent of 1 may be anything.
                strides[dimension] = source.below(2 * span + 2);
                continue;
            }
            let gap = if source.once_in(2) {
                source.below(40)
            } else {
                0
            };
            strides[dimension] = span + gap;
            span += shape[dimension].saturating_sub(1) * strides[dimension];
        }
        let offset = if shape.contains(&0) {
            0
        } else {
            source.below(40)
        };
        let [batch, tokens, heads, head_dim] = shape;
        let layout = Layout::strided(
            [batch, tokens, heads, offset + head_dim],
            rope_core::Strides {
                batch: strides[0],
                token: strides[1],
                head: strides[2],
            },
        )
        .and_then(|layout| layout.narrow(Dimension::Channels, offset..offset + head_dim))
        .expect("a small shape");
        let view = View {
            shape,
            strides,
            offset,
        };
        Placed::new(layout, view, source.below(40))
    }
}

/// Returns a view without gaps whose dimensions are nested in this order.
fn dense(shape: [usize; 4], order: [usize; 3]) -> View {
    let mut strides = [0; 3];
    let mut span = shape[3];
    for dimension in order.into_iter().rev() {
        strides[dimension] = span;
        span *= shape[dimension];
    }
    View {
        shape,
        strides,
        offset: 0,
    }
}
