//! The model types of transformers that do not rotate by a row: composites, those without a rotation, and those that
//! are refused. The names are text, as a list of this many would be more pointers than letters.

/// Composites, whose parts have types of their own.
pub(crate) const COMPOSITES: &str = "\
aimv2 align altclip apertus1p5 aria audioflamingo3 aya_vision bark blip blip-2 blt bridgetower canary chinese_clip
chmv2 clap clip clipseg clvp cohere2_vision cohere_asr cohere_compass colmodernvbert colpali colqwen2 conditional_detr
cosmos3_edge cosmos3_omni d_fine dab-detr deepseek_ocr2 deepseek_ocr2_vision deepseek_vl deepseek_vl_hybrid
deepseek_vl_v2 deformable_detr deimv2 depth_anything depth_pro detr dia diffusion_gemma dots3_note dpt edgetam
edgetam_vision_model embedding_gemma2 emu3 encoder-decoder ernie4_5_vl_moe esmfold2 exaone4_5 fast_vlm
fastspeech2_conformer_with_hifigan flava florence2 fun_asr_nano fuyu gemma3 gemma3n gemma4 gemma4_assistant
gemma4_unified gemma4_unified_assistant git glm46v glm4v glm4v_moe glm5_next glm_image glm_ocr glmasr glmga got_ocr2
granite4_vision granite_docling granite_speech granite_speech5_ctc granite_speech_plus grounding-dino groupvit
higgs_audio_v2_tokenizer hunyuan_vl hy_v4_vl hyperclovax_vision_v2 idefics2 idefics3 inkling2 inkling2_loop
inkling_mm_model instructblip instructblipvideo internvl internvl_chat janus jev kimi_k25 kosmos-2 kosmos-2.5 lasr_ctc
lfm2_vl lfm3_vl lighton_ocr llama4 llava llava_llama llava_next llava_next_video llava_onevision lw_detr mask2former
maskformer metaclip_2 minicpm_ocr minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 mistral_large4 mllama
mm-grounding-dino modernvbert molmo2 moss_transcribe_diarize mpt multi_modality muse_glimmer muse_spark musicgen
musicgen_melody nemo_speechlm nemotron3_5_asr nemotron3_5_transcribe_audio nemotron3_diarization
nemotron_asr_streaming nemotron_h_omni nougat omdet-turbo omniasr omniasr_ctc oneformer ovis2 owlv2 owlvit
paddleocr_vl paligemma parakeet_ctc parakeet_rnnt parakeet_tdt pe_audio pe_audio_video pe_video perception_lm pi0
pix2struct pp_chart2table pp_doclayout_v2 pp_doclayout_v3 pp_doclayout_v4 pp_formulanet pp_ocrv5_mobile_det
pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec
pp_ocrv6_tiny_rec prompt_depth_anything qianfan_ocr qwen2_5_omni qwen2_5_omni_thinker qwen2_5_omni_token2wav
qwen2_5_vl qwen2_audio qwen2_vl qwen3_5 qwen3_5_moe qwen3_asr qwen3_omni_moe qwen3_omni_moe_thinker qwen3_vl
qwen3_vl_moe qwen4_exp rf_detr rt_detr rt_detr_v2 sam sam2 sam2_vision_model sam3 sam3_lite_text sam3_tracker
sam3_video sam3_vision_model sam_hq shieldgemma2 siglip siglip2 slanet slanext smolvlm speech-encoder-decoder step3p7
superglue t5gemma t5gemma2 t5gemma2_encoder table-transformer tipsv2 tipsv2_dpt tvp ultravbert unlimited_ocr
unlimited_ocr_vision upernet uvdoc vibevoice vibevoice_asr video_llama_3 video_llava videoprism vipllava
vision-encoder-decoder vision-text-dual-encoder vitmatte vitpose voxtral voxtral_realtime wavtokenizer xclip xcodec
zoedepth
";

/// Types that are not transformers': their files name code that lies beside them.
#[cfg(test)]
pub(crate) const OWN_CODE: &str = "\
baichuan chatglm deepseek deepseek_ref deepseek_vl_v2 falcon_perception flux hunyuan internlm internlm2 internvl_chat
kimi_k2 llava_llama mimo minicpm minicpmo minicpmv minimax_m3 minimax_text_01 molmo multi_modality nemotron-nas orion
phi-msft phi3_v phi3small phi4 phi4mm qwen rwkv5 rwkv6 wan xverse yuan
";

