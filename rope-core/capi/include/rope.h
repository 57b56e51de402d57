// rope: rotary position embedding (RoPE). Rotates the pairs of x by the angles of its positions.
//
// Generated from the crate rope-capi by check-header.sh; not to be edited. SPDX-License-Identifier: MIT OR Apache-2.0
//
// Three nouns and a verb: a tensor (rope_tensor_mut), a plan (rope_plan: which channels are pairs, which way, on which
// instruction set), rows (rope_rows: the cos and sin of each token), and rope_rotate.
//
//     rope_axes axes = rope_axes_text(128);
//     rope_frequencies *frequencies;                                    // once per model
//     rope_frequencies_new(&axes, 500000.0, NULL, &frequencies);
//     rope_plan plan = {ROPE_PAIRING_HALF, 0, 0, 0};
//     rope_positions positions = rope_positions_range(start, tokens);   // once per forward step
//     rope_table *table;
//     rope_table_new(frequencies, &positions, &table);
//     rope_rows rows;
//     rope_table_rows(table, &rows);
//     rope_tensor_mut q = {q_data, q_len, ROPE_ELEMENT_F32, {{0}, {0}}};   // per layer
//     rope_layout_bshd(&q.layout, batch, tokens, heads, 128);
//     rope_rotate(&plan, &q, &rows);
//
// The library allocates for two handles, rope_frequencies and rope_table. Everything else is a plain struct over the
// caller's memory. Firmware allocates nothing: rope_frequencies_init makes frequencies in its own memory, and
// rope_rows_fill makes rows there; rope_rotate_at needs no rows. A library built without std has no calls that
// allocate. Define ROPE_NO_STD, and this header does not declare them.
//
// A call that can be refused returns a rope_status; ROPE_STATUS_OK is 0. It checks everything first, so that a refused
// call has touched no tensor. It refuses null and misaligned pointers, lengths that no memory has, unknown values of
// enumerations, and memory that would be written and read at once. The caller promises that pointers lead to memory
// and that structs are filled in. No call unwinds, none keeps a pointer to a struct that it was given, and none has to
// be called first to set the library up.
//
// The comment of a call lists the statuses that it returns. Every call may also return ROPE_STATUS_INTERNAL: a bug of
// the library, caught.

#ifndef ROPE_H
#define ROPE_H

#include <stddef.h>
#include <stdint.h>
#ifndef ROPE_NO_STD
#define ROPE_STD 1
#endif

#define ROPE_TEXT_OF_(x) #x
#define ROPE_TEXT_OF(x) ROPE_TEXT_OF_(x)

// The version of the header, as text.
#define ROPE_VERSION_STRING \
    ROPE_TEXT_OF(ROPE_VERSION_MAJOR) "." ROPE_TEXT_OF(ROPE_VERSION_MINOR) "." ROPE_TEXT_OF(ROPE_VERSION_PATCH)

// Bytes that are enough for rope_frequencies_init with rotary_dim channels: a constant, for static memory.
#define ROPE_FREQUENCIES_BYTES(rotary_dim) \
    (ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_BLOCK * ((size_t)(rotary_dim) / 16 + ((size_t)(rotary_dim) % 16 != 0)))

// Floats that rope_rows_fill needs for the rows of some tokens: a constant, for static memory.
#define ROPE_ROWS_LEN(tokens, rotary_dim) ((size_t)(tokens) * (size_t)(rotary_dim))


// Bytes of a block of eight pairs in ROPE_FREQUENCIES_BYTES.
#define ROPE_FREQUENCIES_BLOCK 576

// Bytes besides the blocks in ROPE_FREQUENCIES_BYTES.
#define ROPE_FREQUENCIES_HEAD 192

// The largest rotary_dim.
#define ROPE_ROTARY_DIM_MAX 65536

// The major version of the header. It counts incompatible changes.
#define ROPE_VERSION_MAJOR 0

// The minor version of the header. It counts additions; before 1.0 it counts incompatible changes as well.
#define ROPE_VERSION_MINOR 1

// The patch version of the header. It counts repairs.
#define ROPE_VERSION_PATCH 0

