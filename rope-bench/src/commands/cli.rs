//! The command line.
//!
//! Half of this file is the text of `--help`: every option has its sentence here and nowhere else. The rest calls the
//! module that a command names.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use rope_core::{Backend, Pairing};
use rope_report::cells::count;
use rope_report::compare;
use rope_report::results::{CaseResult, Pass, Run};
use rope_report::titles::Titled;
use rope_report::{calls, files, html, table};

use crate::cases::Element;
use crate::cases::names::only;
use crate::commands::accuracy;
use crate::commands::accuracy::models::{MODELS, RecordedModel, USUAL};
#[cfg(feature = "intrinsics")]
use crate::commands::gains::prepared;
use crate::commands::gains::{backward, cache, stages};
use crate::commands::instructions;
use crate::commands::passes::{self, Passes};
use crate::commands::programs;
use crate::commands::rank;
use crate::commands::record::{self, Usage};
use crate::commands::rows;
use crate::commands::run::{self, Bench};
use crate::commands::selection::{self, Planned, Selection};
use crate::commands::{call, tune, turns};
use crate::formulations;
use crate::formulations::runners;
use crate::measure::Effort;
use crate::measure::machine;
use crate::measure::progress::Progress;
use crate::measure::roof::Roof;
use crate::verify::verify;

/// Verifies rope-core on real data, and measures it and the formulations of the literature against the machine's limit
///
/// Without a command: verifies every backend on the Q and K of real models, then measures. Without a selection of
/// cases, it also runs `rows` and `accuracy`.
#[derive(Debug, Parser)]
#[command(name = "rope-bench", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: Measure,
}

/// Passes of each of two programs that are measured by turns.
const TURNS: usize = 24;

/// Positions that are tried for each level of the accuracy.
const POSITIONS: u32 = 4096;

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes one self-contained page of one or several runs
    Report {
        /// Runs that `--json` wrote, or folders of them: rope-bench/records
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The page
        #[arg(short, long, value_name = "FILE", default_value = "report.html")]
        output: PathBuf,
    },
    /// Measures this machine longer and writes a record below rope-bench/records
    ///
    /// --features intrinsics adds C. Ratios whose passes disagree are left out and listed.
    Record(Keep),
    /// Ranks engines by the geometric mean of their times over the roof, per element and class of workloads
    Rank {
        /// Runs, or folders of them; the newest of each machine counts
        #[arg(default_value = "rope-bench/records")]
        runs: Vec<PathBuf>,
    },
    /// Writes the tables of README.md, rope-bench/README.md, rope-core/MEASUREMENTS.md and rope-torch's README, and
    /// rope-bench/records/speed.svg, from the records and rope-bench/programs
    Splice,
    /// Runs a program of a framework on one core, and keeps the lines of JSON that it prints in rope-bench/programs
    ///
    /// A line is {"name": "bf16, prompt", "values": {"theirs": 0.073, "ours": 0.003}}: times in seconds, shares of 1.
    Keep {
        /// The file's name, without .json
        name: String,
        /// The program and its arguments
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        program: Vec<String>,
    },
    /// Compares two runs: two machines, or two commits
    ///
    /// Given two programs, alternates them, pass by pass. A disturbance of the machine then affects both, and smaller
    /// differences are found: compare old/rope-bench new/rope-bench -- --formulation fused.
    Compare(Compare),
    /// Prints the error of cos and sin by position: rope-core's, and those of the code that runs models
    Accuracy {
        /// Only these models.
        #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = USUAL, help = only("models", MODELS.iter().map(|model| model.name)))]
        model: Vec<String>,
        /// Positions per level
        #[arg(long, value_name = "N", default_value_t = POSITIONS)]
        positions: u32,
        #[command(flatten)]
        output: Output,
    },
    /// Measures the computation of cos and sin on each backend, beside the platform's sinf and cosf
    Rows(MakeRows),
    /// Measures fused stages beside separate ones; a ratio of 1 is no gain
    Stages(Gain),
    /// Measures one pass beside several: norm, rotation, conversion and the write into a paged cache; shifts there
    Cache {
        /// Measures f32 rows into blocks instead, beside the quantizers of the runner in this directory
        #[arg(long, value_name = "DIRECTORY")]
        runner: Vec<PathBuf>,
        #[command(flatten)]
        gain: Gain,
    },
    /// Measures the gradient of the angles in a backward pass, beside the transpose alone
    Backward(Gain),
    /// Measures the fixed cost of a call and the cost per head: one token of 1 to 40 heads, beside plain C
    ///
    /// C requires --features intrinsics.
    Call(CallCommand),
    /// Measures every knob of rope-core's table of cores on this machine, beside its other values
    ///
    /// The table is rope-core/src/tuning.rs. The machine should be idle otherwise.
    Tune(Tune),
    /// Counts the instructions of every measurement of a run, and adds them to its file: for emulated CPUs
    Instructions {
        /// The run that `--json` wrote
        run: PathBuf,
        /// The rope-bench that wrote it
        #[arg(long, value_name = "FILE")]
        program: String,
        /// The counting command: qemu-aarch64 -d in_asm,exec,nochain, or valgrind --tool=callgrind
        /// --callgrind-out-file=/dev/null
        #[arg(last = true, required = true, value_name = "COMMAND")]
        counter: Vec<String>,
    },
    /// Runs one formulation in one case, and nothing else: what `instructions` counts
    #[command(name = instructions::REPEAT, hide = true)]
    Repeat {
        #[command(flatten)]
        selection: Selection,
        #[arg(long)]
        times: usize,
    },
    /// Prints what each formulation computes, and its source
    List,
}

