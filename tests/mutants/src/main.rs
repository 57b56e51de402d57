//! A random sample of mutants of rope-core and rope-models: all are compiled into one copy of the tree, and an
//! environment variable chooses one when a test runs. `tests/mutants.sh` says how to run it.

mod find;

use find::{CHOSEN, Mutant};
use rayon::prelude::*;
use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is mutated.
const SOURCES: [&str; 2] = ["rope-core/src/", "rope-core/models/src/"];

/// Where a mutant stands in the copy, as rustc counts lines and columns: its call, and the lines from there on.
#[derive(Clone, Default)]
struct StageOrder {
    file: String,
    lines: Range<usize>,
    column: usize,
}

/// The tree, its copy, the sources of both crates without mutants, and the seed of the tests.
struct Copy {
    root: PathBuf,
    tree: PathBuf,
    sources: Vec<(String, String)>,
    seed: u64,
}

impl Copy {
    /// Copies what git knows of the tree, and removes the rest of an earlier copy: tests read whole folders.
    fn new(root: PathBuf, seed: u64) -> Self {
        let mut git = Command::new("git");
        let listed = git.args(["ls-files", "-z"]).current_dir(&root).output().expect("git");
        let (tree, sources) = (root.join("target/mutants/tree"), Vec::new());
        let mut copy = Copy { root, tree, sources, seed };
        let mut copied = HashSet::new();
        for name in String::from_utf8(listed.stdout).expect("names in UTF-8").split_terminator('\0') {
            // What was deleted is listed too.
            let Ok(bytes) = fs::read(copy.root.join(name)) else { continue };
            copied.insert(copy.tree.join(name));
            if SOURCES.iter().any(|folder| name.starts_with(folder)) && name.ends_with(".rs") {
                let source = String::from_utf8(bytes).expect("a source in UTF-8");
                copy.sources.push((name.to_string(), source));
            } else {
                copy.write(name, &bytes);
            }
        }
        remove_others(&copy.tree, &copied);
        copy
    }

    /// What is as it was keeps its time, so that cargo does not build it again.
    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.tree.join(name);
        if fs::read(&path).map_or(true, |old| old != bytes) {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file that can be written");
        }
    }

    /// Writes the sources with these mutants, each by its index, and returns where they stand.
    fn mutate(&self, mutants: &[Option<Mutant>]) -> Vec<StageOrder> {
        let mut places = vec![StageOrder::default(); mutants.len()];
        for (file, source) in &self.sources {
            let numbered = mutants.iter().enumerate().filter_map(|(id, mutant)| Some((id, mutant.as_ref()?)));
            let mut own: Vec<(usize, &Mutant)> = numbered.filter(|(_, mutant)| mutant.file == *file).collect();
            own.sort_by_key(|(_, mutant)| (mutant.at.start, mutant.at.end));
            let (mut new, call) = (source.clone(), |id: usize| format!("mutant({id})"));
            for (id, mutant) in own.iter().rev() {
                let text = mutant.new.replace(CHOSEN, &format!("crate::{}", call(*id)));
                new.replace_range(mutant.at.clone(), &text);
            }
            for (id, mutant) in own {
                let (before, _) = new.split_once(&call(id)).expect("the call");
                let (line, column) =
                    (before.split('\n').count(), before.chars().rev().take_while(|c| *c != '\n').count());
                let lines = line..line + mutant.new.split('\n').count();
                places[id] = StageOrder { file: file.clone(), lines, column: column + 1 };
            }
            if SOURCES.iter().any(|folder| file.strip_prefix(folder) == Some("lib.rs")) {
                new += include_str!("runtime.rs");
            }
            self.write(file, new.as_bytes());
        }
        places
    }

    /// Runs cargo in the copy: whether it succeeds, and what it says.
    fn cargo(&self, arguments: &str) -> (bool, String) {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments.split(' ')).current_dir(&self.tree);
        cargo.env("CARGO_TARGET_DIR", self.root.join("target/mutants/build"));
        // Mutants are code that lints refuse.
        let output = cargo.env("RUSTFLAGS", "--cap-lints=warn").output().expect("cargo");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Whether tests of a program pass, with a mutant, within that time.
    fn passes(&self, program: &Path, tests: &[&str], mutant: &str, limit: Duration) -> bool {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", &limit.as_secs().to_string()]).arg(program);
        command.args(tests).args(["--exact", "--test-threads=1"]).current_dir(self.tree.join("tests"));
        command.env("ROPE_MUTANT", mutant).env("ROPE_SEED", self.seed.to_string()).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("a program that starts").success()
    }
}

