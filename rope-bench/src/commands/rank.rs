//! The engines of records against each other: [`rank`], and the tables and the picture that [`splice`] puts into texts.
//! Every number of a README comes from here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use maud::{PreEscaped, html};
use rope_report::cells::digits;
use rope_report::counts::{Counts, counts};
use rope_report::engines::{self, IN_C, ON_THE_FLY, OURS, Taken};
use rope_report::files;
use rope_report::kind::Kind;
use rope_report::markdown::{machine, markdown};
use rope_report::results::{Run, distinct};
use rope_report::svg::bars::{Bar, content, height};
use rope_report::svg::{self, WIDTH};
use rope_report::time;

use crate::cases::Element;
use crate::commands::programs::Programs;
use crate::commands::record;

/// The classes of workloads: what a user waits for.
const CLASSES: [(&str, &[&str]); 3] = [
    ("prompts", &["W1", "W2"]),
    ("tokens", &["W3", "W4"]),
    ("chunks", &["W5"]),
];

/// The workloads of [`machines`] and of the picture, and their names.
const COLUMNS: [(&str, &str); 4] = [
    ("W1", "prompt"),
    ("W2", "heads-major"),
    ("W3", "one token"),
    ("W4", "64 sequences"),
];

/// The columns of the README's table.
const README_COLUMNS: [(Element, &str, &str); 4] = [
    (Element::F32, "W1", "f32, prompt"),
    (Element::F32, "W3", "f32, one token"),
    (Element::Bf16, "W1", "bf16, prompt"),
    (Element::Bf16, "W3", "bf16, one token"),
];

/// The lines of the README's table: a name, the engine with its tables ready, and the engine as models call it.
const README_LINES: [(&str, &str, &str); 6] = [
    (OURS, OURS, ON_THE_FLY),
    ("PyTorch, `torch.compile`", "PyTorch compiled", ""),
    (
        "PyTorch, eager",
        "PyTorch eager",
        "PyTorch eager, as called",
    ),
    ("candle", "candle", "candle, as called"),
    ("ONNX Runtime", "ONNX Runtime", "ONNX Runtime, as called"),
    ("llama.cpp (ggml)", "", "ggml (llama.cpp)"),
];

/// The levels of the README's accuracy, and their names.
const LEVELS: [(u32, &str); 5] = [
    (1 << 12, "4k"),
    (1 << 17, "128k"),
    (1 << 20, "1M"),
    (1 << 24, "16M"),
    (1 << 31, "2^31"),
];

/// The methods of the README's accuracy, and their names.
const METHODS: [(&str, &str); 4] = [
    ("f32 angle", "f32 angle (Hugging Face)"),
    ("iterated multiply", "iterated f32 product (ggml)"),
    ("bf16 angle", "angle in bf16 (candle's bf16 models)"),
    (OURS, OURS),
];

/// The model of the README's accuracy.
const MODEL: &str = "llama-2-7b";

/// Beside every rank.
const CAUTION: &str = "\
Times over the roof: 1.0 is the machine's limit. Each number is the geometric mean over the newest record of each
machine and the workloads of a class. An engine marked * lacks some of these lines, so its mean covers fewer. Means
hide slow cases, and a roof is lower in a cache than in memory: decide by the tables of your own machine.";

/// Returns the newest run of each machine, real or emulated, in the order of their names.
pub fn newest(runs: &[(PathBuf, Run)], emulated: bool) -> Vec<&Run> {
    let mut newest: BTreeMap<String, &Run> = BTreeMap::new();
    for (_, run) in runs {
        let best = newest.entry(run.machine.folder()).or_insert(run);
        if best.date <= run.date {
            *best = run;
        }
    }
    newest.retain(|_, run| run.machine.emulator.is_some() == emulated);
    newest.into_values().collect()
}

/// The engines of a workload on one thread.
fn taken<'a>(run: &'a Run, element: Element, workload: &str) -> Vec<Taken<'a>> {
    let cases = run.cases.iter().filter(|case| {
        let is_usual = case.aligned && case.threads == 1;
        case.element == element.name() && case.workload == workload && is_usual
    });
    engines::taken(run, cases)
}

/// The geometric mean of an engine's lines in a class, and how many there are; nothing if there is none.
fn mean(runs: &[&Run], element: Element, workloads: &[&str], engine: &str) -> Option<(f64, usize)> {
    let lines = runs.iter().flat_map(|run| {
        let taken = workloads
            .iter()
            .flat_map(|workload| taken(run, element, workload));
        taken.filter(|taken| taken.engine == engine)
    });
    let times: Vec<f64> = lines.map(|taken| taken.low()).collect();
    (!times.is_empty()).then(|| (time::mean(&times), times.len()))
}