/// Runs the command line of this process.
pub fn run() -> Result<()> {
    let Cli { command, measure } = Cli::parse();
    let Some(command) = command else {
        let run = measure.run(measure.selection.full)?;
        measure.output.say(&table::conclusion(&run));
        return measure.output.write(run);
    };
    match command {
        Command::Report { runs, output } => {
            let runs = Titled::all(files::read_all(&runs)?);
            files::write_or_print(&output, html::page(&runs).as_bytes())?;
            if output.as_os_str() != "-" {
                eprintln!("wrote {}", output.display());
            }
        }
        Command::Record(keep) => keep.run()?,
        Command::Rank { runs } => {
            print(&rank::rank(&rank::newest(&files::read_all(&runs)?, false))?)
        }
        Command::Splice => rank::splice(Path::new("."), false)?,
        Command::Keep { name, program } => {
            let path = Path::new("rope-bench/programs").join(name);
            programs::keep(&path.with_extension("json"), &program)?;
        }
        Command::Compare(compare) => compare.run()?,
        Command::Accuracy {
            model,
            positions,
            output,
        } => output.run(|run| measure_accuracy(run, &model, positions, &output))?,
        Command::Rows(rows) => rows.run()?,
        Command::Stages(gain) => gain.measure(stages::passes)?,
        Command::Backward(gain) => gain.measure(backward::passes)?,
        Command::Cache { runner, gain } if runner.is_empty() => gain.measure(cache::passes)?,
        Command::Cache { runner, gain } => gain.measure(|backend, effort| {
            let of = runner
                .iter()
                .map(|directory| runners::quantizers(directory));
            cache::quantizers(backend, effort, &of.collect::<Result<Vec<_>>>()?.concat())
        })?,
        Command::Call(call) => call.run()?,
        Command::Tune(tune) => tune.run()?,
        Command::Instructions {
            run: path,
            program,
            counter,
        } => {
            let mut run = files::read(&path)?;
            instructions::count(&mut run, &counter, &program)?;
            files::write(&path, &files::json(&run)?)?;
            print(&table::instructions(&run));
        }
        Command::Repeat { selection, times } => instructions::repeat(&selection, times)?,
        Command::List => print(&selection::list()),
    }
    Ok(())
}

#[derive(Debug, Args)]
struct Keep {
    #[command(flatten)]
    measure: Measure,
    /// The folder of the records
    #[arg(long, value_name = "DIRECTORY", default_value = "rope-bench/records")]
    records: PathBuf,
}

impl Keep {
    /// Measures, and writes what can be claimed of it.
    fn run(self) -> Result<()> {
        let mut run = self.measure.run(true)?;
        if record::has_changes() {
            run.machine.revision += " with changes";
        }
        record::forget_times_if_emulated(&mut run);
        record::refuse(&mut run);
        let path = record::write(&run, &self.records)?;
        self.measure.output.say(&table::record(&run, &path));
        self.measure.output.write(run)
    }
}

