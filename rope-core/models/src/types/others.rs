//! The model types of transformers without a row: composites, types without a rotation, and types that are refused. The
//! names are text, because an array of them would consist mostly of pointers.

/// Types outside of transformers: their files name code beside them.
#[cfg(test)]
pub(crate) const OWN_CODE: &str = "\
baichuan bailing_moe bailing_moe_v2 chatglm deepseek deepseek_ref deepseek_vl_v2 falcon_perception flux hunyuan
internlm internlm2 internvl_chat kimi_k2 kimi_vl llava_llama mimo mimo_v2 minicpm minicpmo minicpmv minimax_m1
minimax_m3 minimax_text_01 molmo moonvit multi_modality nemotron-nas openelm orion phi-msft phi3_v phi3small phi4
phi4mm plamo plamo2 qwen rwkv5 rwkv6 telechat telechat2 wan xverse yuan
";

/// The classes of diffusers, by the names that their files have in place of a model type.
#[cfg(test)]
pub(crate) const DIFFUSERS: &str = "\
BriaTransformer2DModel ChromaTransformer2DModel Flux2Transformer2DModel FluxTransformer2DModel
HunyuanImageTransformer2DModel HunyuanVideo15Transformer3DModel HunyuanVideoTransformer3DModel
LongCatImageTransformer2DModel Lumina2Transformer2DModel OvisImageTransformer2DModel SkyReelsV2Transformer3DModel
WanTransformer3DModel WanVACETransformer3DModel ZImageTransformer2DModel
";

/// Composites whose text model has another key than `text_config`.
pub(crate) const TEXTS: &str = "\
deepseek_vl_v2 language_config
internvl_chat llm_config
llava_llama llm_cfg
multi_modality language_config
";

/// Types, a key with a number or a flag, and the type whose class reads files with that value.
pub(crate) const INSTEAD: &[(&str, &str, f64, &str)] = &[
    ("deepseek_vl_v2_language", "use_mla", 0.0, "llama"),
    ("minicpmo", "version", 2.6, "qwen2"),
    ("minicpmv", "version", 2.6, "qwen2"),
    ("minicpmv", "version", 4.0, "llama"),
];

/// Unknown types, each with the known type whose rules apply to its files: the code of both was compared. A similar
/// name is no hint: `deepseek` is not `deepseek_v2`.
pub(crate) const ALIKE: &str = "\
llava_mistral mistral
mixformer-sequential phi-msft
";

