//! `rope-bench`: see [`rope_bench`].

use std::process::ExitCode;

fn main() -> ExitCode {
    match rope_bench::cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rope-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