// What a call returns. A call that is refused has touched no tensor.
enum rope_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  ROPE_STATUS_OK = 0,
  // A pointer is NULL where memory is needed.
  ROPE_STATUS_NULL = 1,
  // A pointer is not a multiple of the alignment of what it points to.
  ROPE_STATUS_MISALIGNED = 2,
  // A length is more than an address space can hold, or runs past its end.
  ROPE_STATUS_LENGTH = 3,
  // An integer names no value of its enumeration, or a value that has no meaning here.
  ROPE_STATUS_UNKNOWN_VALUE = 4,
  // Memory that is written overlaps memory that is read.
  ROPE_STATUS_MEMORY_OVERLAP = 5,
  // A pointer is to no handle of this library, or to one of another kind than the call takes.
  ROPE_STATUS_HANDLE = 6,
  // The system gave no memory.
  ROPE_STATUS_OUT_OF_MEMORY = 7,
  // A bug of the library, caught. The tensor that the call was writing may be half written.
  ROPE_STATUS_INTERNAL = 8,
  // Text is not UTF-8.
  ROPE_STATUS_UTF8 = 9,
  // A range of positions ends beyond 2^63.
  ROPE_STATUS_POSITION_RANGE = 10,
  // The index of the last element of a tensor does not fit size_t.
  ROPE_STATUS_SHAPE_OVERFLOW = 20,
  // A layout reaches past the tensor's memory.
  ROPE_STATUS_OUT_OF_BOUNDS = 21,
  // Two indices of a tensor that is written could name one element.
  ROPE_STATUS_OVERLAP = 22,
  // rotary_dim is odd, zero or too large, or the scaling or the axes need another.
  ROPE_STATUS_ROTARY_DIM = 23,
  // The rows rotate more channels than a head has.
  ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD = 24,
  // Values are not a whole number of rows.
  ROPE_STATUS_ROWS_LENGTH = 25,
  // A row of cos has neither a value for each pair nor each of them twice.
  ROPE_STATUS_ROW_WIDTH = 26,
  // Neither one row per token nor one per token of every sequence.
  ROPE_STATUS_ROW_COUNT = 27,
  // An id names no row of the table.
  ROPE_STATUS_POSITION_OUTSIDE_TABLE = 28,
  // An attention factor is zero, infinite or not a number.
  ROPE_STATUS_ATTENTION_FACTOR = 29,
  // A plan that changes the pairing was to work in place.
  ROPE_STATUS_PAIRING_CHANGES_IN_PLACE = 30,
  // Source and target have different shapes.
  ROPE_STATUS_SHAPE_MISMATCH = 31,
  // Q and K differ in more than their heads.
  ROPE_STATUS_QUERY_KEY_MISMATCH = 32,
  // This CPU, or this build, lacks the instruction set.
  ROPE_STATUS_BACKEND_UNAVAILABLE = 33,
  // A base, factor or other number makes no sense.
  ROPE_STATUS_PARAMETER = 34,
  // A list with one number for each pair has another length.
  ROPE_STATUS_COUNT = 35,
  // Storage is too short.
  ROPE_STATUS_STORAGE = 36,
  // One position would rotate a pair by 32768 turns or more.
  ROPE_STATUS_TOO_FAST = 37,
  // The axes do not add up.
  ROPE_STATUS_AXES = 38,
  // A list of positions does not divide by the number of axes.
  ROPE_STATUS_POSITIONS_PER_AXIS = 39,
  // A coordinate is infinite or not a number.
  ROPE_STATUS_COORDINATE = 40,
  // Offsets of packed sequences do not start at 0, or fall.
  ROPE_STATUS_OFFSETS = 41,
  // More values of rows than size_t counts.
  ROPE_STATUS_ROWS_TOO_LONG = 42,
  // A row is longer than what rope_rotate_at keeps on the stack: more than 2048 values.
  ROPE_STATUS_ROTARY_DIM_ON_STACK = 43,
  // A configuration is not JSON, or not an object.
  ROPE_STATUS_JSON = 44,
  // A key of a configuration is missing, and has no known default.
  ROPE_STATUS_MISSING = 45,
  // A key of a configuration has a value of another type or outside of its range.
  ROPE_STATUS_INVALID = 46,
  // A name in a configuration stands for no known variant.
  ROPE_STATUS_UNKNOWN = 47,
  // A configuration holds several answers, and none was chosen.
  ROPE_STATUS_AMBIGUOUS = 48,
  // A model does something that is no rotation of pairs.
  ROPE_STATUS_UNSUPPORTED = 49,
  // A row of cos or sin that should keep each value twice, in two halves that are the same, does not.
  ROPE_STATUS_HALVES_DIFFER = 50,
  // A configuration has a key about the rotation that the model's code does not obey.
  ROPE_STATUS_UNREAD = 51,
  // Refused by rope-core for a reason that this header has no name for.
  ROPE_STATUS_REFUSED = 99,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_status rope_status;
#else
typedef int32_t rope_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// An instruction set that the kernels are compiled for. All give the same bits; they differ in speed.
enum rope_backend
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The fastest that this CPU can run.
  ROPE_BACKEND_BEST = 0,
  // Any target, without vectors.
  ROPE_BACKEND_SCALAR = 1,
  // Any target: 4 lanes of what the build's target has.
  ROPE_BACKEND_PORTABLE = 2,
  // 64-bit ARM: 4 lanes.
  ROPE_BACKEND_NEON = 3,
  // x86 with AVX2, FMA and F16C: 8 lanes.
  ROPE_BACKEND_AVX2 = 4,
  // x86 with AVX-512 F, BW, DQ, VL and VBMI2: 16 lanes.
  ROPE_BACKEND_AVX512 = 5,
  // x86 with all that AVX512 needs, and AVX512-BF16 and VBMI for bf16: 16 lanes.
  ROPE_BACKEND_AVX512_BF16 = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_backend rope_backend;
#else
typedef int32_t rope_backend;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which two channels of a head rotate together. Nothing in a tensor tells which pairing its model was trained with.
enum rope_pairing
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Channels 2i and 2i + 1: GPT-J, Llama as Meta published it, GLM, Cohere; ggml's NORMAL, ONNX's interleaved =
  // 1.
  ROPE_PAIRING_INTERLEAVED = 1,
  // Channels i and i + rotary_dim / 2: GPT-NeoX, the rotate_half models of Hugging Face (Llama, Mistral, Qwen,
  // Gemma, Phi); ggml's NEOX, ONNX's interleaved = 0.
  ROPE_PAIRING_HALF = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_pairing rope_pairing;
#else
typedef int32_t rope_pairing;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which way pairs rotate. R is the rotation by the angles of the rows, and A is their attention factor.
enum rope_direction
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // x <- A R x
  ROPE_DIRECTION_FORWARD = 0,
  // x <- 1/A R^T x, which undoes FORWARD; for a shift of cached keys, for example.
  ROPE_DIRECTION_INVERSE = 1,
  // x <- A R^T x, the gradient of FORWARD. The same as INVERSE where A is 1.
  ROPE_DIRECTION_TRANSPOSE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_direction rope_direction;
