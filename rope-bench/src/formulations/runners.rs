//! Formulations in separate programs: `runners/PROTOCOL.md` defines their requests and answers.
//!
//! A program measures itself, in its own process, in the passes of a run. The roof of the same pass is measured before
//! or after it, not between its calls. Its values are checked before its times. The program may be anyone's, so its
//! description, its answer and its end are checked, which is most of this file.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use anyhow::{Context, Result, bail, ensure};
use rope_core::Pairing;
use rope_report::time::least;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::formulation::{About, Answer, Formulation, Runner};
use crate::cases::workloads::Order;
use crate::cases::{Alignment, Case, Element};
use crate::measure::Effort;
use crate::verify::oracle::{Angle, Arithmetic};

/// The version of the protocol.
const PROTOCOL: u32 = 1;

/// The most bytes of an answer.
const LONGEST: u64 = 16 << 20;

/// The description in a runner's directory: `runner.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    command: Vec<String>,
    #[serde(default = "two_minutes")]
    timeout: u64,
    formulations: Vec<Described>,
    #[serde(default)]
    quantizers: Vec<Quantizer>,
}

fn two_minutes() -> u64 {
    120
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    summary: String,
    source: String,
    #[serde(deserialize_with = "pairings")]
    pairings: Vec<Pairing>,
    elements: Vec<Element>,
    layouts: Vec<Order>,
    partial: bool,
    own_positions: bool,
    angle: Angle,
    arithmetic: Arithmetic,
}

/// A formulation of a program.
#[derive(Clone, Debug)]
struct Outside {
    name: String,
    about: About,
    orders: Vec<Order>,
    own_positions: bool,
    program: Program,
}

#[derive(Clone, Debug, Default)]
struct Program {
    command: Vec<String>,
    directory: PathBuf,
    timeout: Duration,
}

/// Reads the formulations of the runner in a directory.
///
/// # Errors
///
/// There is no `runner.json`, or it does not follow the protocol.
pub fn read(directory: &Path) -> Result<Vec<Box<dyn Formulation>>> {
    let (program, description) = described(directory)?;
    let formulations = description.formulations.into_iter();
    let outside = formulations.map(|described| Outside::new(described, program.clone()));
    Ok(outside.map(|one| Box::new(one) as Box<_>).collect())
}

fn described(directory: &Path) -> Result<(Program, Description)> {
    let path = directory.join("runner.json");
    let wrong = || format!("the runner {}", path.display());
    let text = fs::read_to_string(&path).with_context(wrong)?;
    let mut description: Description = serde_json::from_str(&text).with_context(wrong)?;
    let program = Program {
        command: std::mem::take(&mut description.command),
        directory: directory.canonicalize().with_context(wrong)?,
        timeout: Duration::from_secs(description.timeout),
    };
    ensure!(!program.command.is_empty(), "{}: command is empty", wrong());
    Ok((program, description))
}

/// A program that quantizes rows of f32 to the blocks of a cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantizer {
    pub name: String,
    pub summary: String,
    pub source: String,
    /// Its formats, by the names of [`BlockFormat`](rope_core::cache::BlockFormat).
    pub formats: Vec<String>,
    #[serde(skip)]
    program: Program,
}

/// Reads the quantizers of the runner in a directory.
///
/// # Errors
///
/// There is no `runner.json`, or it does not follow the protocol.
pub fn quantizers(directory: &Path) -> Result<Vec<Quantizer>> {
    let (program, description) = described(directory)?;
    let mut quantizers = description.quantizers;
    for quantizer in &mut quantizers {
        quantizer.program = program.clone();
    }
    Ok(quantizers)
}

impl Quantizer {
    /// Quantizes rows of `row` elements into `blocks`; returns the nanoseconds of the fastest of some calls.
    ///
    /// # Errors
    ///
    /// The program's answer does not follow the protocol.
    pub fn quantize(
        &self,
        format: &str,
        rows: &[f32],
        row: usize,
        blocks: &mut [u8],
        effort: Effort,
    ) -> Result<f64> {
        let files = TemporaryFiles::new()?;
        fs::write(files.path("input"), bytemuck::cast_slice(rows))?;
        let request = QuantizationRequest {
            quantizer: &self.name,
            format,
            rows: rows.len() / row,
            row,
        };
        let answer = self.program.answer(request, &files, blocks, effort)?;
        Ok(least(answer.samples))
    }
}

impl Outside {
    fn new(described: Described, program: Program) -> Self {
        Outside {
            name: described.name,
            orders: described.layouts,
            own_positions: described.own_positions,
            program,
            // Read once per process, and as long-lived as the built-in ones.
            about: About {
                summary: described.summary.leak(),
                source: described.source.leak(),
                pairings: described.pairings.leak(),
                elements: described.elements.leak(),
                partial: described.partial,
                threads: false,
                angle: described.angle,
                arithmetic: described.arithmetic,
                counting: "as the bench counts",
            },
        }
    }
}

fn pairings<'de, D: Deserializer<'de>>(names: D) -> Result<Vec<Pairing>, D::Error> {
    let names = Vec::<String>::deserialize(names)?;
    let pairings = names.iter().map(|name| name.parse());
    pairings.collect::<Result<_, _>>().map_err(D::Error::custom)
}

impl Formulation for Outside {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn about(&self) -> About {
        self.about.clone()
    }

