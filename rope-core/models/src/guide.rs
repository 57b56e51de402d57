//! A page per task, most of them with a whole program.
//!
//! | task | page |
//! |---|---|
//! | Llama, Qwen, Gemma, .. from a `config.json` or a GGUF file | [`from_config`] |
//! | a layer of an engine: Llama with a KV cache, Qwen2.5-VL with an image, Gemma 3 into FP8 pages | [`in_an_engine`] |
//! | find out which models are read, and which are refused and why | [`models`] |
//! | rotate models that are refused by name: Gemma 4's vision tower, audio encoders, LightGlue | [`refused`] |
//! | DeepSeek's MLA; a window of a head | [`deepseek_mla`] |
//! | find the convention of a program from its heads; gibberish after the first tokens | [`from_heads`] |
//!
//! The programs are the package's `examples`. In a clone of the repository:
//!
//! ```console
//! $ cargo run -p rope-models --example config
//! ```
//!
//! [rope-core's guide](rope_core::guide) covers everything after the file.

/// Defines a page, and the programs at its end. A code host reads the definitions of links at the page's own foot. Here
/// those of `guide/links.txt` come first, and the first definition of a link holds.
macro_rules! page {
    ($name:ident, $text:literal $(, $program:literal)*) => {
        #[doc = include_str!("guide/links.txt")]
        #[doc = include_str!($text)]
        $(
            ///
            /// # Program
            ///
            /// ```no_run
            #[doc = include_str!($program)]
            /// ```
        )*
        pub mod $name {}
    };
}

page!(
    from_config,
    "guide/config.md",
    "../examples/config.rs",
    "../examples/gguf.rs"
);
page!(
    in_an_engine,
    "guide/engine.md",
    "../examples/llama.rs",
    "../examples/qwen2_5_vl.rs",
    "../examples/gemma3_fp8.rs"
);
page!(
    deepseek_mla,
    "guide/deepseek_mla.md",
    "../examples/deepseek_mla.rs"
);
page!(from_heads, "guide/explain.md", "../examples/explain.rs");

page!(refused, "guide/refused.md");
page!(models, "guide/models.md");
