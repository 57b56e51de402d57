//! Two positions, the planes of the pairs, and the attention score: rope-core as WebAssembly inside the page.
//!
//! `playground.wasm` is built from `rope-bench/playground` by `tests/platforms/report.sh`, which also says when it is
//! stale.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const WASM: &[u8] = include_bytes!("playground.wasm");
const HTML: &str = include_str!("playground.html");
const SCRIPT: &str = include_str!("playground.js");

/// What the page's style needs besides.
pub const STYLE: &str = "
.controls{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,260px),1fr));gap:.5rem 1.5rem;font-size:.9rem}
.controls label{display:block}
.controls input{width:100%}
.controls output{float:right;font-variant-numeric:tabular-nums}
.controls select{font:inherit;float:right}
.planes{display:grid;grid-template-columns:repeat(auto-fill,minmax(84px,1fr));gap:.6rem;margin:1rem 0}
.planes figcaption{text-align:center;font-size:.8rem;line-height:1.35;font-variant-numeric:tabular-nums}
";

/// The section, its data and its script.
pub fn section() -> String {
    format!(
        "{HTML}<script type=\"application/block-stream\" id=\"playground-wasm\">{}</script><script>{SCRIPT}</script>",
        STANDARD.encode(WASM)
    )
}
