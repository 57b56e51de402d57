//! Compares the formulations of rotary position embedding with the machine's own limit.
//!
//! A [`Workload`](cases::workloads::Workload) is tensors and positions. With an element and a pairing it is a
//! [`Case`](cases::Case). A [`Formulation`](formulations::formulation::Formulation) computes a case; the
//! [oracle](verify::oracle) checks its result; [`measure`] times it, in the same rounds as the
//! [roof](measure::roof), the limit of the machine. [`commands`] run these and make a
//! [`Run`](rope_report::results::Run), which [`rope_report`] shows and compares.
//!
//! A folder may import from those before it: `cases`, `measure`, `verify`, `formulations`, `commands`.
#![allow(
    missing_docs,
    reason = "the library is the program's own; schema/run.json describes its output"
)]
#![deny(unsafe_code)]

pub mod cases;
pub mod commands;
pub mod formulations;
pub mod measure;
pub mod verify;
