//! Measures the knobs of `rope-core/src/tuning.rs` on this machine, each against its other values.
//!
//! A knob is a field of [`Tuning`] for one size of elements. Its values run in the same rounds, on the calls that it
//! affects ([`probes`]). The value of the table is kept unless another one takes clearly less time over all of them. A
//! knob is one entry of `knobs!`, a fifth of this file.

pub mod probes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rope_core::internals::{self, Tuning};
use rope_core::{Backend, Pairing, Rope};
use rope_report::cells::{align, digits, texts};
use rope_report::files;
use rope_report::machine::Machine;
use rope_report::results::today;
use rope_report::time::{Samples, least, mean, sorted};
use serde::{Deserialize, Serialize};

use crate::cases::Element;
use crate::cases::names::named;
use crate::measure::Effort;
use crate::measure::machine;
use crate::measure::progress::Progress;
use probes::{Call, Probe};

/// A field of the table, for one size of elements.
#[derive(Debug)]
pub struct Knob {
    pub name: &'static str,
    pub unit: &'static str,
    /// The measured values, in addition to that of the table.
    pub values: &'static [usize],
    /// The calls that measure it: first the one that it can help most, then the one that it can hurt most, then others.
    pub probes: &'static [Probe],
    field: fn(&mut Tuning) -> &mut usize,
}