#[derive(Debug, Args)]
struct Compare {
    /// The baseline: a run or a program
    before: PathBuf,
    /// The run or the program that is compared with it
    after: PathBuf,
    /// The difference to detect; lines whose noise could hide it are counted separately
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * compare::DIFFERENCE)]
    difference: f64,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..), help = format!("Passes of each program [default: {TURNS}]"))]
    passes: Option<u16>,
    /// Arguments of both programs: those of a run, or of `call`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Compare {
    fn run(&self) -> Result<()> {
        let difference = 0.01 * self.difference;
        compare::check_difference(difference)?;
        let paths = [&*self.before, &*self.after];
        let are_runs = [files::is_run(paths[0])?, files::is_run(paths[1])?];
        let runs = match are_runs {
            [true, true] => {
                if self.passes.is_some() || !self.arguments.is_empty() {
                    bail!("--passes and arguments are those of two programs; these are two runs");
                }
                [files::read(paths[0])?, files::read(paths[1])?]
            }
            [false, false] => {
                let passes = self.passes.map_or(TURNS, usize::from);
                turns::measure(paths, passes, &self.arguments)?
            }
            _ => bail!("two runs or two programs can be compared: one is a run, the other is not"),
        };
        let names = paths.map(|path| path.display().to_string());
        let named = [(&*names[0], &runs[0]), (&*names[1], &runs[1])];
        print(&compare::table(named, difference, !are_runs[0])?);
        Ok(())
    }
}

#[derive(Debug, Args)]
struct MakeRows {
    /// Only these backends of rope-core
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    backend: Vec<Backend>,
    /// The most tokens
    #[arg(long, value_name = "N", default_value_t = rows::TABLE)]
    most: usize,
    /// Measures each number longer
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: Output,
}

impl MakeRows {
    fn run(&self) -> Result<()> {
        let backends = selection::backends(&self.backend)?;
        let output = &self.output;
        output.run(|run| measure_rows(run, &backends, self.most, effort(self.full), output))
    }
}

#[derive(Debug, Args)]
struct CallCommand {
    /// Only these backends of rope-core, and the C loops of their instruction sets
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    backend: Vec<Backend>,
    /// Only these elements
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = Element::ALL)]
    element: Vec<Element>,
    /// Only these pairings
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = Pairing::ALL)]
    pairing: Vec<Pairing>,
    /// Measures each number longer
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    output: Output,
}

impl CallCommand {
    fn run(&self) -> Result<()> {
        let CallCommand { output, full, .. } = self;
        let all = formulations::all();
        let backends = selection::backends(&self.backend)?;
        let plan = call::plan(&all, &backends, &self.element, &self.pairing);
        output.check()?;
        let processes = self.patience.processes(&plan, *full)?;
        output.run(|run| {
            let processes = processes.as_ref();
            self.patience.cases(run, &plan, processes, *full, |_| {})?;
            run.calls = calls::costs(&run.cases, |measured| Some(measured.time.minimum));
            output.say(&table::calls(&run.cases, &run.calls));
            #[cfg(feature = "intrinsics")]
            if self.element.contains(&Element::Bf16) && self.pairing.contains(&Pairing::Half) {
                let backend = backends.first().copied().unwrap_or(Backend::best());
                let passes = prepared::passes(backend, effort(*full))?;
                output.say(&table::passes(backend.name(), &passes));
            }
            Ok(())
        })
    }
}

#[derive(Debug, Args)]
struct Tune {
    /// Only these knobs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    knob: Vec<String>,
    /// Writes a record of the measurements
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// Measures for half a minute; fails if another value takes less than 0.8 of the time
    #[arg(long)]
    check: bool,
    /// The folder of the records
    #[arg(long, value_name = "DIRECTORY", default_value = "rope-bench/records")]
    records: PathBuf,
}