/// Composites and their parts, and the parts of a few other types. `part=type` if the class makes the part of that
/// type, regardless of the file; `part~type` if the part's own type overrides it; `part!type` if, moreover, the class
/// fails on a part that names none. Frequent parts are the letters of `types::parts`. A type that begins with `_` is
/// prefixed with the name of the whole; an omitted type is the name of the whole and that of the part.
pub(crate) const PARTS: &str = "\
aimv2: v=_vision_model t=_text_model;
align: v=_vision_model t=_text_model;
altclip: v=_vision_model t=_text_model;
apertus1p5: t= v=_vision_tokenizer a~wavtokenizer_encoder;
aria: v~idefics3_vision t=;
audioflamingo3: a~_encoder t~qwen2;
aya_vision: v~siglip_vision_model t~cohere2;
bark: semantic_config=semantic coarse_acoustics_config=coarse_acoustics fine_acoustics_config=fine_acoustics 
codec_config~encodec;
blip: t=_text_model v=_vision_model;
blip-2: t~opt v=blip_2_vision_model qformer_config=blip_2_qformer;
blt: patcher_config= e=_local_encoder decoder_config=_local_decoder global_config=_global_transformer;
bridgetower: t=_text_model v=_vision_model;
canary: e~parakeet_encoder decoder_config=;
chameleon: vq_config=_vqgan;
chinese_clip: v=_vision_model t=_text_model;
chmv2: b~dinov3_vit;
clap: t=_text_model a=_audio_model;
clip: v=_vision_model t=_text_model;
clipseg: v=_vision_model t=_text_model;
clvp: t=_encoder speech_config=_encoder decoder_config=;
cohere2_vision: v~siglip_vision_model t~cohere2;
cohere_asr: e~parakeet_encoder;
cohere_compass: v= t=;
colmodernvbert: vlm_config~modernvbert;
colpali: vlm_config~paligemma;
colqwen2: vlm_config~qwen2_vl;
conditional_detr: b~timm_backbone;
cosmos3_edge: v= t=;
cosmos3_omni: v=qwen3_vl_vision t~qwen3_vl_text;
csm: codec_config~mimi depth_decoder_config=_depth_decoder_model;
d_fine: b~hgnet_v2;
dab-detr: b~timm_backbone;
deepseek_ocr2: v= t=;
deepseek_ocr2_vision: sam_config=deepseek_ocr2_sam_vision_model e=deepseek_ocr2_encoder;
deepseek_vl: v~siglip_vision_model t~llama;
deepseek_vl_hybrid: v~siglip_vision_model high_res_vision_config~sam_vision_model t~llama;
deepseek_vl_v2: language_config=;
deformable_detr: b~timm_backbone;
deimv2: b~hgnet_v2;
depth_anything: b~dinov2;
depth_pro: image_model_config~dinov2 patch_model_config~dinov2 fov_model_config~dinov2;
detr: b~timm_backbone;
dia: e= decoder_config=;
diffusion_gemma: t= v~gemma4_vision;
dots3_note: t= v=_vision_encoder a=_audio_encoder;
dpt: b~bit;
edgetam: v~_vision_model prompt_encoder_config= mask_decoder_config=;
edgetam_video: mask_decoder_config= v~sam2_vision_model prompt_encoder_config=;
edgetam_vision_model: b~timm_wrapper;
embedding_gemma2: v~gemma4_vision t= a~gemma4_audio;
emu3: vq_config=_vqgan t=_text_model;
encoder-decoder: encoder~bert decoder~bert;
ernie4_5_vl_moe: v= t=;
esmfold2: esmc_config~esmc atom_encoder= structure_head=;
esmfold2_structure_head: diffusion_module=;
esmfold2_structure_head_diffusion_module: atom_encoder=esmfold2_atom_encoder;
evolla: protein_encoder_config=;
exaone4_5: v= t!exaone4;
fast_vlm: v~timm_wrapper t~qwen2;
fastspeech2_conformer_with_hifigan: model_config=fastspeech2_conformer vocoder_config=fastspeech2_conformer_hifigan;
flava: t=_text_model image_config=_image_model multimodal_config=_multimodal_model image_codebook_config=;
florence2: v=florence_vision t~bart;
fun_asr_nano: a~_encoder t~qwen3;
fuyu: t~persimmon;
gemma3: t= v~siglip_vision_model;
gemma3n: t= v= a=;
gemma4: t= v= a=;
gemma4_assistant:;
gemma4_unified: t= v= a=;
gemma4_unified_assistant: t~gemma4_unified_text;
git: v=_vision_model;
glm46v: t~glm4v_text v~glm4v_vision;
glm4v: v= t=;
glm4v_moe: v= t=;
glm5_next: v= t=;
glm_image: t= v= vq_config=_vqmodel;
glm_ocr: v= t=;
glmasr: t~llama a~_encoder;
glmga: t~glm4v_text v~glm4v_vision;
got_ocr2: t~qwen2 v=;
granite4_vision: t= v~clip_vision_model qformer_config~blip_2_qformer;
granite_docling: t= v=;
granite_speech: t~granite e= projector_config~blip_2_qformer;
granite_speech5_ctc: e=granite_speech5_encoder;
granite_speech_plus: t~granite e= projector_config~blip_2_qformer;
grounding-dino: b~swin t~bert;
groupvit: t=_text_model v=_vision_model;
higgs_audio_v2_tokenizer: acoustic_model_config~dac semantic_model_config~hubert;
hunyuan_vl: v= t=;
hy_v4_vl: v= t=;
hyperclovax_vision_v2: v~qwen2_5_vl_vision t~hyperclovax;
idefics: perceiver_config=_perciever v=;
idefics2: t~mistral v= perceiver_config=;
idefics3: t~llama v=;
inkling2: t= v=;
inkling2_loop: t= v~inkling2_vision;
inkling_mm_model: t=inkling_text v=inkling_vision a=inkling_audio;
instructblip: t~opt v=_vision_model qformer_config=;
instructblipvideo: t~opt v=_vision_model qformer_config=;
internvl: t~qwen2 v=;
internvl_chat: llm_config~llama;
janus: t~llama v=_vision_model vq_config=_vqgan;
jev: t~qwen3_5_text;
kimi_k25: t~deepseek_v3 v=;
kimi_vl: t=deepseek_v3 v=moonvit;
kosmos-2: t=kosmos_2_text_model v=kosmos_2_vision_model;
kosmos-2.5: t=kosmos_2_5_text_model v=kosmos_2_5_vision_model;
kyutai_speech_to_text: codec_config~mimi;
lasr_ctc: e=lasr_encoder;
lfm2_vl: v~siglip2_vision_model t~lfm2;
lfm3_vl: v= t~lfm3;
lightglue: keypoint_detector_config~superpoint;
lighton_ocr: v~pixtral t~qwen3;
llama4: t= v=_vision_model;
llava: v~clip_vision_model t~llama;
llava_llama: llm_cfg~llama;
llava_next: t~llama v~clip_vision_model;
llava_next_video: v~clip_vision_model t~llama;
llava_onevision: v~siglip_vision_model t~qwen2;
lw_detr: b~_vit;
mask2former: b~swin;
maskformer: b~swin decoder_config~detr;
metaclip_2: v=_vision_model t=_text_model;
minicpm_ocr: t~qwen3_5_text v=;
minicpmv4_6: t~qwen3_5_text v=;
minicpmv4_7: t~qwen3_5_text v=;
minimax_m3_vl: t= v=;
mistral3: t~mistral v~pixtral;
mistral_large4: t= v~pixtral;
mllama: t=_text_model v=_vision_model;
mm-grounding-dino: b~swin t~bert;
modernvbert: t~modernbert v~siglip_vision_model;
molmo2: t= v= adapter_config=;
moonshine_streaming: e=;
moshi: audio_encoder_config~mimi depth_decoder_config~_depth;
moss_transcribe_diarize: a= t~qwen3;
mpt:;
multi_modality: language_config~llama;
muse_glimmer: t= v=;
muse_spark: t= v= a=;
musicflamingo: a~audioflamingo3_encoder t~qwen2;
musicgen: text_encoder~t5 audio_encoder~encodec decoder=;
musicgen_melody: text_encoder~t5 audio_encoder~encodec decoder=;
nemo_speechlm: a=nemotron3_5_transcribe_audio t~nemotron_h word_timestamp_config=nemotron3_5_transcribe_word_timestamp;
nemotron3_5_asr: e~nemotron_asr_streaming_encoder;
nemotron3_5_transcribe_audio: asr_config=nemotron3_5_transcribe_asr_audio diarization_config~nemotron3_diarization;
nemotron3_diarization: a=;
nemotron_asr_streaming: e=;
nemotron_h_omni: v~radio t~nemotron_h a~parakeet_encoder;
neucodec: semantic_model_config~wav2vec2-bert;
nougat: encoder~donut-swin decoder~mbart;
omdet-turbo: b~timm_backbone t~clip_text_model;
omniasr: a~ t~llama;
omniasr_ctc: a~omniasr_audio;
oneformer: b~swin;
ovis2: t~qwen2 v=;
owlv2: t=_text_model v=_vision_model;
owlvit: t=_text_model v=_vision_model;
paddleocr_vl: v= t=;
paligemma: v~siglip_vision_model t~gemma;
parakeet_ctc: e=parakeet_encoder;
parakeet_rnnt: e=parakeet_encoder;
parakeet_tdt: e=parakeet_encoder;
pe_audio: t~modernbert a=_encoder;
pe_audio_encoder: dac_config~dac;
pe_audio_video: t~modernbert audio_video_config=_encoder;
pe_audio_video_encoder: a~pe_audio_encoder video_config~pe_video_encoder;
pe_video: t~modernbert video_config=_encoder;
pe_video_encoder: v=timm_wrapper;
perception_lm: t~llama v~timm_wrapper;
phi4_multimodal: a= v=;
pi0: vlm_config~paligemma dit_config~gemma;
pix2struct: t=_text_model v=_vision_model;
pp_chart2table: t~qwen2 v=;
pp_doclayout_v2: b~hgnet_v2;
pp_doclayout_v3: b~hgnet_v2;
pp_doclayout_v4: b~hgnet_v2;
pp_formulanet: t= v=;
pp_ocrv5_mobile_det: b~pp_lcnet_v3;
pp_ocrv5_mobile_rec: b~pp_lcnet_v3;
pp_ocrv5_server_det: b~hgnet_v2;
pp_ocrv5_server_rec: b~hgnet_v2;
pp_ocrv6_medium_det: b~pp_lcnet_v4;
pp_ocrv6_small_det: b~pp_lcnet_v4;
pp_ocrv6_small_rec: b~pp_lcnet_v4;
pp_ocrv6_tiny_rec: b~pp_lcnet_v4;
prompt_depth_anything: b~dinov2;
qianfan_ocr: t~qwen3 v=;
qwen2_5_omni: thinker_config= talker_config= token2wav_config=;
qwen2_5_omni_thinker: t=qwen2_5_omni_text v=qwen2_5_omni_vision_encoder a=qwen2_5_omni_audio_encoder;
qwen2_5_omni_token2wav: dit_config=qwen2_5_omni_dit bigvgan_config=qwen2_5_omni_bigvgan;
qwen2_5_vl: v= t=;
qwen2_audio: t~qwen2 a~_encoder;
qwen2_vl: v= t=;
qwen3_5: v= t=;
qwen3_5_moe: v= t=;
qwen3_asr: a~_encoder t~qwen3;
qwen3_omni_moe: thinker_config= talker_config= code2wav_config=;
qwen3_omni_moe_talker: t= code_predictor_config=;
qwen3_omni_moe_thinker: t=qwen3_omni_moe_text v=qwen3_omni_moe_vision_encoder a=qwen3_omni_moe_audio_encoder;
qwen3_vl: v= t=;
qwen3_vl_moe: v= t=;
qwen4_exp: v= t=;
rf_detr: b~_dinov2;
rt_detr: b~_resnet;
rt_detr_v2: b~rt_detr_resnet;
sam: prompt_encoder_config= mask_decoder_config= v=_vision_model;
sam2: v~_vision_model prompt_encoder_config= mask_decoder_config=;
sam2_video: prompt_encoder_config= mask_decoder_config= v~sam2_vision_model;
sam2_vision_model: b~sam2_hiera_det_model;
sam3: geometry_encoder_config= detr_encoder_config= detr_decoder_config= mask_decoder_config= v=_vision_model 
t~clip_text_model;
sam3_lite_text: geometry_encoder_config= detr_encoder_config= detr_decoder_config= mask_decoder_config= 
v~sam3_vision_model t=_text_model;
sam3_tracker: v~sam3_vision_model prompt_encoder_config= mask_decoder_config=;
sam3_tracker_video: v~sam3_vision_model prompt_encoder_config= mask_decoder_config=;
sam3_video: detector_config~sam3 tracker_config~sam3_tracker_video;
sam3_vision_model: b~sam3_vit_model;
sam_hq: prompt_encoder_config= mask_decoder_config= v=_vision_model;
sapiens2: head_config=;
shieldgemma2: t~gemma3_text v~siglip_vision_model;
siglip: v=_vision_model t=_text_model;
siglip2: v=_vision_model t=_text_model;
slanet: b~pp_lcnet;
slanext: v=;
smolvlm: t~llama v=;
speech-encoder-decoder: encoder~wav2vec2 decoder~bert;
step3p7: v=step3p5_vision t=step3p5;
superglue: keypoint_detector_config~superpoint;
t5gemma: encoder=t5_gemma_module decoder=t5_gemma_module;
t5gemma2: encoder= decoder=;
t5gemma2_encoder: t=t5gemma2_text v~siglip_vision_model;
table-transformer: b~timm_backbone;
tipsv2: t=_text_model v=_vision_model;
tipsv2_dpt: b~tipsv2_vision_model;
tvp: b~resnet;
ultravbert: t~ultrabert v~siglip_vision_model;
unlimited_ocr: v= t=;
unlimited_ocr_vision: sam_config=unlimited_ocr_sam_vision_model e=;
upernet: b~resnet;
uvdoc: b~;
vibevoice: t~qwen2 diffusion_head_config=_diffusion semantic_model_config~_acoustic_tokenizer_encoder 
a~_acoustic_tokenizer;
vibevoice_asr: t~qwen2 semantic_tokenizer_encoder_config~vibevoice_acoustic_tokenizer_encoder 
acoustic_tokenizer_encoder_config~vibevoice_acoustic_tokenizer_encoder;
video_llama_3: t~qwen2 v=;
video_llava: t~llama v~clip_vision_model;
videoprism: v=_vision_model t=_text_model;
vipllava: t~llama v~clip_vision_model;
vision-encoder-decoder: decoder~bert encoder~vit;
vision-text-dual-encoder: t~bert v~vit;
vitmatte: b~vitdet;
vitpose: b~;
voxtral: t~llama a~_encoder;
voxtral_realtime: t~ a~_encoder;
wavtokenizer:;
xclip: t=_text_model v=_vision_model;
xcodec: acoustic_model_config~dac semantic_model_config~hubert;
xcodec2: semantic_model_config~wav2vec2-bert;
zoedepth: b~beit;
";