#else
typedef int32_t rope_direction;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The type of a tensor's elements. The arithmetic is f32, and its result is rounded to the element once.
enum rope_element
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // IEEE single precision.
  ROPE_ELEMENT_F32 = 1,
  // IEEE half precision, 16 bits.
  ROPE_ELEMENT_F16 = 2,
  // bfloat16, 16 bits.
  ROPE_ELEMENT_BF16 = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_element rope_element;
#else
typedef int32_t rope_element;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The type of position ids, coordinates and inverse frequencies.
enum rope_number
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // int32_t
  ROPE_NUMBER_I32 = 1,
  // int64_t
  ROPE_NUMBER_I64 = 2,
  // uint32_t
  ROPE_NUMBER_U32 = 3,
  // float
  ROPE_NUMBER_F32 = 4,
  // double
  ROPE_NUMBER_F64 = 5,
  // uint64_t
  ROPE_NUMBER_U64 = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_number rope_number;
#else
typedef int32_t rope_number;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which angle a position has.
enum rope_angle
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The exact product of position and frequency.
  ROPE_ANGLE_EXACT = 0,
  // The angle that Hugging Face's models compute: the product of position and inverse frequency, all in f32.
  ROPE_ANGLE_HUGGING_FACE_F32 = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_angle rope_angle;
#else
typedef int32_t rope_angle;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How positions are listed.
enum rope_positions_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // `count` consecutive positions from `first` on, the same on all axes.
  ROPE_POSITIONS_KIND_RANGE = 1,
  // One number per token, the same on all axes.
  ROPE_POSITIONS_KIND_PER_TOKEN = 2,
  // All tokens' numbers on axis 0, then all on axis 1 (Hugging Face's [3, batch * tokens], ggml's).
  ROPE_POSITIONS_KIND_AXIS_MAJOR = 3,
  // All numbers of token 0, then all of token 1.
  ROPE_POSITIONS_KIND_TOKEN_MAJOR = 4,
  // Sequences packed behind one another: the values are offsets, and sequence s has the tokens `values[s]`
  // to `values[s + 1]` (FlashAttention's cu_seqlens). Integers only.
  ROPE_POSITIONS_KIND_PACKED = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_positions_kind rope_positions_kind;
#else
typedef int32_t rope_positions_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which axis of the positions drives which pair, and which frequency a pair takes.
enum rope_axes_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Text: one axis over `rotary_dim` channels.
  ROPE_AXES_KIND_TEXT = 1,
  // M-RoPE in chunks: `sections` (`count` of them) pairs of axis 0, of axis 1, ..; Qwen2-VL has {16, 24, 24}.
  ROPE_AXES_KIND_MROPE = 2,
  // Interleaved M-RoPE, three `sections`: THWTHW..TT; Qwen3-VL has {24, 20, 20}.
  ROPE_AXES_KIND_MROPE_INTERLEAVED = 3,
  // Height and width alternating, `sections` {height, width, time}; ERNIE-4.5-VL has {22, 22, 20}.
  ROPE_AXES_KIND_MROPE_ALTERNATING = 4,
  // Spread evenly, three `sections`: openPangu.
  ROPE_AXES_KIND_MROPE_SPREAD = 5,
  // ggml's MROPE: `rotary_dim` and four `sections`.
  ROPE_AXES_KIND_GGML_MROPE = 6,
  // ggml's IMROPE: `rotary_dim` and four `sections`.
  ROPE_AXES_KIND_GGML_IMROPE = 7,
  // Base frequencies for each axis by itself: `sections` (`count` of them) pairs of each.
  ROPE_AXES_KIND_PER_AXIS = 8,
  // Images: two axes. Each has half of the pairs of `rotary_dim`, and base frequencies of its own. Qwen's vision
  // towers, DINOv3.
  ROPE_AXES_KIND_VISION = 9,
  // Pixtral's images: one set of base frequencies, the even ones for the height, the odd ones for the width, over
  // `rotary_dim`.
  ROPE_AXES_KIND_PIXTRAL = 10,
  // WAN's video over `rotary_dim` (the head_dim): time, height and width, each with base frequencies of its own.
  ROPE_AXES_KIND_WAN = 11,
  // One set of base frequencies, and the axis of every pair in `given` (`count` of them, 0 to 3).
  ROPE_AXES_KIND_GIVEN = 12,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_axes_kind rope_axes_kind;