impl Tune {
    fn run(&self) -> Result<()> {
        let mut knobs: Vec<_> = tune::KNOBS.iter().collect();
        if !self.knob.is_empty() {
            let named = self.knob.iter().map(|name| tune::knob(name));
            knobs = named.collect::<Result<_>>()?;
        }
        let (check, effort) = (self.check, tune::effort(self.check));
        let mut run = Run::new(machine::this(None));
        let usage = Usage::now();
        let tuned = tune::tune(&run.machine, &knobs, effort)?;
        run.load = usage.and_then(Usage::until_now);
        print(&format!("{}\n{}\n", tune::table(&tuned), table::load(&run)));
        if check {
            let names = tune::gross(&tuned);
            let no_row = "; the table has no row for this core";
            let row = if tune::has_row() { "" } else { no_row };
            let less = "takes less than 0.8 of the time";
            if !names.is_empty() {
                bail!("another value {less}: {}{row}", names.join(", "));
            }
            print(&format!("no other value {less}{row}\n"));
        }
        if self.write {
            let path = tune::path(&self.records, &run.machine);
            tune::write(tuned, &path)?;
            eprintln!("wrote {}", path.display());
        }
        Ok(())
    }
}

/// Measures what one call gains over several, on one backend.
#[derive(Debug, Args)]
struct Gain {
    /// The backend of rope-core; the fastest one by default
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,
    /// Measures each number longer
    #[arg(long)]
    full: bool,
}

impl Gain {
    fn measure(&self, passes: impl FnOnce(Backend, Effort) -> Result<Vec<Pass>>) -> Result<()> {
        let backend = self.backend.unwrap_or_else(Backend::best);
        let passes = passes(backend, effort(self.full))?;
        print(&table::passes(backend.name(), &passes));
        Ok(())
    }
}

/// The length of a run.
#[derive(Debug, Args)]
struct Patience {
    /// Passes over all cases; with more of them, `compare` detects smaller differences
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    passes: Option<u16>,
    /// Runs this pass only, and prints its measurements for the process that started it
    #[arg(long, value_name = "N", hide = true)]
    pass: Option<usize>,
}

impl Patience {
    fn effort(&self, full: bool) -> Effort {
        let effort = effort(full);
        self.passes
            .map_or(effort, |passes| effort.with_passes(usize::from(passes)))
    }

