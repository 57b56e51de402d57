//! The progress and the remaining time of a run.

/// A bar on the terminal, if there is one, which disappears when dropped. WebAssembly has none.
#[derive(Debug)]
pub struct Progress {
    #[cfg(not(target_family = "wasm"))]
    bar: indicatif::ProgressBar,
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
        }
    }

    /// Advances by the completed work.
    #[cfg_attr(target_family = "wasm", allow(unused_variables, reason = "no bar"))]
    pub fn advance(&self, done: u64) {
        #[cfg(not(target_family = "wasm"))]
        self.bar.inc(done);
    }
}

#[cfg(not(target_family = "wasm"))]
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
