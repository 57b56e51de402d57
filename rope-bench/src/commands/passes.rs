//! The passes of a run, each in its own process.
//!
//! Two processes of one program differ: the system's placement of code, stack and pages determines how they share
//! caches and predictors. A loop may take a tenth longer in one process than in the next, for the life of the process.
//! Passes of one process would agree and all be wrong; passes of several show it as spread.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::commands::run::CasePass;

/// The option that makes a process one pass of a run: the pass's number, from 1.
pub const OPTION: &str = "--pass";

/// Starts this program again, with the same arguments.
///
/// The starting thread was itself started before the program was bound to a core: a pass sees the same cores as the
/// run.
#[derive(Debug)]
pub struct Passes {
    wanted: Sender<usize>,
    started: Receiver<io::Result<Child>>,
}

impl Passes {
    /// Creates the thread that will start them.
    pub fn prepare() -> Self {
        let (wanted, numbers) = mpsc::channel::<usize>();
        let (sender, started) = mpsc::channel();
        thread::spawn(move || {
            for number in numbers {
                let child = env::current_exe().and_then(|program| {
                    Command::new(program)
                        .args(env::args_os().skip(1))
                        .args([OPTION, &number.to_string()])
                        .stdin(Stdio::null())
                        .stdout(Stdio::piped())
                        .stderr(Stdio::piped())
                        .spawn()
                });
                if sender.send(child).is_err() {
                    break;
                }
            }
        });
        Passes { wanted, started }
    }

    /// Runs one pass; calls `done` with each case as the pass reports it.
    ///
    /// # Errors
    ///
    /// The failure of the pass.
    pub fn run(&self, number: usize, mut done: impl FnMut(CasePass)) -> Result<()> {
        self.wanted.send(number)?;
        let mut child = self.started.recv()?.context("cannot start a pass")?;
        let said = child.stdout.take().context("its standard output is ours")?;
        for line in BufReader::new(said).lines() {
            done(serde_json::from_str(&line?).context("a pass printed no measurements")?);
        }
        let mut error = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut error)?;
        }
        let status = child.wait()?;
        if let Some((_, why)) = error.split_once("rope-bench: ") {
            bail!("{}", why.trim_end());
        }
        ensure!(status.success(), "a pass ended with {status}\n{error}");
        Ok(())
    }
}

/// Reports a pass's measurement of a case.
///
/// # Errors
///
/// No process reads it.
pub fn say(case: &CasePass) -> Result<()> {
    let mut line = serde_json::to_vec(case)?;
    line.push(b'\n');
    Ok(io::stdout().lock().write_all(&line)?)
}