#else
typedef int32_t rope_axes_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a model changes the frequencies base^(-2i/d). Each kind names the fields of rope_scaling that it reads.
enum rope_scaling_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Not at all.
  ROPE_SCALING_KIND_DEFAULT = 0,
  // Position interpolation: `factor`.
  ROPE_SCALING_KIND_LINEAR = 1,
  // Hugging Face's dynamic: `factor`, `max_position_embeddings`, `length`.
  ROPE_SCALING_KIND_DYNAMIC_NTK = 2,
  // HunYuan's: `alpha`.
  ROPE_SCALING_KIND_NTK_ALPHA = 3,
  // kexue.fm/9706: `factor`.
  ROPE_SCALING_KIND_NTK_FIXED = 4,
  // kexue.fm/9706 with a mixed base: `factor`, `mixed_b`.
  ROPE_SCALING_KIND_NTK_MIXED = 5,
  // NTK by parts: `factor`, `original_context`, `ntk_factor`, `extrapolation_factor`.
  ROPE_SCALING_KIND_NTK_BY_PARTS = 6,
  // YaRN: `factor`, `original_context`, `beta_fast`, `beta_slow`, `untruncated`, `attention_factor`, `mscale`,
  // `mscale_all_dim`.
  ROPE_SCALING_KIND_YARN = 7,
  // LongRoPE: `short_factor`, `long_factor`, `count`, `original_context`, `length`, `factor`, `attention_factor`.
  ROPE_SCALING_KIND_LONG_ROPE = 8,
  // Llama 3.1: `factor`, `low_freq_factor`, `high_freq_factor`, `original_context`.
  ROPE_SCALING_KIND_LLAMA3 = 9,
  // Gemma 4's full-attention layers: `partial_rotary_factor`, `factor`.
  ROPE_SCALING_KIND_PROPORTIONAL = 10,
  // ggml's rope_freqs: `freq_factors`, `count`.
  ROPE_SCALING_KIND_FREQ_FACTORS = 11,
  // A learned correction: `alphas`, `count`.
  ROPE_SCALING_KIND_LEARNED = 12,
  // Turns instead of radians: DINOv3.
  ROPE_SCALING_KIND_TURNS = 13,
  // Periods in geometric steps: `min_period`, `max_period`.
  ROPE_SCALING_KIND_PERIODS = 14,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum rope_scaling_kind rope_scaling_kind;
#else
typedef int32_t rope_scaling_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The frequencies of all pairs of a head, and the factor on cos and sin. A handle, made once for a model.
//
// rope_frequencies_new, _new_inverse and _from_config make it on the heap; rope_frequencies_free frees it.
// rope_frequencies_init and _init_inverse make it in the caller's memory.
typedef struct rope_frequencies rope_frequencies;

#if defined(ROPE_STD)
// Rows that own their memory, of a table of all positions or of one step. A handle.
typedef struct rope_table rope_table;
#endif

// The axes. Fields that a kind does not name are not read.
typedef struct rope_axes {
  // `enum rope_axes_kind`.
  int32_t kind;
  // Channels of a head that rotate, where the sections do not say.
  size_t rotary_dim;
  // Pairs of each section.
  size_t sections[4];
  // MROPE, PER_AXIS: how many sections, 1 to 4. GIVEN: how many pairs.
  size_t count;
  // GIVEN: the axis of every pair.
  const uint8_t *given;
} rope_axes;

#if defined(ROPE_STD)
// What a config.json leaves open. A member at zero leaves it open too.
typedef struct rope_config {
  // The part of a composite model that is meant ("vision_config"); NULL: the text's. All texts of this struct end
  // with a NUL.
  const char *part;
  // The model type, in place of the file's; NULL: the file's.
  const char *model_type;
  // The layer type that is meant ("full_attention", "sliding_attention"), where they differ; NULL: not said.
  const char *layer_type;
  // Keys of the file, separated by commas, that are not meant: the model's code counts as if they were not there;
  // NULL: none.
  const char *without;
  // The length of the sequence, the largest position plus one, on which dynamic NTK and LongRoPE depend; 0: not
  // said.
  uint64_t length;
} rope_config;
#endif

// A plan: pairing, direction, backend. It is a plain value, which every call looks up anew; that takes nanoseconds.
//
// A plan with everything but `pairing` at zero, {ROPE_PAIRING_HALF, 0, 0, 0}, rotates forward, keeps the pairing,
// and takes the fastest backend.
typedef struct rope_plan {
  // Which channels of what is read are pairs (`enum rope_pairing`).
  int32_t pairing;
  // Which channels of what is written are pairs (`enum rope_pairing`); 0: the same as `pairing`. Only
  // rope_rotate_into can change the pairing.
  int32_t output_pairing;
  // Which way pairs rotate (`enum rope_direction`).
  int32_t direction;
  // The instruction set (`enum rope_backend`).
  int32_t backend;
} rope_plan;

// The parameters of a scaling, by their public names. A call does not read the fields that the kind does not name:
// a struct of zeros will do, with the fields that count filled in. rope_scaling_init fills in the published values
// as well.
typedef struct rope_scaling {
  // `enum rope_scaling_kind`.
  int32_t kind;
  // YARN: other than 0 if the ends of the ramp are not rounded to whole pairs (`truncate: false`; gpt-oss).
  int32_t untruncated;
  // How many times longer the context is.
  double factor;
  // The context before scaling.
  uint64_t original_context;
  // The context of the model.
  uint64_t max_position_embeddings;
  // The length of the sequence so far: the largest position plus one.
  uint64_t length;
  // LLAMA3: turns in the original context up to which a pair is slow. Published: 1.
  double low_freq_factor;
  // LLAMA3: turns in the original context from which a pair is fast. Published: 4.
  double high_freq_factor;
  // YARN: turns in the original context from which a pair is left as it is; 0 means the published 32.
  double beta_fast;
  // YARN: turns in the original context up to which a pair is interpolated; 0 means the published 1.
  double beta_slow;
  // YARN, LONG_ROPE: what cos and sin are multiplied by; 0: computed.
  double attention_factor;
  // YARN.
  double mscale;
  // YARN.
  double mscale_all_dim;
  // NTK_ALPHA.
  double alpha;
  // NTK_MIXED.
  double mixed_b;
  // NTK_BY_PARTS. Published: 1.
  double ntk_factor;
  // NTK_BY_PARTS. Published: 1.
  double extrapolation_factor;
  // PROPORTIONAL: the part of the head that rotates, up to 1.
  double partial_rotary_factor;
  // PERIODS: the period of the first pair.
  double min_period;
  // PERIODS: the period of the last pair.
  double max_period;
  // LONG_ROPE: a divisor for each pair within the original context.
  const double *short_factor;
  // LONG_ROPE: a divisor for each pair beyond it.
  const double *long_factor;
  // LEARNED: the logarithm of a factor for each pair.
  const double *alphas;
  // FREQ_FACTORS: a divisor for each pair.
  const float *freq_factors;
  // How many numbers a list has: as many as there are pairs.
  size_t count;
} rope_scaling;