/// All engines of all runs, the fastest first: by their f32 lines, whichever they have.
fn engines<'a>(runs: &[&'a Run]) -> Vec<&'a str> {
    let standard: Vec<&str> = CLASSES.iter().flat_map(|class| class.1).copied().collect();
    let taken = |run: &&'a Run| {
        let run = *run;
        standard
            .iter()
            .flat_map(move |name| taken(run, Element::F32, name))
    };
    let mut engines = distinct(runs.iter().flat_map(taken).map(|taken| taken.engine));
    engines.sort_by(|a, b| {
        let mean =
            |engine| mean(runs, Element::F32, &standard, engine).map_or(f64::INFINITY, |of| of.0);
        mean(a).total_cmp(&mean(b))
    });
    engines
}

/// A table of Markdown, and its caution.
///
/// # Errors
///
/// None of the runs has times of a standard workload.
pub fn rank(runs: &[&Run]) -> Result<String> {
    let engines = engines(runs);
    ensure!(!engines.is_empty(), "no run has times of W1 to W5 in f32");
    let mut columns = Vec::new();
    for element in Element::ALL {
        for (class, workloads) in CLASSES {
            let means = engines
                .iter()
                .map(|engine| mean(runs, element, workloads, engine));
            let means: Vec<_> = means.collect();
            let most = means.iter().flatten().map(|(_, lines)| *lines).max();
            let cells = means.iter().map(|mean| match mean {
                Some((mean, lines)) if Some(*lines) == most => digits(*mean),
                Some((mean, _)) => format!("{}*", digits(*mean)),
                None => "-".into(),
            });
            columns.push((format!("{element} {class}"), cells.collect::<Vec<_>>()));
        }
    }
    let heading = columns.iter().map(|(name, _)| name.as_str());
    let rows = engines.iter().enumerate().map(|(index, engine)| {
        let cells = columns.iter().map(|(_, cells)| cells[index].clone());
        (engine.to_string(), cells.collect())
    });
    let machines: String = runs
        .iter()
        .map(|run| format!("- {}\n", machine(run)))
        .collect();
    let table = markdown(heading, rows);
    Ok(format!("{table}\n{CAUTION}\n\n{machines}"))
}

/// A cell of [`machines`]: the pairings of an engine in a workload. Where there are none, whether the record refused
/// them, because its passes disagreed.
fn cell(run: &Run, element: Element, workload: &str, engine: &str) -> Result<String, bool> {
    let mut all = taken(run, element, workload).into_iter();
    let found = all.find(|taken| taken.engine == engine);
    let found = found.map(|taken| [taken.low(), taken.high]);
    let two = |value: f64| format!("{value:.*}", usize::from(value < 9.95));
    match found {
        Some([low, high]) if two(low) == two(high) => Ok(two(low)),
        Some([low, high]) => Ok(format!("{} - {}", two(low), two(high))),
        None => Err(is_refused(run, element, workload, engine)),
    }
}

fn is_refused(run: &Run, element: Element, workload: &str, of: &str) -> bool {
    let refused = run.record.iter().flat_map(|record| &record.refused);
    refused.into_iter().any(|line| {
        line.workload == workload
            && line.group.split(' ').next() == Some(element.name())
            && engines::engine(run, &line.formulation) == Some(of)
    })
}

/// The engines of [`machines`] in every element, and those in f32; `rank` has all.
const COMPARED: [&str; 2] = [OURS, IN_C];
const COMPARED_F32: [&str; 2] = ["complex/in-place", "rotate-half"];

/// Returns the newest run with other libraries, which the README shows; without one, the newest run.
fn shown<'a>(runs: &[&'a Run]) -> Result<&'a Run> {
    let has_libraries = |run: &Run| {
        let mut measured = run.cases.iter().flat_map(|case| &case.measurements);
        measured.any(|measured| Kind::of(&measured.formulation) == Kind::Library)
    };
    let newest = runs
        .iter()
        .max_by_key(|run| (has_libraries(run), &run.date));
    newest.copied().context("no record has times")
}

/// The README's speed: rope-core and other libraries, on one machine.
fn speed(run: &Run) -> String {
    let rows = README_LINES.map(|(name, ready, called)| {
        let cells = README_COLUMNS.map(|(element, workload, _)| {
            let taken = taken(run, element, workload);
            let of = |engine: &str| taken.iter().find(|taken| taken.engine == engine);
            let two = |taken: &Taken<'_>| {
                let value = taken.low();
                format!("{value:.*}", usize::from(value < 9.95))
            };
            let text = |engine: &str| match of(engine) {
                Some(taken) => two(taken),
                None if is_refused(run, element, workload, engine) => "noise".into(),
                None => "-".into(),
            };
            match [ready, called].map(text) {
                [ready, called] if called == "-" => ready,
                [ready, called] => format!("{ready} / {called}"),
            }
        });
        (name.to_owned(), cells.to_vec())
    });
    let rows = rows.into_iter();
    let measured = rows.filter(|(_, cells)| cells.iter().any(|cell| cell != "-"));
    let heading = README_COLUMNS.iter().map(|(_, _, name)| *name);
    let (name, table) = (run.machine.name(), markdown(heading, measured));
    let picture = "rope-bench/records/speed.svg";
    format!(
        "{table}\n![rope-core, C and other libraries in f32 on {name}: time over the roof]({picture})\n\n{}.\n",
        machine(run).trim_end_matches('.')
    )
}

