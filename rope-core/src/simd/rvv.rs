//! RISC-V's vectors (V 1.0) of any length: kernels of lines in assembly, one for each pair of formats.
//!
//! A kernel loads cos and sin of the pairs that four registers hold, then rotates these pairs of all heads. The last
//! pairs fill a part of the registers: `vsetvli` sets the length. Instructions per head, for four registers of first
//! members and four of second members:
//!
//! | step | instructions | |
//! |---|---|---|
//! | load, store | `vle32`, `vse32`; interleaved `vlseg2e32`, `vsseg2e32` | 2; 1 each |
//! | rotate | `vfmul`, `vfsub`, `vfadd` | 6 |
//! | widen bf16 | `vzext`, `vsll` | 4 |
//! | round to bf16 | `vnclipu`, which rounds to nearest even | 2 |
//! | widen f16 | `vwmul`, a mask, a product, each for both members | 6 |
//! | round to f16 | a sum with a power of two, then the bits of the sum | 22 |
//!
//! A NaN that arithmetic returns is always the canonical one, so that no rounding can carry it into an infinity.
//! Conversions of f16 use V alone: Zvfhmin, which has them, is newer than V.
//!
//! Registers: `v8` and `v12` the members of the pairs, `v4` cos, `v16` sin, `v20` and `v24` the rotated members.
//! Elements of 16 bits are loaded into and stored from `v20` and `v22`.

use core::arch::asm;

use super::Portable;
use super::cpu_riscv;
use super::line_kernels::{bytes, line_kernels};
use super::shared_heads::HeadAddresses;

/// The proof that the CPU and its operating system support V.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rvv(());

impl Rvv {
    pub(crate) fn detect() -> Option<Self> {
        cpu_riscv::has_v().then_some(Rvv(()))
    }
}

/// The members of pairs to `v8` and `v12`, or as 16 bits to `v20` and `v22`.
macro_rules! load {
    (f32 Half) => {
        "add {q}, {p}, {between}\n vle32.v v8, ({p})\n vle32.v v12, ({q})\n"
    };
    (f32 Interleaved) => {
        "vlseg2e32.v v8, ({p}) /* {between} */\n"
    };
    ($E:ident Half) => {
        "add {q}, {p}, {between}\n vle16.v v20, ({p})\n vle16.v v22, ({q})\n"
    };
    ($E:ident Interleaved) => {
        "vlseg2e16.v v20, ({p}) /* {between} */\n"
    };
}

