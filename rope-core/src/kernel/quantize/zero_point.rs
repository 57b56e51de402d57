//! Unsigned codes with a scale and a zero point for each group of channels: OpenVINO's u8 and u4.
//!
//! A group is a block of bytes: the scale and the zero point in f32, then the codes. [`AsymmetricRule::ZeroPoint`] has
//! the formulas of OpenVINO's vector code on x86. Its plain code, which other machines run, rounds
//! `x / scale + zero point`, halves away from zero.

use super::BlockFormat;
use super::unsigned::{
    AsymmetricRule, DecodeUnsigned, NUMBERS, UnsignedEncoding, UnsignedGroups, encode,
};

pub(super) static U8_IN_32: BlockFormat = format::<32, 8>("u8_in_32");
pub(super) static U8_IN_64: BlockFormat = format::<64, 8>("u8_in_64");
pub(super) static U8_IN_128: BlockFormat = format::<128, 8>("u8_in_128");
pub(super) static U4_IN_32: BlockFormat = format::<32, 4>("u4_in_32");
pub(super) static U4_IN_64: BlockFormat = format::<64, 4>("u4_in_64");
pub(super) static U4_IN_128: BlockFormat = format::<128, 4>("u4_in_128");

/// Creates the format of groups of `VALUES` values with codes of `BITS` bits.
const fn format<const VALUES: usize, const BITS: usize>(name: &'static str) -> BlockFormat {
    BlockFormat {
        name,
        values: VALUES,
        bytes: NUMBERS + VALUES * BITS / 8,
        encode: |proof, values, codes| {
            let encoding = &mut UnsignedEncoding {
                groups: groups(VALUES, BITS),
                values,
                codes,
                numbers: &mut [],
            };
            encode(proof, encoding);
        },
        decode: |proof, codes, values| {
            proof.run(DecodeUnsigned {
                groups: groups(VALUES, BITS),
                codes,
                numbers: &[],
                values,
            });
        },
    }
}

const fn groups(channels: usize, bits: usize) -> UnsignedGroups {
    UnsignedGroups {
        rule: AsymmetricRule::ZeroPoint,
        bits,
        channels,
        before: NUMBERS,
    }
}