    /// A program has memory of its own. With one token both orders are the same.
    fn supports(&self, case: &Case) -> bool {
        let workload = &case.workload;
        case.alignment == Alignment::Line
            && (workload.tokens == 1 || self.orders.contains(&workload.order))
            && (workload.starts.len() == 1 || self.own_positions)
            && self.about.admits(case)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        Ok(Box::new(PreparedRunner {
            formulation: self.name.clone(),
            program: self.program.clone(),
            case: case.clone(),
            files: TemporaryFiles::new()?,
        }))
    }
}

/// The request to a program.
#[derive(Serialize)]
struct RunnerLine<'a, R> {
    protocol: u32,
    rounds: usize,
    batch_ns: u128,
    duration_ns: u128,
    input: &'a Path,
    output: &'a Path,
    #[serde(flatten)]
    request: R,
}

#[derive(Serialize)]
struct QuantizationRequest<'a> {
    quantizer: &'a str,
    format: &'a str,
    rows: usize,
    row: usize,
}

#[derive(Serialize)]
struct Request<'a> {
    formulation: &'a str,
    element: Element,
    pairing: String,
    layout: Order,
    batch: usize,
    tokens: usize,
    heads: Vec<usize>,
    head_dim: usize,
    rotary_dim: usize,
    base: f64,
    positions: Vec<&'a [u32]>,
    threads: usize,
}

struct PreparedRunner {
    formulation: String,
    program: Program,
    case: Case,
    files: TemporaryFiles,
}

impl Runner for PreparedRunner {
    fn load(&mut self, bytes: &[u8]) -> Result<()> {
        fs::write(self.files.path("input"), bytes).context("cannot write a runner's input")
    }

    fn run(&mut self, _: &mut [u8], _: usize) -> Result<()> {
        bail!("a program of its own measures itself")
    }

    fn outside(&mut self, bytes: &mut [u8], effort: Effort) -> Result<Option<Answer>> {
        let workload = &self.case.workload;
        let positions = workload.positions();
        let mut heads = vec![workload.heads, workload.kv_heads];
        heads.retain(|&heads| heads > 0);
        let request = Request {
            formulation: &self.formulation,
            element: self.case.element,
            pairing: self.case.pairing.to_string(),
            layout: workload.order,
            batch: workload.batch,
            tokens: workload.tokens,
            heads,
            head_dim: workload.head_dim,
            rotary_dim: workload.rotary_dim,
            base: workload.base,
            positions: positions.chunks(workload.tokens).collect(),
            threads: self.case.threads,
        };
        let answer = self.program.answer(request, &self.files, bytes, effort)?;
        Ok(Some(answer))
    }
}

impl Program {
    /// Sends a request, checks the answer, and reads the values into `bytes`.
    fn answer(
        &self,
        request: impl Serialize,
        files: &TemporaryFiles,
        bytes: &mut [u8],
        effort: Effort,
    ) -> Result<Answer> {
        let [input, output] = ["input", "output"].map(|name| files.path(name));
        let line = RunnerLine {
            protocol: PROTOCOL,
            rounds: effort.rounds,
            batch_ns: effort.batch.as_nanos(),
            duration_ns: effort.share.as_nanos(),
            input: &input,
            output: &output,
            request,
        };
        // The output of an earlier pass is no answer to this one.
        let _ = fs::remove_file(&output);
        let line = self.ask(&serde_json::to_string(&line)?, files)?;
        let answer: Answer = serde_json::from_str(&line)
            .with_context(|| format!("its answer is not the protocol's: {:.200?}", line.trim()))?;
        ensure!(!answer.version.is_empty(), "its answer names no version");
        let (samples, rounds) = (answer.samples.len(), effort.rounds);
        ensure!(
            samples >= rounds,
            "{samples} samples: {rounds} were asked for"
        );
        let mut times = answer.samples.iter();
        ensure!(
            times.all(|time| time.is_finite() && *time > 0.0) && answer.preparation >= 0.0,
            "a time that is not positive"
        );
        let values = fs::read(&output).context("it wrote no values")?;
        let (written, wanted) = (values.len(), bytes.len());
        ensure!(
            written == wanted,
            "{written} bytes of values: {wanted} were asked for"
        );
        bytes.copy_from_slice(&values);
        Ok(answer)
    }

    /// Returns the first line of the program's answer. The program has ended then. Both are files: if the program's own
    /// children keep a pipe open, no process waits for them.
    fn ask(&self, request: &str, files: &TemporaryFiles) -> Result<String> {
        let [asked, said, log] = ["request", "answer", "log"].map(|name| files.path(name));
        fs::write(&asked, format!("{request}\n"))?;
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .current_dir(&self.directory)
            .stdin(fs::File::open(&asked)?)
            .stdout(fs::File::create(&said)?)
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {:?}", self.command[0]))?;
        let deadline = Instant::now() + self.timeout;
        let mut status = child.try_wait()?;
        while status.is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
            status = child.try_wait()?;
        }
        let complaint = || {
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let last = text.trim().lines().next_back();
            last.map_or(String::new(), |last| format!(": {last}"))
        };
        let Some(status) = status else {
            child.kill()?;
            child.wait()?;
            let seconds = self.timeout.as_secs();
            bail!("it had not ended after {seconds} s{}", complaint());
        };
        ensure!(status.success(), "it ended with {status}{}", complaint());
        let mut line = Vec::new();
        BufReader::new(fs::File::open(said)?.take(LONGEST)).read_until(b'\n', &mut line)?;
        ensure!(
            !line.is_empty(),
            "it ended without an answer{}",
            complaint()
        );
        String::from_utf8(line).context("its answer is no text")
    }
}

/// A directory of a runner's files, removed when dropped.
struct TemporaryFiles(PathBuf);

impl TemporaryFiles {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("rope-bench-{}-{count}", process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(TemporaryFiles(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