/// Other names of types in files.
pub(crate) const ALIASES: &str = "\
EvollaModel evolla
MiniMaxM1 minimax_m1
deepseek_ref deepseek_v4
exaone4_5_text exaone4
gpt-sw3 gpt2
mimo qwen2
mlcd mlcd_vision_model
phi4 phi3
qwen3_asr_text qwen3
";

/// Composites whose text model may be flat in the file, and its type.
pub(crate) const FLAT: &str = "\
dots3_note dots3_note_text
fuyu persimmon
hunyuan_vl hunyuan_vl_text
llava_llama llama
paddleocr_vl paddleocr_vl_text
qwen2_5_vl qwen2_5_vl_text
qwen2_vl qwen2_vl_text
";

/// Composites whose class, where the text model is flat in the file, also checks the parameters of its rotation as its
/// own, without the context that some of them need.
pub(crate) const FLAT_CHECKED: &str = "dots3_note";

/// Defines pairs of a type and the reason of its refusal; adds the reference to a program that rotates it, except for
/// types `without` one.
macro_rules! refused {
    ($($name:literal: $why:literal $($without:ident)?,)+) => {
        &[$(($name, refused!(why $why $($without)?))),+]
    };
    (why $why:literal without) => { $why };
    (why $why:literal) => { concat!($why, " (guide::refused has a program that rotates it)") };
}