/// The README's accuracy, of the newest run that has it.
fn accuracy(runs: &[&Run]) -> Result<String> {
    let of = |run: &&Run| {
        let mut all = run.accuracy.iter();
        let found = all.find(|accuracy| accuracy.model == MODEL)?.clone();
        Some((run.date.clone(), found))
    };
    let newest = runs
        .iter()
        .filter_map(of)
        .max_by_key(|(date, _)| date.clone());
    let (_, accuracy) = newest.with_context(|| format!("no record has the accuracy of {MODEL}"))?;
    let shown = |error: f64| match error {
        0.095.. => format!("{error:.*}", if error < 0.995 { 2 } else { 1 }),
        _ => format!("{error:.1e}"),
    };
    let rows = METHODS.map(|(method, name)| {
        let mut methods = accuracy.methods.iter();
        let method = methods.find(|known| known.name == method);
        let method = method.with_context(|| format!("no accuracy of {name}"))?;
        let cells = LEVELS.map(|(level, of)| {
            let at = accuracy.levels.iter().position(|known| *known == level);
            let error = at.and_then(|at| method.errors.get(at));
            error
                .map(|error| shown(*error))
                .with_context(|| format!("no accuracy at {of}"))
        });
        let cells = cells.into_iter().collect::<Result<Vec<_>>>()?;
        Ok((name.to_owned(), cells))
    });
    let rows = rows.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(markdown(
        LEVELS.iter().map(|(_, name)| *name),
        rows.into_iter(),
    ))
}

/// rope-bench's speed: rope-core, C and the literature on every machine, one machine below the other.
fn machines(runs: &[&Run]) -> String {
    let (mut rows, mut noisy) = (Vec::new(), Vec::new());
    for element in Element::ALL {
        let in_f32 = COMPARED_F32.iter().filter(|_| element == Element::F32);
        for engine in COMPARED.iter().chain(in_f32) {
            for run in runs {
                let name = format!("{engine} {element}, {}", run.machine.name());
                let cells = COLUMNS.map(|(workload, _)| cell(run, element, workload, engine));
                let refused = cells.iter().zip(COLUMNS);
                let refused = refused.filter(|(cell, _)| **cell == Err(true));
                let refused: Vec<&str> = refused.map(|(_, (_, column))| column).collect();
                if !refused.is_empty() {
                    noisy.push(format!("{name} ({})", refused.join(", ")));
                }
                if cells.iter().all(Result::is_err) {
                    continue;
                }
                let cells = cells.map(|cell| cell.unwrap_or_else(|_| "-".into()));
                rows.push((name, cells.to_vec()));
            }
        }
    }
    let left_out = if noisy.is_empty() {
        String::new()
    } else {
        let percent = 100.0 * record::CLAIM;
        let lines = noisy.join("; ");
        format!(
            "<sub>Left out, because the passes differed by more than {percent} %: {lines}.</sub>\n\n"
        )
    };
    let machines = runs.iter().map(|run| format!("- {}\n", machine(run)));
    format!(
        "{}\n{left_out}{}",
        markdown(COLUMNS.iter().map(|(_, name)| *name), rows.into_iter()),
        machines.collect::<String>()
    )
}

/// The picture of the README: rope-core, C and other libraries, a card for each workload.
fn picture(run: &Run) -> String {
    const GAP: f64 = 20.0;
    const CAPTION: f64 = 22.0;
    let engines = engines(std::slice::from_ref(&run));
    let cards = COLUMNS.map(|(workload, name)| {
        let taken = taken(run, Element::F32, workload);
        let is_shown =
            |taken: &&Taken<'_>| Kind::of(&taken.measurement.formulation) != Kind::Literature;
        let find = |engine: &&str| {
            let mut shown = taken.iter().filter(is_shown);
            shown.find(|taken| taken.engine == *engine)
        };
        (name, engines.iter().filter_map(find).map(bar).collect())
    });
    let heights = cards.iter().map(|(_, bars): &(_, Vec<Bar>)| height(bars));
    let (wide, tall) = (WIDTH + GAP, heights.fold(0.0, f64::max) + CAPTION + GAP);
    let all = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (2.0 * wide + GAP) " " (2.0 * tall + GAP) } role="img" {
            style { (PreEscaped(svg::STYLE)) "svg{background:var(--paper)}" }
            title { "f32 on " (run.machine.name()) ": time over the machine's limit" }
            @for (index, (name, bars)) in cards.iter().enumerate() {
                g transform={ "translate(" (GAP + wide * (index % 2) as f64) " " (GAP + tall * (index / 2) as f64) ")" } {
                    text.first x="0" y="12" { (name) }
                    g transform={ "translate(0 " (CAPTION) ")" } { (content(bars)) }
                }
            }
        }
    };
    all.into_string() + "\n"
}

