//! A chain gives the same bits whether its stages are fused or run one after the other.

use rope_core::{Backend, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::number::{paint, values};
use rope_tests::{Number, Placed, Source, each_element_pair};

fn agree<I: Number, O: Number>(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize) {
    // Heads beside each other, and anywhere.
    let (from, to) = match source.once_in(2) {
        true => (Placed::bshd(shape), Placed::bshd(shape)),
        false => (Placed::any(source, shape), Placed::any(source, shape)),
    };
    let (x, y) = (values::<I>(source, from.len), paint::<O>(source, to.len));
    let angles = values::<f32>(source, shape[1] * rotary_dim);
    let rows = Rows::new(&angles, rotary_dim).expect("whole rows");
    for backend in Backend::available() {
        for (input, output) in [
            (Pairing::Half, Pairing::Half),
            (Pairing::Half, Pairing::Interleaved),
            (Pairing::Interleaved, Pairing::Half),
            (Pairing::Interleaved, Pairing::Interleaved),
        ] {
            let fused = Rope::new(input).output_pairing(output);
            let fused = fused.backend(backend).expect("an available backend");
            let run = |rope: Rope| {
                let mut got = y.clone();
                let source = Tensor::new(&x, from.layout).expect("a valid tensor");
                let mut target = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
                rope.rotate_into(&source, &mut target, &rows)
                    .expect("rows that fit");
                got
            };
            let doing = format!("{backend}, {input} to {output}, {rotary_dim} of {shape:?}");
            for (index, (got, wanted)) in run(fused.in_stages()).iter().zip(run(fused)).enumerate()
            {
                // A NaN may be any NaN.
                let same = got.bits() == wanted.bits() || got.is_nan() && wanted.is_nan();
                assert!(
                    same,
                    "{doing}: index {index}: {got:?} instead of {wanted:?}"
                );
            }
        }
    }
}

#[test]
fn fused_or_not() {
    let source = &mut Source::random("fused_or_not");
    // Heads beside each other in a tile, alone in it, and too long for it.
    for (head_dim, rotary_dim) in [
        (2, 2),
        (64, 64),
        (80, 80),
        (128, 32),
        (192, 128),
        (1030, 1030),
        (4200, 4100),
        (5000, 2),
    ] {
        let heads = source.within(1, 40) / (1 + head_dim / 256);
        let shape = [1, source.within(1, 20), heads.max(1), head_dim];
        each_element_pair!(agree(source, shape, rotary_dim));
    }
}