// What rope_frequencies_describe tells of frequencies.
typedef struct rope_frequencies_info {
  // Channels of a head that rotate: two for each pair.
  size_t rotary_dim;
  // How many numbers a position has: 1 for text.
  size_t axes;
  // What cos and sin are multiplied by: 1 for most models.
  double attention_factor;
  // What DeepSeek-V2 and V3 also multiply the scale of their softmax by: 1 for other models. The attention
  // applies it; the rotation does not.
  double softmax_factor;
} rope_frequencies_info;

// The positions of some tokens: integers, negative ones too, or real coordinates.
typedef struct rope_positions {
  // How they are listed (`enum rope_positions_kind`).
  int32_t kind;
  // The type of `values` and of `starts` (`enum rope_number`); floats are real-valued coordinates. Not used by
  // RANGE.
  int32_t number;
  // The numbers. Not used by RANGE.
  const void *values;
  // How many values; for RANGE how many positions.
  size_t count;
  // RANGE: the first position. Not used by others.
  int64_t first;
  // PACKED: where each sequence starts counting, `count - 1` numbers; NULL: at 0. Not used by others.
  const void *starts;
} rope_positions;

// Where the elements of a tensor lie. The caller fills it in, or rope_layout_bshd, _bhsd or _sbhd does.
//
// A part of a tensor (K of a packed row of Q, K and V; the rotated window of a longer head) has the strides of the
// whole and a smaller shape. Its `data` points to the first element of the part.
typedef struct rope_layout {
  // Sequences, tokens of a sequence, heads of a token, channels of a head. This order does not depend on the
  // order in memory.
  size_t shape[4];
  // Elements from one sequence, token and head to the next. The channels of a head are contiguous.
  size_t strides[3];
} rope_layout;

// A tensor to rotate, or to write a rotation to. Every index must have an element of its own.
typedef struct rope_tensor_mut {
  // The first element, aligned as its type is.
  void *data;
  // How many elements may be read and written from there on.
  size_t len;
  // The type of the elements (`enum rope_element`).
  int32_t element;
  // Where the elements lie.
  struct rope_layout layout;
} rope_tensor_mut;

// The cos and sin of each token, `rotary_dim / 2` of each, already multiplied by the attention factor.
//
// A rotation takes as many rows as a sequence has tokens (all sequences share them), or as many as there are tokens
// in the batch. With `ids` the values are a table, and the rows are those that the ids name, in the order of the
// ids. Every call checks that each id names a row of the table.
//
// Filled in by the caller, or by rope_rows_joined, rope_rows_apart, rope_rows_fill, rope_table_rows.
typedef struct rope_rows {
  // The cos values. If `sin` is NULL, a row is `rotary_dim / 2` cos and then as many sin (vLLM's cache).
  const float *cos;
  // The sin values; NULL: they lie behind the cos of their row.
  const float *sin;
  // How many values `cos` points to, and `sin` as well: a whole number of rows.
  size_t len;
  // Channels that a row rotates.
  size_t rotary_dim;
  // cos values of a row, where cos and sin are apart: `rotary_dim / 2`, or `rotary_dim` where each is kept twice,
  // the second half of a row like the first. Not used where they are joined.
  size_t width;
  // What cos and sin are multiplied by (YaRN, LongRoPE): 1 for most models. ROPE_DIRECTION_INVERSE divides by its
  // square.
  double attention_factor;
  // Ids of rows; NULL: all rows, in order.
  const void *ids;
  // How many ids. Not used without ids.
  size_t ids_count;
  // The type of the ids (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64). Not used without
  // ids.
  int32_t ids_number;
} rope_rows;

// A tensor to read. Elements may coincide (a broadcast has a stride of zero).
typedef struct rope_tensor {
  // The first element, aligned as its type is.
  const void *data;
  // How many elements may be read from there on.
  size_t len;
  // The type of the elements (`enum rope_element`).
  int32_t element;
  // Where the elements lie.
  struct rope_layout layout;
} rope_tensor;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// One axis over `rotary_dim` channels: text.
//
// # Threads
//
// May be called from any thread at any time.
struct rope_axes rope_axes_text(size_t rotary_dim);

#if defined(ROPE_STD)
// Makes frequencies from the text of a model's config.json (`length` bytes; no NUL needed). rope_frequencies_free
// frees them.
//
// `config` says what the file leaves open; NULL says nothing. If `plan` is not NULL, the call sets its pairings to
// the model's and everything else in it to zero. If the file does not tell the pairing, or if the model does more than
// a plan says, the call is refused, because a model with a wrong rotation still produces text. Layers that do not all
// rotate alike have to be chosen by their type; the call is refused for those that do not rotate.
//
// Returns ROPE_STATUS_JSON, ROPE_STATUS_MISSING, ROPE_STATUS_INVALID, ROPE_STATUS_UNKNOWN, ROPE_STATUS_AMBIGUOUS,
// ROPE_STATUS_UNSUPPORTED, ROPE_STATUS_UNREAD (rope_error_detail tells the key), ROPE_STATUS_UTF8, and what
// rope_frequencies_new returns. This is the one call that cannot report a lack of memory: the process ends if the
// system gives none for reading the text.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_frequencies_from_config(const char *json,
                                         size_t length,
                                         const struct rope_config *config,
                                         struct rope_frequencies **frequencies,
                                         struct rope_plan *plan);