fn bar(taken: &Taken<'_>) -> Bar {
    let [low, high] = [taken.low(), taken.high].map(digits);
    Bar {
        name: taken.engine.into(),
        about: format!("{}: {low} roofs, {high} in the other pairing", taken.engine),
        value: low,
        class: Kind::of(&taken.measurement.formulation).class(),
        low: taken.low(),
        high: taken.high,
        is_first: taken.engine.starts_with(OURS),
    }
}

/// The instructions of each backend on emulated CPUs: a table for each workload.
fn instructions(runs: &[&Run]) -> String {
    let tables = counts(runs).into_iter().map(|Counts { case, table }| {
        let heading = table[0][1..].iter().map(String::as_str);
        let rows = table[1..]
            .iter()
            .map(|row| (row[0].clone(), row[1..].to_vec()));
        let table = markdown(heading, rows);
        format!("{}, {}:\n\n{table}", case.workload, case.about)
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// Writes what records say into the texts and the picture below `root`, or reports which of them differ.
///
/// # Errors
///
/// A text has no place for it, a file cannot be read or written, or `check` is true and one differs.
pub fn splice(root: &Path, check: bool) -> Result<()> {
    let records = root.join("rope-bench/records");
    let all = files::read_all(std::slice::from_ref(&records))?;
    let runs = newest(&all, false);
    let instructions = instructions(&newest(&all, true));
    let [readme, bench] = ["README.md", "rope-bench/README.md"].map(|path| root.join(path));
    let shown = shown(&runs)?;
    let programs = Programs::read(&root.join("rope-bench/programs"))?;
    let torch = root.join("rope-core/adapters/torch/README.md");
    check_sentence(&readme, &programs.sentence()?)?;
    let of_programs = [
        (bench.clone(), "shares", programs.shares()?),
        (torch.clone(), "times", programs.times()?),
        (torch, "calls", programs.calls()?),
    ];
    let of_records = [
        (readme.clone(), "accuracy", accuracy(&runs)?),
        (readme, "speed", speed(shown)),
        (bench.clone(), "rank", rank(&runs)?),
        (bench, "machines", machines(&runs)),
        (
            root.join("rope-core/MEASUREMENTS.md"),
            "instructions",
            instructions,
        ),
    ];
    let texts = of_records.map(|text| ("records", text)).into_iter();
    let texts = texts.chain(of_programs.map(|text| ("programs", text)));
    let mut made = vec![(records.join("speed.svg"), picture(shown))];
    for (source, (path, name, text)) in texts {
        // A text may have several places.
        let from = made.iter().find(|(known, _)| *known == path);
        let old = match from {
            Some((_, text)) => text.clone(),
            None => read(&path)?,
        };
        let new = spliced(&path, &old, [name, source], &text)?;
        made.retain(|(known, _)| *known != path);
        made.push((path, new));
    }
    for (path, text) in made {
        if fs::read_to_string(&path).ok().as_ref() == Some(&text) {
            continue;
        }
        let name = path.display();
        ensure!(
            !check,
            "{name} does not match the records: `rope-bench splice` writes it"
        );
        files::write(&path, text.as_bytes())?;
    }
    Ok(())
}

/// Fails unless a text has these words, in whichever lines.
fn check_sentence(path: &Path, words: &str) -> Result<()> {
    let text = read(path)?;
    let text: Vec<&str> = text.split_whitespace().collect();
    let name = path.display();
    ensure!(
        text.join(" ").contains(words),
        "{name} does not match rope-bench/programs, which say: {words}"
    );
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A text with another one between the comments `NAME` and `end of NAME`.
fn spliced(path: &Path, old: &str, [name, source]: [&str; 2], text: &str) -> Result<String> {
    let marks = [
        format!("<!-- {name}: `rope-bench splice` writes it from rope-bench/{source} -->\n"),
        format!("<!-- end of {name} -->"),
    ];
    let parts = old.split_once(&*marks[0]);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(&*marks[1])?.1)));
    let no_place = || format!("{} has no place for {name}", path.display());
    let (before, after) = parts.with_context(no_place)?;
    Ok(format!("{before}{}\n{text}\n{}{after}", marks[0], marks[1]))
}
