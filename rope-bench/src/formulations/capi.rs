//! rope-core's rotation from C, as an engine links it: calls of `rope-capi` that check their structs each time, and
//! calls that were prepared once. Both give the bits of [`fused`](super::fused).
//!
//! It calls the C API on a buffer whose extents it has checked.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use anyhow::{Result, ensure};
use rope::{
    rope_angles, rope_backend, rope_backend_name, rope_call, rope_call_run, rope_element,
    rope_layout, rope_operand, rope_pairing, rope_plan, rope_prepare, rope_prepare_qk, rope_rotate,
    rope_rotate_qk, rope_rows_joined, rope_status,
};
use rope_core::{Backend, Frequencies, Pairing, Scaling};
use rope_report::names::CAPI;

use super::formulation::{About, Formulation, Runner};
use crate::cases::{Case, Element};

/// The C API on one backend.
#[derive(Clone, Copy, Debug)]
struct Capi {
    backend: Backend,
    prepared: bool,
}

/// Checked and prepared calls on each backend that this CPU can run.
pub fn all() -> impl Iterator<Item = Box<dyn Formulation>> {
    let of = |backend, prepared| Box::new(Capi { backend, prepared }) as Box<dyn Formulation>;
    Backend::available().flat_map(move |backend| [of(backend, false), of(backend, true)])
}

/// Returns the number of a backend.
pub(crate) fn backend(backend: Backend) -> i32 {
    let is = |named: &&rope_backend| {
        let name = rope_backend_name(**named as i32);
        // SAFETY: static text.
        unsafe { CStr::from_ptr(name) }.to_bytes() == backend.name().as_bytes()
    };
    let named = rope_backend::ALL[1..].iter().find(is);
    named.map_or(0, |named| *named as i32)
}

impl Formulation for Capi {
    fn name(&self) -> String {
        let kind = if self.prepared { "prepared" } else { "checked" };
        format!("{CAPI}{}/{kind}", self.backend)
    }

    fn about(&self) -> About {
        let summary = match self.prepared {
            true => "one pass in place from C, by a call that was prepared once",
            false => "one pass in place from C, by calls that check their structs each time",
        };
        About::ours("rope-capi", summary)
    }

    fn is_usual(&self) -> bool {
        false
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = &case.workload;
        let frequencies = Frequencies::new(workload.rotary_dim, workload.base, &Scaling::Default)?;
        let positions = workload.positions();
        let mut rows = vec![0.0; positions.len() * workload.rotary_dim];
        frequencies.at(&positions)?.rows_in(&mut rows)?;
        let plan = rope_plan {
            pairing: match case.pairing {
                Pairing::Half => rope_pairing::Half as i32,
                _ => rope_pairing::Interleaved as i32,
            },
            backend: backend(self.backend),
            ..rope_plan::NONE
        };
        let element = match case.element {
            Element::F32 => rope_element::F32,
            Element::F16 => rope_element::F16,
            Element::Bf16 => rope_element::Bf16,
        };
        let operands = workload.parts()?.into_iter().map(|part| {
            let operand = rope_operand {
                data: null_mut(),
                len: part.range.len(),
                element: element as i32,
                layout: rope_layout::from(part.layout),
                cache: null(),
                slots: null(),
                next: null(),
            };
            (part.range.start * case.element.size(), operand)
        });
        Ok(Box::new(CapiRunner {
            prepared: self.prepared,
            bytes: case.bytes(),
            plan,
            operands: operands.collect(),
            angles: rope_rows_joined(rows.as_ptr(), rows.len(), workload.rotary_dim),
            _rows: rows,
            call: None,
        }))
    }
}

struct CapiRunner {
    prepared: bool,
    bytes: usize,
    plan: rope_plan,
    /// Q, and K if there is one, and where they begin in the buffer.
    operands: Vec<(usize, rope_operand)>,
    angles: rope_angles,
    /// The values of the rows that the angles point to.
    _rows: Vec<f32>,
    /// The prepared call, and the buffer that it is for.
    call: Option<(*mut u8, rope_call)>,
}

impl Runner for CapiRunner {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        ensure!(bytes.len() == self.bytes, "a buffer of another case");
        let start = bytes.as_mut_ptr();
        for (offset, operand) in &mut self.operands {
            operand.data = start.wrapping_add(*offset).cast();
        }
        let (plan, angles) = (&self.plan, &self.angles);
        let operands: Vec<&rope_operand> = self.operands.iter().map(|(_, x)| x).collect();
        let ok = |status| {
            ensure!(status == rope_status::Ok, "{status:?}");
            Ok(())
        };
        if self.prepared && self.call.is_none_or(|(at, _)| at != start) {
            let mut call = rope_call { words: [0; 256] };
            // SAFETY: the operands lie in the buffer, as the API checks, and the rows in `_rows`.
            ok(unsafe {
                match operands[..] {
                    [x] => rope_prepare(plan, x, angles, &mut call),
                    [q, k, ..] => rope_prepare_qk(plan, q, k, angles, &mut call),
                    [] => rope_status::Ok,
                }
            })?;
            self.call = Some((start, call));
        }
        for _ in 0..times {
            // SAFETY: the same; the buffer is borrowed for as long as this takes.
            ok(unsafe {
                match (self.prepared, &self.call, &operands[..]) {
                    (true, Some((_, call)), _) => rope_call_run(call),
                    (_, _, [x]) => rope_rotate(plan, *x, angles),
                    (_, _, [q, k, ..]) => rope_rotate_qk(plan, *q, *k, angles),
                    (_, _, []) => rope_status::Ok,
                }
            })?;
        }
        Ok(())
    }
}