/// Types whose rotation is not supported here, with the reason.
pub(crate) const REFUSED: &[(&str, &str)] = refused! {
    "dory": "its files list attention and MLPs as layers of their own",
    "efficientloftr": "the whole hidden vector rotates, across its heads",
    "esmfold2_atom_encoder": "four axes with frequencies of two bases",
    "falcon_perception": "the second half of each head rotates by learned frequencies" without,
    "lightglue": "learned frequencies of keypoints",
    "minicpmo": "the class depends on its version, and this one is not known here" without,
    "minicpmv": "the class depends on its version, and this one is not known here" without,
    "musicflamingo": "the position is a time",
    "neucodec": "the position is the head's index",
    "qwen2_5_omni_dit": "the first head rotates alone",
    "seamless_m4t": "the hidden states are rotated, before queries and keys are made of them",
    "telechat2": "its code is a draft, whose versions scale differently" without,
    "wav2vec2-bert": "the hidden states are rotated, before queries and keys are made of them",
    "wav2vec2-conformer": "the hidden states are rotated, before queries and keys are made of them",
    "xcodec2": "the position is the head's index",
};

/// Types without a rotation, and the keys about one in their published files, which their code does not use.
pub(crate) const IDLE: &str = "\
kimi_linear qk_rope_head_dim rope_theta
nemotron_h partial_rotary_factor rope_theta
";

