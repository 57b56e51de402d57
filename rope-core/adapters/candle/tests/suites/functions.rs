//! `rope`, `rope_i` and `rope_thd` against candle's own.

use crate::random::{Random, bits};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::rotary_emb as candle;
use rope_candle as ours;

type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// Our function, candle's, and true if tokens precede heads.
const FUNCTIONS: [(Function, Function, bool); 3] = [
    (ours::rope, candle::rope, false),
    (ours::rope_i, candle::rope_i, false),
    (ours::rope_thd, candle::rope_thd, true),
];

/// `[batch, heads, tokens, head_dim]`, or with tokens before heads.
fn shape([batch, tokens, heads, head_dim]: [usize; 4], tokens_first: bool) -> [usize; 4] {
    if tokens_first {
        [batch, tokens, heads, head_dim]
    } else {
        [batch, heads, tokens, head_dim]
    }
}

fn extents(random: &mut Random) -> [usize; 4] {
    let head_dim = random.one_of(&[2, 6, 16, 64, 80, 128, 130]);
    [
        1 + random.below(3),
        1 + random.below(20),
        1 + random.below(5),
        head_dim,
    ]
}

#[test]
fn f32_and_f64_have_the_bits_of_candle() -> Result<()> {
    let mut random = Random::new("bits of candle");
    for _ in 0..40 {
        for (ours, candle, tokens_first) in FUNCTIONS {
            for dtype in [DType::F32, DType::F64] {
                let size @ [batch, tokens, _, head_dim] = extents(&mut random);
                let x = random.tensor(&shape(size, tokens_first)[..], dtype)?;
                let pairs = head_dim / 2;
                let rows = tokens + random.below(3);
                let (cos, sin) = random.tables((rows, pairs), dtype)?;
                assert_eq!(
                    bits(&ours(&x, &cos, &sin)?)?,
                    bits(&candle(&x, &cos, &sin)?)?,
                    "{size:?}"
                );
                let (cos, sin) = random.tables((batch, tokens, pairs), dtype)?;
                assert_eq!(
                    bits(&ours(&x, &cos, &sin)?)?,
                    bits(&candle(&x, &cos, &sin)?)?,
                    "{size:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn sixteen_bits_are_rotated_in_f32_and_rounded_once() -> Result<()> {
    let mut random = Random::new("16 bits");
    for _ in 0..40 {
        for (ours, _, tokens_first) in FUNCTIONS {
            for dtype in [DType::BF16, DType::F16] {
                let size @ [_, tokens, _, head_dim] = extents(&mut random);
                let x = random.tensor(&shape(size, tokens_first)[..], dtype)?;
                for tables in [DType::F32, dtype] {
                    let (cos, sin) = random.tables((tokens, head_dim / 2), tables)?;
                    let wide = |tensor: &Tensor| tensor.to_dtype(DType::F32);
                    let once = ours(&wide(&x)?, &wide(&cos)?, &wide(&sin)?)?.to_dtype(dtype)?;
                    let y = ours(&x, &cos, &sin)?;
                    assert_eq!(y.dtype(), dtype);
                    assert_eq!(bits(&y)?, bits(&once)?, "{size:?} {dtype:?} {tables:?}");
                }
            }
        }
    }
    Ok(())
}

/// Returns the same elements in a tensor that is not contiguous.
fn scattered(x: &Tensor, random: &mut Random) -> Result<Tensor> {
    let rank = x.rank();
    let dimension = random.below(rank - 1);
    let other = random.below(rank);
    // One dimension has a gap, and two dimensions are exchanged in memory.
    let gap =
        Tensor::cat(&[x, &x.zeros_like()?], dimension)?.narrow(dimension, 0, x.dim(dimension)?)?;
    gap.transpose(dimension, other)?
        .contiguous()?
        .transpose(dimension, other)
}

#[test]
fn strides_change_nothing() -> Result<()> {
    let mut random = Random::new("strides");
    for _ in 0..60 {
        for (ours, _, tokens_first) in FUNCTIONS {
            let dtype = random.one_of(&[DType::F32, DType::BF16, DType::F16, DType::F64]);
            let tables = random.one_of(&[DType::F32, dtype]);
            let size @ [batch, tokens, _, head_dim] = extents(&mut random);
            let x = random.tensor(&shape(size, tokens_first)[..], dtype)?;
            let rows = tokens + random.below(4);
            let (cos, sin) = match random.below(2) {
                0 => random.tables((rows, head_dim / 2), tables)?,
                _ => random.tables((batch, rows, head_dim / 2), tables)?,
            };
            let y = ours(&x, &cos, &sin)?;
            let again = ours(
                &scattered(&x, &mut random)?,
                &scattered(&cos, &mut random)?,
                &scattered(&sin, &mut random)?,
            )?;
            assert!(y.is_contiguous() && again.is_contiguous());
            assert_eq!(bits(&y)?, bits(&again)?, "{size:?} {dtype:?} {tables:?}");
        }
    }
    Ok(())
}

/// Each sequence has a table of more rows than tokens, from the middle of a longer table.
#[test]
fn sequences_have_positions_of_their_own() -> Result<()> {
    let mut random = Random::new("sequences");
    for (ours, candle, tokens_first) in FUNCTIONS {
        let (batch, tokens, heads, head_dim) = (3, 4, 2, 16);
        let x = random.tensor(
            &shape([batch, tokens, heads, head_dim], tokens_first)[..],
            DType::F32,
        )?;
        let (cos, sin) = random.tables((batch, 9, head_dim / 2), DType::F32)?;
        let (cos, sin) = (cos.narrow(1, 2, 6)?, sin.narrow(1, 2, 6)?);
        let y = ours(&x, &cos, &sin)?;
        for sequence in 0..batch {
            let table = |table: &Tensor| table.get(sequence)?.narrow(0, 0, tokens)?.contiguous();
            let alone = candle(
                &x.narrow(0, sequence, 1)?.contiguous()?,
                &table(&cos)?,
                &table(&sin)?,
            )?;
            assert_eq!(bits(&y.narrow(0, sequence, 1)?)?, bits(&alone)?);
        }
        // candle's own function reads the rows of the second sequence from the table of the first.
        let theirs = candle(&x, &cos.contiguous()?, &sin.contiguous()?)?;
        assert_eq!(bits(&theirs.get(0)?)?, bits(&y.get(0)?)?);
        assert_ne!(bits(&theirs.get(1)?)?, bits(&y.get(1)?)?);
        // All sequences share one row.
        let (cos, sin) = random.tables((1, tokens, head_dim / 2), DType::F32)?;
        let shared = |table: &Tensor| table.broadcast_as((batch, tokens, head_dim / 2));
        let y = ours(&x, &shared(&cos)?, &shared(&sin)?)?;
        assert_eq!(bits(&y)?, bits(&candle(&x, &cos.get(0)?, &sin.get(0)?)?)?);
    }
    Ok(())
}

/// Windows of a sequence begin at every element, so that heads share elements.
#[test]
fn elements_may_coincide() -> Result<()> {
    let mut random = Random::new("coincide");
    let windows = random.tensor((2, 5, 20), DType::BF16)?.unfold(2, 16, 1)?;
    let (cos, sin) = random.tables((5, 8), DType::F32)?;
    for (ours, _, _) in FUNCTIONS {
        let y = ours(&windows, &cos, &sin)?;
        assert_eq!(bits(&y)?, bits(&ours(&windows.contiguous()?, &cos, &sin)?)?);
    }
    Ok(())
}

#[test]
fn what_is_empty_stays_empty() -> Result<()> {
    for size in [[0, 3, 2, 8], [2, 0, 2, 8], [2, 3, 0, 8]] {
        for (ours, _, tokens_first) in FUNCTIONS {
            for dtype in [DType::F32, DType::BF16, DType::F64] {
                let x = Tensor::zeros(&shape(size, tokens_first)[..], dtype, &Device::Cpu)?;
                let table = Tensor::zeros((3, 4), DType::F32, &Device::Cpu)?;
                let y = ours(&x, &table, &table)?;
                assert_eq!((y.dims(), y.dtype()), (x.dims(), dtype));
            }
        }
    }
    Ok(())
}
