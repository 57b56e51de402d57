//! rope-core's kernels as PyTorch operators, `torch.ops.rope_kernels`, through libtorch's stable C interface: one
//! library, without C++ and without Python's ABI, for every torch from 2.10 on. It calls one C++ function of libtorch,
//! if that exists ([`shim`]).
//!
//! A call goes from an entry point in [`operators`] through [`shim::run`] to the file that has the
//! operator's name. `unsafe` code is in [`shim`] and [`convert`].

mod caches;
mod config;
mod convert;
mod dialect;
mod eager;
mod gradients;
mod norms;
mod number;
mod operators;
mod parallel;
mod plan;
mod rotate;
mod shim;
mod tables;
mod tensor;
