//! The rotation that llama.cpp computes for each architecture of GGUF files, one row each, in alphabetical order.
//!
//! Derived from llama.cpp in the version of the crate llama-cpp-sys-2 0.1.161. The code shared by all architectures is
//! in src/llama-model.cpp (`load_hparams`, `load_swa_pattern`, `get_rope_factors`, `llama_model_rope_type`),
//! src/llama-context.cpp (the constructor: scaling and attention factor) and src/llama-graph.cpp (`llm_graph_context`:
//! one number of channels, that of layer 0, for all layers). The rest of a row is in src/models, in the file named
//! after the architecture or named beside the row (`load_arch_hparams`, `load_arch_tensors`, and the calls of
//! `ggml_rope_ext` in the graph).
//!
//! A row is `"architecture" = BASE { differences };`. `architecture.rs` documents the fields and their values.

use crate::architecture::*;

macro_rules! rows {
    ($($name:literal = $base:ident $({ $($field:ident: $value:expr),+ $(,)? })?;)+) => {
        pub(crate) static ROWS: &[(&str, ArchitectureRow)] =
            &[$(($name, ArchitectureRow { $($($field: $value,)+)? ..$base })),+];

        /// Concatenates the names, for the documentation.
        macro_rules! architecture_names {
            () => { concat!($("`", $name, "` "),+) };
        }
        pub(crate) use architecture_names;
    };
}

