//! A case: a workload of one element type in one pairing. The subject of a table cell.

pub mod models;
pub mod names;
pub mod workloads;

use std::fmt;

use clap::ValueEnum;
use half::{bf16, f16};
use rope_core::Pairing;
use serde::{Deserialize, Serialize};

use crate::cases::workloads::Workload;

/// The element of the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Element {
    F32,
    Bf16,
    F16,
}

impl Element {
    /// All elements.
    pub const ALL: [Element; 3] = [Element::F32, Element::Bf16, Element::F16];

    /// Returns the name in lower case, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::Bf16 => "bf16",
            Element::F16 => "f16",
        }
    }

    /// Returns the bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::Bf16 | Element::F16 => 2,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The types of the elements.
pub trait Float: rope_core::Element {
    /// Its name.
    const ELEMENT: Element;
    /// Rounds to nearest, ties to even.
    fn round(x: f32) -> Self;
    /// Converts exactly.
    fn widen(self) -> f32;
}

macro_rules! float {
    ($($type:ty, $element:ident, $round:expr, $widen:expr;)*) => {$(
        impl Float for $type {
            const ELEMENT: Element = Element::$element;
            fn round(x: f32) -> Self { $round(x) }
            fn widen(self) -> f32 { $widen(self) }
        }
    )*};
}
float! {
    f32, F32, std::convert::identity, std::convert::identity;
    bf16, Bf16, bf16::from_f32, bf16::to_f32;
    f16, F16, f16::from_f32, f16::to_f32;
}

/// Evaluates an expression with a name for the type of an [`Element`].
macro_rules! with_float {
    ($element:expr, $float:ident => $body:expr) => {
        match $element {
            $crate::cases::Element::F32 => {
                type $float = f32;
                $body
            }
            $crate::cases::Element::Bf16 => {
                type $float = half::bf16;
                $body
            }
            $crate::cases::Element::F16 => {
                type $float = half::f16;
                $body
            }
        }
    };
}
pub(crate) use with_float;

/// The start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// On a cache line.
    Line,
    /// 16 bytes after one, as from allocators.
    Allocator,
}

/// A workload of one element type in one pairing.
#[derive(Clone, Debug)]
pub struct Case {
    pub workload: Workload,
    pub element: Element,
    pub pairing: Pairing,
    pub alignment: Alignment,
    pub threads: usize,
}

impl Case {
    /// Creates a case that starts on a cache line, on one thread.
    pub fn new(workload: Workload, element: Element, pairing: Pairing) -> Self {
        Case {
            workload,
            element,
            pairing,
            alignment: Alignment::Line,
            threads: 1,
        }
    }

    /// Returns the bytes of the tensors.
    pub fn bytes(&self) -> usize {
        self.workload.elements() * self.element.size()
    }

    /// Returns the bytes of the rotated channels: the least that must be read and written.
    pub fn rotated_bytes(&self) -> usize {
        self.workload.rotated() * self.element.size()
    }

    /// Returns the description common to the cases of one table: everything but the workload.
    pub fn group(&self) -> String {
        let mut group = format!("{} {}", self.element, self.pairing);
        if self.alignment == Alignment::Allocator {
            group += ", misaligned";
        }
        if self.threads > 1 {
            group += &format!(", {} threads", self.threads);
        }
        group
    }

    /// Returns the channels of pair `i`, from the start of a head.
    pub fn pair(&self, i: usize) -> (usize, usize) {
        match self.pairing {
            Pairing::Interleaved => (2 * i, 2 * i + 1),
            Pairing::Half => (i, i + self.workload.rotary_dim / 2),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workload.name, self.group())
    }
}