#endif

// Bytes that are enough for rope_frequencies_init with `rotary_dim` channels, wherever the memory begins. It is
// what the macro ROPE_FREQUENCIES_BYTES gives, but 0 beyond ROPE_ROTARY_DIM_MAX.
//
// # Threads
//
// May be called from any thread at any time.
size_t rope_frequencies_bytes(size_t rotary_dim);

// Makes frequencies in the caller's memory, for a base (rope_theta) and a scaling; NULL: none. Allocates nothing.
//
// `memory` has `size` bytes, of any alignment; ROPE_FREQUENCIES_BYTES(rotary_dim) are enough. The frequencies lie
// there: the caller neither moves nor reuses the memory as long as they are used, and has nothing to free. What the
// memory held is lost, even if the call is refused.
//
// Returns ROPE_STATUS_STORAGE if the memory is too short, ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES,
// ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
//
// # Threads
//
// May be called from any thread; no other thread may use the memory meanwhile.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call. `memory` stays as long as the
// frequencies are used.
rope_status rope_frequencies_init(void *memory,
                                  size_t size,
                                  const struct rope_axes *axes,
                                  double base,
                                  const struct rope_scaling *scaling,
                                  struct rope_frequencies **frequencies);

// As rope_frequencies_init, from inverse frequencies (radians a position) of a model file or a training run. There
// are `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. The rows multiply cos and
// sin by `attention_factor`; give 1 if the model has none.
//
// Returns what rope_frequencies_init returns.
//
// # Threads
//
// May be called from any thread; no other thread may use the memory meanwhile.
//
// # Safety
//
// As rope_frequencies_init.
rope_status rope_frequencies_init_inverse(void *memory,
                                          size_t size,
                                          const struct rope_axes *axes,
                                          const void *inverse,
                                          size_t count,
                                          int32_t number,
                                          double attention_factor,
                                          struct rope_frequencies **frequencies);

// Describes frequencies.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// # Threads
//
// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_frequencies_describe(const struct rope_frequencies *frequencies,
                                      struct rope_frequencies_info *info);

// Writes the inverse frequency of every pair in radians a position, correctly rounded: `rotary_dim / 2` numbers.
// `inverse` has room for `len`.
//
// Returns ROPE_STATUS_STORAGE if `len` is too small, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// # Threads
//
// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_frequencies_inverse(const struct rope_frequencies *frequencies,
                                     double *inverse,
                                     size_t len);

// Sets which angle rows are made of (`enum rope_angle`). New frequencies have ROPE_ANGLE_EXACT.
//
// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE.
//
// # Threads
//
// May be called from any thread; no other thread may use the frequencies meanwhile.
//
// # Safety
//
// `frequencies` is NULL or of this library.
rope_status rope_frequencies_set_angle(struct rope_frequencies *frequencies, int32_t angle);

// Sets the backend that makes the rows (`enum rope_backend`). All backends make the same bits.
//
// Returns ROPE_STATUS_BACKEND_UNAVAILABLE, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_HANDLE.
//
// # Threads
//
// May be called from any thread; no other thread may use the frequencies meanwhile.
//
// # Safety
//
// `frequencies` is NULL or of this library.
rope_status rope_frequencies_set_backend(struct rope_frequencies *frequencies,
                                         int32_t backend);

#if defined(ROPE_STD)
// Makes frequencies for a base (rope_theta) and a scaling; NULL: none. rope_frequencies_free frees them.
//
// Returns ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES, ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT,
// ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_LENGTH, ROPE_STATUS_OUT_OF_MEMORY.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_frequencies_new(const struct rope_axes *axes,
                                 double base,
                                 const struct rope_scaling *scaling,
                                 struct rope_frequencies **frequencies);
#endif

#if defined(ROPE_STD)
// As rope_frequencies_new, from inverse frequencies (radians a position) of a model file or a training run.
// There are `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. The rows multiply
// cos and sin by `attention_factor`; give 1 if the model has none.
//
// Returns what rope_frequencies_new returns.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_frequencies_new_inverse(const struct rope_axes *axes,
                                         const void *inverse,
                                         size_t count,
                                         int32_t number,
                                         double attention_factor,
                                         struct rope_frequencies **frequencies);
#endif

#if defined(ROPE_STD)
// Frees frequencies that a call has made on the heap. NULL is left alone.
//
// Returns ROPE_STATUS_HANDLE for frequencies of rope_frequencies_init, whose memory is the caller's, and for
// memory that holds no frequencies; ROPE_STATUS_MISALIGNED. The library cannot tell that a handle was freed
// before.
//
// # Threads
//
// May be called from any thread; no other thread may use the frequencies then or later.
//
// # Safety
//
// `frequencies` is NULL or of this library, and is not used any more.
rope_status rope_frequencies_free(struct rope_frequencies *frequencies);
#endif

// 1 if this CPU, and this build of the library, can run a backend (`enum rope_backend`), otherwise 0. A number that
// names no backend gives 0.
//
// # Threads
//
// May be called from any thread at any time.
int32_t rope_backend_available(int32_t backend);

