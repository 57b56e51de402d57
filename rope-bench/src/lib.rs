//! Compares the formulations of rotary position embedding with the machine's own limit.
//!
//! A [`Workload`](workloads::Workload) is tensors and positions. With an element and a pairing it is a
//! [`Case`](cases::Case). A [`Formulation`](formulations::Formulation) computes a case; the [oracle] checks its result;
//! [measuring] times it, in the same rounds as the [roof], the limit of the machine. [`results`] is the result of a
//! run, which [`report`] and [`compare`] read. In addition, [accuracy] measures the errors of cos and sin, [rows] the
//! time to make them, [gains] the gain of one call over several, and [call] the fixed cost of a call and the cost of a
//! head; [instructions] are counted on emulated CPUs. [`tune`] measures rope-core's table of cores, and
//! [`programs`] keeps what programs of frameworks measure.
#![allow(
    missing_docs,
    reason = "the library is the program's own; schema/run.json describes its output"
)]
#![deny(unsafe_code)]

pub mod accuracy;
pub mod call;
pub mod cases;
pub mod cli;
pub mod compare;
pub mod formulations;
pub mod gains;
pub mod golden;
pub mod instructions;
pub mod machine;
pub mod measuring;
pub mod memory;
pub mod models;
pub mod oracle;
pub mod passes;
pub mod programs;
pub mod progress;
pub mod rank;
pub mod record;
pub mod report;
pub mod results;
#[allow(unsafe_code, reason = "enters instruction sets")]
pub mod roof;
pub mod rows;
pub mod run;
pub mod runners;
pub mod selection;
pub mod threads;
pub mod tune;
pub mod turns;
pub mod verification;
pub mod workloads;
