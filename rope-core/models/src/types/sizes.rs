//! The sizes that a class has where a file leaves them out, by its rows' keys. They are made by running the classes
//! (`tests/golden/classes.py sizes`).

/// The width, the heads, the layers and the context of a model type; 0 where its class has none, or is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) width: u16,
    pub(crate) heads: u8,
    pub(crate) depth: u8,
    pub(crate) context: u32,
}

macro_rules! sizes {
    ($($name:literal $width:literal $heads:literal $depth:literal $context:literal;)+) => {
        /// The types, for a test: they are the rows' and in their order.
        #[cfg(test)]
        pub(super) const NAMES: &[&str] = &[$($name),+];
        static SIZES: &[Sizes] = &[$(Sizes { width: $width, heads: $heads, depth: $depth, context: $context }),+];
    };
}

/// Those of a type; zeros for a name that no row has.
pub(crate) fn sizes_of(name: &str) -> Sizes {
    let number = super::rows::names().position(|known| known == name);
    number.map_or(Sizes::default(), |number| SIZES[number])
}

// Name, width, heads, layers and context.
sizes! {
    "afmoe" 2048 16 32 16384;
    "apertus" 4096 32 32 65536;
    "apertus1p5_text" 4096 32 32 65536;
    "arcee" 2560 32 32 4096;
    "aria_text" 4096 32 32 2048;
    "axk1" 7168 64 61 32768;
    "axk2" 2048 32 48 131072;
    "baichuan" 0 0 0 0;
    "bailing_hybrid" 2560 32 42 262144;
    "bamba" 4096 32 32 262144;
    "beam" 5120 48 52 8192;
    "bitnet" 2560 20 30 2048;
    "blt_global_transformer" 2048 16 25 4096;
    "blt_local_decoder" 1024 16 9 24576;
    "blt_local_encoder" 1024 16 1 24576;
    "blt_patcher" 768 12 14 8192;
    "chameleon" 4096 32 32 4096;
    "chatglm" 0 0 0 0;
    "clvp_encoder" 768 12 20 0;
    "codegen" 4096 16 28 0;
    "cohere" 8192 64 40 8192;
    "cohere2" 8192 64 40 8192;
    "cohere2_moe" 8192 64 40 8192;
    "cohere_compass_text" 8192 64 40 8192;
    "cohere_compass_vision" 1152 16 27 0;
    "cosmos3_edge_text" 2048 16 28 131072;
    "csm" 2048 32 16 2048;
    "csm_depth_decoder_model" 1024 8 4 33;
    "cwm" 6144 48 64 131072;
    "dbrx" 2048 16 24 2048;
    "deepseek" 0 0 0 0;
    "deepseek_ocr2_encoder" 4096 32 32 32768;
    "deepseek_ocr2_text" 4096 32 32 2048;
    "deepseek_v2" 4096 32 32 2048;
    "deepseek_v3" 7168 128 61 4096;
    "deepseek_v32" 7168 128 61 163840;
    "deepseek_v4" 4096 64 43 1048576;
    "deepseek_vl_v2_language" 0 0 0 0;
    "dia_decoder" 2048 16 18 3072;
    "dia_encoder" 1024 16 12 1024;
    "diffllama" 2048 32 16 2048;
    "diffusion_gemma_text" 2304 8 30 131072;
    "dinov3_vit" 384 6 12 0;
    "doge" 1024 8 32 2048;
    "dots1" 4608 32 62 2048;
    "dots3_note_audio_encoder" 1280 20 32 6000;
    "dots3_note_text" 5120 128 46 524288;
    "dots3_note_vision_encoder" 1536 24 42 0;
    "edgetam_video" 0 0 0 0;
    "embedding_gemma2_text" 512 4 24 262144;
    "emu3_text_model" 4096 32 32 9216;
    "eomt_dinov3" 1024 16 24 0;
    "ernie4_5" 1024 16 18 131072;
    "ernie4_5_moe" 2560 20 28 131072;
    "ernie4_5_vl_moe_text" 2560 20 28 131072;
    "ernie4_5_vl_moe_vision" 1280 16 32 0;
    "esm" 768 12 12 1026;
    "esmc" 2560 40 80 2048;
    "eurobert" 768 12 12 8192;
    "evolla" 4096 32 32 8192;
    "exaone" 4096 32 32 4096;
    "exaone4" 4096 32 32 2048;
    "exaone4_5_vision" 3584 16 32 0;
    "exaone_moe" 4096 32 32 2048;
    "falcon" 4544 71 32 2048;
    "falcon_h1" 4096 32 32 8192;
    "flex_olmo" 4096 32 32 4096;
    "flint" 2048 32 49 262144;
    "flux" 0 0 0 0;
    "gemma" 3072 16 28 8192;
    "gemma2" 2304 8 26 8192;
    "gemma3_text" 2304 8 26 131072;
    "gemma3n_text" 2048 8 35 32768;
    "gemma4_text" 2304 8 30 131072;
    "gemma4_unified_text" 2304 8 30 262144;
    "gemma4_vision" 768 12 16 0;
    "glm" 4096 32 40 131072;
    "glm4" 4096 32 40 131072;
    "glm4_moe" 4096 96 46 131072;
    "glm4_moe_lite" 2048 20 47 202752;
    "glm4v_moe_text" 4096 96 46 65536;
    "glm4v_moe_vision" 1536 12 24 0;
    "glm4v_text" 4096 32 40 32768;
    "glm4v_vision" 1536 12 24 0;
    "glm5_next_vision" 1024 16 24 0;
    "glm_image_text" 4096 32 40 131072;
    "glm_moe_dsa" 6144 64 78 202752;
    "glm_ocr_text" 1024 16 16 131072;
    "glm_ocr_vision" 1024 16 24 0;
    "glmasr_encoder" 1280 20 32 1500;
    "gpt_neox" 6144 64 44 2048;
    "gpt_neox_japanese" 2560 32 32 2048;
    "gpt_oss" 2880 64 36 131072;
    "gptj" 4096 16 28 0;
    "gradium_phonon_tts" 768 12 6 8192;
    "granite" 4096 32 32 2048;
    "granite4_vision_text" 4096 32 32 2048;
    "granite_docling_text" 1024 16 28 32768;
    "granite_swa" 2560 20 24 8192;
    "granitemoe" 4096 32 32 2048;
    "granitemoe_swa" 4096 32 32 2048;
    "granitemoehybrid" 4096 32 32 2048;
    "granitemoeshared" 4096 32 32 2048;
    "gte" 768 12 12 8192;
    "helium" 2560 20 24 4096;
    "higgs_audio_v2" 3072 24 28 2048;
    "hrm_text" 1536 12 128 2048;
    "hunyuan" 0 0 0 0;
    "hunyuan_v1_dense" 4096 32 32 2048;
    "hunyuan_v1_moe" 4096 32 32 2048;
    "hunyuan_vl_text" 4096 32 32 2048;
    "hy_v3" 4096 64 80 131072;
    "hy_v4" 2816 32 34 262144;
    "hy_v4_vl_text" 6144 64 78 262144;
    "hyperclovax" 4096 32 32 2048;
    "idefics" 4096 32 32 2048;
    "inkling2_vision" 1024 16 23 0;
    "internlm" 0 0 0 0;
    "internlm2" 0 0 0 0;
    "internlm3" 4096 32 48 32768;
    "iquestcoder" 5120 40 80 131072;
    "jais2" 3328 26 32 8192;
    "jetmoe" 2048 32 12 4096;
    "jina_embeddings_v3" 1024 16 24 8194;
    "kimi_k2" 7168 128 61 4096;
    "kimi_k25_vision" 1152 16 27 0;
    "kolibri1" 2560 48 50 262144;
    "kyutai_speech_to_text" 2048 32 48 750;
    "laguna" 2048 48 40 131072;
    "lara_mini" 1024 16 34 131072;
    "lasr_encoder" 512 8 17 10000;
    "lfm2" 2560 32 32 128000;
    "lfm2_moe" 2048 32 32 128000;
    "lfm3" 2048 16 24 128000;
    "lfm3_vl_vision" 1024 16 14 0;
    "llama" 4096 32 32 2048;
    "llama4_text" 5120 40 48 131072;
    "llama4_vision_model" 768 16 34 0;
    "longcat_flash" 6144 64 56 131072;
    "mellum" 2304 32 28 131072;
    "mimi" 512 8 8 8000;
    "mimi_decoder" 512 8 8 8000;
    "mimi_encoder" 512 8 8 8000;
    "mimo_v2_flash" 4096 64 48 131072;
    "minicpm" 0 0 0 0;
    "minicpm3" 2560 40 62 32768;
    "minimax" 4096 32 32 131072;
    "minimax_m2" 3072 48 62 196608;
    "minimax_m3" 0 0 0 0;
    "minimax_m3_vl_text" 6144 64 60 524288;
    "minimax_m3_vl_vision" 1280 16 32 0;
    "minimax_text_01" 0 0 0 0;
    "ministral" 4096 32 32 131072;
    "ministral3" 4096 32 34 262144;
    "mistral" 4096 32 32 131072;
    "mistral4" 4096 32 36 1048576;
    "mistral_large4_text" 6144 64 72 1048576;
    "mixtral" 4096 32 32 131072;
    "mlcd_vision_model" 1664 16 48 0;
    "mllama_text_model" 4096 32 40 131072;
    "modernbert" 768 12 22 8192;
    "modernbert-decoder" 768 12 22 8192;
    "molmo" 0 0 0 0;
    "molmo2_text" 4096 32 36 36864;
    "moonshine" 288 8 6 512;
    "moonshine_streaming" 320 8 6 4096;
    "moshi" 4096 32 32 3000;
    "muse_glimmer_assistant" 6656 32 5 131072;
    "muse_glimmer_text" 6656 32 52 131072;
    "muse_glimmer_vision" 1536 16 50 0;
    "muse_spark_text" 8192 128 62 1048576;
    "muse_spark_vision" 1536 16 50 0;
    "nanochat" 768 6 12 2048;
    "nemotron" 6144 48 32 4096;
    "nemotron-nas" 0 0 0 0;
    "nemotron3_5_transcribe_asr_audio" 1280 10 32 5000;
    "nemotron3_5_transcribe_word_timestamp" 1280 16 2 5000;
    "nemotron3_diarization_audio" 512 8 31 5000;
    "neomme" 1024 16 17 16384;
    "nomic_bert" 768 12 12 2048;
    "olmo" 4096 32 32 2048;
    "olmo2" 4096 32 32 2048;
    "olmo3" 4096 32 32 2048;
    "olmo_hybrid" 3840 30 32 65536;
    "olmoe" 2048 16 16 4096;
    "openai_privacy_filter" 640 14 8 131072;
    "orion" 0 0 0 0;
    "paddleocr_vl_text" 1024 16 18 131072;
    "paddleocr_vl_vision" 1152 16 27 0;
    "pe_audio_encoder" 1792 14 6 10000;
    "pe_audio_video_encoder" 1792 14 6 10000;
    "pe_video_encoder" 1792 14 6 10000;
    "persimmon" 4096 64 36 16384;
    "phi" 2048 32 24 2048;
    "phi-msft" 0 0 0 0;
    "phi3" 3072 32 32 4096;
    "phi3_v" 0 0 0 0;
    "phi3small" 0 0 0 0;
    "phi4_multimodal" 3072 32 32 131072;
    "phi4mm" 0 0 0 0;
    "phimoe" 4096 32 32 131072;
    "pixtral" 1024 16 24 0;
    "pocket_tts" 1024 16 6 8192;
    "pocket_tts_audio_tokenizer" 512 8 2 8000;
    "pocket_tts_audio_tokenizer_decoder" 512 8 2 8000;
    "pocket_tts_audio_tokenizer_encoder" 512 8 2 8000;
    "qwen" 0 0 0 0;
    "qwen2" 4096 32 32 32768;
    "qwen2_5_omni_talker" 3584 28 28 32768;
    "qwen2_5_omni_text" 3584 28 28 32768;
    "qwen2_5_omni_vision_encoder" 3584 16 32 0;
    "qwen2_5_vl_text" 8192 64 80 32768;
    "qwen2_5_vl_vision" 3584 16 32 0;
    "qwen2_moe" 2048 16 24 32768;
    "qwen2_vl_text" 8192 64 80 32768;
    "qwen2_vl_vision" 1280 16 32 0;
    "qwen3" 4096 32 32 32768;
    "qwen3_5_moe_text" 2048 16 40 32768;
    "qwen3_5_moe_vision" 1152 16 27 0;
    "qwen3_5_text" 4096 16 32 32768;
    "qwen3_5_vision" 1152 16 27 0;
    "qwen3_moe" 2048 32 24 32768;
    "qwen3_next" 2048 16 48 32768;
    "qwen3_omni_moe_talker_code_predictor" 1024 16 5 32768;
    "qwen3_omni_moe_talker_text" 1024 16 20 32768;
    "qwen3_omni_moe_text" 2048 28 28 32768;
    "qwen3_omni_moe_vision_encoder" 1152 16 27 0;
    "qwen3_vl_moe_text" 2048 16 24 128000;
    "qwen3_vl_moe_vision" 1152 16 27 0;
    "qwen3_vl_text" 4096 32 32 128000;
    "qwen3_vl_vision" 1152 16 27 0;
    "qwen4_exp_text" 2048 16 40 32768;
    "qwen4_exp_vision" 1152 16 27 0;
    "recurrent_gemma" 2560 10 26 0;
    "roformer" 768 12 12 1536;
    "sam2_video" 0 0 0 0;
    "sam3_tracker_video" 0 0 0 0;
    "sam3_vit_model" 1024 16 32 0;
    "sapiens2" 1024 16 24 0;
    "sarvam_mla" 4096 64 32 4096;
    "sarvam_moe" 4096 64 19 131072;
    "seed_oss" 4096 80 64 524288;
    "smollm3" 2048 16 36 32768;
    "solar_open" 4096 64 48 131072;
    "stablelm" 2560 32 32 4096;
    "starcoder2" 3072 24 30 4096;
    "step3p5" 4096 64 45 128000;
    "step3p5_vision" 1536 16 47 2704;
    "t5_gemma_module" 2304 8 26 8192;
    "t5gemma2_decoder" 2304 8 26 131072;
    "t5gemma2_text" 2304 8 26 131072;
    "timesfm2_5" 1280 16 20 16384;
    "ultrabert" 4096 32 32 32768;
    "unlimited_ocr_text" 1280 10 12 32768;
    "vaultgemma" 2304 8 26 8192;
    "video_llama_3_vision" 768 12 12 0;
    "vjepa2" 1024 16 24 0;
    "voxtral_realtime_encoder" 1280 32 32 1500;
    "voxtral_realtime_text" 4096 32 32 131072;
    "wan" 0 0 0 0;
    "xverse" 0 0 0 0;
    "youtu" 2048 16 32 131072;
    "yuan" 0 0 0 0;
    "zamba2" 2560 32 54 4096;
    "zaya" 2048 8 40 131072;
}