// The fastest backend that this CPU can run. ROPE_BACKEND_BEST stands for it.
//
// # Threads
//
// May be called from any thread at any time. The first call of a process asks the CPU, which takes microseconds.
rope_backend rope_backend_best(void);

// The name of a backend in lower case; NULL for a number that names no backend. The text is static; do not free it.
//
// # Threads
//
// May be called from any thread at any time.
const char *rope_backend_name(int32_t backend);

// `count` positions from `first` on.
//
// # Threads
//
// May be called from any thread at any time.
struct rope_positions rope_positions_range(int64_t first, size_t count);

// One number per token: `count` of type `number` (`enum rope_number`). This call reads none of them; the calls that
// the positions are given to do.
//
// # Threads
//
// May be called from any thread at any time.
struct rope_positions rope_positions_per_token(const void *values,
                                               size_t count,
                                               int32_t number);

// Rotates the first `rotary_dim` channels of every head of a tensor, in place. The other channels stay as they are.
//
// Each of the three operations of x cos - y sin and x sin + y cos is rounded to a float by itself, and the result
// is rounded to the element once: the same bits on every machine.
//
// Returns ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD, ROPE_STATUS_ROW_COUNT, ROPE_STATUS_PAIRING_CHANGES_IN_PLACE;
// ROPE_STATUS_BACKEND_UNAVAILABLE; ROPE_STATUS_SHAPE_OVERFLOW, ROPE_STATUS_OUT_OF_BOUNDS, ROPE_STATUS_OVERLAP;
// ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_ROWS_LENGTH, ROPE_STATUS_ROW_STRIDE, ROPE_STATUS_ATTENTION_FACTOR,
// ROPE_STATUS_POSITION_OUTSIDE_TABLE; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
// ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_MEMORY_OVERLAP. The tensor is untouched then.
//
// # Threads
//
// May be called from any thread. No other thread may use the tensor's memory meanwhile, from its first element to
// its last; others may read the rows. To spread one rotation over threads, give each thread its own tokens, or its
// own heads of a heads-major tensor. The bits do not depend on the split.
//
// # Safety
//
// Pointers, also those in structs, are NULL or point to what they say, for the length of the call.
rope_status rope_rotate(const struct rope_plan *plan,
                        const struct rope_tensor_mut *x,
                        const struct rope_rows *rows);

// Rotates Q and K in place with the same rows. Both are checked before either is touched.
//
// They may lie between one another in memory, as in a packed row of Q, K and V, but must share no element.
//
// Returns ROPE_STATUS_QUERY_KEY_MISMATCH unless the two differ in their heads (and elements) only, and what
// rope_rotate returns.
//
// # Threads
//
// As rope_rotate.
//
// # Safety
//
// As rope_rotate.
rope_status rope_rotate_qk(const struct rope_plan *plan,
                           const struct rope_tensor_mut *q,
                           const struct rope_tensor_mut *k,
                           const struct rope_rows *rows);

// Rotates one tensor into another, whose element and pairing may differ: a write into a KV cache. Copies the
// channels behind `rotary_dim`.
//
// The two must not share memory, from the first element to the last of each.
//
// Returns ROPE_STATUS_SHAPE_MISMATCH, and what rope_rotate returns. The target is untouched then.
//
// # Threads
//
// May be called from any thread. No other thread may use the target's memory meanwhile, from its first element to
// its last; others may read the source and the rows.
//
// # Safety
//
// As rope_rotate.
rope_status rope_rotate_into(const struct rope_plan *plan,
                             const struct rope_tensor *x,
                             const struct rope_tensor_mut *y,
                             const struct rope_rows *rows);

// Rotates a tensor in place as rope_rotate does, and makes the rows of the positions itself, on the stack (8 KiB).
// There are no rows to keep, and nothing is allocated. It takes as many positions as rope_rotate takes rows. The
// bits are the same.
//
// Returns ROPE_STATUS_ROTARY_DIM_ON_STACK beyond 2048 rotated channels, and what rope_rotate and rope_rows_len
// return. The tensor is untouched then.
//
// # Threads
//
// May be called from any thread. No other thread may use the tensor's memory meanwhile, from its first element to
// its last; others may use the frequencies, but not change or free them.
//
// # Safety
//
// As rope_rotate.
rope_status rope_rotate_at(const struct rope_plan *plan,
                           const struct rope_tensor_mut *x,
                           const struct rope_frequencies *frequencies,
                           const struct rope_positions *positions);

// `len / rotary_dim` rows of `rotary_dim / 2` cos and then as many sin (vLLM's cache). This call reads no value;
// the calls that the rows are given to do.
//
// # Threads
//
// May be called from any thread at any time.
struct rope_rows rope_rows_joined(const float *values,
                                  size_t len,
                                  size_t rotary_dim);

// Rows with cos and sin in arrays of their own, each of the shape `[rows, width]`. `width` is `rotary_dim / 2` where
// each value is kept once (ONNX), and `rotary_dim` where it is kept twice, the second half of a row like the first
// (PyTorch's `cat((freqs, freqs), -1)`). This call reads no value; the calls that the rows are given to do.
//
// # Threads
//
// May be called from any thread at any time.
struct rope_rows rope_rows_apart(const float *cos,
                                 const float *sin,
                                 size_t rows,
                                 size_t width,
                                 size_t rotary_dim);

