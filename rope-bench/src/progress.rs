//! The progress of a run and its remaining time, as a bar on the terminal if there is one.

cfg_if::cfg_if! {
    if #[cfg(target_family = "wasm")] {
        /// No terminal that could show it.
        #[derive(Debug)]
        pub struct Progress;

        impl Progress {
            /// Nothing.
            pub fn new(_: u64) -> Self {
                Progress
            }
            /// Nothing.
            pub fn advance(&self, _: u64) {}
        }
    } else {
        use indicatif::{ProgressBar, ProgressStyle};

        /// A bar that goes away with it.
        #[derive(Debug)]
        pub struct Progress(ProgressBar);

        impl Progress {
            /// So much to do.
            pub fn new(len: u64) -> Self {
                let bar = ProgressBar::new(len);
                let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta} left");
                Progress(match style {
                    Ok(style) => bar.with_style(style),
                    Err(_) => bar,
                })
            }
            /// So much is done.
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