/// Composites whose text model lies under another key than `text_config`.
pub(crate) const TEXTS: &[(&str, &str)] = &[
    ("deepseek_vl_v2", "language_config"),
    ("internvl_chat", "llm_config"),
    ("llava_llama", "llm_cfg"),
    ("multi_modality", "language_config"),
];

/// Types, a key with a number or a flag, and the type by whose class a file with that value is read.
pub(crate) const INSTEAD: &[(&str, &str, f64, &str)] = &[
    ("deepseek_vl_v2_language", "use_mla", 0.0, "llama"),
    ("minicpmo", "version", 2.6, "qwen2"),
    ("minicpmv", "version", 2.6, "qwen2"),
    ("minicpmv", "version", 4.0, "llama"),
];

/// Types that are not known here, and the known one by whose rules their files can be read: the code of both was
/// compared. A name that is only near is no hint: `deepseek` is no `deepseek_v2`.
pub(crate) const ALIKE: &[(&str, &str)] = &[
    ("llava_mistral", "mistral"),
    ("mixformer-sequential", "phi-msft"),
];

/// The parts of each composite, and of rotating types that have parts: `part=type` where the class makes the part of
/// that type, whatever the file calls it, and `part~type` where the part's own type counts before that one. A type that
/// is left out is the name of the whole and that of the part.
pub(crate) const PARTS: &str = "\
aimv2: vision_config=aimv2_vision_model text_config=aimv2_text_model;
align: vision_config=align_vision_model text_config=align_text_model;
altclip: vision_config=altclip_vision_model text_config=altclip_text_model;
apertus1p5: text_config= vision_config=apertus1p5_vision_tokenizer audio_config~wavtokenizer_encoder;
aria: vision_config~idefics3_vision text_config=;
audioflamingo3: audio_config~audioflamingo3_encoder text_config~qwen2;
aya_vision: vision_config~siglip_vision_model text_config~cohere2;
bark: semantic_config=semantic coarse_acoustics_config=coarse_acoustics fine_acoustics_config=fine_acoustics 
codec_config~encodec;
blip: text_config=blip_text_model vision_config=blip_vision_model;
blip-2: text_config~opt vision_config=blip_2_vision_model qformer_config=blip_2_qformer;
blt: patcher_config= encoder_config=blt_local_encoder decoder_config=blt_local_decoder 
global_config=blt_global_transformer;
bridgetower: text_config=bridgetower_text_model vision_config=bridgetower_vision_model;
canary: encoder_config~parakeet_encoder decoder_config=;
chameleon: vq_config=chameleon_vqgan;
chinese_clip: vision_config=chinese_clip_vision_model text_config=chinese_clip_text_model;
chmv2: backbone_config~dinov3_vit;
clap: text_config=clap_text_model audio_config=clap_audio_model;
clip: vision_config=clip_vision_model text_config=clip_text_model;
clipseg: vision_config=clipseg_vision_model text_config=clipseg_text_model;
clvp: text_config=clvp_encoder speech_config=clvp_encoder decoder_config=;
cohere2_vision: vision_config~siglip_vision_model text_config~cohere2;
cohere_asr: encoder_config~parakeet_encoder;
cohere_compass: vision_config= text_config=;
colmodernvbert: vlm_config~modernvbert;
colpali: vlm_config~paligemma;
colqwen2: vlm_config~qwen2_vl;
conditional_detr: backbone_config~timm_backbone;
cosmos3_edge: vision_config= text_config=;
cosmos3_omni: vision_config=qwen3_vl_vision text_config~qwen3_vl_text;
csm: codec_config~mimi depth_decoder_config=csm_depth_decoder_model;
d_fine: backbone_config~hgnet_v2;
dab-detr: backbone_config~timm_backbone;
deepseek_ocr2: vision_config= text_config=;
deepseek_ocr2_vision: sam_config=deepseek_ocr2_sam_vision_model encoder_config=deepseek_ocr2_encoder;
deepseek_vl: vision_config~siglip_vision_model text_config~llama;
deepseek_vl_hybrid: vision_config~siglip_vision_model high_res_vision_config~sam_vision_model text_config~llama;
deepseek_vl_v2: language_config=;
deformable_detr: backbone_config~timm_backbone;
deimv2: backbone_config~hgnet_v2;
depth_anything: backbone_config~dinov2;
depth_pro: image_model_config~dinov2 patch_model_config~dinov2 fov_model_config~dinov2;
detr: backbone_config~timm_backbone;
dia: encoder_config= decoder_config=;
diffusion_gemma: text_config= vision_config~gemma4_vision;
dots3_note: text_config= vision_config=dots3_note_vision_encoder audio_config=dots3_note_audio_encoder;
edgetam: vision_config~edgetam_vision_model prompt_encoder_config= mask_decoder_config=;
edgetam_video: mask_decoder_config= vision_config~sam2_vision_model prompt_encoder_config=;
edgetam_vision_model: backbone_config~timm_wrapper;
embedding_gemma2: vision_config~gemma4_vision text_config= audio_config~gemma4_audio;
emu3: vq_config=emu3_vqgan text_config=emu3_text_model;
encoder-decoder: encoder~bert decoder~bert;
ernie4_5_vl_moe: vision_config= text_config=;
esmfold2: esmc_config~esmc;
exaone4_5: vision_config= text_config~exaone4;
fast_vlm: vision_config~timm_wrapper text_config~qwen2;
fastspeech2_conformer_with_hifigan: model_config=fastspeech2_conformer vocoder_config=fastspeech2_conformer_hifigan;
flava: text_config=flava_text_model image_config=flava_image_model multimodal_config=flava_multimodal_model 
image_codebook_config=;
florence2: vision_config=florence_vision text_config~bart;
fun_asr_nano: audio_config~fun_asr_nano_encoder text_config~qwen3;
fuyu: text_config~persimmon;
gemma3: text_config= vision_config~siglip_vision_model;
gemma3n: text_config= vision_config= audio_config=;
gemma4: text_config= vision_config= audio_config=;
gemma4_unified: text_config= vision_config= audio_config=;
gemma4_unified_assistant: text_config~gemma4_unified_text;
git: vision_config=git_vision_model;
glm46v: text_config~glm4v_text vision_config~glm4v_vision;
glm4v: vision_config= text_config=;
glm4v_moe: vision_config= text_config=;
glm5_next: vision_config= text_config=;
glm_image: text_config= vision_config= vq_config=glm_image_vqmodel;
glm_ocr: vision_config= text_config=;
glmasr: text_config~llama audio_config~glmasr_encoder;
glmga: text_config~glm4v_text vision_config~glm4v_vision;
got_ocr2: text_config~qwen2 vision_config=;
granite4_vision: text_config= vision_config~clip_vision_model qformer_config~blip_2_qformer;
granite_docling: text_config= vision_config=;
granite_speech: text_config~granite encoder_config= projector_config~blip_2_qformer;
granite_speech5_ctc: encoder_config=granite_speech5_encoder;
granite_speech_plus: text_config~granite encoder_config= projector_config~blip_2_qformer;
grounding-dino: backbone_config~swin text_config~bert;
groupvit: text_config=groupvit_text_model vision_config=groupvit_vision_model;
higgs_audio_v2_tokenizer: acoustic_model_config~dac semantic_model_config~hubert;
hunyuan_vl: vision_config= text_config=;
hy_v4_vl: vision_config= text_config=;
hyperclovax_vision_v2: vision_config~qwen2_5_vl_vision text_config~hyperclovax;
idefics: perceiver_config=idefics_perciever vision_config=;
idefics2: text_config~mistral vision_config= perceiver_config=;
idefics3: text_config~llama vision_config=;
inkling2: text_config= vision_config=;
inkling2_loop: text_config= vision_config~inkling2_vision;
inkling_mm_model: text_config=inkling_text vision_config=inkling_vision audio_config=inkling_audio;
instructblip: text_config~opt vision_config=instructblip_vision_model qformer_config=;
instructblipvideo: text_config~opt vision_config=instructblipvideo_vision_model qformer_config=;
internvl: text_config~qwen2 vision_config=;
internvl_chat: llm_config~llama;
janus: text_config~llama vision_config=janus_vision_model vq_config=janus_vqgan;
jev: text_config~qwen3_5_text;
kimi_k25: text_config~deepseek_v3 vision_config=;
kosmos-2: text_config=kosmos_2_text_model vision_config=kosmos_2_vision_model;
kosmos-2.5: text_config=kosmos_2_5_text_model vision_config=kosmos_2_5_vision_model;
kyutai_speech_to_text: codec_config~mimi;
lasr_ctc: encoder_config=lasr_encoder;
lfm2_vl: vision_config~siglip2_vision_model text_config~lfm2;
lfm3_vl: vision_config= text_config~lfm3;
lightglue: keypoint_detector_config~superpoint;
lighton_ocr: vision_config~pixtral text_config~qwen3;
llama4: text_config= vision_config=llama4_vision_model;
llava: vision_config~clip_vision_model text_config~llama;
llava_llama: llm_cfg~llama;
llava_next: text_config~llama vision_config~clip_vision_model;
llava_next_video: vision_config~clip_vision_model text_config~llama;
llava_onevision: vision_config~siglip_vision_model text_config~qwen2;
lw_detr: backbone_config~lw_detr_vit;
mask2former: backbone_config~swin;
maskformer: backbone_config~swin decoder_config~detr;
metaclip_2: vision_config=metaclip_2_vision_model text_config=metaclip_2_text_model;
minicpm_ocr: text_config~qwen3_5_text vision_config=;
minicpmv4_6: text_config~qwen3_5_text vision_config=;
minicpmv4_7: text_config~qwen3_5_text vision_config=;
minimax_m3_vl: text_config= vision_config=;
mistral3: text_config~mistral vision_config~pixtral;
mistral_large4: text_config= vision_config~pixtral;
mllama: text_config=mllama_text_model vision_config=mllama_vision_model;
mm-grounding-dino: backbone_config~swin text_config~bert;
modernvbert: text_config~modernbert vision_config~siglip_vision_model;
molmo2: text_config= vision_config= adapter_config=;
moonshine_streaming: encoder_config=;
moshi: audio_encoder_config~mimi depth_decoder_config~moshi_depth;
moss_transcribe_diarize: audio_config= text_config~qwen3;
multi_modality: language_config~llama;
muse_glimmer: text_config= vision_config=;
muse_spark: text_config= vision_config= audio_config=;
musicflamingo: audio_config~audioflamingo3_encoder text_config~qwen2;
musicgen: text_encoder~t5 audio_encoder~encodec decoder=;
musicgen_melody: text_encoder~t5 audio_encoder~encodec decoder=;
nemo_speechlm: audio_config=nemotron3_5_transcribe_audio text_config~nemotron_h 
word_timestamp_config=nemotron3_5_transcribe_word_timestamp;
nemotron3_5_asr: encoder_config~nemotron_asr_streaming_encoder;
nemotron3_5_transcribe_audio: asr_config=nemotron3_5_transcribe_asr_audio diarization_config~nemotron3_diarization;
nemotron3_diarization: audio_config=;
nemotron_asr_streaming: encoder_config=;
nemotron_h_omni: vision_config~radio text_config~nemotron_h audio_config~parakeet_encoder;
neucodec: semantic_model_config~wav2vec2-bert;
omdet-turbo: backbone_config~timm_backbone text_config~clip_text_model;
omniasr: audio_config~ text_config~llama;
omniasr_ctc: audio_config~omniasr_audio;
oneformer: backbone_config~swin;
ovis2: text_config~qwen2 vision_config=;
owlv2: text_config=owlv2_text_model vision_config=owlv2_vision_model;
owlvit: text_config=owlvit_text_model vision_config=owlvit_vision_model;
paddleocr_vl: vision_config= text_config=;
paligemma: vision_config~siglip_vision_model text_config~gemma;
parakeet_ctc: encoder_config=parakeet_encoder;
parakeet_rnnt: encoder_config=parakeet_encoder;
parakeet_tdt: encoder_config=parakeet_encoder;
pe_audio: text_config~modernbert audio_config=pe_audio_encoder;
pe_audio_encoder: dac_config~dac;
pe_audio_video: text_config~modernbert audio_video_config=pe_audio_video_encoder;
pe_audio_video_encoder: audio_config~pe_audio_encoder video_config~pe_video_encoder;
pe_video: text_config~modernbert video_config=pe_video_encoder;
pe_video_encoder: vision_config=timm_wrapper;
perception_lm: text_config~llama vision_config~timm_wrapper;
phi4_multimodal: audio_config= vision_config=;
pi0: vlm_config~paligemma dit_config~gemma;
pix2struct: text_config=pix2struct_text_model vision_config=pix2struct_vision_model;
pp_chart2table: text_config~qwen2 vision_config=;
pp_doclayout_v2: backbone_config~hgnet_v2;
pp_doclayout_v3: backbone_config~hgnet_v2;
pp_doclayout_v4: backbone_config~hgnet_v2;
pp_formulanet: text_config= vision_config=;
pp_ocrv5_mobile_det: backbone_config~pp_lcnet_v3;
pp_ocrv5_mobile_rec: backbone_config~pp_lcnet_v3;
pp_ocrv5_server_det: backbone_config~hgnet_v2;
pp_ocrv5_server_rec: backbone_config~hgnet_v2;
pp_ocrv6_medium_det: backbone_config~pp_lcnet_v4;
pp_ocrv6_small_det: backbone_config~pp_lcnet_v4;
pp_ocrv6_small_rec: backbone_config~pp_lcnet_v4;
pp_ocrv6_tiny_rec: backbone_config~pp_lcnet_v4;
prompt_depth_anything: backbone_config~dinov2;
qianfan_ocr: text_config~qwen3 vision_config=;
qwen2_5_omni: thinker_config= talker_config= token2wav_config=;
qwen2_5_omni_thinker: text_config=qwen2_5_omni_text vision_config=qwen2_5_omni_vision_encoder 
audio_config=qwen2_5_omni_audio_encoder;
qwen2_5_omni_token2wav: dit_config=qwen2_5_omni_dit bigvgan_config=qwen2_5_omni_bigvgan;
qwen2_5_vl: vision_config= text_config=;
qwen2_audio: text_config~qwen2 audio_config~qwen2_audio_encoder;
qwen2_vl: vision_config= text_config=;
qwen3_5: vision_config= text_config=;
qwen3_5_moe: vision_config= text_config=;
qwen3_asr: audio_config~qwen3_asr_encoder text_config~qwen3;
qwen3_omni_moe: thinker_config=;
qwen3_omni_moe_thinker: text_config=qwen3_omni_moe_text vision_config=qwen3_omni_moe_vision_encoder 
audio_config=qwen3_omni_moe_audio_encoder;
qwen3_vl: vision_config= text_config=;
qwen3_vl_moe: vision_config= text_config=;
qwen4_exp: vision_config= text_config=;
rf_detr: backbone_config~rf_detr_dinov2;
rt_detr: backbone_config~rt_detr_resnet;
rt_detr_v2: backbone_config~rt_detr_resnet;
sam: prompt_encoder_config= mask_decoder_config= vision_config=sam_vision_model;
sam2: vision_config~sam2_vision_model prompt_encoder_config= mask_decoder_config=;
sam2_video: prompt_encoder_config= mask_decoder_config= vision_config~sam2_vision_model;
sam2_vision_model: backbone_config~sam2_hiera_det_model;
sam3: geometry_encoder_config= detr_encoder_config= detr_decoder_config= mask_decoder_config= 
vision_config=sam3_vision_model text_config~clip_text_model;
sam3_lite_text: geometry_encoder_config= detr_encoder_config= detr_decoder_config= mask_decoder_config= 
vision_config~sam3_vision_model text_config=sam3_lite_text_text_model;
sam3_tracker: vision_config~sam3_vision_model prompt_encoder_config= mask_decoder_config=;
sam3_tracker_video: vision_config~sam3_vision_model prompt_encoder_config= mask_decoder_config=;
sam3_video: detector_config~sam3 tracker_config~sam3_tracker_video;
sam3_vision_model: backbone_config~sam3_vit_model;
sam_hq: prompt_encoder_config= mask_decoder_config= vision_config=sam_hq_vision_model;
sapiens2: head_config=;
shieldgemma2: text_config~gemma3_text vision_config~siglip_vision_model;
siglip: vision_config=siglip_vision_model text_config=siglip_text_model;
siglip2: vision_config=siglip2_vision_model text_config=siglip2_text_model;
slanet: backbone_config~pp_lcnet;
slanext: vision_config=;
smolvlm: text_config~llama vision_config=;
speech-encoder-decoder: encoder~wav2vec2 decoder~bert;
step3p7: vision_config=step3p5_vision text_config=step3p5;
superglue: keypoint_detector_config~superpoint;
t5gemma: encoder=t5_gemma_module decoder=t5_gemma_module;
t5gemma2: encoder= decoder=;
t5gemma2_encoder: text_config=t5gemma2_text vision_config~siglip_vision_model;
table-transformer: backbone_config~timm_backbone;
tipsv2: text_config=tipsv2_text_model vision_config=tipsv2_vision_model;
tipsv2_dpt: backbone_config~tipsv2_vision_model;
tvp: backbone_config~resnet;
ultravbert: text_config~ultrabert vision_config~siglip_vision_model;
unlimited_ocr: vision_config= text_config=;
unlimited_ocr_vision: sam_config=unlimited_ocr_sam_vision_model encoder_config=;
upernet: backbone_config~resnet;
uvdoc: backbone_config~;
vibevoice: text_config~qwen2 diffusion_head_config=vibevoice_diffusion 
semantic_model_config~vibevoice_acoustic_tokenizer_encoder audio_config~vibevoice_acoustic_tokenizer;
vibevoice_asr: text_config~qwen2 semantic_tokenizer_encoder_config~vibevoice_acoustic_tokenizer_encoder 
acoustic_tokenizer_encoder_config~vibevoice_acoustic_tokenizer_encoder;
video_llama_3: text_config~qwen2 vision_config=;
video_llava: text_config~llama vision_config~clip_vision_model;
videoprism: vision_config=videoprism_vision_model text_config=videoprism_text_model;
vipllava: text_config~llama vision_config~clip_vision_model;
vision-encoder-decoder: decoder~bert encoder~vit;
vision-text-dual-encoder: text_config~bert vision_config~vit;
vitmatte: backbone_config~vitdet;
vitpose: backbone_config~;
voxtral: text_config~llama audio_config~voxtral_encoder;
voxtral_realtime: text_config~ audio_config~voxtral_realtime_encoder;
xclip: text_config=xclip_text_model vision_config=xclip_vision_model;
xcodec: acoustic_model_config~dac semantic_model_config~hubert;
xcodec2: semantic_model_config~wav2vec2-bert;
zoedepth: backbone_config~beit;
";

