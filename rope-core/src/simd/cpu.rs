//! Detects the instruction sets of the CPU by CPUID and XCR0, without std. The result is kept, because hypervisors trap
//! CPUID (measured: 3.7 us per leaf).

cfg_if::cfg_if! {
    // Miri and SGX cannot execute CPUID; there the build's target decides.
    if #[cfg(any(miri, target_env = "sgx"))] {
        pub(crate) fn has_avx2() -> bool {
            cfg!(all(target_feature = "avx2", target_feature = "fma", target_feature = "f16c"))
        }

        pub(crate) fn has_avx512() -> bool {
            has_avx2()
                && cfg!(all(
                    target_feature = "avx512f",
                    target_feature = "avx512bw",
                    target_feature = "avx512dq",
                    target_feature = "avx512vl",
                    target_feature = "avx512vbmi2"
                ))
        }

        pub(crate) fn has_avx512_bf16() -> bool {
            has_avx512() && cfg!(all(target_feature = "avx512bf16", target_feature = "avx512vbmi"))
        }

        pub(crate) fn tuning_row() -> u8 {
            0
        }
    } else {
        pub(crate) use detected::{has_avx2, has_avx512, has_avx512_bf16, tuning_row};
    }
}

#[cfg(not(any(miri, target_env = "sgx")))]
mod detected {
    #[cfg(target_arch = "x86")]
    use core::arch::x86 as arch;
    #[cfg(target_arch = "x86_64")]
    use core::arch::x86_64 as arch;
    use core::sync::atomic::{AtomicU16, Ordering};

    use crate::tuning::Tuning;

    const KNOWN: u16 = 1;
    const AVX2: u16 = 2;
    const AVX512: u16 = 4;
    const AVX512_BF16: u16 = 8;
    /// The lowest bit of the core's row in the table of [`Tuning`].
    const ROW: u32 = 8;

    /// Concurrent threads compute the same value, so relaxed loads and stores suffice.
    static FOUND: AtomicU16 = AtomicU16::new(0);

    pub(crate) fn has_avx2() -> bool {
        found() & AVX2 != 0
    }

    pub(crate) fn has_avx512() -> bool {
        found() & AVX512 != 0
    }

    pub(crate) fn has_avx512_bf16() -> bool {
        found() & AVX512_BF16 != 0
    }

    pub(crate) fn tuning_row() -> u8 {
        (found() >> ROW) as u8
    }

    fn found() -> u16 {
        match FOUND.load(Ordering::Relaxed) {
            0 => {
                let found = detect();
                FOUND.store(found, Ordering::Relaxed);
                found
            }
            found => found,
        }
    }

    /// Intel's and AMD's manuals, CPUID: leaf 1, leaf 7 subleaves 0 and 1; XCR0: the register state that the system
    /// saves.
    #[cold]
    fn detect() -> u16 {
        let all = |register: u32, bits: &[u32]| bits.iter().all(|bit| register >> bit & 1 == 1);
        let mut found = KNOWN;
        let leaf0 = arch::__cpuid(0);
        if leaf0.eax < 7 {
            return found;
        }
        let arch::CpuidResult {
            eax: signature,
            ecx: leaf1,
            ..
        } = arch::__cpuid(1);
        let vendor = [leaf0.ebx, leaf0.edx, leaf0.ecx].map(u32::to_le_bytes);
        let [family, model] = family_and_model(signature);
        let row = Tuning::row_of_x86(vendor.as_flattened(), family, model);
        found |= u16::from(row) << ROW;
        let leaf7 = arch::__cpuid_count(7, 0);
        let (fma, xsave, osxsave, avx, f16c) = (12, 26, 27, 28, 29);
        if !all(leaf1, &[xsave, osxsave]) {
            return found;
        }
        // SAFETY: the CPU has XSAVE, and OSXSAVE allows programs to execute XGETBV.
        let saved = unsafe { xcr0() };
        let (sse, ymm, masks, zmm_upper, zmm_high) = (1, 2, 5, 6, 7);
        let avx2 = 5;
        if all(leaf1, &[fma, avx, f16c]) && all(leaf7.ebx, &[avx2]) && all(saved, &[sse, ymm]) {
            found |= AVX2;
            let (f, dq, bw, vl) = (16, 17, 30, 31);
            let vbmi2 = 6;
            if all(leaf7.ebx, &[f, dq, bw, vl])
                && all(leaf7.ecx, &[vbmi2])
                && all(saved, &[masks, zmm_upper, zmm_high])
            {
                found |= AVX512;
                // EAX of leaf 7 is the last subleaf.
                let (vbmi, bf16) = (1, 5);
                if leaf7.eax >= 1
                    && all(leaf7.ecx, &[vbmi])
                    && all(arch::__cpuid_count(7, 1).eax, &[bf16])
                {
                    found |= AVX512_BF16;
                }
            }
        }
        found
    }

    /// Decodes family and model, base and extended, from EAX of leaf 1.
    pub(super) fn family_and_model(signature: u32) -> [u32; 2] {
        let family = (signature >> 8 & 0xF) + (signature >> 20 & 0xFF);
        [family, signature >> 4 & 0xF | signature >> 12 & 0xF0]
    }

    /// The lower half of XCR0.
    #[target_feature(enable = "xsave")]
    fn xcr0() -> u32 {
        // SAFETY: XCR0 exists on every CPU with XSAVE.
        unsafe { arch::_xgetbv(0) as u32 }
    }
}

#[cfg(all(test, not(any(miri, target_env = "sgx"))))]
mod tests {
    use std::is_x86_feature_detected as std_has;

    use super::detected::family_and_model;

    /// Signatures of published CPUs: EPYC 7763 (Zen 3), EPYC 9654 (Zen 4), EPYC 9755 (Zen 5), Xeon Platinum 8480+.
    #[test]
    fn reads_families_and_models() {
        let signatures = [0x00A0_0F11, 0x00A1_0F11, 0x00B0_0F21, 0x0008_06F8];
        let expected = [[0x19, 0x01], [0x19, 0x11], [0x1A, 0x02], [6, 0x8F]];
        assert_eq!(signatures.map(family_and_model), expected);
    }

    #[test]
    fn says_what_std_says() {
        let avx2 = std_has!("avx2") && std_has!("fma") && std_has!("f16c");
        let avx512 = avx2
            && std_has!("avx512f")
            && std_has!("avx512bw")
            && std_has!("avx512dq")
            && std_has!("avx512vl")
            && std_has!("avx512vbmi2");
        assert_eq!(super::has_avx2(), avx2);
        assert_eq!(super::has_avx512(), avx512);
        assert_eq!(
            super::has_avx512_bf16(),
            avx512 && std_has!("avx512bf16") && std_has!("avx512vbmi")
        );
    }
}
