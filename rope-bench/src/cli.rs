//! The command line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::compare;
use crate::formulations;
use crate::machine::Machine;
use crate::measuring::Effort;
use crate::report::{files, html, svg, table};
use crate::results::{CaseResult, FORMAT, Run};
use crate::run::{self, Bench};
use crate::selection::{self, Selection};
use crate::verification::verify;

/// Verifies rope-core on real data, and measures it and the formulations of the literature against the machine's limit.
///
/// Without a command: verifies every backend on the Q and K of real models, then measures.
#[derive(Debug, Parser)]
#[command(name = "rope-bench", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes one self-contained page of one or several runs
    Report {
        /// What `--json` wrote
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The page
        #[arg(short, long, value_name = "FILE", default_value = "report.html")]
        output: PathBuf,
        /// A directory for the plots as files of their own
        #[arg(long, value_name = "DIRECTORY")]
        svg: Option<PathBuf>,
    },
    /// Puts two runs side by side: two machines, or two commits
    Compare {
        /// The run to compare with
        before: PathBuf,
        /// The run to compare
        after: PathBuf,
    },
    /// Says what each formulation computes, and where it is from
    List,
}

#[derive(Debug, Args)]
struct Measure {
    #[command(flatten)]
    selection: Selection,
    /// Write the results as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A directory for plots
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
    /// Says that this CPU is emulated, and by what: reports then do not take times for times
    #[arg(long, value_name = "NAME")]
    emulated_by: Option<String>,
}

/// Runs the command line of this process.
pub fn run() -> Result<ExitCode> {
    let cli = Cli::parse();
    match cli.command {
        None => measure(&cli.measure)?,
        Some(Command::Report { runs, output, svg }) => {
            let runs: Vec<Run> = runs
                .iter()
                .map(|path| files::read(path))
                .collect::<Result<_>>()?;
            files::write_or_print(&output, html::page(&runs).as_bytes())?;
            if let Some(directory) = svg {
                for (index, run) in runs.iter().enumerate() {
                    let prefix = if runs.len() > 1 {
                        format!("{}-", index + 1)
                    } else {
                        String::new()
                    };
                    write_plots(&directory, &prefix, run)?;
                }
            }
        }
        Some(Command::Compare { before, after }) => {
            print(&compare::table(
                &files::read(&before)?,
                &files::read(&after)?,
            )?);
        }
        Some(Command::List) => print(&selection::list()),
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(options: &Measure) -> Result<()> {
    let Measure {
        selection,
        json,
        svg,
        emulated_by,
    } = options;
    let to_stdout = json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    // A table on the standard output would spoil JSON there.
    let say = |text: &str| {
        let text = format!("{text}\n");
        if to_stdout {
            let _ = io::stderr().lock().write_all(text.as_bytes());
        } else if json.is_none() && svg.is_none() {
            print(&text);
        } else {
            // Even if nobody reads the table to its end, the file is wanted.
            let _ = io::stdout().lock().write_all(text.as_bytes());
        }
    };

    // Whatever can be wrong with the request is said before the first minute is spent.
    let all = formulations::all();
    let backends = selection.backends()?;
    let plan = selection.plan(&all)?;
    if let Some(path) = json.as_deref().filter(|_| !to_stdout) {
        files::check_writable(path)?;
    }
    if let Some(directory) = svg {
        create_directory(directory)?;
    }

    let machine = Machine::this(emulated_by.clone());
    say(&table::machine(&machine));

    say("Q and K of real models on every backend, compared with the reference bit for bit:");
    let verification = verify(&backends, |lines| say(&table::verified(lines)))?;
    say(&table::verification(&verification));
    if verification.iter().any(|line| line.wrong > 0) {
        bail!("wrong bits; nothing was measured");
    }

    let effort = if selection.full {
        Effort::FULL
    } else {
        Effort::QUICK
    };
    let dispatch = run::dispatch(&backends, effort)?;
    say(&table::dispatch(&dispatch));

    say(
        "elements/ns, time of a call, time / roof; the roof multiplies the same bytes in place by a constant;\n\
         error: the largest distance from the exact rotation, in lengths of the pair",
    );
    let weight = |chosen: &[_]| chosen.len() as u64 + 3;
    let bar = progress(plan.iter().map(|(_, chosen)| weight(chosen)).sum());
    let mut bench = Bench::new(plan.iter().map(|(case, _)| case), effort);
    let mut results: Vec<CaseResult> = Vec::new();
    let mut shown = 0;
    for (index, (case, chosen)) in plan.iter().enumerate() {
        bar.set_message(case.to_string());
        results.push(bench.run(case, chosen)?);
        bar.inc(weight(chosen));
        if plan
            .get(index + 1)
            .is_none_or(|(next, _)| next.group() != case.group())
        {
            bar.suspend(|| say(&table::cases(&results[shown..])));
            shown = results.len();
        }
    }
    bar.finish_and_clear();
    let run = Run {
        format: FORMAT.into(),
        machine,
        verification,
        dispatch,
        cases: results,
    };
    if let Some(path) = json {
        files::write_or_print(path, &files::json(&run)?)?;
    }
    if let Some(directory) = svg {
        write_plots(directory, "", &run)?;
    }
    Ok(())
}

fn write_plots(directory: &std::path::Path, prefix: &str, run: &Run) -> Result<()> {
    create_directory(directory)?;
    for (name, plot) in svg::plots(run) {
        files::write(
            &directory.join(format!("{prefix}{name}.svg")),
            svg::standalone(&plot).as_bytes(),
        )?;
    }
    Ok(())
}

fn create_directory(directory: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))
}

fn print(text: &str) {
    if io::stdout().lock().write_all(text.as_bytes()).is_err() {
        // The reader went away (`| head`): there is nobody to tell.
        std::process::exit(0);
    }
}

/// Seen on a terminal only.
fn progress(len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    match ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta} left  {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
