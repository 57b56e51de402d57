//! ARM's scalable vectors (SVE) of any length: kernels of lines in assembly, one for each pair of formats.
//!
//! A kernel loads cos and sin of the pairs that two vectors of f32 hold, then rotates these pairs of all heads.
//! Predicates keep the last pairs within their row. Instructions per head, for two vectors of first members and two of
//! second members:
//!
//! | step | instructions | |
//! |---|---|---|
//! | load, store f32 | `ld1w`, `st1w`; interleaved `ld2w`, `st2w` | 4; 2 each |
//! | load, store 16 bits | `ld1h`, `st1h` | 2 each |
//! | rotate | `fmul`, `fsub`, `fadd` | 12 |
//! | widen bf16 | `lsl`, `and`: the halves of words are even and odd elements | 4 |
//! | round to bf16, pack | `lsr`, `and`, two `add`; `trn2` or `uzp2` | 18 |
//! | widen f16 | `fcvt`, `lsr` | 6 |
//! | round to f16, pack | `fcvt`; `trn1` or `uzp1` | 6 |
//!
//! Rounding adds to the bits of a NaN, which must not carry into an infinity. NaNs from bf16 and from arithmetic have
//! an empty lower half; NaNs of cos and sin are replaced by such a NaN. `BFCVT` would round in one instruction, but not
//! every CPU with SVE has it.
//!
//! Registers: `z4` and `z5` cos, `z6` and `z7` sin, `z16` to `z19` the first and the second members of either vector of
//! pairs, `z20` to `z23` the rotated ones. Elements of 16 bits are loaded into `z24` and `z25`. Predicates: `p0` and
//! `p1` the pairs, `p2` the pairs as 16 bits, `p3` and `p4` both their members as 16 bits, `p5` all.

use core::arch::asm;

use super::line_kernels::{bytes, line_kernels};
use super::neon::Neon;
use super::shared_heads::HeadAddresses;

/// The proof that the CPU and its operating system support SVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sve(Neon);

impl Sve {
    pub(crate) fn detect() -> Option<Self> {
        vector_bytes().and_then(|_| Neon::detect()).map(Sve)
    }

    /// Bytes of a vector.
    pub(crate) fn vector_bytes(self) -> usize {
        vector_bytes().unwrap_or(0)
    }
}

cfg_if::cfg_if! {
    if #[cfg(target_feature = "sve")] {
        fn vector_bytes() -> Option<usize> {
            let bytes;
            // SAFETY: the build's target has the instruction, which reads the length of a vector and changes nothing.
            unsafe {
                asm!(
                    ".arch_extension sve",
                    "rdvl {bytes}, #1",
                    bytes = out(reg) bytes,
                    options(nomem, nostack, preserves_flags),
                );
            }
            Some(bytes)
        }
    } else if #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))] {
        /// Calls `prctl(PR_SVE_GET_VL)` once. A later change of the length goes unnoticed, and changes no bits.
        fn vector_bytes() -> Option<usize> {
            use core::sync::atomic::{AtomicU16, Ordering};

            use super::linux::sve_bytes;

            /// The bytes, or `ABSENT`; 0 before the call.
            static FOUND: AtomicU16 = AtomicU16::new(0);
            const ABSENT: u16 = 1;
            let mut found = FOUND.load(Ordering::Relaxed);
            if found == 0 {
                let status: isize;
                // SAFETY: the call reads and writes no memory.
                unsafe {
                    asm!(
                        "svc 0",
                        in("x8") 167,
                        inlateout("x0") 51_isize => status,
                        in("x1") 0,
                        in("x2") 0,
                        in("x3") 0,
                        in("x4") 0,
                        options(nostack),
                    );
                }
                found = sve_bytes(status).unwrap_or(ABSENT);
                FOUND.store(found, Ordering::Relaxed);
            }
            (found != ABSENT).then_some(found.into())
        }
    } else {
        fn vector_bytes() -> Option<usize> {
            None
        }
    }
}