rows! {
    "afmoe" = NEOX {
        windows: Windows::LastOf(4),
        windows_if: WindowsIf::Window,
        local: Local::Own,
        skips: Skips::LastOf(4),
    };
    "apertus" = NEOX { factors: Factors::All };
    "arcee" = NORM { factors: Factors::All };
    "arctic" = NORM;
    "arwkv7" = NORM { rope: Rope::None };
    "baichuan" = NORM { rotates: RotatedLayers::Only7b };
    "bailingmoe" = NORM;
    "bailingmoe2" = NEOX;
    "bailingmoe3" = NORM { rope: Rope::NormOrMrope, recurrent: Recurrent::NoKeys };
    "bert" = NORM { rope: Rope::None };
    "bitnet" = NEOX;
    "bloom" = NORM { rope: Rope::None };
    "chameleon" = NORM;
    "chatglm" = NORM;
    "clef" = NORM { rope: Rope::Refused("layers of its own after those of qwen35, which were not read") };
    "clip" = NORM { rope: Rope::Refused("a vision tower, which tools/mtmd reads with keys of its own") };
    "codeshell" = NEOX;
    "cogvlm" = NEOX { fixed: true };
    "cohere2" = NORM { windows: Windows::LastOf(4), rotates: RotatedLayers::Sliding };
    "cohere2moe" = NORM { windows: Windows::FirstOf(4), rotates: RotatedLayers::SlidingOrLead };
    "command-r" = NORM;
    "dbrx" = NEOX;
    "deci" = NORM { recurrent: Recurrent::NoKeys, factors: Factors::All };
    "deepseek" = NORM;
    "deepseek2" = NORM { yarn: Yarns::Deepseek2 };
    "deepseek2-ocr" = NEOX { fixed: true }; // deepseek2.cpp
    "deepseek32" = NORM { yarn: Yarns::Deepseek };
    "deepseek4" = NORM { rope: Rope::Refused("the output of its attention is rotated back") };
    "dflash" = NORM { rope: Rope::Refused("a drafter, whose layers go with another file") };
    "dots1" = NEOX;
    "dots3note" = NORM { windows: Windows::File, local: Local::Own };
    "dream" = NEOX;
    "eagle3" = NORM { rope: Rope::Refused("a drafter, whose layers go with another file") };
    "ernie4_5" = NORM;
    "ernie4_5-moe" = NORM;
    "eurobert" = NEOX;
    "exaone" = NEOX { factors: Factors::All };
    "exaone-moe" = NEOX { windows: Windows::LastOf(4), rotates: RotatedLayers::Sliding, factors: Factors::All };
    "exaone4" = NEOX {
        windows: Windows::LastOf(4),
        windows_if: WindowsIf::Layers64,
        rotates: RotatedLayers::SlidingOrAll,
        factors: Factors::All,
    };
    "falcon" = NEOX;
    "falcon-h1" = NEOX;
    "gemma" = NEOX;
    "gemma-embedding" = NEOX { windows: Windows::LastOf(6), local: Local::TenThousand };
    "gemma2" = NEOX { windows: Windows::LastOf(2), local: Local::Own };
    "gemma3" = NEOX { windows: Windows::LastOf(6), windows_if: WindowsIf::Window, local: Local::TenThousand };
    "gemma3n" = NEOX { windows: Windows::LastOf(5), local: Local::TenThousand };
    "gemma4" = NEOX {
        windows: Windows::File,
        local: Local::TenThousand,
        own_dim: true,
        factors: Factors::FullNeeded,
    };
    "gemma4-assistant" = NORM { rope: Rope::Refused("a drafter, whose layers go with another file") };
    "glm-dsa" = NORM { yarn: Yarns::Refused };
    "glm4" = NORM { rope: Rope::NormOrMrope };
    "glm4moe" = NORM { rope: Rope::NeoxOrMrope };
    "glm5-next" = NORM { rope: Rope::None };
    "gpt-oss" = NEOX { windows: Windows::LastOf(2), local: Local::Own }; // openai-moe.cpp
    "gpt2" = NORM { rope: Rope::None };
    "gptj" = NORM { rope: Rope::None };
    "gptneox" = NEOX;
    "granite" = NORM { rotates: RotatedLayers::Switched, factors: Factors::All };
    "granite_swa" = NORM { windows: Windows::File, rotates: RotatedLayers::Listed, factors: Factors::All };
    "granitehybrid" = NORM { rotates: RotatedLayers::Switched, recurrent: Recurrent::NoKeys, factors: Factors::All };
    "granitemoe" = NORM { factors: Factors::All };
    "graniteswitch" = NORM { rope: Rope::Refused("a layer that chooses adapters, which was not read") };
    "grok" = NEOX { yarn: Yarns::Grok };
    "grovemoe" = NEOX;
    "hrm_text" = NORM { rope: Rope::Refused("its layers run several times") };
    "hunyuan-dense" = NEOX { alpha: true }; // hunyuan-vl.cpp
    "hunyuan-moe" = NEOX;
    "hunyuan_vl" = NORM { rope: Rope::NeoxOrMrope, alpha: true };
    "hy_v3" = NEOX;
    "hy_v4" = NORM;
    "internlm2" = NORM;
    "jais" = NORM { rope: Rope::None };
    "jais2" = NEOX;
    "jamba" = NORM { rope: Rope::None };
    "jina-bert-v2" = NORM { rope: Rope::None };
    "jina-bert-v3" = NEOX; // bert.cpp
    "kimi-k3" = NORM { rope: Rope::None };
    "kimi-linear" = NORM { rope: Rope::None };
    "laguna" = NEOX {
        windows: Windows::FirstOf(4),
        windows_if: WindowsIf::Window,
        local: Local::OwnPlain,
        own_dim: true,
    };
    "lfm2" = NEOX { recurrent: Recurrent::NoKeys };
    "lfm2moe" = NEOX { recurrent: Recurrent::NoKeys };
    "llada" = NORM;
    "llada-moe" = NEOX;
    "llama" = NORM { factors: Factors::All };
    "llama-embed" = NORM { factors: Factors::All }; // llama.cpp
    "llama4" = NORM {
        windows: Windows::LastOf(4),
        windows_if: WindowsIf::NotZero,
        local: Local::Own,
        skips: Skips::LastOf(4),
        factors: Factors::All,
    };
    "maincoder" = NORM;
    "mamba" = NORM { rope: Rope::None };
    "mamba2" = NORM { rope: Rope::None };
    "maple" = NEOX { windows: Windows::File, local: Local::Own, own_dim: true, rotates: RotatedLayers::Sliding };
    "mellum" = NEOX { windows: Windows::LastOf(4), windows_if: WindowsIf::Window, local: Local::Plain };
    "mimo2" = NEOX { windows: Windows::File, local: Local::TenThousand };
    "minicpm" = NORM { factors: Factors::All };
    "minicpm3" = NEOX { factors: Factors::All, long_short: true };
    "minimax-01" = NEOX { recurrent: Recurrent::ExceptEvery(8) };
    "minimax-m2" = NEOX;
    "minimax-m3" = NEOX;
    "mistral3" = NORM { factors: Factors::All, yarn: Yarns::Mistral3 };
    "mistral4" = NORM { yarn: Yarns::Deepseek }; // deepseek2.cpp
    "modern-bert" = NEOX {
        windows: Windows::FirstOf(3),
        windows_if: WindowsIf::Window,
        local: Local::TenThousand,
        refuses: Some("decision.block_count"),
    };
    "mpt" = NORM { rope: Rope::None };
    "muse-glimmer" = NORM { windows: Windows::LastOf(4), local: Local::Unscaled, rotates: RotatedLayers::Sliding };
    "nanbeige" = NORM { rope: Rope::Refused("its layers run several times") };
    "nemotron" = NEOX;
    "nemotron_h" = NORM { rope: Rope::None };
    "nemotron_h_moe" = NORM { rope: Rope::None };
    "neo-bert" = NORM;
    "nomic-bert" = NEOX; // bert.cpp
    "nomic-bert-moe" = NEOX; // bert.cpp
    "olmo" = NORM;
    "olmo2" = NEOX { windows: Windows::LastOf(4), windows_if: WindowsIf::Window, local: Local::Plain };
    "olmoe" = NEOX;
    "openelm" = NEOX;
    "orion" = NEOX;
    "paddleocr" = NORM { rope: Rope::Mrope };
    "pangu-embedded" = NEOX; // pangu-embed.cpp
    "phi2" = NEOX;
    "phi3" = NEOX { factors: Factors::All, long_short: true };
    "phimoe" = NEOX { factors: Factors::All, long_short: true }; // phi3.cpp
    "plamo" = NEOX;
    "plamo2" = NEOX { recurrent: Recurrent::NoKeys };
    "plamo3" = NEOX { windows: Windows::LastOf(8), windows_if: WindowsIf::Window, local: Local::TenThousand };
    "plm" = NORM;
    "pockettts" = NORM { rope: Rope::Refused("parts of a speech model that were not read") };
    "qwen" = NEOX;
    "qwen2" = NEOX;
    "qwen2moe" = NEOX;
    "qwen2vl" = NORM { rope: Rope::Mrope };
    "qwen3" = NEOX;
    "qwen35" = NORM { rope: Rope::Imrope, recurrent: Recurrent::ExceptEvery(4) };
    "qwen35moe" = NORM { rope: Rope::Imrope, recurrent: Recurrent::ExceptEvery(4) };
    "qwen3moe" = NEOX;
    "qwen3next" = NEOX { recurrent: Recurrent::ExceptEvery(4) };
    "qwen3tts" = NORM { rope: Rope::Refused("parts of a speech model that were not read") };
    "qwen3vl" = NORM { rope: Rope::Imrope };
    "qwen3vlmoe" = NORM { rope: Rope::Imrope };
    "qwen4exp" = NORM { rope: Rope::Refused("keys that are pooled before they are rotated") };
    "refact" = NORM { rope: Rope::None };
    "rnd1" = NEOX;
    "rwkv6" = NORM { rope: Rope::None };
    "rwkv6qwen2" = NORM { rope: Rope::None };
    "rwkv7" = NORM { rope: Rope::None };
    "seed_oss" = NEOX;
    "smallthinker" = NEOX {
        windows: Windows::FirstOf(4),
        windows_if: WindowsIf::Window,
        local: Local::Own,
        skips: Skips::FirstOf(4),
    };
    "smollm3" = NORM { skips: Skips::LastOf(4) };
    "spark2_5" = NEOX { windows: Windows::File, local: Local::Own, own_dim: true };
    "stablelm" = NEOX;
    "starcoder" = NORM { rope: Rope::None };
    "starcoder2" = NEOX;
    "step35" = NEOX {
        windows: Windows::File,
        local: Local::TenThousand,
        own_dim: true,
        halved: true,
        factors: Factors::Full,
    };
    "t5" = NORM { rope: Rope::None };
    "t5encoder" = NORM { rope: Rope::None };
    "talkie" = NEOX;
    "wavtokenizer-dec" = NORM { rope: Rope::None };
    "xverse" = NORM;
}
