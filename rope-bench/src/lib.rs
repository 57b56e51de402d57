//! The formulations of rotary position embedding, side by side, against the machine's own limit.
//!
//! A [`Workload`](workloads::Workload) is tensors and positions. With an element and a pairing it is a
//! [`Case`](cases::Case). A [`Formulation`](formulations::Formulation) computes a case; the [oracle] says whether it
//! was right; [measuring] says how long it took, in the same rounds as the [roof], which is what the machine can do at
//! all. [`results`] is the result of a run, and [`report`] and [`compare`] read it. Beside that, [accuracy] says
//! how wrong cos and sin are, [rows] how long they take to make, [gains] what one call gains over several, and [call]
//! the fixed cost of a call and the cost of a head; [instructions] are counted where a CPU is emulated.
//! [`tune`] measures what rope-core's table of cores holds.
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