/// What the class of a composite gives a part that a file omits, where that is not what the part's own class has: keys
/// and their numbers. A few give it to a part that is there too, as far as it has no such keys.
#[inline(never)]
pub(crate) fn otherwise(
    composite: &str,
    part: &str,
    omitted: bool,
) -> impl Iterator<Item = (&'static str, f64)> {
    let line = OTHERWISE.lines().find_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (own, numbers) = rest.split_once(' ')?;
        let counts = name == composite && own == part && (omitted || line.ends_with(" 1"));
        counts.then_some(numbers)
    });
    let numbers = line.unwrap_or_default().split(' ');
    let numbers = numbers.map(|number| number.parse::<u32>().map_or(0.0, f64::from));
    KEYS.into_iter()
        .zip(numbers)
        .filter(|(_, number)| *number > 0.0)
}

const KEYS: [&str; 6] = [
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
    "head_dim",
    "rope_theta",
];

/// The composite, the part, and its numbers in the order of [`KEYS`]; 0 is what its own class has. The last one is 1
/// where a part that is there has them too.
const OTHERWISE: &str = "\
chmv2 backbone_config 1024 16 24 0 0 0 0
fast_vlm text_config 3584 28 28 32768 0 10000 0
fun_asr_nano text_config 1024 16 28 40960 128 10000 0
glmasr text_config 2048 16 28 8192 128 10000 1
got_ocr2 text_config 1024 16 24 32768 0 1000000 0
idefics2 text_config 4096 32 32 32768 128 10000 0
lighton_ocr text_config 1024 16 28 40960 128 1000000 0
mistral3 text_config 5120 32 40 131072 128 1000000000 0
mistral_large4 vision_config 2048 16 30 0 128 10000 0
moss_transcribe_diarize text_config 1024 16 28 131072 128 1000000 0
omniasr text_config 4096 8 12 8192 512 10000 0
paligemma text_config 2048 8 18 8192 256 10000 0
pe_audio text_config 1024 16 22 8192 0 0 1
pe_audio_video text_config 1024 16 22 8192 0 0 1
pe_video text_config 1024 16 22 8192 0 0 1
pi0 dit_config 1024 8 18 8192 256 10000 0
pp_chart2table text_config 1024 16 24 32768 0 1000000 0
qwen3_asr text_config 2048 16 28 65536 128 10000 0
voxtral text_config 3072 32 30 131072 128 100000000 1
voxtral_realtime text_config 3072 32 26 131072 128 1000000 1
";
