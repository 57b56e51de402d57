//! `rope-bench`: see [`rope_bench`].

use std::process::ExitCode;

fn main() -> ExitCode {
    match rope_bench::commands::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rope-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
