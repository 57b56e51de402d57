//! The block formats, by name.

use super::{BlockFormat, Q8_0, ggml, zero_point};

impl BlockFormat {
    /// 34 bytes: an f16 `d = largest |x| / 127`, and 32 8-bit integers `x (1 / d)`, halves away from zero. (ggml's own
    /// SIMD code paths each round this format differently.)
    pub const Q8_0: &'static BlockFormat = &Q8_0;
    /// 18 bytes: an f16 `d = m / -8`, where `m` is the first value of the largest magnitude, and 16 bytes of codes;
    /// decodes as `(code - 8) d`.
    pub const Q4_0: &'static BlockFormat = &ggml::Q4_0;
    /// 20 bytes: an f16 `d = (max - min) / 15`, an f16 `min`, and 16 bytes of codes; decodes as `code d + min`.
    pub const Q4_1: &'static BlockFormat = &ggml::Q4_1;
    /// 22 bytes: an f16 `d = m / -16` as in Q4_0, 4 bytes of fifth bits, and 16 bytes of codes; decodes as `(code - 16)
    /// d`.
    pub const Q5_0: &'static BlockFormat = &ggml::Q5_0;
    /// 24 bytes: an f16 `d = (max - min) / 31`, an f16 `min`, 4 bytes of fifth bits, and 16 bytes of codes; decodes as
    /// `code d + min`.
    pub const Q5_1: &'static BlockFormat = &ggml::Q5_1;
    /// 18 bytes: an f16 `d`, and 16 bytes of codes, which index a table of 16 integers from -127 to 113; decodes as `d
    /// table[code]`. `d` has the least squared error, weighted by the squares of the values.
    pub const IQ4_NL: &'static BlockFormat = &ggml::IQ4_NL;
    /// OpenVINO's u8 in groups of 32 channels, 40 bytes: an f32 `scale = (max - min) / 255`, or 0.0001 if that is 0, an
    /// f32 `zero = -min / scale`, and 32 bytes of codes; decodes as `(code - zero) scale`.
    ///
    /// A code is `x (1 / scale) + zero` by a fused multiply-add, to the nearest integer, ties to even: the formula of
    /// its vector code on x86. (Its plain code, on other machines, rounds `x / scale + zero`, halves away from zero.)
    /// The numbers are little-endian. The bounds ignore NaNs, whose code is 0. A group with an infinity decodes to NaN.
    pub const U8_IN_32: &'static BlockFormat = &zero_point::U8_IN_32;
    /// OpenVINO's u8 in groups of 64 channels, 72 bytes: as [`BlockFormat::U8_IN_32`].
    pub const U8_IN_64: &'static BlockFormat = &zero_point::U8_IN_64;
    /// OpenVINO's u8 in groups of 128 channels, 136 bytes: as [`BlockFormat::U8_IN_32`].
    pub const U8_IN_128: &'static BlockFormat = &zero_point::U8_IN_128;
    /// OpenVINO's u4 in groups of 32 channels, 24 bytes: as [`BlockFormat::U8_IN_32`] with 15 for 255, and two codes
    /// per byte, the even channel in the high half.
    pub const U4_IN_32: &'static BlockFormat = &zero_point::U4_IN_32;
    /// OpenVINO's u4 in groups of 64 channels, 40 bytes: as [`BlockFormat::U4_IN_32`].
    pub const U4_IN_64: &'static BlockFormat = &zero_point::U4_IN_64;
    /// OpenVINO's u4 in groups of 128 channels, 72 bytes: as [`BlockFormat::U4_IN_32`].
    pub const U4_IN_128: &'static BlockFormat = &zero_point::U4_IN_128;

    /// All formats of ggml.
    pub const ALL: [&'static BlockFormat; 6] = [
        BlockFormat::Q8_0,
        BlockFormat::Q4_0,
        BlockFormat::Q4_1,
        BlockFormat::Q5_0,
        BlockFormat::Q5_1,
        BlockFormat::IQ4_NL,
    ];
}
