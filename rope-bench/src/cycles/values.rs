//! Where an instruction reads and writes, as sums of what registers held when a loop began.

use std::collections::{BTreeMap, HashMap};

/// A sum of unknowns, each so many times, and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sum {
    /// The unknowns: what a register held at first, what lies in a stack slot, what an instruction made.
    pub terms: BTreeMap<String, i64>,
    /// The constant.
    pub constant: i64,
}

impl Sum {
    /// A constant.
    pub fn constant(constant: i64) -> Self {
        Sum {
            constant,
            ..Sum::default()
        }
    }

    /// An unknown.
    pub fn unknown(name: impl Into<String>) -> Self {
        Sum {
            terms: BTreeMap::from([(name.into(), 1)]),
            constant: 0,
        }
    }

    /// `self + other * times`.
    pub fn plus(mut self, other: &Sum, times: i64) -> Self {
        for (name, count) in &other.terms {
            let sum = self.terms.entry(name.clone()).or_default();
            *sum += count * times;
            if *sum == 0 {
                self.terms.remove(name);
            }
        }
        self.constant += other.constant * times;
        self
    }
}

/// What an instruction touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A constant of the program.
    Constant,
    /// The function's own frame.
    Stack,
    /// All else: elements, and cos and sin.
    Data(Sum),
}

/// A read or a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Or a read.
    pub write: bool,
    /// How much.
    pub bytes: i64,
    /// Whether a vector or floating-point register is at the other end.
    pub vector: bool,
    /// Where.
    pub place: Place,
}

/// What registers and stack slots hold.
#[derive(Clone, Debug, Default)]
pub struct State {
    registers: HashMap<String, Sum>,
    slots: HashMap<Sum, Sum>,
    made: usize,
    /// Registers that hold addresses of the frame.
    frame: Vec<String>,
}

impl State {
    /// At the beginning of a loop, in a function with these frame registers.
    pub fn new(frame: Vec<String>) -> Self {
        State {
            frame,
            ..State::default()
        }
    }

    /// What a register holds.
    pub fn get(&self, register: &str) -> Sum {
        let known = self.registers.get(register).cloned();
        known.unwrap_or_else(|| Sum::unknown(register))
    }

    /// A register gets a value that is known, or one that is not.
    pub fn set(&mut self, register: &str, value: Option<Sum>) {
        let value = value.unwrap_or_else(|| self.make());
        self.registers.insert(register.to_owned(), value);
    }

    fn make(&mut self) -> Sum {
        self.made += 1;
        Sum::unknown(format!("?{}", self.made))
    }

    /// What is at an address.
    pub fn place(&self, address: Sum) -> Place {
        // An array in the frame may be indexed.
        let framed = |name: &String| address.terms.get(name) == Some(&1);
        if self.frame.iter().any(framed) {
            Place::Stack
        } else {
            Place::Data(address)
        }
    }

    /// What a slot of the frame holds: always the same until it is written.
    pub fn slot(&self, address: &Sum) -> Sum {
        let known = self.slots.get(address).cloned();
        known.unwrap_or_else(|| Sum::unknown(format!("slot {address:?}")))
    }

    /// A slot of the frame is written.
    pub fn set_slot(&mut self, address: Sum, value: Option<Sum>) {
        let value = value.unwrap_or_else(|| self.make());
        self.slots.insert(address, value);
    }
}

/// Where a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does not.
    On,
    /// At a label.
    Jump,
    /// At a label, or not.
    Branch,
    /// Out of the function, or to where nobody knows.
    Out,
    /// Into another function, and back.
    Call,
}

/// Bytes, by the unknowns of their addresses, as ranges that neither touch nor overlap.
pub fn union(accesses: &[(Sum, i64)]) -> BTreeMap<BTreeMap<String, i64>, Vec<(i64, i64)>> {
    let mut ranges: BTreeMap<_, Vec<(i64, i64)>> = BTreeMap::new();
    for (address, bytes) in accesses {
        let (start, end) = (address.constant, address.constant + bytes);
        ranges
            .entry(address.terms.clone())
            .or_default()
            .push((start, end));
    }
    for ranges in ranges.values_mut() {
        ranges.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for &(start, end) in ranges.iter() {
            match merged.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        *ranges = merged;
    }
    ranges
}