impl Knob {
    /// Returns its value in a table.
    pub fn of(&self, mut tuning: Tuning) -> usize {
        *(self.field)(&mut tuning)
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// A size that no tensor exceeds.
const NEVER: usize = usize::MAX;
const F32: Element = Element::F32;
const BF16: Element = Element::Bf16;
/// Takes longest to convert, and interleaved longest to rotate: a prefetch can only cost there.
const F16: Element = Element::F16;

const fn probe(call: Call, element: Element, [tokens, heads]: [usize; 2]) -> Probe {
    Probe {
        call,
        tokens,
        heads,
        element,
        pairing: Pairing::Half,
    }
}

const fn interleaved(probe: Probe) -> Probe {
    Probe {
        pairing: Pairing::Interleaved,
        ..probe
    }
}

/// Tokens and heads: a decoding batch, a size in a second-level cache, and a prompt.
const SMALL: [usize; 2] = [16, 8];
const MIDDLE: [usize; 2] = [64, 32];
const LARGE: [usize; 2] = [2048, 32];

macro_rules! knobs {
    ($($name:literal, $unit:literal, [$($value:expr),+], |$tuning:ident| $field:expr, [$($probe:expr),+];)+) => {
        /// All knobs.
        pub const KNOBS: &[Knob] = &[$(Knob {
            name: $name,
            unit: $unit,
            values: &[$($value),+],
            probes: const { &[$($probe),+] },
            field: |$tuning| &mut $field,
        }),+];
    };
}

knobs! {
    "rotate.heads f32", "heads", [0, 10, 14], |t| t.rotate.heads[1],
        [probe(Call::InPlace, F32, LARGE), probe(Call::InPlace, F32, MIDDLE),
        interleaved(probe(Call::InPlace, F32, LARGE))];
    "rotate.heads 16", "heads", [0, 10], |t| t.rotate.heads[0],
        [probe(Call::InPlace, BF16, LARGE), interleaved(probe(Call::InPlace, F16, LARGE))];
    "rotate.above f32", "bytes", [0, 48 * KIB, 512 * KIB, 2 * MIB], |t| t.rotate.above[1],
        [probe(Call::InPlace, F32, SMALL), probe(Call::InPlace, F32, [64, 16]), probe(Call::InPlace, F32, MIDDLE),
        interleaved(probe(Call::InPlace, F32, MIDDLE))];
    "rotate.above 16", "bytes", [512 * KIB, 2 * MIB], |t| t.rotate.above[0],
        [probe(Call::InPlace, BF16, [128, 32]), interleaved(probe(Call::InPlace, F16, [128, 32]))];
    "tile.heads f32", "heads", [0, 10], |t| t.tile.heads[1],
        [probe(Call::Codes, F32, LARGE), probe(Call::Codes, F32, MIDDLE),
        interleaved(probe(Call::Codes, F32, LARGE))];
    "tile.heads 16", "heads", [0, 10], |t| t.tile.heads[0],
        [probe(Call::Codes, BF16, LARGE), interleaved(probe(Call::Codes, F16, LARGE))];
    "squares.heads f32", "heads", [0, 10], |t| t.squares.heads[1],
        [probe(Call::Norm, F32, LARGE), probe(Call::Norm, F32, MIDDLE)];
    "squares.heads 16", "heads", [0, 10], |t| t.squares.heads[0],
        [probe(Call::Norm, BF16, LARGE), probe(Call::Norm, BF16, MIDDLE)];
    "backward.heads f32", "heads", [0, 10], |t| t.backward.heads[1],
        [probe(Call::Backward, F32, LARGE), interleaved(probe(Call::Backward, F32, [160, 32]))];
    "backward.heads 16", "heads", [0, 20], |t| t.backward.heads[0],
        [probe(Call::Backward, BF16, LARGE), interleaved(probe(Call::Backward, F16, [320, 32]))];
    "gradients.heads f32", "heads", [0, 8], |t| t.gradients.heads[1],
        [probe(Call::Gradients, F32, LARGE), interleaved(probe(Call::Gradients, F32, [160, 32]))];
    "gradients.heads 16", "heads", [0, 8], |t| t.gradients.heads[0],
        [probe(Call::Gradients, BF16, LARGE), interleaved(probe(Call::Gradients, F16, [320, 32]))];
    "over_gaps_above f32", "bytes", [48 * KIB, NEVER], |t| t.over_gaps_above[1],
        [probe(Call::Packed, F32, LARGE), probe(Call::Packed, F32, [2048, 8])];
    "over_gaps_above 16", "bytes", [2 * MIB, NEVER], |t| t.over_gaps_above[0],
        [probe(Call::Packed, BF16, LARGE), probe(Call::Packed, BF16, [2048, 8])];
    "over_gaps_into_another_above f32", "bytes", [2 * MIB, NEVER], |t| t.over_gaps_into_another_above[1],
        [probe(Call::PackedInto, F32, LARGE), probe(Call::PackedInto, F32, [2048, 8])];
    "over_gaps_into_another_above 16", "bytes", [2 * MIB, NEVER], |t| t.over_gaps_into_another_above[0],
        [probe(Call::PackedInto, BF16, LARGE), interleaved(probe(Call::PackedInto, F16, [2048, 12]))];
    "next_line_above", "bytes", [0, MIB, NEVER], |t| t.next_line_above,
        [probe(Call::NormByHead, BF16, LARGE), probe(Call::NormByHead, BF16, MIDDLE)];
    "heads_together f32", "heads", [1, 16], |t| t.heads_together[1],
        [interleaved(probe(Call::InPlaceByHead, F32, [512, 32])), probe(Call::InPlaceByHead, F32, MIDDLE),
        probe(Call::InPlaceByHead, F32, [512, 32]), interleaved(probe(Call::InPlaceByHead, F32, MIDDLE))];
    "heads_together 16", "heads", [1, 4, 16], |t| t.heads_together[0],
        [interleaved(probe(Call::InPlaceByHead, F16, LARGE)), probe(Call::InPlaceByHead, BF16, MIDDLE),
        probe(Call::InPlaceByHead, BF16, LARGE), probe(Call::InPlaceByHead, F16, LARGE)];
    "few_together_above f32", "bytes", [MIB, 16 * MIB, NEVER], |t| t.few_together_above[1],
        [probe(Call::InPlaceByHead, F32, LARGE), probe(Call::InPlaceByHead, F32, [512, 32])];
    "few_together_above 16", "bytes", [2 * MIB, NEVER], |t| t.few_together_above[0],
        [probe(Call::InPlaceByHead, BF16, LARGE), interleaved(probe(Call::InPlaceByHead, F16, LARGE))];
    "by_head_above f32", "bytes", [4 * MIB, NEVER], |t| t.by_head_above[1],
        [probe(Call::InPlaceByHead, F32, LARGE), probe(Call::InPlaceByHead, F32, [512, 32]),
        interleaved(probe(Call::InPlaceByHead, F32, LARGE))];
    "by_head_above 16", "bytes", [2 * MIB, NEVER], |t| t.by_head_above[0],
        [probe(Call::InPlaceByHead, BF16, LARGE), interleaved(probe(Call::InPlaceByHead, F16, [512, 32]))];
    "by_head_into_another_above f32", "bytes", [512 * KIB, 4 * MIB, NEVER], |t| t.by_head_into_another_above[1],
        [probe(Call::IntoByHead, F32, LARGE), probe(Call::IntoByHead, F32, [128, 32])];
    "by_head_into_another_above 16", "bytes", [512 * KIB, 2 * MIB, NEVER], |t| t.by_head_into_another_above[0],
        [probe(Call::IntoByHead, BF16, LARGE), probe(Call::IntoByHead, BF16, [128, 32]),
        interleaved(probe(Call::IntoByHead, F16, LARGE))];
    "by_token_of_source_above f32", "bytes", [0, NEVER], |t| t.by_token_of_source_above[1],
        [probe(Call::IntoHeadsMajor, F32, LARGE), probe(Call::IntoHeadsMajor, F32, MIDDLE)];
    "by_token_of_source_above 16", "bytes", [0, NEVER], |t| t.by_token_of_source_above[0],
        [probe(Call::IntoHeadsMajor, BF16, LARGE), probe(Call::IntoHeadsMajor, BF16, MIDDLE)];
    "backward_part", "bytes", [16 * KIB, 64 * KIB, 256 * KIB], |t| t.backward_part,
        [probe(Call::BackwardByHead, F32, [2048, 8]), probe(Call::BackwardByHead, BF16, [512, 8])];
    "output_part", "bytes", [128 * KIB, 512 * KIB, NEVER], |t| t.output_part,
        [probe(Call::Outputs, BF16, [512, 32]), probe(Call::Outputs, BF16, [256, 32])];
    "streamed_part", "bytes", [32 * KIB, 128 * KIB, 512 * KIB], |t| t.streamed_part,
        [probe(Call::Outputs, BF16, LARGE), interleaved(probe(Call::Outputs, F32, [1024, 32]))];
    "stream_above", "bytes", [0, 48 * MIB, NEVER], |t| t.stream_above,
        [probe(Call::Outputs, BF16, LARGE), probe(Call::Outputs, BF16, [1024, 32])];
    "thread_part", "bytes", [64 * KIB, 256 * KIB, MIB], |t| t.thread_part,
        [probe(Call::InPool, F32, [32, 32]), probe(Call::InPool, F32, [128, 32])];
    "thread_part_outside", "bytes", [256 * KIB, 2 * MIB, 8 * MIB], |t| t.thread_part_outside,
        [probe(Call::OutsidePool, F32, MIDDLE), probe(Call::OutsidePool, F32, [512, 32])];
}

/// The mark of a record, whose number increases when a key changes its meaning.
pub const FORMAT: &str = "rope-bench tuning 1";

/// The measurements of one machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tuned {
    pub format: String,
    pub date: String,
    /// The name of the core in the table.
    pub core: String,
    pub cpu: String,
    pub revision: String,
    /// The origin of the values, if `rope-bench tune` did not write them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub knobs: Vec<Measured>,
}

/// A knob and its values.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// [`Knob::name`].
    pub knob: String,
    /// The unit of [`Measured::chosen`] and [`Choice::value`].
    pub unit: String,
    /// The value of the table when it was measured.
    pub chosen: u64,
    pub others: Vec<Choice>,
}

