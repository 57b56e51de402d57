//! The tables of rope-candle's README, in its words:
//!
//! ```console
//! $ cargo run --release -p rope-candle-models -- distances
//! $ RAYON_NUM_THREADS=1 cargo run --release -p rope-candle-models -- speed
//! $ RAYON_NUM_THREADS=1 cargo run --release -p rope-candle-models -- share
//! ```
//!
//! With `--json`, `share` prints lines that `rope-bench keep` reads.

mod distances;
mod speed;

use candle_core::Result;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("distances") => distances::print(),
        Some("speed") => speed::print(),
        Some("share") => speed::print_share(std::env::args().any(|word| word == "--json")),
        _ => candle_core::bail!("which table? distances, speed or share"),
    }
}
