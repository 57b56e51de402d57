//! The registry of instruction sets: a backend is one line here, its token in `simd.rs`, and one file in `simd/`.

use core::fmt;
use core::str::FromStr;

use crate::tuning::Tuning;
#[cfg(not(all(
    any(target_arch = "x86", target_arch = "x86_64"),
    target_feature = "sse2"
)))]
use crate::tuning::UNKNOWN;
use crate::{Name, UnknownName};
// And the proofs, by the names of their backends.
use crate::simd::*;

macro_rules! backends {
    ($(#[cfg($cfg:meta)] { $($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+ })+) => {
        /// An instruction set that the kernels are compiled for.
        ///
        /// All give the same bits; they differ in speed. Every name exists on every machine, and naming one proves
        /// nothing: [`Backend::is_available`] tells whether this CPU can run it.
        ///
        /// ```
        /// use rope_core::{Backend, Pairing, Rope};
        ///
        /// assert!(Backend::best().is_available());
        /// let rope = Rope::new(Pairing::Half).backend(Backend::Portable)?;
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

            /// The name in lower case, as [`FromStr`] reads it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Backend::$name => $text,)+)+
                }
            }

            /// The proof that this CPU can run it, if it can.
            pub(crate) fn prove(self) -> Option<Proof> {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Backend::$name => $name::detect().map(Proof::$name),
                    )+)+
                    #[allow(unreachable_patterns, reason = "all names are compiled in on some targets, not on others")]
                    _ => None,
                }
            }
        }

        /// A backend that this CPU can run: exists only through [`Backend::prove`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Proof {
            $($(
                #[cfg($cfg)]
                $name($name),
            )+)+
        }

        $($(
            #[cfg($cfg)]
            impl From<$name> for Proof {
                fn from(token: $name) -> Self {
                    Proof::$name(token)
                }
            }
        )+)+

        impl Proof {
            pub(crate) fn backend(self) -> Backend {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(_) => Backend::$name,
                    )+)+
                }
            }

            /// Whether stores can bypass the caches.
            pub(crate) fn streams(self) -> bool {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(_) => <$name as InstructionSet>::STREAMS,
                    )+)+
                }
            }

            /// The first backend, from this one on, that has a whole group for so many pairs: the others would leave
            /// all of them to it. Asked once a call.
            pub(crate) fn fitting(self, pairs: usize) -> Self {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(token) if pairs < const { leaves::<$name>() } => {
                            Proof::from(token.narrower()).fitting(pairs)
                        }
                    )+)+
                    fits => fits,
                }
            }

            /// Runs a kernel compiled for the backend: the one branch of a call.
            #[inline]
            pub(crate) fn run<K: Kernel>(self, kernel: K) {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(token) => token.enter(kernel),
                    )+)+
                }
            }
        }
    };
}

// What is not compiled in on a target has no proof there. The conditions are those of the files in `simd.rs`.
backends! {
    #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
        /// x86 with all that [`Avx512`](Backend::Avx512) requires, and AVX512-BF16 and VBMI for bf16: 16 lanes.
        Avx512Bf16 = "avx512bf16",
        /// x86 with AVX-512 F, BW, DQ, VL and VBMI2: 16 lanes.
        Avx512 = "avx512",
        /// x86 with AVX2, FMA and F16C: 8 lanes.
        Avx2 = "avx2",
    }
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))] {
        /// 64-bit ARM: 4 lanes.
        Neon = "neon",
    }
    #[cfg(all())] {
        /// Any target, through `wide`: 4 lanes of what the build's target has (SSE2, NEON, simd128, or none).
        Portable = "portable",
        /// Any target, in plain Rust.
        Scalar = "scalar",
    }
}

impl Backend {
    /// Whether this CPU, and this build, can run it.
    pub fn is_available(self) -> bool {
        self.prove().is_some()
    }

    /// The backends that this CPU can run, the fastest first.
    pub fn available() -> impl Iterator<Item = Backend> {
        Backend::ALL
            .iter()
            .copied()
            .filter(|backend| backend.is_available())
    }

    /// The fastest backend that this CPU can run.
    pub fn best() -> Backend {
        Proof::best().backend()
    }
}

/// From how many pairs on an instruction set leaves not all to the narrower one: those of a group.
const fn leaves<S: Simd>() -> usize {
    if S::LANES > 1 { 2 * S::LANES } else { 0 }
}

impl Proof {
    pub(crate) fn best() -> Self {
        Backend::ALL
            .iter()
            .find_map(|backend| backend.prove())
            .unwrap_or(Proof::Scalar(Scalar))
    }
}

/// The knobs of this core.
pub(crate) fn tuning() -> &'static Tuning {
    cfg_if::cfg_if! {
        if #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
            Tuning::of_row(cpu::tuning_row())
        } else {
            &UNKNOWN
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = UnknownName;

    /// Reads [`Backend::name`].
    ///
    /// # Errors
    ///
    /// [`UnknownName`] for any other text.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Backend::ALL
            .iter()
            .copied()
            .find(|backend| backend.name() == name)
            .ok_or(UnknownName {
                kind: "backend",
                name: Name::new(name),
                known: Backend::NAMES.trim_ascii_end(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Backend, Proof};

    #[test]
    fn who_has_no_group_leaves_the_call() {
        for proof in Backend::ALL.iter().filter_map(|backend| backend.prove()) {
            assert_eq!(proof.fitting(usize::MAX), proof);
            let last = [0, 1, 7].map(|pairs| proof.fitting(pairs));
            assert_eq!(last.map(Proof::backend), [Backend::Scalar; 3]);
        }
    }
}