    /// Returns the number of measurements and their duration: twice the time that is measured, for warm-up, untimed
    /// calls, and slow formulations.
    fn announce(&self, plan: &[Planned<'_>], full: bool) -> String {
        let roofs = plan.len() * Roof::available().len();
        let formulations: usize = plan.iter().map(|(_, chosen)| chosen.len()).sum();
        let time = 2 * self.effort(full).share * (roofs + formulations) as u32;
        let time = humantime::format_duration(Duration::from_secs(time.as_secs() + 1));
        let cases = count(plan.len(), "case");
        format!("{cases}, {formulations} measurements: some {time}\n")
    }

    /// Measures cases with a bar, and shows those of a group when they are done.
    fn cases(
        &self,
        run: &mut Run,
        plan: &[Planned<'_>],
        processes: Option<&Passes>,
        full: bool,
        show: impl Fn(&[CaseResult]),
    ) -> Result<()> {
        let effort = self.effort(full);
        let bar = Progress::new((plan.len() * effort.passes) as u64);
        let mut passes = Vec::new();
        for number in 1..=effort.passes {
            let mut measured = Vec::new();
            let mut done = |case| {
                measured.push(case);
                bar.advance(1);
            };
            match processes.filter(|_| run.machine.emulator.is_none()) {
                Some(processes) => processes.run(number, done)?,
                None => self.bench(plan, full).pass(plan, number == 1, |case| {
                    done(case);
                    Ok(())
                })?,
            }
            passes.push(measured);
        }
        drop(bar);
        run.cases = run::results(plan, &passes);
        for group in run.cases.chunk_by(|a, b| a.group == b.group) {
            show(group);
        }
        Ok(())
    }

    fn bench(&self, plan: &[Planned<'_>], full: bool) -> Bench {
        Bench::new(plan, self.effort(full))
    }

    /// Runs the pass and ends the process, if it is a pass of a run. Otherwise prepares to start such processes, before
    /// this one is bound to a core.
    fn processes(&self, plan: &[Planned<'_>], full: bool) -> Result<Option<Passes>> {
        let Some(number) = self.pass else {
            return Ok((!cfg!(target_family = "wasm")).then(Passes::prepare));
        };
        machine::pin_to(0);
        self.bench(plan, full)
            .pass(plan, number == 1, |case| passes::say(&case))?;
        std::process::exit(0)
    }
}

/// The destination of results.
#[derive(Debug, Args)]
struct Output {
    /// Write the results as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Marks this CPU as emulated, and by what; times are then left out
    #[arg(long, value_name = "NAME")]
    emulated_by: Option<String>,
}

impl Output {
    fn is_json_printed(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Prints progress for a terminal.
    fn say(&self, text: &str) {
        match self.json {
            None => print(&format!("{text}\n")),
            // A table on the standard output would spoil JSON there.
            Some(_) if self.is_json_printed() => eprintln!("{text}"),
            // The file is wanted even if nobody reads the table to its end.
            Some(_) => drop(writeln!(io::stdout(), "{text}")),
        }
    }

    /// Fails before anything is measured if the file cannot be written.
    fn check(&self) -> Result<()> {
        if let Some(path) = self.json.as_deref().filter(|_| !self.is_json_printed()) {
            files::check_writable(path)?;
        }
        Ok(())
    }

    /// Measures something of this machine, and writes it.
    fn run(&self, measure: impl FnOnce(&mut Run) -> Result<()>) -> Result<()> {
        self.check()?;
        let mut run = self.run_here();
        measure(&mut run)?;
        self.write(run)
    }

    fn write(&self, mut run: Run) -> Result<()> {
        record::forget_times_if_emulated(&mut run);
        match &self.json {
            Some(path) => files::write_or_print(path, &files::json(&run)?),
            None => Ok(()),
        }
    }

    fn run_here(&self) -> Run {
        let run = Run::new(machine::this(self.emulated_by.clone()));
        self.say(&table::machine(&run.machine));
        run
    }
}

#[derive(Debug, Args)]
struct Measure {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    output: Output,
}

impl Measure {
    fn run(&self, full: bool) -> Result<Run> {
        let (selection, output) = (&self.selection, &self.output);
        // An error in the request is reported before anything is measured.
        let all = selection.all()?;
        let backends = selection::backends(&selection.backend)?;
        let plan = selection.plan(&all)?;
        output.check()?;
        let processes = self.patience.processes(&plan, full)?;
        let mut run = output.run_here();

        output.say(
            "Q and K of real models on every backend, compared with the reference bit for bit:",
        );
        run.verification = verify(&backends, |lines| output.say(&table::verified(lines)))?;
        output.say(&table::verification(&run.verification));
        if run.verification.iter().any(|line| line.wrong > 0) {
            bail!("wrong bits; nothing was measured");
        }

        let effort = effort(full);
        let usage = Usage::now();

        output.say(&self.patience.announce(&plan, full));
        output.say(
        "elements/ns are those of the fastest round, time / roof that of the middle pass. The roof\n\
         multiplies the same bytes in place by a constant. error: the largest distance from\n\
         the exact rotation, in lengths of the pair. prepared in: the longest preparation, which no call includes",
    );
        self.patience
            .cases(&mut run, &plan, processes.as_ref(), full, |results| {
                output.say(&table::cases(results));
            })?;
        let is_whole = !selection.is_partial();
        if is_whole {
            measure_rows(&mut run, &backends, rows::TABLE, effort, output)?;
        }
        run.load = usage.and_then(Usage::until_now);
        if is_whole {
            measure_accuracy(&mut run, &USUAL, POSITIONS, output)?;
        }
        Ok(run)
    }
}

fn effort(full: bool) -> Effort {
    if full { Effort::FULL } else { Effort::QUICK }
}

fn measure_accuracy(
    run: &mut Run,
    models: &[impl AsRef<str>],
    positions: u32,
    output: &Output,
) -> Result<()> {
    let models = models
        .iter()
        .map(|name| RecordedModel::named(name.as_ref()));
    for model in models.collect::<Result<Vec<_>>>()? {
        let accuracy = accuracy::accuracy(model, positions, run.machine.cores)?;
        output.say(&table::accuracy(&accuracy));
        run.accuracy.push(accuracy);
    }
    if let Some(accuracy) = run.accuracy.first() {
        output.say(&table::methods(accuracy));
    }
    Ok(())
}

fn measure_rows(
    run: &mut Run,
    backends: &[Backend],
    most: usize,
    effort: Effort,
    output: &Output,
) -> Result<()> {
    let rows = rows::rows(backends, most, effort)?;
    output.say(&table::rows(&rows));
    run.rows = Some(rows);
    Ok(())
}

fn print(text: &str) {
    if io::stdout().lock().write_all(text.as_bytes()).is_err() {
        // The reader went away (`| head`): there is nobody to tell.
        std::process::exit(0);
    }
}
