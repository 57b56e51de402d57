//! The progress and the remaining time of a run.

#[cfg(not(target_family = "wasm"))]
use std::cell::Cell;
#[cfg(not(target_family = "wasm"))]
use std::io::{self, IsTerminal};
#[cfg(not(target_family = "wasm"))]
use std::time::{Duration, Instant};

/// The time between two lines where there is no terminal.
#[cfg(not(target_family = "wasm"))]
const EVERY: Duration = Duration::from_secs(20);

/// A bar on the terminal, which disappears when dropped; lines on the standard error if that is no terminal.
/// WebAssembly has neither.
#[derive(Debug)]
pub struct Progress {
    #[cfg(not(target_family = "wasm"))]
    bar: indicatif::ProgressBar,
    /// The last line; `None` on a terminal.
    #[cfg(not(target_family = "wasm"))]
    said: Option<Cell<Instant>>,
}

impl Progress {
    /// Starts with the total amount of work.
    #[cfg_attr(target_family = "wasm", allow(unused_variables, reason = "no bar"))]
    pub fn new(len: u64) -> Self {
        Progress {
            #[cfg(not(target_family = "wasm"))]
            bar: {
                let style = "{bar:30} {percent:>3} %  {eta} left";
                let style = indicatif::ProgressStyle::with_template(style);
                let style = style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar());
                indicatif::ProgressBar::new(len).with_style(style)
            },
            #[cfg(not(target_family = "wasm"))]
            said: (!io::stderr().is_terminal()).then(|| Cell::new(Instant::now())),
        }
    }

    /// Advances by the completed work.
    #[cfg_attr(target_family = "wasm", allow(unused_variables, reason = "no bar"))]
    pub fn advance(&self, done: u64) {
        #[cfg(not(target_family = "wasm"))]
        {
            self.bar.inc(done);
            let (position, len) = (self.bar.position(), self.bar.length().unwrap_or(0));
            let percent = 100 * position / len.max(1);
            // The first cases are no measure of the rest.
            if let Some(said) = &self.said
                && percent > 0
                && said.get().elapsed() >= EVERY
            {
                said.set(Instant::now());
                let left = self
                    .bar
                    .elapsed()
                    .mul_f64(len.saturating_sub(position) as f64);
                let left = Duration::from_secs((left / position.max(1) as u32).as_secs());
                eprintln!(
                    "{percent} % measured, {} left",
                    humantime::format_duration(left)
                );
            }
        }
    }
}

#[cfg(not(target_family = "wasm"))]
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
