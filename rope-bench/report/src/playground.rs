//! Two positions, the planes of the pairs, and the attention score: rope-core as WebAssembly inside the page.
//!
//! `tests/platforms/report.sh` builds `playground.wasm` from `rope-bench/playground`, and reports when it is stale.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};

const WASM: &[u8] = include_bytes!("playground.wasm");
const HTML: &str = include_str!("playground.html");
const SCRIPT: &str = include_str!("playground.js");

/// The additional style of the page.
pub const STYLE: &str = include_str!("playground.css");

/// Returns the section, its data and its script.
pub fn section() -> Markup {
    html! {
        (PreEscaped(HTML))
        script type="application/block-stream" id="playground-wasm" { (PreEscaped(STANDARD.encode(WASM))) }
        script { (PreEscaped(SCRIPT)) }
    }
}
