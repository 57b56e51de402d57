//! The registry of instruction sets: a backend is one line here, its token in `simd.rs`, and one file in `simd/`.

use crate::base::names::named;

/// Calls a macro with the list of backends: the conditions of their files in `simd.rs`, their names and texts.
macro_rules! backends {
    ($with:ident) => {
        $with! {
            #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
                /// x86 with everything that [`Avx512`](Backend::Avx512) requires, and AVX512-BF16 and VBMI for bf16: 16
                /// lanes.
                Avx512Bf16 = "avx512bf16",
                /// x86 with AVX-512 F, BW, DQ, VL and VBMI2: 16 lanes.
                Avx512 = "avx512",
                /// x86 with AVX2, FMA and F16C: 8 lanes.
                Avx2 = "avx2",
            }
            #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))] {
                /// 64-bit ARM with SVE: vectors of the CPU's own length. Rotates heads; everything else is
                /// [`Neon`](Backend::Neon)'s.
                Sve = "sve",
                /// 64-bit ARM: 4 lanes.
                Neon = "neon",
            }
            #[cfg(target_arch = "riscv64")] {
                /// 64-bit RISC-V with V 1.0: vectors of the CPU's own length. Rotates heads; everything else is
                /// [`Portable`](Backend::Portable)'s.
                Rvv = "rvv",
            }
            #[cfg(all())] {
                /// Any target, through `wide`: 4 lanes of the build target's vectors (SSE2, NEON, simd128, or none).
                Portable = "portable",
                /// Any target, in plain Rust.
                Scalar = "scalar",
            }
        }
    };
}
pub(crate) use backends;

macro_rules! names {
    ($(#[cfg($cfg:meta)] { $($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+ })+) => {
        /// An instruction set that the kernels are compiled for.
        ///
        /// All backends give the same bits; they differ in speed. Every name exists on every machine, and naming a
        /// backend proves nothing: [`Backend::is_available`] returns whether this CPU can run it.
        ///
        /// ```
        /// use rope_core::{Backend, Pairing, Rope};
        ///
        /// assert!(Backend::best().is_available());
        /// let rope = Rope::new(Pairing::Half).with_backend(Backend::Portable)?;
        /// let named: Backend = "portable".parse().expect("a name of a backend");
        /// assert_eq!(named, Backend::Portable);
        /// # Ok::<(), rope_core::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Backend {
            $($($(#[doc = $doc])+ $name,)+)+
        }

        impl Backend {
            /// All backends, the fastest first.
            pub const ALL: &'static [Backend] = &[$($(Backend::$name),+),+];

            const NAMES: &'static str = concat!($($($text, " "),+),+);

            /// Returns the name in lower case, as parsed by [`FromStr`](core::str::FromStr).
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Backend::$name => $text,)+)+
                }
            }
        }
    };
}
backends!(names);

named!(Backend, "backend", Backend::NAMES.trim_ascii_end());