/// The members of pairs to `z16` to `z19`, or as 16 bits to `z24` and `z25`.
macro_rules! load {
    (f32 Half) => {
        "add {q}, {p}, {between}
        ld1w {{z16.s}}, p0/z, [{p}]
        ld1w {{z18.s}}, p1/z, [{p}, #1, mul vl]
        ld1w {{z17.s}}, p0/z, [{q}]
        ld1w {{z19.s}}, p1/z, [{q}, #1, mul vl]"
    };
    (f32 Interleaved) => {
        "ld2w {{z16.s, z17.s}}, p0/z, [{p}] /* {between} */
        ld2w {{z18.s, z19.s}}, p1/z, [{p}, #2, mul vl]"
    };
    ($E:ident Half) => {
        "add {q}, {p}, {between}
        ld1h {{z24.h}}, p2/z, [{p}]
        ld1h {{z25.h}}, p2/z, [{q}]"
    };
    ($E:ident Interleaved) => {
        "ld1h {{z24.h}}, p3/z, [{p}] /* {between} */
        ld1h {{z25.h}}, p4/z, [{p}, #1, mul vl]"
    };
}

/// Undoes `load`, from `z20` to `z23`, or as 16 bits from `z20` and `z21`. The second members go to `q`.
macro_rules! store {
    ($r:literal, f32 Half) => {
        concat!(
            "st1w {{z20.s}}, p0, [{",
            $r,
            "}]
            st1w {{z22.s}}, p1, [{",
            $r,
            "}, #1, mul vl]
            st1w {{z21.s}}, p0, [{q}]
            st1w {{z23.s}}, p1, [{q}, #1, mul vl]\n"
        )
    };
    ($r:literal, f32 Interleaved) => {
        concat!(
            "st2w {{z20.s, z21.s}}, p0, [{",
            $r,
            "}]
            st2w {{z22.s, z23.s}}, p1, [{",
            $r,
            "}, #2, mul vl]\n"
        )
    };
    ($r:literal, $E:ident Half) => {
        concat!(
            "st1h {{z20.h}}, p2, [{",
            $r,
            "}]
            st1h {{z21.h}}, p2, [{q}]\n"
        )
    };
    ($r:literal, $E:ident Interleaved) => {
        concat!(
            "st1h {{z20.h}}, p3, [{",
            $r,
            "}]
            st1h {{z21.h}}, p4, [{",
            $r,
            "}, #1, mul vl]\n"
        )
    };
}

/// The address of the second members of another head than the loaded one.
macro_rules! second {
    (Half) => {
        "add {q}, {r}, {target_between}\n"
    };
    (Interleaved) => {
        "/* {target_between} */\n"
    };
}

/// The even and the odd elements of a vector of 16 bits as f32.
macro_rules! widen {
    (f32 $P:ident) => {
        ""
    };
    ($E:ident Half) => {
        concat!(widen!(@$E "z24" "z16" "z18"), widen!(@$E "z25" "z17" "z19"))
    };
    ($E:ident Interleaved) => {
        concat!(widen!(@$E "z24" "z16" "z17"), widen!(@$E "z25" "z18" "z19"))
    };
    (@bf16 $x:literal $even:literal $odd:literal) => {
        concat!(
            "lsl ", $even, ".s, ", $x, ".s, #16
            and ", $odd, ".d, ", $x, ".d, z28.d\n"
        )
    };
    (@f16 $x:literal $even:literal $odd:literal) => {
        concat!(
            "lsr ", $odd, ".s, ", $x, ".s, #16
            fcvt ", $even, ".s, p5/m, ", $x, ".h
            fcvt ", $odd, ".s, p5/m, ", $odd, ".h\n"
        )
    };
}

/// `(x, y) <- (x cos - y sin, x sin + y cos)`.
macro_rules! rotate {
    () => {
        "fmul z20.s, z16.s, z4.s
        fmul z22.s, z18.s, z5.s
        fmul z24.s, z17.s, z6.s
        fmul z25.s, z19.s, z7.s
        fmul z21.s, z16.s, z6.s
        fmul z23.s, z18.s, z7.s
        fsub z20.s, z20.s, z24.s
        fsub z22.s, z22.s, z25.s
        fmul z24.s, z17.s, z4.s
        fmul z25.s, z19.s, z5.s
        fadd z21.s, z21.s, z24.s
        fadd z23.s, z23.s, z25.s"
    };
}

/// Rounds f32 to elements and packs two vectors of them, by the order of the vectors' pairs.
macro_rules! narrow {
    ($I:ident $P:ident => f32 $Q:ident) => {
        ""
    };
    (f32 $P:ident => bf16 $Q:ident) => {
        concat!(
            narrow!(@any "z20"), narrow!(@any "z21"), narrow!(@any "z22"), narrow!(@any "z23"),
            narrow!(@pack "2" f32 $P => $Q)
        )
    };
    (bf16 $P:ident => bf16 $Q:ident) => {
        concat!(
            narrow!(@number "z20" "z24"), narrow!(@number "z21" "z25"),
            narrow!(@number "z22" "z26"), narrow!(@number "z23" "z24"),
            narrow!(@pack "2" bf16 $P => $Q)
        )
    };
    ($I:ident $P:ident => f16 $Q:ident) => {
        concat!(
            "fcvt z20.h, p5/m, z20.s
            fcvt z21.h, p5/m, z21.s
            fcvt z22.h, p5/m, z22.s
            fcvt z23.h, p5/m, z23.s\n",
            narrow!(@pack "1" $I $P => $Q)
        )
    };
    (@number $x:literal $t:literal) => {
        concat!(
            "lsr ", $t, ".s, ", $x, ".s, #16
            and ", $t, ".s, ", $t, ".s, #1
            add ", $x, ".s, ", $x, ".s, z27.s
            add ", $x, ".s, ", $x, ".s, ", $t, ".s\n"
        )
    };
    // A NaN of an f32 may have any lower half.
    (@any $x:literal) => {
        concat!(
            "fcmuo p6.s, p5/z, ", $x, ".s, ", $x, ".s\n",
            narrow!(@number $x "z24"),
            "mov ", $x, ".s, p6/m, z29.s\n"
        )
    };
    // Both members.
    (@pack $part:literal $I:ident $P:ident => Interleaved) => {
        concat!(
            "trn", $part, " z20.h, z20.h, z21.h
            trn", $part, " z21.h, z22.h, z23.h"
        )
    };
    // Even and odd pairs.
    (@pack $part:literal f16 Half => Half) => {
        narrow!(@apart "trn" $part)
    };
    (@pack $part:literal bf16 Half => Half) => {
        narrow!(@apart "trn" $part)
    };
    // Consecutive pairs.
    (@pack $part:literal $I:ident $P:ident => Half) => {
        narrow!(@apart "uzp" $part)
    };
    (@apart $how:literal $part:literal) => {
        concat!(
            $how, $part, " z20.h, z20.h, z22.h
            ", $how, $part, " z21.h, z21.h, z23.h"
        )
    };
}

/// Loads cos and sin in the order of the vectors' pairs: even and odd where elements of 16 bits are read member by
/// member.
macro_rules! order {
    (f32 $P:ident) => {
        ""
    };
    ($E:ident Interleaved) => {
        ""
    };
    ($E:ident Half) => {
        "mov z24.d, z4.d
        mov z25.d, z6.d
        uzp1 z4.s, z24.s, z5.s
        uzp2 z5.s, z24.s, z5.s
        uzp1 z6.s, z25.s, z7.s
        uzp2 z7.s, z25.s, z7.s"
    };
}

/// Replaces the NaNs of cos and sin by a NaN with an empty lower half.
macro_rules! quiet {
    (bf16) => {
        concat!(quiet!("z4"), quiet!("z5"), quiet!("z6"), quiet!("z7"))
    };
    ($E:ident) => {
        ""
    };
    ($x:literal) => {
        concat!(
            "fcmuo p6.s, p5/z, ",
            $x,
            ".s, ",
            $x,
            ".s
            mov ",
            $x,
            ".s, p6/m, z29.s\n"
        )
    };
}

/// The part after a number of pairs, in vectors.
macro_rules! advance {
    (f32 Half) => {
        "2"
    };
    (f32 Interleaved) => {
        "4"
    };
    ($E:ident Half) => {
        "1"
    };
    ($E:ident Interleaved) => {
        "2"
    };
}

/// Makes a kernel that rotates heads of one format into another, in the same memory or into another.
macro_rules! kernel {
    ($name:ident: $I:ident $P:ident => $O:ident $Q:ident, same) => {
        // `tests/platforms/cycles.py` finds the loop by this comment.
        kernel!(@asm $name heads $I $P $O $Q
            { concat!("/* in place: ", stringify!($I), " ", stringify!($P), " */") }
            { store!("p", $O $Q) } {""} {""}
        );
    };
    ($name:ident: $I:ident $P:ident => $O:ident $Q:ident, other) => {
        kernel!(@asm $name heads $I $P $O $Q
            { "mov {r}, {y}" }
            { concat!(second!($Q), store!("r", $O $Q)) }
            { "add {r}, {r}, {target_step}" }
            { concat!("addvl {y}, {y}, #", advance!($O $Q)) }
            r = out(reg) _,
            y = inout(reg) heads.target => _,
            target_step = in(reg) heads.target_step,
            target_between = in(reg) bytes!($O * heads.pairs),
        );
    };
    (
        @asm $name:ident $heads:ident $I:ident $P:ident $O:ident $Q:ident
        { $($first:tt)* } { $($store:tt)* } { $($next:tt)* } { $($advance:tt)* } $($operands:tt)*
    ) => {
        /// # Safety
        ///
        /// The CPU has SVE. The heads have these formats, and are in place exactly if the kernel's name has one format.
        unsafe fn $name($heads: &HeadAddresses<'_>) {
            // SAFETY: the CPU has the instructions. Predicates restrict loads and stores to pairs of the row and of the
            // heads, and `HeadAddresses` has checked that these lie in slices, which it borrows. The block does not use
            // the stack, and names all registers that it writes.
            unsafe {
                asm!(
                    ".arch_extension sve",
                    "mov z30.s, {q:w}\n mov z31.s, {h:w}",
                    "mov z27.s, #0x7fff\n mov z28.s, #0xffff0000\n mov z29.s, #0x7fc00000",
                    "ptrue p5.s\n mov {i}, xzr",
                    "2: whilelo p0.s, {i}, {n}\n whilelo p2.h, {i}, {n}",
                    "mov {p}, {i}\n incw {p}\n whilelo p1.s, {p}, {n}",
                    "lsl {p}, {i}, #1\n lsl {q}, {n}, #1\n whilelo p3.h, {p}, {q}",
                    "inch {p}\n whilelo p4.h, {p}, {q}",
                    "ld1w {{z4.s}}, p0/z, [{cos}]\n ld1w {{z5.s}}, p1/z, [{cos}, #1, mul vl]",
                    "ld1w {{z6.s}}, p0/z, [{sin}]\n ld1w {{z7.s}}, p1/z, [{sin}, #1, mul vl]",
                    "fmul z4.s, z4.s, z30.s\n fmul z5.s, z5.s, z30.s",
                    "fmul z6.s, z6.s, z31.s\n fmul z7.s, z7.s, z31.s",
                    order!($I $P),
                    quiet!($O),
                    "mov {h}, {heads}\n mov {p}, {x}",
                    $($first)*,
                    "3:",
                    load!($I $P),
                    widen!($I $P),
                    rotate!(),
                    narrow!($I $P => $O $Q),
                    $($store)*,
                    "add {p}, {p}, {step}",
                    $($next)*,
                    "subs {h}, {h}, #1\n b.ne 3b",
                    "addvl {cos}, {cos}, #2\n addvl {sin}, {sin}, #2",
                    concat!("addvl {x}, {x}, #", advance!($I $P)),
                    $($advance)*,
                    "incw {i}, all, mul #2\n cmp {i}, {n}\n b.lo 2b",
                    i = out(reg) _,
                    p = out(reg) _,
                    q = inout(reg) u64::from($heads.factors[0].to_bits()) => _,
                    h = inout(reg) u64::from($heads.factors[1].to_bits()) => _,
                    n = in(reg) $heads.pairs,
                    cos = inout(reg) $heads.cos => _,
                    sin = inout(reg) $heads.sin => _,
                    x = inout(reg) $heads.source => _,
                    heads = in(reg) $heads.heads,
                    step = in(reg) $heads.source_step,
                    between = in(reg) bytes!($I * $heads.pairs),
                    $($operands)*
                    out("p0") _, out("p1") _, out("p2") _, out("p3") _, out("p4") _, out("p5") _, out("p6") _,
                    out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v16") _, out("v17") _, out("v18") _,
                    out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    out("v26") _, out("v27") _, out("v28") _, out("v29") _, out("v30") _, out("v31") _,
                    options(nostack),
                );
            }
        }
    };
}

line_kernels! { kernel, Sve, Neon, narrower: |Sve(neon)| neon }
