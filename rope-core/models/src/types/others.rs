//! The model types of transformers that do not rotate by a row: composites, those without a rotation, and those that
//! are refused. The names are text, as a list of this many would be more pointers than letters.

/// Composites, whose parts have types of their own.
pub(crate) const COMPOSITES: &str = "\
aimv2 align altclip apertus1p5 aria audioflamingo3 aya_vision bark blip blip-2 blt bridgetower canary chinese_clip
chmv2 clap clip clipseg clvp cohere2_vision cohere_asr cohere_compass colmodernvbert colpali colqwen2
conditional_detr cosmos3_edge cosmos3_omni d_fine dab-detr deepseek_ocr2 deepseek_ocr2_vision deepseek_vl
deepseek_vl_hybrid deformable_detr deimv2 depth_anything depth_pro detr dia diffusion_gemma dots3_note dpt edgetam
edgetam_vision_model embedding_gemma2 emu3 encoder-decoder ernie4_5_vl_moe esmfold2 exaone4_5 fast_vlm
fastspeech2_conformer_with_hifigan flava florence2 fun_asr_nano fuyu gemma3 gemma3n gemma4 gemma4_assistant
gemma4_unified gemma4_unified_assistant git glm46v glm4v glm4v_moe glm5_next glm_image glm_ocr glmasr glmga got_ocr2
granite4_vision granite_docling granite_speech granite_speech5_ctc granite_speech_plus grounding-dino groupvit
higgs_audio_v2_tokenizer hunyuan_vl hy_v4_vl hyperclovax_vision_v2 idefics2 idefics3 inkling2 inkling2_loop
inkling_mm_model instructblip instructblipvideo internvl janus jev kimi_k25 kosmos-2 kosmos-2.5 lasr_ctc lfm2_vl
lfm3_vl lighton_ocr llama4 llava llava_next llava_next_video llava_onevision lw_detr mask2former maskformer
metaclip_2 minicpm_ocr minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 mistral_large4 mllama mm-grounding-dino
modernvbert molmo2 moss_transcribe_diarize mpt muse_glimmer muse_spark musicgen musicgen_melody nemo_speechlm
nemotron3_5_asr nemotron3_5_transcribe_audio nemotron3_diarization nemotron_asr_streaming nemotron_h_omni nougat
omdet-turbo omniasr omniasr_ctc oneformer ovis2 owlv2 owlvit paddleocr_vl paligemma parakeet_ctc parakeet_rnnt
parakeet_tdt pe_audio pe_audio_video pe_video perception_lm pi0 pix2struct pp_chart2table pp_doclayout_v2
pp_doclayout_v3 pp_doclayout_v4 pp_formulanet pp_ocrv5_mobile_det pp_ocrv5_mobile_rec pp_ocrv5_server_det
pp_ocrv5_server_rec pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec
prompt_depth_anything qianfan_ocr qwen2_5_omni qwen2_5_omni_thinker qwen2_5_omni_token2wav qwen2_5_vl qwen2_audio
qwen2_vl qwen3_5 qwen3_5_moe qwen3_asr qwen3_omni_moe qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen4_exp rf_detr
rt_detr rt_detr_v2 sam sam2 sam2_vision_model sam3 sam3_lite_text sam3_tracker sam3_video sam3_vision_model sam_hq
shieldgemma2 siglip siglip2 slanet slanext smolvlm speech-encoder-decoder step3p7 superglue t5gemma t5gemma2
t5gemma2_encoder table-transformer tipsv2 tipsv2_dpt tvp ultravbert unlimited_ocr unlimited_ocr_vision upernet uvdoc
vibevoice vibevoice_asr video_llama_3 video_llava videoprism vipllava vision-encoder-decoder
vision-text-dual-encoder vitmatte vitpose voxtral voxtral_realtime wavtokenizer xclip xcodec zoedepth
";

/// Composites whose text model may lie flat in the file, and its type.
pub(crate) const FLAT: &[(&str, &str)] = &[
    ("hunyuan_vl", "hunyuan_vl_text"),
    ("paddleocr_vl", "paddleocr_vl_text"),
    ("qwen2_5_vl", "qwen2_5_vl_text"),
    ("qwen2_vl", "qwen2_vl_text"),
];

/// Pairs of a type and why it is refused; where the caller finds the program that rotates it is said with each.
macro_rules! refused {
    ($($name:literal: $why:literal,)+) => {
        &[$(($name, concat!($why, " (guide::refused has a program that rotates it)"))),+]
    };
}

/// Types that rotate in a way that is not answered here, and why.
pub(crate) const REFUSED: &[(&str, &str)] = refused! {
    "dory": "its files list attention and MLPs as layers of their own",
    "efficientloftr": "the whole hidden vector rotates, across its heads",
    "esmfold2_atom_encoder": "four axes with frequencies of two bases",
    "lightglue": "learned frequencies of keypoints",
    "musicflamingo": "the position is a time",
    "neucodec": "the position is the head's index",
    "qwen2_5_omni_dit": "the first head rotates alone",
    "seamless_m4t": "the hidden states are rotated, before queries and keys are made of them",
    "wav2vec2-bert": "the hidden states are rotated, before queries and keys are made of them",
    "wav2vec2-conformer": "the hidden states are rotated, before queries and keys are made of them",
    "xcodec2": "the position is the head's index",
};