/// Removes the files of a folder that are not in the set, and folders without any.
fn remove_others(folder: &Path, kept: &HashSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            remove_others(&path, kept);
            // One that is not empty stays.
            let _ = fs::remove_dir(path);
        } else if !kept.contains(&path) {
            fs::remove_file(path).expect("a file that can be removed");
        }
    }
}

/// Takes that many mutants which do not overlap, and drops those that are not compiled: `None`.
fn choose(copy: &Copy, candidates: Vec<Mutant>, count: usize) -> Vec<Option<Mutant>> {
    let mut chosen: Vec<Option<Mutant>> = Vec::new();
    for mutant in candidates {
        let overlaps = |other: &Mutant| {
            other.file == mutant.file && mutant.at.start < other.at.end && other.at.start < mutant.at.end
        };
        if chosen.len() < count && !chosen.iter().flatten().any(overlaps) {
            chosen.push(Some(mutant));
        }
    }
    loop {
        let places = copy.mutate(&chosen);
        let check = "check -p rope-core -p rope-models --features rope-core/rayon --message-format=short";
        let (compiles, text) = copy.cargo(check);
        let messages = text.lines().filter_map(|message| {
            let [file, line, column, text] = message.splitn(4, ':').collect::<Vec<_>>()[..] else { return None };
            Some((file, (line.parse::<usize>().ok()?, column.parse::<usize>().ok()?), text))
        });
        let (errors, others): (Vec<_>, Vec<_>) = messages.partition(|(.., text)| text.contains("error"));
        if compiles {
            // The call is deprecated: rustc names each that it compiles for this target.
            let named: HashSet<_> = others.iter().map(|&(file, at, _)| (file, at)).collect();
            for (mutant, place) in chosen.iter_mut().zip(&places) {
                mutant.take_if(|_| !named.contains(&(&*place.file, (place.lines.start, place.column))));
            }
            // Unit tests are left out too, and would be compiled with the others.
            copy.mutate(&chosen);
            return chosen;
        }
        let before = chosen.iter().flatten().count();
        for (file, (line, _), _) in errors {
            let own = (0..places.len()).filter(|&id| places[id].file == file);
            let (mut named, others): (Vec<usize>, Vec<usize>) = own.partition(|&id| places[id].lines.contains(&line));
            if named.is_empty() {
                // The head of a match, of which the next one is an arm.
                let later = others.into_iter().filter(|&id| chosen[id].is_some() && places[id].lines.start > line);
                named.extend(later.min_by_key(|&id| places[id].lines.start));
            }
            named.into_iter().for_each(|id| chosen[id] = None);
        }
        let after = chosen.iter().flatten().count();
        assert!(after < before, "an error of no mutant:\n{text}");
    }
}

/// A test, how long it takes without a mutant, and which mutants it reaches.
struct Test {
    program: PathBuf,
    name: String,
    time: Duration,
    reaches: HashSet<usize>,
}

/// Runs every test by itself, without a mutant. Those that reach none are left out.
fn tests(copy: &Copy) -> Vec<Test> {
    let packages = "-p rope-tests -p rope-core -p rope-models -p rope-capi";
    let (success, text) = copy.cargo(&format!("test --no-run {packages} --test suites --test calls --lib"));
    assert!(success, "{text}");
    let mut names: Vec<(PathBuf, String)> = Vec::new();
    for line in text.lines().filter(|line| line.contains("Executable")) {
        let program = line.split(['(', ')']).nth(1).map(|name| copy.tree.join(name)).expect("a path");
        let listed = Command::new(&program).args(["--list", "--format=terse"]).output().expect("a list");
        for line in String::from_utf8(listed.stdout).expect("names in UTF-8").lines() {
            names.extend(line.strip_suffix(": test").map(|name| (program.clone(), name.to_string())));
        }
    }
    let alone = |(program, name): &(PathBuf, String)| {
        let reached = copy.tree.join(format!("target-{}", name.replace(':', "-")));
        let _ = fs::remove_file(&reached);
        let start = Instant::now();
        let limit = Duration::from_secs(900);
        assert!(copy.passes(program, &[name], &reached.display().to_string(), limit), "{name} fails");
        let (program, name, time) = (program.clone(), name.clone(), start.elapsed());
        let ids = fs::read_to_string(&reached).unwrap_or_default();
        Test { program, name, time, reaches: ids.lines().filter_map(|id| id.parse().ok()).collect() }
    };
    let mut tests: Vec<Test> = names.par_iter().map(alone).collect();
    tests.retain(|test| !test.reaches.is_empty());
    tests.sort_by_key(|test| test.time);
    tests
}

