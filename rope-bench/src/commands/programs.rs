//! Numbers of frameworks that other programs measure, kept as data below `rope-bench/programs`: the shares of whole
//! models, and the calls of rope-torch. The texts' tables are made from them ([`crate::commands::rank::splice`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rope_report::cells::digits;
use rope_report::files;
use rope_report::machine::Machine;
use rope_report::markdown::{self, markdown};
use rope_report::results::{Load, Run};
use serde::{Deserialize, Serialize};

use crate::commands::record::{self, Usage};
use crate::measure::machine;

/// The measurements of a program, and the machine that made them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramRun {
    /// The command line.
    pub program: Vec<String>,
    pub date: String,
    pub machine: Machine,
    /// The load of others meanwhile; `None` if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    pub lines: Vec<ProgramLine>,
}

/// A line that the program printed: times in seconds, or shares of 1, by the candidates' names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramLine {
    pub name: String,
    pub values: BTreeMap<String, f64>,
}

/// Runs a program on one core, and keeps the lines of JSON that it prints.
///
/// # Errors
///
/// The program cannot be run, fails, or prints something else; the file cannot be written.
pub fn keep(path: &Path, program: &[String]) -> Result<()> {
    let [name, arguments @ ..] = program else {
        anyhow::bail!("no program is named");
    };
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    files::check_writable(path)?;
    let mut run = Run::new(machine::this(None));
    if record::has_changes() {
        run.machine.revision += " with changes";
    }
    let usage = Usage::now();
    let output = Command::new(name)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let load = usage.and_then(Usage::until_now);
    ensure!(output.status.success(), "{name} failed: {}", output.status);
    let text =
        String::from_utf8(output.stdout).with_context(|| format!("{name} prints no text"))?;
    let lines = text.lines().map(|line| {
        serde_json::from_str(line)
            .with_context(|| format!("{name} prints {line:?}, which is no line of a table"))
    });
    let measured = ProgramRun {
        program: program.to_vec(),
        date: run.date,
        machine: run.machine,
        load,
        lines: lines.collect::<Result<_>>()?,
    };
    ensure!(!measured.lines.is_empty(), "{name} printed no line");
    files::keep(path, serde_json::to_vec_pretty(&measured)?)
}

impl ProgramRun {
    /// Reads what [`keep`] wrote.
    ///
    /// # Errors
    ///
    /// The file is missing or has other keys.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is damaged"))
    }

    fn line(&self, name: &str) -> Result<&ProgramLine> {
        let mut lines = self.lines.iter();
        let found = lines.find(|line| line.name == name);
        found.with_context(|| format!("{} printed no line {name:?}", self.program.join(" ")))
    }

    fn origin(&self) -> String {
        markdown::machine(&Run {
            date: self.date.clone(),
            machine: self.machine.clone(),
            load: self.load.clone(),
            ..Run::default()
        })
    }
}

impl ProgramLine {
    fn value(&self, key: &str) -> Result<f64> {
        let found = self.values.get(key).copied();
        found.with_context(|| format!("the line {:?} has no {key}", self.name))
    }

    /// Returns the values of columns (keys, and their headings), each multiplied by a factor.
    fn cells(&self, columns: &[(&str, &str)], factor: f64) -> Result<Vec<String>> {
        let cells = columns.iter();
        cells
            .map(|(key, _)| Ok(digits(factor * self.value(key)?)))
            .collect()
    }
}

/// Programs whose results are kept.
#[derive(Debug)]
pub struct Programs {
    candle: ProgramRun,
    torch: ProgramRun,
    large: ProgramRun,
    times: ProgramRun,
    overhead: ProgramRun,
    cold: ProgramRun,
}

/// A step of a model, in both elements.
const STEPS: [[&str; 2]; 2] = [
    ["f32, prompt", "bf16, prompt"],
    ["f32, token", "bf16, token"],
];

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

