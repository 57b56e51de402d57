//! The machine's own limit: every byte read, multiplied, and written back in place.
//!
//! A rotation in place reads and writes each byte once, with some arithmetic between; a scaling by a constant does the
//! same with less arithmetic. No rotation is faster, so it is the reference for all. The same loop is compiled for
//! several instruction sets; all of them are measured, and the fastest is the roof. With several threads, each loop
//! runs on all of them and on one alone: waking a thread takes longer than streaming over data in the first caches.

use std::hint::black_box;

use crate::measure::threads::Team;

/// A scaling loop compiled for one instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Roof {
    pub name: &'static str,
    scale: fn(&mut [f32], f32),
}

impl Roof {
    /// Returns the roofs that this CPU can run.
    pub fn available() -> Vec<Roof> {
        let baseline = Roof {
            name: "baseline",
            scale,
        };
        #[cfg_attr(
            not(any(target_arch = "x86", target_arch = "x86_64")),
            allow(unused_mut, reason = "the baseline is all there is")
        )]
        let mut roofs = vec![baseline];
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        {
            if std::arch::is_x86_feature_detected!("avx2") {
                roofs.push(Roof {
                    name: "avx2",
                    // SAFETY: the CPU has AVX2.
                    scale: |x, c| unsafe { scale_avx2(x, c) },
                });
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                roofs.push(Roof {
                    name: "avx512",
                    // SAFETY: the CPU has AVX-512 F.
                    scale: |x, c| unsafe { scale_avx512(x, c) },
                });
            }
        }
        roofs
    }

    /// Streams over the bytes `times` times, each thread of the team over its own part. The constant is 1, hidden from
    /// the compiler, so the bytes keep their values.
    pub fn run(&self, bytes: &mut [u8], team: &Team, times: usize) {
        let x: &mut [f32] = bytemuck::cast_slice_mut(bytes);
        if team.threads() == 1 {
            for _ in 0..times {
                (self.scale)(black_box(&mut *x), black_box(1.0));
            }
            return;
        }
        // Whole cache lines, so that no two threads write the same one.
        let share = x.len().div_ceil(team.threads()).next_multiple_of(16);
        let mut shares: Vec<&mut [f32]> = x.chunks_mut(share).collect();
        team.each(&mut shares, times, |x| (self.scale)(x, black_box(1.0)));
    }
}

#[inline(always)]
fn scale(x: &mut [f32], c: f32) {
    for x in x {
        *x *= c;
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
fn scale_avx2(x: &mut [f32], c: f32) {
    scale(x, c);
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
#[target_feature(enable = "avx512f")]
fn scale_avx512(x: &mut [f32], c: f32) {
    scale(x, c);
}
