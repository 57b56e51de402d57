//! A page per task, most of them with a whole program, a [glossary](words), and the [`names`] of other code.
//!
//! | task | page |
//! |---|---|
//! | Llama, Qwen, Gemma, .. from a `config.json` or a GGUF file; DeepSeek's MLA | the guide of the crate `rope-models` |
//! | find out which two channels rotate together; gibberish after the first tokens | [`choosing_a_pairing`] |
//! | weights of one pairing for a kernel of another | [`porting_weights`] |
//! | a packed QKV projection | [`packed_qkv`] |
//! | a KV cache, paged or not, of 16 or 8 bits; offsets, context shift | [`kv_cache`] |
//! | norm, rotation, conversion and the write into a cache in one call | [`one_pass`] |
//! | several outputs of one read; Dual Chunk Attention (Qwen2.5-1M) | [`dual_chunk`] |
//! | M-RoPE (Qwen-VL), images, video; several axes | [`several_axes`] |
//! | given cos and sin, from PyTorch, ONNX or vLLM | [`given_rows`] |
//! | training: gradients, including those of frequencies | [`training`] |
//! | learned or mixed frequencies, rows per head; their papers and models | [`learned`] |
//! | several threads; continuous batching | [`threads`] |
//! | several devices: context, sequence and tensor parallelism, disaggregated prefill | [`ranks`] |
//! | a model in ONNX Runtime | [`onnx_runtime`] |
//! | a model in PyTorch, transformers or vLLM | [`pytorch`] |
//! | firmware; no allocator, no std, no f64 in hardware | [`embedded`] |
//! | the operands, plans and angles of each verb; every refusal | [`verbs`] |
//! | C and C++; CMake; C and Rust in one program | [`from_c`] |
//!
//! The programs are the package's `examples`. Each prints its steps, and asserts its claims. In a clone of the
//! repository:
//!
//! ```console
//! $ cargo run -p rope-core --example kv_cache
//! ```
//!
//! # Beside this crate
//!
//! The crate `rope-models` reads `config.json` and GGUF. The repository alone has the C API (`rope-core/capi`), the
//! adapters for candle, burn, PyTorch and ONNX Runtime (`rope-core/adapters`), and the tests with their firmware.

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
    packed_qkv,
    "guide/packed_qkv.md",
    "../examples/packed_qkv.rs"
);
page!(
    kv_cache,
    "guide/kv_cache.md",
    "../examples/kv_cache.rs",
    "../examples/move_slots.rs"
);
page!(one_pass, "guide/one_pass.md", "../examples/one_pass.rs");
page!(
    dual_chunk,
    "guide/dual_chunk.md",
    "../examples/dual_chunk.rs"
);
page!(several_axes, "guide/axes.md", "../examples/several_axes.rs");
page!(
    given_rows,
    "guide/given_rows.md",
    "../examples/given_rows.rs"
);
page!(training, "guide/training.md", "../examples/training.rs");
page!(
    learned,
    "guide/learned.md",
    "../examples/learn_frequencies.rs"
);
page!(
    threads,
    "guide/threads.md",
    "../examples/threads.rs",
    "../examples/continuous_batching.rs"
);
page!(embedded, "guide/embedded.md", "../examples/no_std_layer.rs");
page!(ranks, "guide/ranks.md");
page!(choosing_a_pairing, "guide/pairing.md");
page!(porting_weights, "guide/weights.md");
page!(onnx_runtime, "guide/onnxruntime.md");
page!(pytorch, "guide/torch.md");
page!(verbs, "guide/verbs.md");
page!(words, "guide/words.md");
page!(names, "guide/names.md");

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/c.md")]
///
/// # Program
///
/// ```c
#[doc = include_str!("guide/layer.c")]
/// ```
pub mod from_c {}