impl Programs {
    /// Reads the files of a folder.
    ///
    /// # Errors
    ///
    /// One is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let of = |name: &str| ProgramRun::read(&folder.join(name).with_extension("json"));
        Ok(Programs {
            candle: of("candle-share")?,
            torch: of("torch-share")?,
            large: of("torch-large")?,
            times: of("torch-times")?,
            overhead: of("torch-overhead")?,
            cold: of("torch-cold")?,
        })
    }

    /// Returns the table of the rotation's share of a model's time, and a line for each origin.
    ///
    /// # Errors
    ///
    /// A program did not print a line or a value of the table.
    pub fn shares(&self) -> Result<String> {
        let mut rows = Vec::new();
        for name in STEPS.concat() {
            let mut cells = Vec::new();
            for of in [&self.candle, &self.torch] {
                let line = of.line(name)?;
                let whole = digits(line.value("whole")?);
                cells.extend([
                    percent(line.value("theirs")?),
                    percent(line.value("ours")?),
                    whole,
                ]);
            }
            rows.push((name.to_owned(), cells));
        }
        let heading = [
            "candle",
            "rope-candle",
            "time of the model",
            "transformers",
            "rope-torch",
            "time of the model",
        ];
        let table = markdown(heading.into_iter(), rows.into_iter());
        let mut large = Vec::new();
        for step in ["prompt", "token"] {
            let (line, call) = (
                self.large.line(&format!("bf16, {step}"))?,
                self.large.line(&format!("a call, {step}"))?,
            );
            let us = |key| Ok::<_, anyhow::Error>(digits(1e6 * call.value(key)?));
            let cells = vec![
                percent(line.value("theirs")?),
                percent(line.value("ours")?),
                digits(line.value("whole")?),
                us("theirs")?,
                us("ours")?,
            ];
            large.push((format!("bf16, {step}"), cells));
        }
        let heading = [
            "transformers",
            "rope-torch",
            "time of the model",
            "us per layer: transformers",
            "rope-torch",
        ];
        let large_table = markdown(heading.into_iter(), large.into_iter());
        Ok(format!(
            "{table}\nA Llama of 16 layers of 2048 channels in transformers, the shape of Llama 3.2 1B, with a prompt of \
             128 tokens:\n\n{large_table}\n- candle: {}\n- transformers: {}\n- 16 layers: {}\n",
            self.candle.origin(),
            self.torch.origin(),
            self.large.origin()
        ))
    }

    /// Returns the README's words on a prompt and on a token: the least and the greatest share.
    ///
    /// # Errors
    ///
    /// A program did not print a line.
    pub fn sentence(&self) -> Result<String> {
        let mut ranges = Vec::new();
        for names in STEPS {
            let mut shares = Vec::new();
            for name in names {
                for of in [&self.candle, &self.torch] {
                    shares.push(100.0 * of.line(name)?.value("theirs")?);
                }
            }
            let [low, high] = [
                shares.iter().copied().fold(f64::INFINITY, f64::min),
                shares.iter().copied().fold(0.0, f64::max),
            ];
            let short = |share: f64| format!("{share:.*}", usize::from(share < 0.95));
            ranges.push(format!("{} to {} %", short(low), short(high)));
        }
        Ok(format!(
            "{} of a prompt and {} of a token",
            ranges[0], ranges[1]
        ))
    }

    /// Returns the table of a rotation's times in PyTorch.
    ///
    /// # Errors
    ///
    /// A program did not print a value of the table.
    pub fn times(&self) -> Result<String> {
        let columns = [
            ("eager", "eager"),
            ("compiled", "compiled"),
            ("vllm", "vLLM's, compiled"),
            ("new", "`rotate_qk`"),
            ("in_place", "`rotate_qk_`"),
            ("operator", "operator in place"),
        ];
        let rows = self.times.lines.iter().map(|line| {
            let (factor, unit) = if line.name.starts_with("2048") {
                (1e3, "ms")
            } else {
                (1e6, "us")
            };
            Ok((
                format!("{}, {unit}", line.name),
                line.cells(&columns, factor)?,
            ))
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let heading = columns.iter().map(|(_, name)| *name);
        Ok(format!(
            "{}\n{}\n",
            markdown(heading, rows.into_iter()),
            self.times.origin()
        ))
    }

    /// Returns the tables of a call's parts and of a call after a flush of the caches.
    ///
    /// # Errors
    ///
    /// A program did not print a value of the table.
    pub fn calls(&self) -> Result<String> {
        let rows = self.overhead.lines.iter();
        let rows =
            rows.map(|line| Ok((line.name.clone(), vec![digits(1e6 * line.value("time")?)])));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let parts = markdown(["us"].into_iter(), rows.into_iter());
        let columns = [
            ("eager", "eager transformers"),
            ("enabled", "an enabled model"),
            ("rotate_qk", "`rotate_qk`"),
            ("operator", "operator"),
            ("operator_in_place", "operator in place"),
        ];
        let line = self
            .cold
            .lines
            .first()
            .context("no call was measured cold")?;
        let row = (
            format!("cold, {}, us", line.name),
            line.cells(&columns, 1e6)?,
        );
        let cold = markdown(columns.iter().map(|(_, name)| *name), [row].into_iter());
        Ok(format!("{parts}\n{cold}\n{}\n", self.overhead.origin()))
    }
}
