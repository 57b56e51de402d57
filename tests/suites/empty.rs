//! Tensors and caches without elements: every call accepts them, and refuses what it would refuse with elements.

use half::{bf16, f16};
use rope_core::cache::{
    CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale, ScaleLayout, ScalePlace, Slots,
};
use rope_core::gradient::PairGradients;
use rope_core::{Backend, Layout, Tensor, TensorMut};
use rope_tests::quantize::Kind;

use crate::refused::{chain, norm, numbers, ones, rope, strides};

/// A tensor without elements is not touched; its errors are errors with elements as well.
#[test]
fn tensors() {
    let (one, none) = (numbers([1, 2]), numbers([0, 2]));
    let huge = usize::MAX;
    for backend in Backend::available() {
        let rope = rope().with_backend(backend).expect("it is there");
        for (shape, rows) in [
            ([0, 1, 1, 2], &one),
            ([1, 0, 1, 2], &none),
            ([1, 1, 0, 2], &one),
            ([huge, 1, 0, 2], &one),
            ([huge, 0, 1, 2], &none),
            ([huge, 0, huge, 2], &none),
            ([0, 1, huge, huge], &one),
        ] {
            // The strides of an empty tensor have no meaning.
            let layout = Layout::strided(shape, strides(huge, huge, huge)).expect("no elements");
            let mut x = TensorMut::<f32>::new(&mut [], layout).expect("an empty tensor");
            assert_eq!(rope.rotate(&mut x, rows), Ok(()));
            let from = Tensor::<f16>::new(&[], layout).expect("an empty tensor");
            assert_eq!(rope.rotate_into(&from, &mut x, rows), Ok(()));
            let mut k = TensorMut::<bf16>::new(&mut [], layout).expect("an empty tensor");
            assert_eq!(rope.rotate_qk(&mut x, &mut k, rows), Ok(()));
        }
    }
}

#[test]
fn caches() {
    let none: [i64; 0] = [];
    let shapes = [
        ([0, 1, 1, 1], [1, 0, 1, 1]),
        ([1, 1, 0, 1], [1, 1, 1, 0]),
        ([0, 16, 2, 32], [3, 0, 2, 32]),
        ([3, 16, 0, 32], [3, 16, 2, 0]),
    ];
    for shape in shapes.into_iter().flat_map(<[_; 2]>::from) {
        let [blocks, block_size, heads, head_dim] = shape;
        for layout in [
            CacheLayout::hnd([blocks, heads, block_size, head_dim]),
            CacheLayout::hdn([blocks, heads, head_dim, block_size]),
            CacheLayout::hdnx([blocks, heads, head_dim / 8, block_size, 8]),
            CacheLayout::hndx([blocks, heads, block_size / 8, head_dim, 8]),
        ] {
            assert_eq!(layout.expect("an empty cache").end(), 0, "{shape:?}");
        }
        let layout = CacheLayout::nhd(shape).expect("an empty cache");
        assert_eq!(layout.end(), 0, "{layout:?}");
        let mut data = [0.0_f32; 0];
        let mut cache = CacheMut::new(&mut data, layout).expect("an empty cache");
        let mut into = |tokens, slots: Slots<'_>| {
            let x = ones([1, tokens, heads, head_dim]);
            chain().apply_into(&x, &mut cache.slots(slots)).is_ok()
        };
        assert!(into(0, (&none).into()));
        let there = blocks * block_size > 0;
        assert_eq!(into(1, (0..1).into()), there, "{shape:?}");
        assert!(into(1, (&[-1_i64]).into()));
        // Heads without elements fit at any offset; other heads do not.
        let fits = heads * head_dim == 0;
        assert_eq!(into(1, Slots::offsets(&[0])), fits, "{shape:?}");
        assert!(into(1, Slots::offsets(&[-1])));
        for code in QuantFormat::ALL {
            let apart = ScalePlace::Separate(ScaleLayout::nh([block_size, heads]));
            for at in [apart, ScalePlace::Inline(head_dim)] {
                let scale = QuantScale::Computed { least: 0.0, at };
                assert!(
                    CacheMut::coded(&mut [], layout, CacheFormat::quantized(code, scale)).is_ok()
                );
            }
        }
        for kind in Kind::all(head_dim, block_size) {
            let (layout, format) = kind.dense(shape);
            let made = CacheMut::coded(&mut [], layout, format);
            assert!(made.is_ok(), "{kind:?} {shape:?}: {made:?}");
        }
    }
    // A shift without rows, and sums without tokens.
    let mut data = [1.0_f32; 16];
    let layout = CacheLayout::nhd([1, 1, 2, 8]).expect("a small cache");
    let mut cache = CacheMut::new(&mut data, layout).expect("a cache that fits");
    let shifted = rope().rotate(&mut cache.slots(&none), &numbers([0, 8]));
    assert_eq!(shifted, Ok(()));
    let sums = rope().sum_of_squares(norm(), &ones([2, 0, 2, 8]), &mut []);
    assert_eq!(sums, Ok(()));
}

/// Rows without pairs divide into any number of parts, which take no time.
#[test]
fn gradients_without_pairs() {
    for parts in [0, 1, 100_000_000, usize::MAX] {
        let rope = rope().with_parts(parts);
        let [x, g] = [ones([1, 2, 2, 8]), ones([1, 2, 2, 8])];
        let sums = &mut PairGradients::new(&mut [], [2, 1, 0]).expect("no sums");
        let (y, dy) = (&x, &g);
        let refused = rope.angle_gradients(y, dy, sums);
        assert_eq!(refused.is_ok(), parts > 0, "{parts} parts");
        let refused = rope.factor_gradients(y, dy, sums);
        assert_eq!(refused.is_ok(), parts > 0, "{parts} parts");
    }
}
