//! The progress and the remaining time of a run: a bar on the terminal, if there is one.

cfg_if::cfg_if! {
    if #[cfg(target_family = "wasm")] {
        /// A progress without a terminal.
        #[derive(Debug)]
        pub struct Progress;

        impl Progress {
            /// Does nothing.
            pub fn new(_: u64) -> Self {
                Progress
            }
            /// Does nothing.
            pub fn advance(&self, _: u64) {}
        }
    } else {
        use indicatif::{ProgressBar, ProgressStyle};

        /// A bar that disappears when dropped.
        #[derive(Debug)]
        pub struct Progress(ProgressBar);

        impl Progress {
            /// Starts with the total amount of work.
            pub fn new(len: u64) -> Self {
                let bar = ProgressBar::new(len);
                let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta} left");
                Progress(match style {
                    Ok(style) => bar.with_style(style),
                    Err(_) => bar,
                })
            }
            /// Advances by the completed work.
            pub fn advance(&self, done: u64) {
                self.0.inc(done);
            }
        }

        impl Drop for Progress {
            fn drop(&mut self) {
                self.0.finish_and_clear();
            }
        }
    }
}
