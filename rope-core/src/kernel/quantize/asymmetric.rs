//! Unsigned codes whose two numbers for each group of channels, which may be a whole head, are apart from the codes:
//! OpenVINO's u8 and u4 with their scales and zero points, and tract's u8.

use super::unsigned::{AsymmetricRule, DecodeUnsigned, UnsignedEncoding, UnsignedGroups, encode};
use crate::kernel::values::Values;
use crate::proof::Proof;

/// Codes of 8 or 4 bits in groups of any number of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsymmetricGroups {
    kernels: &'static AsymmetricKernels,
    rule: AsymmetricRule,
    /// Bits of a code, 8 or 4.
    bits: usize,
    /// Channels of a group.
    pub(crate) channels: usize,
}

/// The kernels of all groups. A reference, so that programs without such a cache link none of them.
#[derive(Debug)]
struct AsymmetricKernels {
    encode: fn(Proof, &mut UnsignedEncoding<'_>),
    decode: fn(Proof, DecodeUnsigned<'_>),
}

static KERNELS: AsymmetricKernels = AsymmetricKernels {
    encode,
    decode: |proof, groups| proof.run(groups),
};

impl AsymmetricGroups {
    pub(crate) const fn new(bits: usize, channels: usize, rule: AsymmetricRule) -> Self {
        AsymmetricGroups {
            kernels: &KERNELS,
            rule,
            bits,
            channels,
        }
    }

    /// Returns the codes of a byte.
    #[inline(always)]
    pub(crate) fn per_byte(&self) -> usize {
        8 / self.bits
    }

    /// Encodes whole groups: codes, and two numbers for each, in the byte order of the machine.
    pub(crate) fn encode(
        &self,
        proof: Proof,
        values: Values<'_>,
        codes: &mut [u8],
        numbers: &mut [u8],
    ) {
        let encoding = &mut UnsignedEncoding {
            groups: self.groups(),
            values,
            codes,
            numbers,
        };
        (self.kernels.encode)(proof, encoding);
    }

    /// Decodes whole groups from their codes and numbers.
    pub(crate) fn decode(&self, proof: Proof, [codes, numbers]: [&[u8]; 2], values: &mut [f32]) {
        let decoding = DecodeUnsigned {
            groups: self.groups(),
            codes,
            numbers,
            values,
        };
        (self.kernels.decode)(proof, decoding);
    }

    fn groups(&self) -> UnsignedGroups {
        UnsignedGroups {
            rule: self.rule,
            bits: self.bits,
            channels: self.channels,
            before: 0,
        }
    }
}