/// Types without a rotation.
pub(crate) const STILL: &str = "\
aimv2_text_model aimv2_vision_model albert align_text_model align_vision_model altclip_text_model altclip_vision_model
apertus1p5_vision_tokenizer audio-spectrogram-transformer audioflamingo3_encoder autoformer bart beit bert
bert-generation big_bird bigbird_pegasus biogpt bit blenderbot blenderbot-small blip_2_qformer blip_2_vision_model
blip_text_model blip_vision_model bloom bridgetower_text_model bridgetower_vision_model bros camembert canary_decoder
canine chameleon_vqgan chinese_clip_text_model chinese_clip_vision_model clap_audio_model clap_text_model
clip_text_model clip_vision_model clipseg_text_model clipseg_vision_model clvp_decoder coarse_acoustics convbert
convnext convnextv2 cosmos3_edge_vision cpmant ctrl cvt dac data2vec-audio data2vec-text data2vec-vision deberta
deberta-v2 decision_transformer deepseek_ocr2_sam_vision_model deit dinat dinov2 dinov2_with_registers dinov3_convnext
distilbert donut-swin dpr edgetam_mask_decoder edgetam_prompt_encoder edgetam_video_mask_decoder
edgetam_video_prompt_encoder efficientnet electra emu3_vqgan encodec eomt ernie falcon_mamba fastspeech2_conformer
fastspeech2_conformer_hifigan fine_acoustics flaubert flava_image_codebook flava_image_model flava_multimodal_model
flava_text_model florence_vision fnet focalnet fsmt fun_asr_nano_encoder funnel gemma3n_audio gemma3n_vision
gemma4_audio gemma4_unified_audio gemma4_unified_vision git_vision_model glm5_next_text glm_image_vision
glm_image_vqmodel glpn got_ocr2_vision gpt2 gpt_bigcode gpt_neo granite_docling_vision granite_speech5_encoder
granite_speech_encoder granite_speech_plus_encoder groupvit_text_model groupvit_vision_model hgnet_v2 hiera hubert
hunyuan_vl_vision hy_v4_vl_vision ibert idefics2_perceiver idefics2_vision idefics3_vision idefics_perciever
idefics_vision ijepa imagegpt informer inkling2_loop_text inkling2_text inkling_audio inkling_text inkling_vision
instructblip_qformer instructblip_vision_model instructblipvideo_qformer instructblipvideo_vision_model
internvl_vision jamba janus_vision_model janus_vqgan kimi_linear kosmos_2_5_text_model kosmos_2_5_vision_model
kosmos_2_text_model kosmos_2_vision_model layoutlm layoutlmv2 layoutlmv3 layoutxlm led levit lilt longformer longt5
luke lw_detr_vit lxmert m2m_100 mamba mamba2 marian markuplm maskformer-swin mbart megatron-bert metaclip_2_text_model
metaclip_2_vision_model mgp-str minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision mllama_vision_model
mobilebert mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 molmo2_adapter molmo2_vision moonshine_streaming_encoder
moshi_depth moss_transcribe_diarize_audio mpnet mra mt5 muse_spark_audio musicgen_decoder musicgen_melody_decoder mvp
nemotron_asr_streaming_encoder nemotron_h nllb-moe nystromformer omniasr_audio openai-gpt opt ovis2_vision
owlv2_text_model owlv2_vision_model owlvit_text_model owlvit_vision_model parakeet_encoder patchtsmixer patchtst
pegasus pegasus_x perceiver phi4_multimodal_audio phi4_multimodal_vision pix2struct_text_model pix2struct_vision_model
pixio plbart poolformer pop2piano pp_chart2table_vision pp_formulanet_text pp_formulanet_vision pp_lcnet pp_lcnet_v3
pp_lcnet_v4 prophetnet pvt pvt_v2 qianfan_ocr_vision qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan
qwen2_audio_encoder qwen3_asr_encoder qwen3_omni_moe_audio_encoder radio rag reformer regnet rembert resnet
rf_detr_dinov2 roberta roberta-prelayernorm roc_bert rt_detr_resnet rwkv rwkv5 rwkv6 sam2_hiera_det_model
sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder sam2_video_prompt_encoder sam3_detr_decoder
sam3_detr_encoder sam3_geometry_encoder sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder
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