/// Types without a rotation.
pub(crate) const STILL: &str = "\
aimv2_text_model aimv2_vision_model albert align_text_model align_vision_model altclip_text_model
altclip_vision_model apertus1p5_vision_tokenizer audio-spectrogram-transformer audioflamingo3_encoder autoformer
bart beit bert bert-generation big_bird bigbird_pegasus biogpt bit blenderbot blenderbot-small blip_2_qformer
blip_2_vision_model blip_text_model blip_vision_model bloom bridgetower_text_model bridgetower_vision_model bros
camembert canary_decoder canine chameleon_vqgan chinese_clip_text_model chinese_clip_vision_model clap_audio_model
clap_text_model clip_text_model clip_vision_model clipseg_text_model clipseg_vision_model clvp_decoder
coarse_acoustics convbert convnext convnextv2 cosmos3_edge_vision cpmant ctrl cvt dac data2vec-audio data2vec-text
data2vec-vision deberta deberta-v2 decision_transformer deepseek_ocr2_sam_vision_model deit dinat dinov2
dinov2_with_registers dinov3_convnext distilbert donut-swin dpr edgetam_mask_decoder edgetam_prompt_encoder
edgetam_video_mask_decoder edgetam_video_prompt_encoder efficientnet electra emu3_vqgan encodec eomt ernie
falcon_mamba fastspeech2_conformer fastspeech2_conformer_hifigan fine_acoustics flaubert flava_image_codebook
flava_image_model flava_multimodal_model flava_text_model florence_vision fnet focalnet fsmt fun_asr_nano_encoder
funnel gemma3n_audio gemma3n_vision gemma4_audio gemma4_unified_audio gemma4_unified_vision git_vision_model
glm5_next_text glm_image_vision glm_image_vqmodel glpn got_ocr2_vision gpt2 gpt_bigcode gpt_neo
granite_docling_vision granite_speech5_encoder granite_speech_encoder granite_speech_plus_encoder
groupvit_text_model groupvit_vision_model hgnet_v2 hiera hubert hunyuan_vl_vision hy_v4_vl_vision ibert
idefics2_perceiver idefics2_vision idefics3_vision idefics_perciever idefics_vision ijepa imagegpt informer
inkling2_loop_text inkling2_text inkling_audio inkling_text inkling_vision instructblip_qformer
instructblip_vision_model instructblipvideo_qformer instructblipvideo_vision_model internvl_vision jamba
janus_vision_model janus_vqgan kimi_linear kosmos_2_5_text_model kosmos_2_5_vision_model kosmos_2_text_model
kosmos_2_vision_model layoutlm layoutlmv2 layoutlmv3 layoutxlm led levit lilt longformer longt5 luke lw_detr_vit
lxmert m2m_100 mamba mamba2 marian markuplm maskformer-swin mbart megatron-bert metaclip_2_text_model
metaclip_2_vision_model mgp-str minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision mllama_vision_model
mobilebert mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 molmo2_adapter molmo2_vision moonshine_streaming_encoder
moshi_depth moss_transcribe_diarize_audio mpnet mra mt5 muse_spark_audio musicgen_decoder musicgen_melody_decoder
mvp nemotron_asr_streaming_encoder nemotron_h nllb-moe nystromformer omniasr_audio openai-gpt opt ovis2_vision
owlv2_text_model owlv2_vision_model owlvit_text_model owlvit_vision_model parakeet_encoder patchtsmixer patchtst
pegasus pegasus_x perceiver phi4_multimodal_audio phi4_multimodal_vision pix2struct_text_model
pix2struct_vision_model pixio plbart poolformer pop2piano pp_chart2table_vision pp_formulanet_text
pp_formulanet_vision pp_lcnet pp_lcnet_v3 pp_lcnet_v4 prophetnet pvt pvt_v2 qianfan_ocr_vision
qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan qwen2_audio_encoder qwen3_asr_encoder qwen3_omni_moe_audio_encoder
radio rag reformer regnet rembert resnet rf_detr_dinov2 roberta roberta-prelayernorm roc_bert rt_detr_resnet rwkv
sam2_hiera_det_model sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder sam2_video_prompt_encoder
sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder
sam3_lite_text_geometry_encoder sam3_lite_text_mask_decoder sam3_lite_text_text_model sam3_mask_decoder
sam3_tracker_mask_decoder sam3_tracker_prompt_encoder sam3_tracker_video_mask_decoder
sam3_tracker_video_prompt_encoder sam_hq_mask_decoder sam_hq_prompt_encoder sam_hq_vision_model sam_mask_decoder
sam_prompt_encoder sam_vision_model sapiens2_head seamless_m4t_v2 segformer seggpt semantic sew sew-d
siglip2_text_model siglip2_vision_model siglip_text_model siglip_vision_model slanext_vision smolvlm_vision
speech_to_text speecht5 speecht5_hifigan splinter squeezebert superpoint swiftformer swin swin2sr swinv2
switch_transformers t5 tapas textnet time_series_transformer timesfm timesformer timm_backbone timm_wrapper
tipsv2_text_model tipsv2_vision_model trocr udop umt5 unispeech unispeech-sat univnet unlimited_ocr_sam_vision_model
unlimited_ocr_vision_encoder uvdoc_backbone vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder
vibevoice_acoustic_tokenizer_encoder vibevoice_diffusion videomae videomt videoprism_text_model
videoprism_vision_model vilt visual_bert vit vit_mae vit_msn vitdet vitpose_backbone vits vivit voxtral_encoder
wav2vec2 wavlm wavtokenizer_encoder whisper xclip_text_model xclip_vision_model xglm xlm xlm-roberta xlm-roberta-xl
xlnet xlstm xmod yolos yoso zamba
";
