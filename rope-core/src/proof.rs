//! The proof that a CPU has an instruction set, which is also the entry to it.

use crate::Error;
use crate::base::backend::{Backend, backends};
use crate::error::PlanError;
use crate::tuning::Tuning;
#[cfg(not(all(
    any(target_arch = "x86", target_arch = "x86_64"),
    target_feature = "sse2"
)))]
use crate::tuning::UNKNOWN;
#[cfg(all(
    target_arch = "aarch64",
    target_feature = "neon",
    target_endian = "little"
))]
use crate::tuning::sve_pays;
// The proofs, by the names of their backends.
use crate::simd::*;

macro_rules! proofs {
    ($(#[cfg($cfg:meta)] { $($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+ })+) => {
        impl Backend {
            /// Returns the proof that this CPU can run the backend, if it can.
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

        /// A backend that this CPU can run. Made only by [`Backend::prove`].
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

            /// Returns true if stores can bypass the caches.
            pub(crate) fn streams(self) -> bool {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(_) => $name::STREAMS,
                    )+)+
                }
            }

            /// Returns the widest backend, at most `self`, whose group fits `pairs`: a wider one would pass all pairs
            /// on to it. Called once per call.
            pub(crate) fn fitting(self, pairs: usize) -> Self {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(token) if pairs < $name::LEAST_PAIRS => {
                            Proof::from(token.narrower()).fitting(pairs)
                        }
                    )+)+
                    fits => fits,
                }
            }

            /// Runs a kernel compiled for the backend in a memory: the one branch of a call.
            #[inline]
            pub(crate) fn run_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
                match self {
                    $($(
                        #[cfg($cfg)]
                        Proof::$name(token) => token.enter_in(memory, from, kernel),
                    )+)+
                }
            }

            /// Runs a kernel without a memory likewise.
            #[inline]
            pub(crate) fn run<K: Kernel>(self, kernel: K) {
                self.run_in(&mut [], 0, kernel);
            }
        }
    };
}

// Backends that are not compiled for a target have no proof there.
backends!(proofs);

impl Backend {
    /// Returns true if this CPU, and this build, can run the backend.
    pub fn is_available(self) -> bool {
        self.prove().is_some()
    }

    /// Returns the proof that this CPU can run the backend, or the error that it cannot.
    pub(crate) fn required(self) -> Result<Proof, Error> {
        self.prove()
            .ok_or(Error::Plan(PlanError::BackendUnavailable { backend: self }))
    }

    /// Iterates over the backends that this CPU can run, the fastest first.
    pub fn available() -> impl Iterator<Item = Backend> {
        Backend::ALL
            .iter()
            .copied()
            .filter(|backend| backend.is_available())
    }

    /// Returns the fastest backend that this CPU can run.
    pub fn best() -> Backend {
        Proof::best().backend()
    }
}

impl Proof {
    pub(crate) fn best() -> Self {
        let mut proofs = Backend::ALL.iter().filter_map(|backend| backend.prove());
        proofs
            .find(|proof| proof.pays())
            .unwrap_or(Proof::Scalar(Scalar))
    }

    /// True if it is faster than the backends after it.
    fn pays(self) -> bool {
        match self {
            #[cfg(all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            ))]
            Proof::Sve(sve) => sve_pays(sve.vector_bytes()),
            _ => true,
        }
    }
}

/// Returns the tuning of this core.
pub(crate) fn tuning() -> &'static Tuning {
    cfg_if::cfg_if! {
        if #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
            Tuning::of_row(cpu::tuning_row())
        } else {
            &UNKNOWN
        }
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