/// Another value of a knob.
#[derive(Debug, Serialize, Deserialize)]
pub struct Choice {
    pub value: u64,
    /// Its time over that of the chosen value, the geometric mean of all probes.
    pub ratio: f64,
    /// Half the spread of the probe whose passes agree least.
    pub noise: f64,
    /// The same for each of [`Knob::probes`]: a mean hides a case that gains, or loses, alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<f64>,
}

/// The outcome of a measurement for a value of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No other value takes less time.
    Keep,
    /// Another value takes less time.
    Change(u64),
    /// The noise is larger than the difference.
    CannotTell,
}

/// The least difference.
pub const DIFFERENCE: f64 = 0.05;

impl Measured {
    /// Returns the fastest other value, if it is faster.
    pub fn better(&self) -> Option<&Choice> {
        let others = self.others.iter();
        let best = others.min_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
        (best.ratio < 1.0 - DIFFERENCE).then_some(best)
    }

    /// Returns the decision about the value of the table.
    pub fn decision(&self) -> Decision {
        match self.better() {
            None => Decision::Keep,
            Some(best) if best.ratio + best.noise < 1.0 - DIFFERENCE => {
                Decision::Change(best.value)
            }
            Some(_) => Decision::CannotTell,
        }
    }

    /// Returns the time of a value over that of the best one, if it was measured.
    pub fn over_best(&self, value: u64) -> Option<f64> {
        let others = self.others.iter();
        let best = least(others.clone().map(|other| other.ratio).chain([1.0]));
        let same = others.filter(|other| other.value == value);
        let ratio = same.map(|other| other.ratio).next();
        let ratio = ratio.or((value == self.chosen).then_some(1.0))?;
        Some(ratio / best)
    }
}

