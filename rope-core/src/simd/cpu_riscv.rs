//! Detects the vectors of a RISC-V CPU without std: by the kernel on Linux, by the build elsewhere.
//!
//! Stable compilers do not show `-C target-feature=+v` to the code, so such a build also passes `--cfg rope_rvv`.

cfg_if::cfg_if! {
    if #[cfg(any(target_feature = "v", rope_rvv))] {
        pub(super) fn has_v() -> bool {
            true
        }
    } else if #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))] {
        pub(super) use linux::has_v;
    } else {
        pub(super) fn has_v() -> bool {
            false
        }
    }
}

#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(miri, target_feature = "v", rope_rvv))
))]
mod linux {
    use core::arch::asm;
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::super::linux::{EXTENSIONS, v_of_auxiliary, v_of_hwprobe};

    /// Not detected yet.
    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const PRESENT: u8 = 2;

    /// Concurrent threads compute the same value, so relaxed loads and stores suffice.
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);

    pub(crate) fn has_v() -> bool {
        match FOUND.load(Ordering::Relaxed) {
            UNKNOWN => {
                let found = probe().unwrap_or_else(|| auxiliary() && has_agnostic_tails());
                FOUND.store(if found { PRESENT } else { ABSENT }, Ordering::Relaxed);
                found
            }
            known => known == PRESENT,
        }
    }

    /// Calls `riscv_hwprobe`. `None` if the kernel lacks it: before Linux 6.4, and in some emulators.
    fn probe() -> Option<bool> {
        let mut pair: (i64, u64) = (EXTENSIONS, 0);
        // SAFETY: the call writes one pair, for all CPUs, and nothing else.
        let status = unsafe { system_call(258, [(&raw mut pair).addr(), 1, 0, 0, 0]) };
        v_of_hwprobe(status, pair)
    }

    /// Returns true if the auxiliary vector of the process has the letter V.
    fn auxiliary() -> bool {
        const HERE: usize = -100_isize as usize;
        let (path, mut entries) = (c"/proc/self/auxv", [[0_u64; 2]; 64]);
        // SAFETY: the call reads the path, which ends in a zero.
        let file = unsafe { system_call(56, [HERE, path.as_ptr().addr(), 0, 0, 0]) };
        let Ok(file) = usize::try_from(file) else {
            return false;
        };
        // SAFETY: the call writes at most the bytes of the entries.
        let read = unsafe {
            let size = size_of_val(&entries);
            system_call(63, [file, entries.as_mut_ptr().addr(), size, 0, 0])
        };
        // SAFETY: the file is the one that was opened above.
        unsafe { system_call(57, [file, 0, 0, 0, 0]) };
        let read = usize::try_from(read).unwrap_or(0) / size_of::<[u64; 2]>();
        v_of_auxiliary(&entries[..read])
    }

    /// Returns true if the CPU has V 1.0. Some kernels report the letter for V 0.7, which lacks agnostic tails: a
    /// vector type with these bits is illegal there, and its length is zero.
    fn has_agnostic_tails() -> bool {
        let length: usize;
        // SAFETY: a CPU with vectors of any version has the instruction. It writes a register, vl and vtype, which a
        // block of assembly may change.
        unsafe {
            asm!(
                ".option push\n .option arch, +v",
                "vsetvli {length}, x0, e32, m4, ta, ma",
                ".option pop",
                length = out(reg) length,
                options(nomem, nostack),
            );
        }
        length != 0
    }

    /// Calls the kernel.
    ///
    /// # Safety
    ///
    /// The call must be sound with its arguments.
    unsafe fn system_call(number: usize, arguments: [usize; 5]) -> isize {
        let [a, b, c, d, e] = arguments;
        let status;
        // SAFETY: the caller promises that the call is sound with its arguments. It changes the register of the status
        // and possibly the vector registers, which are clobbers.
        unsafe {
            asm!(
                "ecall",
                in("a7") number,
                inlateout("a0") a => status,
                in("a1") b,
                in("a2") c,
                in("a3") d,
                in("a4") e,
                clobber_abi("C"),
                options(nostack),
            );
        }
        status
    }
}