/// Whether one of the tests that reach a mutant fails: the quick ones first, those of a second together.
fn kills(copy: &Copy, tests: &[Test], id: usize) -> bool {
    let mut reaching: Vec<&Test> = tests.iter().filter(|test| test.reaches.contains(&id)).collect();
    while let Some(first) = reaching.first().copied() {
        let mut time = Duration::ZERO;
        let together = |test: &&Test| {
            time += test.time;
            test.program == first.program && (test.name == first.name || time < Duration::from_secs(1))
        };
        let run: Vec<&str> = reaching.iter().copied().take_while(together).map(|test| &*test.name).collect();
        if !copy.passes(&first.program, &run, &id.to_string(), time * 5 + Duration::from_secs(15)) {
            return true;
        }
        reaching.drain(..run.len());
    }
    false
}

/// The entries of the list: file, line or function, change (`*` is any) and reason.
fn equivalents(root: &Path) -> Vec<[String; 4]> {
    let list = fs::read_to_string(root.join("tests/mutants/equivalent.txt")).expect("the list");
    let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).map(str::trim).collect();
    let entries = lines.split(|line| line.is_empty()).filter(|entry| !entry.is_empty());
    let four = |entry: &[&str]| <[&str; 4]>::try_from(entry).expect("file, line, change, reason").map(String::from);
    entries.map(four).collect()
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64 % 1_000_000);
    let seed = number("ROPE_SEED").unwrap_or_else(clock);
    let count = number("MUTANTS").unwrap_or(200) as usize;
    let copy = Copy::new(root, seed);
    let mut all: Vec<Mutant> = Vec::new();
    copy.sources.iter().for_each(|(file, source)| all.extend(find::mutants(file, source)));
    println!("{count} of {} mutants, ROPE_SEED={seed}", all.len());

    let equivalents = equivalents(&copy.root);
    let is = |[file, text, change, _]: &[String; 4], mutant: &Mutant| {
        let whole = text.strip_prefix("fn ").is_some_and(|name| name == mutant.function);
        *file == mutant.file && (whole || *text == mutant.text) && (change == "*" || *change == mutant.change)
    };
    let gone: Vec<_> = equivalents.iter().filter(|entry| !all.iter().any(|mutant| is(entry, mutant))).collect();
    assert!(gone.is_empty(), "listed as equivalent, and no mutant: {gone:#?}");
    if count == 0 {
        return;
    }

    // In the order of hashes, so that a sample changes little with other places of the tree.
    let random = BuildHasherDefault::<DefaultHasher>::default();
    all.sort_by_cached_key(|mutant| random.hash_one((seed, &mutant.file, &mutant.text, &mutant.change, mutant.line)));
    // More than are run: some do not compile.
    let chosen = choose(&copy, all, count * 3 / 2);
    let compiled = chosen.iter().enumerate().filter_map(|(id, mutant)| Some((id, mutant.as_ref()?)));
    let only = std::env::var("ONLY").unwrap_or_default();
    let meant = |(_, mutant): &(usize, &Mutant)| {
        let place = format!("{}:{}", mutant.file, mutant.line);
        only.is_empty() || only.split_whitespace().any(|end| place.ends_with(end))
    };
    let (listed, tried): (Vec<_>, Vec<_>) =
        compiled.take(count).filter(meant).partition(|(_, mutant)| equivalents.iter().any(|entry| is(entry, mutant)));
    let tests = tests(&copy);
    let time: Duration = tests.iter().map(|test| test.time).sum();
    println!("{} tests reach the mutants, and take {time:.0?} without one", tests.len());

    let run = |&(id, mutant): &(usize, &Mutant)| {
        let (start, killed) = (Instant::now(), kills(&copy, &tests, id));
        let reached = tests.iter().any(|test| test.reaches.contains(&id));
        let Mutant { file, line, text, change, .. } = mutant;
        match (killed, start.elapsed().as_secs_f64()) {
            (true, seconds) => println!("killed in {seconds:.1} s: {file}:{line}: {change}"),
            (false, _) if !reached => println!("not reached: {file}:{line}: {change}"),
            (false, seconds) => println!("SURVIVED, at line {line}, {seconds:.1} s:\n{file}\n{text}\n{change}"),
        }
        (killed, reached)
    };
    let found: Vec<(bool, bool)> = tried.par_iter().map(run).collect();
    let count = |of: (bool, bool)| found.iter().filter(|result| **result == of).count();
    let (killed, survived, unreached) = (count((true, true)), count((false, true)), count((false, false)));
    println!("{} tried: {killed} killed, {survived} survived, {unreached} in code that no test reached", found.len());
    println!("{} more are listed as equivalent", listed.len());
    // The code of AVX-512 is compiled on every CPU.
    let all = fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpu| cpu.contains("avx512_bf16"));
    std::process::exit(i32::from(survived > 0 || all && unreached > 0));
}