/// Undoes `load` from `v20` and `v24`, or as 16 bits from `v20` and `v22`. The second members go to `q`.
macro_rules! store {
    ($r:literal, f32 Half) => {
        concat!("vse32.v v20, ({", $r, "})\n vse32.v v24, ({q})\n")
    };
    ($r:literal, f32 Interleaved) => {
        concat!("vsseg2e32.v v20, ({", $r, "})\n")
    };
    ($r:literal, $E:ident Half) => {
        concat!("vse16.v v20, ({", $r, "})\n vse16.v v22, ({q})\n")
    };
    ($r:literal, $E:ident Interleaved) => {
        concat!("vsseg2e16.v v20, ({", $r, "})\n")
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

/// Elements to f32, as `convert.rs` defines it.
macro_rules! widen {
    (f32 => f32) => {
        ""
    };
    (f32 => $E:ident) => {
        "vsetvli x0, x0, e32, m4, ta, ma\n"
    };
    (bf16 => $E:ident) => {
        "vsetvli x0, x0, e32, m4, ta, ma
        vzext.vf2 v8, v20
        vzext.vf2 v12, v22
        vsll.vi v8, v8, 16
        vsll.vi v12, v12, 16\n"
    };
    // Converts both members at once, with all elements of their adjacent registers: the second members begin after the
    // unused elements of the first. The shift by 13 extends the sign, of which one bit is kept. The double of an
    // infinity or a NaN exceeds twice the largest finite magnitude; such elements get the exponent 255, and `mu` keeps
    // all others. The product corrects the bias.
    (f16 => $E:ident) => {
        "vsetvli {vl}, x0, e16, m4, ta, ma
        vadd.vv v24, v20, v20
        vmsgtu.vx v0, v24, {finite}
        vwmul.vx v8, v20, {shift}
        vsetvli x0, x0, e32, m8, ta, mu
        vand.vx v8, v8, {kept}
        vor.vx v8, v8, {infinity}, v0.t
        vfmul.vf v8, v8, ft2
        vsetvli {vl}, {left}, e32, m4, ta, ma\n"
    };
}

/// f32 to elements, rounding, as `convert.rs` defines it.
macro_rules! narrow {
    (f32) => {
        ""
    };
    (bf16) => {
        "vsetvli x0, x0, e16, m2, ta, ma
        vnclipu.wi v20, v20, 16
        vnclipu.wi v22, v24, 16\n"
    };
    (f16) => {
        concat!(
            narrow!(f16 "v20"),
            narrow!(f16 "v24"),
            "vsetvli x0, x0, e16, m2, ta, ma
            vnsrl.wi v20, v20, 13
            vnsrl.wi v22, v24, 13
            vadd.vx v20, v20, {bias}
            vadd.vx v22, v22, {bias}\n"
        )
    };
    // `v12` is the magnitude, at most 65536, plus the power of two that gives the sum the last place of the f16. A
    // product with 2^13 + 1 puts the exponent of the sum above its lowest bits. The sign is added, and for a NaN the
    // distance of its magnitude from infinity, which sets a bit of the mantissa.
    (f16 $x:literal) => {
        concat!(
            "vfsgnjx.vv v8, ", $x, ", ", $x, "
            vminu.vx v12, v8, {beyond}
            vand.vx v28, v12, {infinity}
            vmaxu.vx v28, v28, {least}
            vfmacc.vf v12, ft3, v28
            vssubu.vx v8, v8, {infinity}
            vsrl.vi ", $x, ", ", $x, ", 31
            vmadd.vx ", $x, ", {sign}, v8
            vmacc.vx ", $x, ", {twice}, v12\n"
        )
    };
}

/// `(v20, v24) <- (x cos - y sin, x sin + y cos)`.
macro_rules! rotate {
    () => {
        "vfmul.vv v20, v8, v4
        vfmul.vv v24, v12, v16
        vfsub.vv v20, v20, v24
        vfmul.vv v24, v8, v16
        vfmul.vv v28, v12, v4
        vfadd.vv v24, v24, v28\n"
    };
}

/// Code before the first conversion: a rounding mode, factors.
macro_rules! ready {
    (f32) => {
        ""
    };
    (bf16) => {
        "csrwi vxrm, 1\n"
    };
    (f16) => {
        // 2^112 and 2^13.
        "lui {q}, 0x77800
        fmv.w.x ft2, {q}
        lui {q}, 0x46000
        fmv.w.x ft3, {q}\n"
    };
}

/// The binary logarithms of the bytes of an element and of the adjacent members of a pair.
macro_rules! shift {
    (f32 Half) => {
        "2"
    };
    (f32 Interleaved) => {
        "3"
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
    ($name:ident: f16 $P:ident => f16 $Q:ident, $place:ident) => {
        kernel!(@$place $name f16 $P f16 $Q,
            finite = in(reg) 2 * 0x7bff + 1,
            shift = in(reg) 1 << 13,
            kept = in(reg) 0x8fff_e000_u32,
            infinity = in(reg) f32::INFINITY.to_bits(),
            beyond = in(reg) 65536_f32.to_bits(),
            least = in(reg) 113 << 23,
            sign = in(reg) 1 << 28,
            twice = in(reg) (1 << 13) + 1,
            bias = in(reg) 0x0800,
        );
    };
    ($name:ident: $I:ident $P:ident => f16 $Q:ident, $place:ident) => {
        kernel!(@$place $name $I $P f16 $Q,
            infinity = in(reg) f32::INFINITY.to_bits(),
            beyond = in(reg) 65536_f32.to_bits(),
            least = in(reg) 113 << 23,
            sign = in(reg) 1 << 28,
            twice = in(reg) (1 << 13) + 1,
            bias = in(reg) 0x0800,
        );
    };
    ($name:ident: $I:ident $P:ident => $O:ident $Q:ident, $place:ident) => {
        kernel!(@$place $name $I $P $O $Q,);
    };
    (@same $name:ident $I:ident $P:ident $O:ident $Q:ident, $($constants:tt)*) => {
        // `tests/platforms/cycles.py` finds the loop by this comment.
        kernel!(@asm $name heads $I $P $O $Q
            { concat!("/* in place: ", stringify!($I), " ", stringify!($P), " */") }
            { store!("p", $O $Q) } {""} {""}
            // The address identifies the last head: written heads lie apart.
            { "add {h}, {x}, {last}" } { "bne {p}, {h}, 3b" }
            last = in(reg) heads.heads.wrapping_mul(heads.source_step),
            $($constants)*
        );
    };
    (@other $name:ident $I:ident $P:ident $O:ident $Q:ident, $($constants:tt)*) => {
        kernel!(@asm $name heads $I $P $O $Q
            { "mv {r}, {y}" }
            { concat!(second!($Q), store!("r", $O $Q)) }
            { "add {r}, {r}, {target_step}" }
            { concat!("slli {q}, {vl}, ", shift!($O $Q), "\n add {y}, {y}, {q}") }
            { "mv {h}, {heads}" } { "addi {h}, {h}, -1\n bnez {h}, 3b" }
            heads = in(reg) heads.heads,
            r = out(reg) _,
            y = inout(reg) heads.target => _,
            target_step = in(reg) heads.target_step,
            target_between = in(reg) bytes!($O * heads.pairs),
            $($constants)*
        );
    };
    (
        @asm $name:ident $heads:ident $I:ident $P:ident $O:ident $Q:ident
        { $($first:tt)* } { $($store:tt)* } { $($next:tt)* } { $($advance:tt)* }
        { $($count:tt)* } { $($again:tt)* } $($operands:tt)*
    ) => {
        /// # Safety
        ///
        /// The CPU has V. The heads have these formats, and are in place exactly if the kernel's name has one format.
        unsafe fn $name($heads: &HeadAddresses<'_>) {
            // SAFETY: the CPU has the instructions. The block accesses only pairs of the row and of the heads, and
            // `HeadAddresses` has checked that these lie in slices, which it borrows. The block does not use the stack,
            // and names all registers that it writes. vl, vtype, vxrm and the float flags may change in a block without
            // `preserves_flags`.
            unsafe {
                asm!(
                    ".option push\n .option arch, +v",
                    "fmv.w.x ft0, {q}\n fmv.w.x ft1, {h}",
                    ready!($I),
                    ready!($O),
                    "2: vsetvli {vl}, {left}, e32, m4, ta, ma",
                    "vle32.v v4, ({cos})\n vfmul.vf v4, v4, ft0",
                    "vle32.v v16, ({sin})\n vfmul.vf v16, v16, ft1",
                    $($count)*,
                    "mv {p}, {x}",
                    $($first)*,
                    "3:",
                    load!($I $P),
                    widen!($I => $O),
                    rotate!(),
                    narrow!($O),
                    $($store)*,
                    "add {p}, {p}, {step}",
                    $($next)*,
                    $($again)*,
                    "slli {q}, {vl}, 2\n add {cos}, {cos}, {q}\n add {sin}, {sin}, {q}",
                    concat!("slli {q}, {vl}, ", shift!($I $P), "\n add {x}, {x}, {q}"),
                    $($advance)*,
                    "sub {left}, {left}, {vl}\n bnez {left}, 2b",
                    ".option pop",
                    vl = out(reg) _,
                    p = out(reg) _,
                    q = inout(reg) $heads.factors[0].to_bits() => _,
                    h = inout(reg) $heads.factors[1].to_bits() => _,
                    left = inout(reg) $heads.pairs => _,
                    cos = inout(reg) $heads.cos => _,
                    sin = inout(reg) $heads.sin => _,
                    x = inout(reg) $heads.source => _,
                    step = in(reg) $heads.source_step,
                    between = in(reg) bytes!($I * $heads.pairs),
                    $($operands)*
                    out("ft0") _, out("ft1") _, out("ft2") _, out("ft3") _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _,
                    out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _,
                    out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _, out("v26") _, out("v27") _,
                    out("v28") _, out("v29") _, out("v30") _, out("v31") _,
                    options(nostack),
                );
            }
        }
    };
}

line_kernels! { kernel, Rvv, Portable, narrower: |_| Portable }