// Writes to `len` how many values (floats) the rows of some positions have: the number of tokens times rotary_dim.
//
// Returns ROPE_STATUS_POSITIONS_PER_AXIS, ROPE_STATUS_COORDINATE, ROPE_STATUS_OFFSETS, ROPE_STATUS_COUNT,
// ROPE_STATUS_POSITION_RANGE, ROPE_STATUS_ROWS_TOO_LONG, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// # Threads
//
// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_rows_len(const struct rope_frequencies *frequencies,
                          const struct rope_positions *positions,
                          size_t *len);

// Makes the rows of some positions in the caller's storage, and describes them in `rows`. The storage has `len`
// floats; the call uses the first rope_rows_len of them, and allocates nothing. cos and sin are the floats nearest
// to the exact values.
//
// Returns ROPE_STATUS_STORAGE if the storage is too short, and what rope_rows_len returns.
//
// # Threads
//
// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call. `storage` stays as long as the rows are
// used.
rope_status rope_rows_fill(const struct rope_frequencies *frequencies,
                           const struct rope_positions *positions,
                           float *storage,
                           size_t len,
                           struct rope_rows *rows);

// Writes the additive sinusoidal encoding of the original Transformer from the same angles. Each row has
// `rotary_dim` values: sin at the even channels, cos at the odd ones.
//
// Returns ROPE_STATUS_STORAGE unless `len` is the number of rows times rotary_dim, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows.
//
// # Threads
//
// May be called from any thread; others may read the rows meanwhile.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_sinusoidal(const struct rope_rows *rows,
                            float *values,
                            size_t len);

#if defined(ROPE_STD)
// Makes the rows of some positions, on the heap. rope_table_free frees them.
//
// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_len returns.
//
// # Threads
//
// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
//
// # Safety
//
// Pointers are NULL or point to what they say, for the length of the call.
rope_status rope_table_new(const struct rope_frequencies *frequencies,
                           const struct rope_positions *positions,
                           struct rope_table **table);
#endif

#if defined(ROPE_STD)
// Describes the rows of a table in `rows`. They lie in the table, and are gone when it is freed. To pick some
// of them set `ids`.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// # Threads
//
// May be called from any thread; others may use the table meanwhile, but not free it.
//
// # Safety
//
// `table` is NULL or of this library; `rows` is NULL or points to a rope_rows.
rope_status rope_table_rows(const struct rope_table *table,
                            struct rope_rows *rows);
#endif

#if defined(ROPE_STD)
// Frees a table. NULL is left alone.
//
// Returns ROPE_STATUS_HANDLE for memory that holds no table, ROPE_STATUS_MISALIGNED. The library cannot tell
// that a table was freed before.
//
// # Threads
//
// May be called from any thread; no other thread may use the table then or later.
//
// # Safety
//
// `table` is NULL or of this library, and neither it nor its rows are used any more.
rope_status rope_table_free(struct rope_table *table);
#endif

// Fills in a scaling: its kind (`enum rope_scaling_kind`), the published value of each field that has one, and
// zeros.
//
// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// `scaling` is NULL or points to a rope_scaling.
rope_status rope_scaling_init(struct rope_scaling *scaling,
                              int32_t kind);

// What a status (`enum rope_status`) means, in one sentence. For a number that is no status, the sentence says so.
// The text is static; do not free it.
//
// # Threads
//
// May be called from any thread at any time.
const char *rope_error_message(int32_t status);

#if defined(ROPE_STD)
// Writes the last refusal of this thread to `buffer`, in words and with the values that were in the way:
// "position id 9 (at index 2) is outside the table's 0..8". The text is empty if no call was refused. It ends
// with a NUL, and is cut at `size` bytes.
//
// The status alone says what went wrong. The text is for people, and its wording may change.
//
// # Threads
//
// May be called from any thread at any time. Every thread has its own last refusal.
//
// # Safety
//
// `buffer` is NULL or points to `size` writable bytes.
rope_status rope_error_detail(char *buffer,
                              size_t size);
#endif

// `[batch][tokens][heads][head_dim]` without gaps, the extents in this order: PyTorch before the transpose, vLLM,
// FlashAttention. With `batch` 1 also packed sequences, `[tokens][heads][head_dim]`.
//
// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// `layout` is NULL or points to a rope_layout.
rope_status rope_layout_bshd(struct rope_layout *layout,
                             size_t batch,
                             size_t tokens,
                             size_t heads,
                             size_t head_dim);

// `[batch][heads][tokens][head_dim]` without gaps, the extents in this order: PyTorch's attention, ONNX, KV caches.
//
// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// `layout` is NULL or points to a rope_layout.
rope_status rope_layout_bhsd(struct rope_layout *layout,
                             size_t batch,
                             size_t heads,
                             size_t tokens,
                             size_t head_dim);

// `[tokens][batch][heads][head_dim]` without gaps, the extents in this order: Megatron.
//
// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED.
//
// # Threads
//
// May be called from any thread at any time.
//
// # Safety
//
// `layout` is NULL or points to a rope_layout.
rope_status rope_layout_sbhd(struct rope_layout *layout,
                             size_t tokens,
                             size_t batch,
                             size_t heads,
                             size_t head_dim);

// The version of the library: major * 1000000 + minor * 1000 + patch.
//
// Programs that link the shared library may compare it with the header's. The two fit if they have the same major
// version and, before 1.0, the same minor version.
//
// # Threads
//
// May be called from any thread at any time.
uint32_t rope_version(void);

// The version of the library as text, "major.minor.patch". The text is static; do not free it.
//
// # Threads
//
// May be called from any thread at any time.
const char *rope_version_string(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ROPE_H */