/// Returns a value in the form of records, the same on machines of all widths.
pub fn recorded(value: usize) -> u64 {
    if value == NEVER {
        u64::MAX
    } else {
        value as u64
    }
}

/// Returns the knob of that name.
pub fn knob(name: &str) -> Result<&'static Knob> {
    named(KNOBS, "knob", name, |knob| knob.name)
}

/// Returns the time per value in a pass, and the passes over all knobs: less for `--check`.
pub const fn effort(check: bool) -> Effort {
    Effort {
        batch: Duration::from_micros(100),
        share: Duration::from_millis(if check { 6 } else { 20 }),
        rounds: if check { 2 } else { 4 },
        passes: if check { 3 } else { 6 },
    }
}

/// Measures knobs on the fastest backend of this machine.
///
/// # Errors
///
/// The errors of rope-core.
pub fn tune(machine: &Machine, knobs: &[&'static Knob], effort: Effort) -> Result<Tuned> {
    // The pool's threads would stay on the core of the thread that starts them.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(machine.cores);
    pool.start_handler(machine::pin_to)
        .build_global()
        .context("the threads were started before")?;
    let base = *internals::tuning(&Rope::new(Pairing::Half));
    let plans: Vec<(&Knob, Vec<usize>, Vec<&'static Tuning>)> = knobs
        .iter()
        .map(|&knob| {
            let chosen = knob.of(base);
            let others = knob.values.iter().copied().filter(|value| *value != chosen);
            let values: Vec<usize> = [chosen].into_iter().chain(others).collect();
            let tunings = values.iter().map(|value| {
                let mut tuning = base;
                *(knob.field)(&mut tuning) = *value;
                &*Box::leak(Box::new(tuning))
            });
            (knob, values.clone(), tunings.collect())
        })
        .collect();
    let probes: usize = knobs.iter().map(|knob| knob.probes.len()).sum();
    let bar = Progress::new((probes * effort.passes) as u64);
    // For every knob and probe, the passes of every value.
    let mut samples: Vec<Vec<Vec<Vec<Samples>>>> = plans
        .iter()
        .map(|(knob, values, _)| vec![vec![Vec::new(); values.len()]; knob.probes.len()])
        .collect();
    for _ in 0..effort.passes {
        for ((knob, _, tunings), samples) in plans.iter().zip(&mut samples) {
            for (probe, samples) in knob.probes.iter().zip(samples) {
                let pass = probe.run(Backend::best(), tunings, effort)?;
                ensure!(pass.len() == samples.len(), "a value has no time");
                for (samples, pass) in samples.iter_mut().zip(pass) {
                    samples.push(pass);
                }
                bar.advance(1);
            }
        }
    }
    drop(bar);
    let measured = plans
        .iter()
        .zip(&samples)
        .map(|((knob, values, _), samples)| Measured {
            knob: knob.name.into(),
            unit: knob.unit.into(),
            chosen: recorded(values[0]),
            others: (1..values.len())
                .map(|at| choice(values[at], at, samples))
                .collect(),
        });
    Ok(Tuned {
        format: FORMAT.into(),
        date: today(),
        core: machine.name().into(),
        cpu: machine.cpu.clone(),
        revision: machine.revision.clone(),
        source: None,
        knobs: measured.collect(),
    })
}

/// Compares a value with the chosen one, which is the first.
fn choice(value: usize, at: usize, probes: &[Vec<Vec<Samples>>]) -> Choice {
    let fastest = |passes: &[Samples]| -> Vec<f64> {
        let passes = passes.iter();
        passes.map(|pass| least(pass.iter().copied())).collect()
    };
    let (mut cases, mut noise) = (Vec::new(), 0.0_f64);
    for values in probes {
        let (other, chosen) = (fastest(&values[at]), fastest(&values[0]));
        let pairs = other.iter().zip(&chosen);
        let ratios = sorted(pairs.map(|(other, chosen)| other / chosen));
        let [first, middle, last] = [0, ratios.len() / 2, ratios.len() - 1].map(|at| ratios[at]);
        cases.push(middle);
        noise = noise.max(0.5 * (last - first));
    }
    Choice {
        value: recorded(value),
        ratio: mean(&cases),
        noise,
        cases,
    }
}

/// Formats a size or a number of heads.
fn shown(value: u64, unit: &str) -> String {
    let [kib, mib] = [KIB, MIB].map(recorded);
    match unit {
        _ if value == u64::MAX => "never".into(),
        "bytes" if value >= mib && value.is_multiple_of(mib) => format!("{} MiB", value / mib),
        "bytes" if value >= kib && value.is_multiple_of(kib) => format!("{} KiB", value / kib),
        _ => format!("{value} {unit}"),
    }
}

/// Formats the table for a reader.
pub fn table(tuned: &Tuned) -> String {
    let mut lines = vec![texts(["knob", "now", "others, time over now", "verdict"])];
    for knob in &tuned.knobs {
        let others = knob.others.iter().map(|choice| {
            let noise = (100.0 * choice.noise).round();
            let value = shown(choice.value, &knob.unit);
            let cases = sorted(choice.cases.iter().copied());
            let range = match (cases.first(), cases.last()) {
                (Some(least), Some(most)) if cases.len() > 1 => {
                    format!(" ({} to {})", digits(*least), digits(*most))
                }
                _ => String::new(),
            };
            format!("{value}: {}{range} ±{noise} %", digits(choice.ratio))
        });
        let verdict = match knob.decision() {
            Decision::Keep => "keep".into(),
            Decision::Change(value) => format!("change to {}", shown(value, &knob.unit)),
            Decision::CannotTell => "cannot tell".into(),
        };
        let now = shown(knob.chosen, &knob.unit);
        lines.push(vec![
            knob.knob.clone(),
            now,
            others.collect::<Vec<_>>().join("; "),
            verdict,
        ]);
    }
    format!(
        "Knobs of {} ({}), each beside its other values.\n{}",
        tuned.core,
        tuned.cpu,
        align(&lines)
    )
}

/// Returns the path of the record of a machine.
pub fn path(records: &Path, machine: &Machine) -> PathBuf {
    records.join(machine.folder()).join(files::TUNING)
}

/// Writes a record to the folder of its machine. Knobs without a new measurement keep that of an older record.
///
/// # Errors
///
/// The file cannot be written, or the older one is damaged.
pub fn write(mut tuned: Tuned, path: &Path) -> Result<()> {
    if path.exists() {
        let older = read(path)?;
        let is_new = |knob: &Measured| !tuned.knobs.iter().any(|new| new.knob == knob.knob);
        let kept: Vec<Measured> = older.knobs.into_iter().filter(is_new).collect();
        tuned.knobs.extend(kept);
    }
    files::keep(path, serde_json::to_vec_pretty(&tuned)?)
}

/// Reads a record.
///
/// # Errors
///
/// It cannot be read, or is in another format.
pub fn read(path: &Path) -> Result<Tuned> {
    let name = path.display();
    let text = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let tuned: Tuned =
        serde_json::from_slice(&text).with_context(|| format!("{name} is damaged"))?;
    ensure!(
        tuned.format == FORMAT,
        "{name} is in the format {:?}; this program reads {FORMAT:?}",
        tuned.format
    );
    Ok(tuned)
}

/// Time of another value, over that of the table, below which `--check` fails.
pub const GROSS: f64 = 0.8;

/// Returns true if the table has a row for this core.
pub fn has_row() -> bool {
    internals::tuning(&Rope::new(Pairing::Half)) != internals::TUNINGS[0]
}

/// Returns the names of the knobs whose value in the table loses by far, noise included.
pub fn gross(tuned: &Tuned) -> Vec<&str> {
    let loses = |best: &Choice| best.ratio + best.noise < GROSS;
    let gross = tuned.knobs.iter();
    let gross = gross.filter(|knob| knob.better().is_some_and(loses));
    gross.map(|knob| knob.knob.as_str()).collect()
}