/// Other names that a file may have for a type.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("EvollaModel", "evolla"),
    ("deepseek_ref", "deepseek_v4"),
    ("exaone4_5_text", "exaone4"),
    ("gpt-sw3", "gpt2"),
    ("mimo", "qwen2"),
    ("mlcd", "mlcd_vision_model"),
    ("phi4", "phi3"),
    ("qwen3_asr_text", "qwen3"),
];

/// Composites whose text model may lie flat in the file, and its type.
pub(crate) const FLAT: &[(&str, &str)] = &[
    ("dots3_note", "dots3_note_text"),
    ("fuyu", "persimmon"),
    ("hunyuan_vl", "hunyuan_vl_text"),
    ("llava_llama", "llama"),
    ("paddleocr_vl", "paddleocr_vl_text"),
    ("qwen2_5_vl", "qwen2_5_vl_text"),
    ("qwen2_vl", "qwen2_vl_text"),
];

/// Pairs of a type and why it is refused; where the caller finds the program that rotates it is said with each, but for
/// those `without` one.
macro_rules! refused {
    ($($name:literal: $why:literal $($without:ident)?,)+) => {
        &[$(($name, refused!(why $why $($without)?))),+]
    };
    (why $why:literal without) => { $why };
    (why $why:literal) => { concat!($why, " (guide::refused has a program that rotates it)") };
}

/// Types that rotate in a way that is not answered here, and why.
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
    "wav2vec2-bert": "the hidden states are rotated, before queries and keys are made of them",
    "wav2vec2-conformer": "the hidden states are rotated, before queries and keys are made of them",
    "xcodec2": "the position is the head's index",
};

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
