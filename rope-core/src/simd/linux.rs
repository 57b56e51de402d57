//! Decodes Linux's answers about vectors. The system calls are in `cpu_riscv.rs` and `sve.rs`.

#![cfg_attr(
    not(test),
    allow(dead_code, reason = "a CPU has one of these calls; tests run on any")
)]

/// The key of `riscv_hwprobe` for the extensions beside IMA.
pub(super) const EXTENSIONS: i64 = 4;

/// Returns true if the pair that `riscv_hwprobe` filled in has V 1.0; `None` if the kernel lacks the call. An older
/// kernel replaces an unknown key.
pub(super) fn v_of_hwprobe(status: isize, (key, value): (i64, u64)) -> Option<bool> {
    const V: u64 = 1 << 2;
    (status == 0).then_some(key == EXTENSIONS && value & V != 0)
}

/// Returns true if the auxiliary vector of a process has the letter V.
pub(super) fn v_of_auxiliary(entries: &[[u64; 2]]) -> bool {
    const HARDWARE_CAPABILITIES: u64 = 16;
    const V: u64 = 1 << (b'V' - b'A');
    let mut entries = entries.iter();
    entries.any(|&[key, value]| key == HARDWARE_CAPABILITIES && value & V != 0)
}

/// Returns the bytes of a vector from the status of `prctl(PR_SVE_GET_VL)`: its lower half. Errors are negative.
pub(super) fn sve_bytes(status: isize) -> Option<u16> {
    let bytes = u16::try_from(status & 0xffff).ok();
    bytes.filter(|&bytes| status > 0 && bytes >= 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::sve_pays;

    #[test]
    fn v_is_one_extension_of_one_key() {
        for (status, pair, expected) in [
            (0, (4, 0b100), Some(true)),
            (0, (4, 0b1011), Some(false)),
            // A kernel without the key, and one without the call, which writes nothing.
            (0, (-1, 0b100), Some(false)),
            (-38, (4, 0), None),
            (-38, (4, 0b100), None),
        ] {
            assert_eq!(v_of_hwprobe(status, pair), expected, "{status} {pair:?}");
        }
    }

    #[test]
    fn v_is_one_letter_of_the_capabilities() {
        let letters = |text: &str| -> u64 { text.bytes().map(|letter| 1 << (letter - b'A')).sum() };
        let of = |letters: u64| v_of_auxiliary(&[[33, u64::MAX], [16, letters], [6, 4096], [0, 0]]);
        assert!(of(letters("IMAFDCV")));
        assert!(!of(letters("IMAFDC")));
        assert!(!v_of_auxiliary(&[]));
        assert!(!v_of_auxiliary(&[[26, u64::MAX], [0, 0]]));
    }

    #[test]
    fn sve_has_at_least_the_bytes_of_neon() {
        // PR_SVE_VL_INHERIT is bit 17.
        for (status, expected) in [
            (16, Some(16)),
            (1 << 17 | 32, Some(32)),
            (256, Some(256)),
            (-22, None),
            (0, None),
        ] {
            assert_eq!(sve_bytes(status), expected, "{status}");
        }
    }

    #[test]
    fn sve_yields_to_neon_at_128_bits() {
        let pays = |status| sve_pays(sve_bytes(status).unwrap().into());
        assert_eq!([16, 32, 64, 256].map(pays), [false, true, true, true]);
    }
}
