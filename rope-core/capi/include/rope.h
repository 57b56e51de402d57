// rope: rotary position embedding (RoPE). Rotates the pairs of x by the angles of its positions.
//
// Generated from the crate rope-capi by check-header.sh; not to be edited. SPDX-License-Identifier: MIT OR Apache-2.0
//
// A call has four parts: a plan (rope_plan: pairing, direction, stages), a target and maybe a source (rope_operand: a
// tensor, or slots of a cache), and angles (rope_angles: the cos and sin of each token, or frequencies at positions).
// The verbs are rope_rotate, rope_rotate_into and their like. Without checks of statuses:
//
//     rope_axes axes = rope_axes_text(128);
//     rope_plan plan = {.pairing = ROPE_PAIRING_HALF};
//     rope_frequencies *frequencies;                                    // once per model
//     rope_frequencies_new(&axes, 500000.0, NULL, &frequencies);
//     rope_positions positions = rope_positions_range(start, tokens);   // once per forward step
//     rope_angles at = rope_angles_at(frequencies, &positions), rows;
//     rope_table *table;
//     rope_table_new(&at, &table);
//     rope_table_rows(table, &rows);
//     rope_operand q = {.data = q_data, .len = q_len, .element = ROPE_ELEMENT_F32};   // per layer
//     rope_layout_init(&q.layout, ROPE_ORDER_BSHD, batch, tokens, heads, 128);
//     rope_rotate(&plan, &q, &rows);
//
// Members that are not named are zero: every struct may be zeros but for the members that a call uses. No two
// enumerations share a number, except for 0, the default of a member: another enumeration's value is refused.
//
// A checked call takes some 10 ns besides a plain rotation of tensors, and up to 600 ns with stages and caches. An
// engine prepares it once per number of tokens (rope_prepare), and runs it per layer (rope_call_run, rope_call_run_at).
// rope_backward is the gradient of rope_rotate, by the tensor and by the angles.
//
// The library allocates for handles: rope_frequencies, rope_table, rope_model; and while rope_rotate_into_each runs.
// The other structs are plain data over the caller's memory. Firmware allocates nothing: it has rope_frequencies_init,
// rope_rows_fill and rope_angles_at. For a library that was built without std (without the feature `models`), define
// ROPE_NO_STD (ROPE_NO_MODELS): this header then declares what the library has.
//
// A call that can be refused returns a rope_status; ROPE_STATUS_OK is 0. It checks everything first, so that a refused
// call has touched no tensor. It refuses null and misaligned pointers, lengths that no memory has, unknown values of
// enumerations, and memory that would be written and read at once. The caller promises that pointers lead to memory and
// that structs are filled in: pointers, also those in structs, are NULL or valid for the length of the call. No call
// unwinds, keeps a pointer to a struct, or has to be called first. The comment of a call lists its statuses. Its
// paragraph "Threads" limits other threads during the call; a call without one only reads its arguments, and may be
// made from any thread at any time. Every call may also return ROPE_STATUS_INTERNAL: a bug of the library, caught.
//
// Shared memory: the target of a call must share no byte with other memory that the call reads or writes, from the
// first byte to the last. A tensor ends with the last element that its layout reaches, a cache with its `bytes`, a list
// with its length; empty memory overlaps nothing. Any other call is refused with ROPE_STATUS_MEMORY_OVERLAP, also with
// a source and a target between one another in a packed row. Q and K may lie so: rope_rotate_qk.
//
// Sections, by task: Tensors and other operands; Plans and verbs; Several outputs of one read; Prepared calls; Angles,
// the cos and sin of each token; Positions; Frequencies; Mixed frequencies; Models, from config.json and GGUF; Stages
// of a plan, a norm, a factor and a Hadamard transform; KV caches; Gradients; Instruction sets; Statuses and messages;
// Versions.

#ifndef ROPE_H
#define ROPE_H

#include <stddef.h>
#include <stdint.h>
#ifndef ROPE_NO_STD
#define ROPE_STD 1
#ifndef ROPE_NO_MODELS
#define ROPE_MODELS 1
#endif
#endif

// An enumeration has 32 bits. In C before C23, which has no such types, it is int32_t.
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define ROPE_INT32_ENUM : int32_t
#define ROPE_ENUM_TYPE(name) typedef enum name name
enum rope_status ROPE_INT32_ENUM;
#else
#define ROPE_INT32_ENUM
#define ROPE_ENUM_TYPE(name) typedef int32_t name
#endif
// A compiler warns where a status is not looked at, but for calls that free and rope_error_detail. (GCC, before C23, in
// spite of a `(void)`.) Defined as nothing before this header: no warnings.
#ifdef ROPE_NODISCARD
#elif (defined(__cplusplus) && __cplusplus >= 201703L) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define ROPE_NODISCARD [[nodiscard]]
#elif defined(__GNUC__)
#define ROPE_NODISCARD __attribute__((warn_unused_result))
#elif defined(_MSC_VER)
#define ROPE_NODISCARD _Check_return_
#else
#define ROPE_NODISCARD
#endif
#ifdef __cplusplus
extern "C" {
#endif
// The result of a call: ROPE_STATUS_OK, or the reason of its refusal ("Statuses" below).
ROPE_ENUM_TYPE(rope_status);

// ---- Tensors and other operands ----

// The type of a tensor's elements. The arithmetic is f32, and its result is rounded to the element once.
enum rope_element ROPE_INT32_ENUM {
  ROPE_ELEMENT_F32 = 301,  // IEEE single precision.
  ROPE_ELEMENT_F16 = 302,  // IEEE half precision, 16 bits.
  ROPE_ELEMENT_BF16 = 303,  // bfloat16, 16 bits.
};
ROPE_ENUM_TYPE(rope_element);

// The order of a tensor's dimensions in memory, outermost first: B sequences, S tokens, H heads, D channels.
enum rope_order ROPE_INT32_ENUM {
  // PyTorch before the transpose, vLLM, FlashAttention. With one sequence also packed sequences (THD), each token of
  // which has a row of its own (ROPE_POSITIONS_KIND_PACKED).
  ROPE_ORDER_BSHD = 2101,
  ROPE_ORDER_BHSD = 2102,  // PyTorch's attention, ONNX, KV caches.
  ROPE_ORDER_SBHD = 2103,  // Megatron.
};
ROPE_ENUM_TYPE(rope_order);

// Where the elements of a tensor lie. The caller fills it in, or rope_layout_init does.
//
// A part of a tensor (K of a packed row of Q, K and V; the rotated window of a longer head) has the strides of the
// whole and a smaller shape. Its `data` points to the first element of the part.
typedef struct rope_layout {
  // Sequences, tokens of a sequence, heads of a token, channels of a head. This order does not depend on the
  // order in memory.
  size_t shape[4];
  size_t strides[3];  // Elements from one sequence, token and head to the next. The channels of a head are contiguous.
} rope_layout;

struct rope_cache;
struct rope_slots;

// An operand of a call: a tensor, or the slots of a cache. Sources are never written: a pointer to constants may
// be cast.
//
// In a tensor that is written, every index must have an element of its own. In one that is read elements may coincide
// (a broadcast has a stride of zero).
typedef struct rope_operand {
  void *data;  // The first element of a tensor, aligned as its type is. Not used of a cache, as the next three.
  size_t len;  // The number of elements in `data`.
  int32_t element;  // The type of the elements (`enum rope_element`).
  struct rope_layout layout;  // Where the elements lie.
  const struct rope_cache *cache;  // The cache; NULL: the operand is a tensor.
  const struct rope_slots *slots;  // The slots in the cache, one for each token of each sequence. Not used of a tensor.
  // The operand of the next channels of each head, as the key after a latent; NULL: none. It has no next one. A
  // cache has the slots of the first; two caches of one memory, each by its layout, are parts of its slots.
  const struct rope_operand *next;
} rope_operand;

// Fills in the layout of a tensor without gaps. `order` names the order of its dimensions in memory
// (`enum rope_order`); the extents are always sequences, tokens, heads and channels.
//
// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_UNKNOWN_VALUE,
// ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED. The layout is untouched then.
ROPE_NODISCARD
rope_status rope_layout_init(struct rope_layout *layout, int32_t order, size_t batch, size_t tokens, size_t heads,
                             size_t head_dim);

// ---- Plans and verbs ----

// Which two channels of a head form the pair that is rotated by one angle. Nothing in a tensor tells which pairing its
// model was trained with.
enum rope_pairing ROPE_INT32_ENUM {
  // Channels 2i and 2i + 1: GPT-J, Llama as Meta published it, GLM up to GLM-4, Cohere; ggml's NORMAL, ONNX's
  // `interleaved = 1`.
  ROPE_PAIRING_INTERLEAVED = 101,
  // Channels i and i + rotary_dim / 2: GPT-NeoX, the rotate_half models of Hugging Face (Llama, Mistral, Qwen,
  // Gemma, Phi, GLM-4.5); ggml's NEOX, ONNX's `interleaved = 0`.
  ROPE_PAIRING_HALF = 102,
};
ROPE_ENUM_TYPE(rope_pairing);

// Which way a pair is rotated. R is the rotation by the angles of the rows, and A is their attention factor.
enum rope_direction ROPE_INT32_ENUM {
  ROPE_DIRECTION_FORWARD = 0,  // x <- A R x: rotates by the angles of the rows, and scales by their attention factor.
  // x <- 1/A R^T x, which undoes FORWARD: rotates back, and divides by the attention factor.
  ROPE_DIRECTION_INVERSE = 201,
  // x <- A R^T x, the transpose of FORWARD: rotates back, and multiplies by the attention factor. For
  // backpropagation. The same as INVERSE where A is 1. A plan reads its pairing and writes its output pairing in
  // every direction: to undo a plan that changes the pairing, exchange the two.
  ROPE_DIRECTION_TRANSPOSE = 202,
};
ROPE_ENUM_TYPE(rope_direction);

struct rope_norm;
struct rope_scale;
struct rope_hadamard;

// A plan: the rotation of heads and its stages. It is a plain value, which every checked call reads anew.
//
// A plan with everything but `pairing` at zero, {ROPE_PAIRING_HALF, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL}, rotates
// forward, keeps the pairing, takes the fastest backend, and does nothing else. With stages it does all that stands
// between a projection and the attention:
//
// read -> norm -> scale -> rotate -> norm -> scale -> transform -> write
//
// The norm and the scale stand on either side. The Hadamard transform is the last stage; heads from a cache are
// transformed back first. Between the stages a value is a float; a norm, a scale and the plan say where it is rounded
// to the element of the source. With stages a head has at most 2048 channels.
typedef struct rope_plan {
  int32_t pairing;  // The pairs of the source (`enum rope_pairing`).
  // The pairs of the target (`enum rope_pairing`); 0: the same as `pairing`. Only a call with a source and a target
  // can change the pairing.
  int32_t output_pairing;
  int32_t direction;  // The direction in which pairs rotate (`enum rope_direction`).
  int32_t backend;  // The instruction set (`enum rope_backend`).
  // Other than 0: the stage after the rotation (a norm, a scale, a transform, a quantized format) takes its float as
  // it is. Otherwise the float is first rounded to the element of the source, with the bits of separate passes.
  int32_t without_rounding;
  // The first channel of a head that rotates (multi-head latent attention). Norms span the whole head.
  size_t first_channel;
  // The channels of a head; 0: any. A rotation of other heads is refused (ROPE_STATUS_MODEL_HEAD): from
  // `first_channel` on they would rotate other channels. A latent with its key after it, 512 + 64 channels of
  // DeepSeek-V3, is rotated by a plan with `first_channel` 512 and `head_dim` 0.
  size_t head_dim;
  // Equal parts of the channels that rotate, each with its share of the pairs of the rows and paired by itself, as a
  // head of its own (Gemma 4's vision tower); 0 and 1: one part.
  size_t parts;
  const struct rope_norm *norm;  // The norm; NULL: none.
  const struct rope_scale *scale;  // The scale; NULL: none.
  const struct rope_hadamard *hadamard;  // The Hadamard transform; NULL, or one of zeros: none.
} rope_plan;

struct rope_angles;

// Runs a plan in place: rotates the channels from its `first_channel` on, `rotary_dim` of every head, in its `parts`.
// The other channels stay as they are, but for the plan's stages.
//
// Each of the three operations of x cos - y sin and x sin + y cos is rounded to a float by itself, and the result
// is rounded to the element once: the same bits on every machine.
//
// In the slots of a cache it moves keys, one row for each slot: a context shift by rows with `moves`, or by any rows
// with an attention factor of 1. A head is read as float, rotated, and rounded once to the cache's format; computed
// scales are computed again. A row that rotates by nothing leaves the bits of its slot. Cached keys have the scale
// of their plan, which is not applied; a Hadamard transform is undone before the rotation, and done again after it.
//
// Returns, of the operand: ROPE_STATUS_SHAPE_OVERFLOW, ROPE_STATUS_OUT_OF_BOUNDS, ROPE_STATUS_OVERLAP.
// Of the plan: ROPE_STATUS_PAIRING_CHANGES_IN_PLACE, ROPE_STATUS_BACKEND_UNAVAILABLE; with stages
// ROPE_STATUS_HEAD_DIM_ON_STACK for heads of more than 2048 channels, ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT,
// ROPE_STATUS_WEIGHT_MISSING, ROPE_STATUS_WEIGHT_UNUSED, ROPE_STATUS_CENTERED_SUMS, ROPE_STATUS_HADAMARD_BLOCK,
// ROPE_STATUS_HADAMARD_HEAD.
// Of the angles: ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD, ROPE_STATUS_ROW_COUNT, ROPE_STATUS_ROW_HEADS,
// ROPE_STATUS_ROW_SEQUENCES, ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_ROWS_LENGTH, ROPE_STATUS_ROW_WIDTH,
// ROPE_STATUS_HALVES_DIFFER, ROPE_STATUS_HALVES_EQUAL, ROPE_STATUS_ROWS_PER_HEAD, ROPE_STATUS_ATTENTION_FACTOR,
// ROPE_STATUS_POSITION_OUTSIDE_TABLE; ROPE_STATUS_ROW_MAGNITUDE and ROPE_STATUS_FULL_WIDTH_ROWS of
// ROPE_DIRECTION_INVERSE; ROPE_STATUS_ROTARY_DIM_ON_STACK; of frequencies at positions what rope_rows_len returns.
// In a cache: ROPE_STATUS_CACHE_HEADS if it has other heads; ROPE_STATUS_SLOT_COUNT unless there is one slot for each
// token of each sequence; ROPE_STATUS_SLOT, ROPE_STATUS_SLOT_OFFSET and ROPE_STATUS_PAGE_POSITION for one that
// the cache, or its sequence, does not have; ROPE_STATUS_NEGATIVE_PAGE; ROPE_STATUS_OFFSETS for packed sequences whose
// tokens do not follow one another; ROPE_STATUS_CACHE_LAYOUT and ROPE_STATUS_OUT_OF_BOUNDS for a layout that
// makes no cache, or not one of this memory; ROPE_STATUS_STORAGE for too few scales; ROPE_STATUS_FULL_WIDTH_ROWS,
// ROPE_STATUS_SHIFT_FACTOR for rows with an attention factor other than 1, which cached keys have already;
// ROPE_STATUS_NOT_LINEAR for a plan with a norm.
// In parts: ROPE_STATUS_PARTS, for parts that do not fit each other or the call; with stages, for parts with scales by
// channel, and for heads of a token with more than 4096 channels together.
// Of all: ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_HANDLE,
// ROPE_STATUS_MEMORY_OVERLAP. The operand is untouched then.
//
// Threads: No other thread may use the operand's memory meanwhile, of a tensor from its first element to its last;
// others may read the angles. To spread one rotation over threads, give each thread its own tokens, or its own heads of
// a heads-major tensor. The bits do not depend on the split.
ROPE_NODISCARD
rope_status rope_rotate(const struct rope_plan *plan, const struct rope_operand *x, const struct rope_angles *angles);

// Runs a plan from a source into a target: from a tensor into another, whose element and pairing may differ; from a
// tensor into the slots of a cache, keys as they are projected; out of a cache, keys that were cached before their
// rotation; or from one cache into another. Copies the channels that do not rotate.
//
// Tensors have one shape; slots are one for each token of each sequence. A token with a negative slot is left out. Of
// two tokens with one slot the later one stays. Heads from a cache are floats, so that nothing between the stages is
// rounded; from one cache into another heads have the scale of their plan already.
//
// The two must not share memory, a tensor from its first element to its last (not even in one packed row), a cache
// all of it.
//
// Returns ROPE_STATUS_SHAPE_MISMATCH, and what rope_rotate returns. The target is untouched then.
//
// Threads: No other thread may use the target's memory and scales meanwhile; others may read the source, the slots and
// the angles.
ROPE_NODISCARD
rope_status rope_rotate_into(const struct rope_plan *plan, const struct rope_operand *x, const struct rope_operand *y,
                             const struct rope_angles *angles);

// Runs the stages of a plan in place, without the rotation: queries and keys of layers that norm and do not rotate;
// heads of an attention's output, whose Hadamard transform it undoes. Heads in a cache stay as they are: they have
// the stages already.
//
// Returns what rope_rotate returns, but for the angles.
//
// Threads: As rope_rotate.
ROPE_NODISCARD
rope_status rope_apply(const struct rope_plan *plan, const struct rope_operand *x);

// As rope_rotate_into without the rotation: values, which are converted and written (and normed, in some models);
// heads of a cache as float, half precision or bfloat16.
//
// Returns what rope_rotate_into returns, but for the angles. The target is untouched then.
//
// Threads: As rope_rotate_into.
ROPE_NODISCARD
rope_status rope_apply_into(const struct rope_plan *plan, const struct rope_operand *x, const struct rope_operand *y);

// Runs a plan in Q and K, in place, by the same angles. Both are checked before either is touched.
//
// They may lie between one another in memory, as in a packed row of Q, K and V, in whatever order its dimensions are.
// They must share no byte, and their strides must show it. These always do where Q and K have one element type, and
// equal strides along each dimension of which both have more than one index. Other strides do if one tensor lies in a
// gap of the other: the part that does not repeat with the longest stride must be no longer than it, and so on within
// each stride. If Q and K share no byte and are refused all the same, use two calls of rope_rotate.
//
// Returns ROPE_STATUS_QUERY_KEY_MISMATCH unless the two differ in their heads (and elements) only,
// ROPE_STATUS_MEMORY_OVERLAP if they share an element, ROPE_STATUS_OPERAND for a cache, and what rope_rotate returns.
//
// Threads: As rope_rotate.
ROPE_NODISCARD
rope_status rope_rotate_qk(const struct rope_plan *plan, const struct rope_operand *q, const struct rope_operand *k,
                           const struct rope_angles *angles);

// Writes the sums of squares that the norm of a plan takes of a tensor: one for each token of each sequence where it
// is over the row, one for each head of those where it is over heads. Ranks that have some heads each add theirs up,
// and give them to the `sums` of a rope_norm.
//
// Returns ROPE_STATUS_NULL for a plan without a norm, ROPE_STATUS_STORAGE unless `len` is their number,
// ROPE_STATUS_CENTERED_SUMS for a norm that is centered, ROPE_STATUS_HEAD_DIM_ON_STACK, ROPE_STATUS_OPERAND for a
// cache, and what rope_apply returns. Nothing is written then.
//
// Threads: No other thread may use the sums meanwhile; others may read the tensor.
ROPE_NODISCARD
rope_status rope_sum_of_squares(const struct rope_plan *plan, const struct rope_operand *x, float *sums, size_t len);

// ---- Several outputs of one read ----

#if defined(ROPE_STD)
// One target of rope_rotate_into_each, and its rows.
typedef struct rope_output {
  const struct rope_operand *y;  // The target.
  const struct rope_angles *rows;  // The rows: as many structs as there are groups.
  // Groups of heads in a token of a tensor, one after the other, each with all heads of the source and rows of its
  // own: vLLM's and sglang's `[tokens][5][heads][head_dim]` is a tensor of `5 * heads` heads in 5 groups. 0 and 1:
  // one. Not used with a cache, nor with parts.
  size_t groups;
} rope_output;
#endif

#if defined(ROPE_STD)
// Runs a plan from one tensor into several targets, tensors, caches and parts, each by rows of its own: a call of
// rope_rotate_into for each of the `count` outputs, which together read the source once, and once more for each target
// in parts. All of them are checked before any is written. The five queries of Dual Chunk Attention (`dual_chunk` of
// positions) are one call.
//
// Targets must not overlap each other, the source or the rows, from the first byte to the last of each. Tensors that
// lie between one another are groups of heads of one.
//
// Returns what rope_rotate_into returns, ROPE_STATUS_OPERAND for a source that is a cache, ROPE_STATUS_ANGLES for
// frequencies at positions. No target is written then. The call allocates, and cannot report a lack of memory: the
// process ends.
//
// Threads: As rope_rotate_into.
ROPE_NODISCARD
rope_status rope_rotate_into_each(const struct rope_plan *plan, const struct rope_operand *x,
                                  const struct rope_output *outputs, size_t count);
#endif

// ---- Prepared calls ----

// Bytes of a rope_call.
#define ROPE_CALL_BYTES 2048

// A prepared call, in the caller's storage: rope_prepare and its like fill it in, rope_call_run and rope_call_run_at
// run it. It allocates nothing, has nothing to free, and may be copied by memcpy.
//
// It copies the structs of rope_prepare and keeps no pointer to them, except to handles. It borrows their memory:
// data of tensors, memory and scales of caches, cos and sin, ids, slots, positions, weights, factors, and the
// frequencies. This memory must exist whenever the call runs, unless rope_call_run_at names other memory. The call
// reads it anew: an engine writes the cos, sin and slots of the next token to the same arrays, and calls
// rope_call_run.
typedef struct rope_call {
  uint64_t words[256];  // For the library.
} rope_call;

struct rope_positions;

// Other memory for a prepared call, of the same shapes.
//
// `x`, and `y` of a call with two operands, are required: NULL is refused. Any other member may be NULL, for the
// prepared memory. Memory that the call does not use, as positions of a call that was prepared from rows, is refused
// (ROPE_STATUS_UNUSED_MEMORY). Lengths, extents, strides and types stay as they were prepared.
typedef struct rope_call_memory {
  void *x;  // The data of the first operand, of a cache its memory: of the tensor in place, of Q, or of the source.
  void *y;  // The data of the second operand: of K, or of the target.
  const float *cos;  // The cos of rows.
  const float *sin;  // The sin of rows, where they are apart.
  const void *ids;  // The ids of rows.
  // Positions of the tokens, of frequencies at positions: as many, of any kind.
  const struct rope_positions *positions;
  // Slots of the cache: of the target, or of the source if that alone is a cache. As many, of any kind.
  const struct rope_slots *slots;
  void *scales;  // Scales of that cache, where they are made and lie apart.
  const void *weight;  // Weights of the norm.
  const void *bias;  // Biases of the norm.
  // The data of the second part of the first operand, where it is not in the memory of the first part. Required
  // then.
  void *x_next;
  void *y_next;  // The same of the second operand.
  void *scales_next;  // Scales of the second part of the cache, where they are made and lie apart.
  void *zeros;  // Zero points of the cache, where they have a list of their own.
  void *zeros_next;  // Zero points of the second part of the cache, likewise.
} rope_call_memory;

// Checks rope_rotate, or with `angles` NULL rope_apply, and prepares it: rope_call_run runs it.
//
// A prepared call of one token costs as much as the rotation itself. Prepare it once per number of tokens.
//
// Returns the statuses of rope_rotate. `call` is untouched unless the status is ROPE_STATUS_OK; the operand always is.
//
// Threads: No other thread may use the operand meanwhile, nor `call`; others may read the angles.
ROPE_NODISCARD
rope_status rope_prepare(const struct rope_plan *plan, const struct rope_operand *x, const struct rope_angles *angles,
                         struct rope_call *call);

// Checks rope_rotate_into, or with `angles` NULL rope_apply_into, and prepares it: rope_call_run runs it.
//
// Returns what rope_rotate_into returns. `call` is untouched then, and the target always.
//
// Threads: No other thread may use the target meanwhile, nor `call`; others may read the source, the slots and the
// angles.
ROPE_NODISCARD
rope_status rope_prepare_into(const struct rope_plan *plan, const struct rope_operand *x, const struct rope_operand *y,
                              const struct rope_angles *angles, struct rope_call *call);

// Checks rope_rotate_qk, and prepares it: rope_call_run runs it.
//
// Returns what rope_rotate_qk returns. `call` is untouched then, and Q and K always.
//
// Threads: As rope_prepare.
ROPE_NODISCARD
rope_status rope_prepare_qk(const struct rope_plan *plan, const struct rope_operand *q, const struct rope_operand *k,
                            const struct rope_angles *angles, struct rope_call *call);

// Runs a prepared call in the memory that was prepared.
//
// It trusts the checks of the preparation: pointers are aligned and lead to memory of these lengths, and the target
// shares no byte with memory that the call reads. It checks ids of rows, positions and slots again, because an engine
// may have changed them.
//
// Returns ROPE_STATUS_HANDLE for storage that holds no prepared call, and the statuses of rope_rotate_into for ids,
// positions and slots, as ROPE_STATUS_POSITION_OUTSIDE_TABLE and ROPE_STATUS_SLOT. The target is untouched then.
//
// Threads: several at once, on one call or on copies of it, if they write memory of their own (rope_call_run_at). No
// other thread may use the target meanwhile; others may read the memory that the call reads.
//
// `call` is NULL or points to a rope_call, or at least to as many bytes. All that a prepared call borrows is there.
ROPE_NODISCARD
rope_status rope_call_run(const struct rope_call *call);

// Runs a prepared call in other memory of the same shapes, as for another layer or the next token. The prepared call
// stays unchanged.
//
// The caller promises that the memory is as long as the prepared memory. The call checks that pointers are not NULL,
// that they are aligned, that the target shares no byte with memory that the call reads, and that Q and K share no
// element, as the checked calls do. It also makes the checks of rope_call_run.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP,
// ROPE_STATUS_UNUSED_MEMORY, ROPE_STATUS_UNKNOWN_VALUE of slots and positions, and what rope_call_run returns. The
// target is untouched then.
//
// Threads: As rope_call_run.
//
// pointers in `memory` are NULL or point to as much as was prepared.
ROPE_NODISCARD
rope_status rope_call_run_at(const struct rope_call *call, const struct rope_call_memory *memory);

// ---- Angles, the cos and sin of each token ----

// Floats that rope_rows_fill needs for the rows of some tokens: a constant, for static memory.
#define ROPE_ROWS_LEN(tokens, rotary_dim) ((size_t)(tokens) * (size_t)(rotary_dim))

#if defined(ROPE_STD)
// Rows that own their memory, of a table of all positions or of one step. A handle.
typedef struct rope_table rope_table;
#endif

struct rope_frequencies;

// The angles of the tokens of a call: rows, or frequencies at positions.
//
// A row is the cos and sin of a token, `rotary_dim / 2` of each, already multiplied by the attention factor. A
// rotation requires one row per token of a sequence (all sequences share them), or one per token of the batch. With
// `ids` the values are a table, and the ids select its rows, in their order. Every call checks that each id names a
// row of the table.
//
// The heads of a token share its row, unless each has a row of its own (`heads`, `layout`). Such rows are counted per
// token, all heads together, and rotate only tensors with that number of heads.
//
// Rows are described by the caller, or by rope_rows_joined, rope_rows_apart, rope_rows_fill, rope_table_rows.
// rope_angles_at describes frequencies at positions: a call then makes the rows itself, some tokens at a time, on the
// stack (8 KiB), with the same bits; there are no rows to keep.
typedef struct rope_angles {
  // The cos values. If `sin` is NULL, a row is `rotary_dim / 2` cos and then as many sin (vLLM's cache).
  const float *cos;
  const float *sin;  // The sin values; NULL: they lie after the cos of their row.
  size_t len;  // The number of values in `cos`, and also in `sin`: a whole number of rows.
  size_t rotary_dim;  // Channels that a row rotates.
  // cos values of a row, where cos and sin are apart: `rotary_dim / 2`, or `rotary_dim` where each is kept twice,
  // the second half of a row like the first. Not used where they are joined.
  size_t width;
  // The factor on cos and sin (YaRN, LongRoPE): 1 for most models. ROPE_DIRECTION_INVERSE divides by its
  // square, and refuses rows whose pairs have another magnitude (xPos); rope_rows_invert makes the rows that undo
  // them.
  double attention_factor;
  const void *ids;  // Ids of rows; NULL: all rows, in order.
  size_t ids_count;  // The number of ids. Not read without ids.
  // The type of the ids (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64). Not used without
  // ids.
  int32_t ids_number;
  // Heads that have a row each: groups of this number of consecutive rows belong to the heads of one token. 0
  // and 1: heads share their row. Not used with a layout.
  size_t heads;
  // Where cos and sin lie, each of them, if not row after row: the shape is sequences, tokens, heads and
  // `rotary_dim / 2`, with any strides. Dimensions that share their rows have an extent of 1 or a stride of 0:
  // ROPE_ORDER_BHSD with 1 sequence is how timm keeps them. All zero: row after row.
  struct rope_layout layout;
  // Not 0: full-width rows, with a cos and a sin for each of the `rotary_dim` channels: `width` and the last extent
  // of a layout are `rotary_dim`; joined, `2 * rotary_dim` values are a row. For the channels `i` and `j` of a pair
  // `x' = x cos[i] - y sin[i]` and `y' = y cos[j] + x sin[j]`: HunYuan-VL and V-JEPA 2, and kernels that index cos
  // and sin by channel. In general that is no rotation: ROPE_DIRECTION_TRANSPOSE takes gradients back, but inverses,
  // shifts and gradients of angles are refused with ROPE_STATUS_FULL_WIDTH_ROWS.
  int32_t full_width;
  // Not 0: rows that move keys in a cache. Of rows: keys are also multiplied by their `attention_factor`;
  // a rotation in a cache refuses other rows unless their `attention_factor` is 1. With frequencies and positions,
  // for rope_rows_fill and rope_table_new: the rows of a context shift, by the positions as deltas or, with
  // `old_frequencies`, from other frequencies and positions to these.
  int32_t moves;
  const struct rope_frequencies *frequencies;  // Frequencies, of which the call makes rows; NULL: rows.
  const struct rope_positions *positions;  // The positions of the tokens. Not used of rows.
  // The frequencies that keys were rotated with, if they move from others; NULL: they move by deltas.
  const struct rope_frequencies *old_frequencies;
  const struct rope_positions *old_positions;  // The positions of the keys then. Used with `old_frequencies` alone.
} rope_angles;

// Describes frequencies at the positions of the tokens. This call reads neither; the calls that the angles are given
// to do. With ROPE_STATUS_ROTARY_DIM_ON_STACK they refuse frequencies of more than 2048 channels (of all heads
// together, where each has its own, unless a plan without stages rotates a tensor in place).
struct rope_angles rope_angles_at(const struct rope_frequencies *frequencies, const struct rope_positions *positions);

// `len / rotary_dim` rows of `rotary_dim / 2` cos and then as many sin (vLLM's cache). This call reads no value;
// the calls that the rows are given to do. They look at the last row: if it has the same values in both halves, it is
// PyTorch's `cat((freqs, freqs), -1).cos()` without its sin, which goes to rope_rows_apart, and is refused with
// ROPE_STATUS_HALVES_EQUAL. (Rows of one pair, and a last row whose values have one magnitude and are not all 1, as
// zeros that are padding, are accepted.)
struct rope_angles rope_rows_joined(const float *values, size_t len, size_t rotary_dim);

// Rows with cos and sin in arrays of their own, each of the shape `[rows, width]`. `width` is `rotary_dim / 2` where
// each value is kept once (ONNX), and `rotary_dim` where it is kept twice, the second half of a row like the first
// (PyTorch's `cat((freqs, freqs), -1)`). This call reads no value; the calls that the rows are given to do.
struct rope_angles rope_rows_apart(const float *cos, const float *sin, size_t rows, size_t width, size_t rotary_dim);

// Writes to `len` the number of floats in the rows of frequencies at positions: tokens times heads with frequencies of
// their own times rotary_dim.
//
// Returns ROPE_STATUS_POSITIONS_PER_AXIS, ROPE_STATUS_COORDINATE, ROPE_STATUS_OFFSETS, ROPE_STATUS_COUNT,
// ROPE_STATUS_POSITION_RANGE; ROPE_STATUS_RANK and ROPE_STATUS_SHARD_TOKENS of a shard; ROPE_STATUS_PARAMETER and
// ROPE_STATUS_AXES of `dual_chunk`; ROPE_STATUS_ROWS_TOO_LONG; of `old_frequencies` ROPE_STATUS_ROTARY_DIM for another
// number of pairs, ROPE_STATUS_COUNT for another number of positions and ROPE_STATUS_NO_INTEGER for coordinates;
// ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_HANDLE,
// ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: others may use the frequencies meanwhile, but not change or free them.
ROPE_NODISCARD
rope_status rope_rows_len(const struct rope_angles *angles, size_t *len);

// Makes the rows of frequencies at positions in the caller's storage, and describes them in `rows`. The storage has
// `len` floats; the call uses the first rope_rows_len of them, ROPE_ROWS_LEN(tokens * heads, rotary_dim), and
// allocates nothing. cos and sin are the floats nearest to the exact values (of mixed frequencies with
// ROPE_MIXED_ANGLE_EXACT).
//
// With `moves` the rows move keys in a cache (rope_rotate of its slots). The positions are deltas, one per axis, and
// the rows have the magnitude 1, because the keys have the attention factor already. With `old_frequencies` and
// `old_positions` they take keys from these to the new ones: after dynamic NTK, YaRN or LongRoPE have changed with the
// length of a sequence. An angle is the exact difference of the two; cos and sin are multiplied by the new attention
// factor over the old.
//
// Returns ROPE_STATUS_STORAGE if the storage is too short, and what rope_rows_len returns.
//
// Threads: others may use the frequencies meanwhile, but not change or free them.
//
// `storage` stays as long as the rows are used.
ROPE_NODISCARD
rope_status rope_rows_fill(const struct rope_angles *angles, float *storage, size_t len, struct rope_angles *rows);

// Makes the rows that undo others with ROPE_DIRECTION_FORWARD, pair by pair, whatever their magnitudes (xPos), in the
// caller's storage, and describes them in `inverted`: `cos / (cos^2 + sin^2)` and `-sin / (cos^2 + sin^2)`. The
// storage has `len` floats, of which the call uses the number of rows times heads (those that have a row each) times
// rotary_dim.
//
// Returns ROPE_STATUS_STORAGE if the storage is too short, ROPE_STATUS_ROWS_TOO_LONG, ROPE_STATUS_NO_INVERSE for a
// pair of zeros or with a value that is not finite, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows. The
// storage is untouched then.
//
// Threads: others may read the rows meanwhile.
//
// `storage` stays as long as the inverted rows are used.
ROPE_NODISCARD
rope_status rope_rows_invert(const struct rope_angles *rows, float *storage, size_t len, struct rope_angles *inverted);

// Writes the additive sinusoidal encoding of the original Transformer from the same angles. Each row has
// `rotary_dim` values: sin at the even channels, cos at the odd ones.
//
// Returns ROPE_STATUS_ROW_HEADS for rows of each head, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_STORAGE unless `len`
// is the number of rows times rotary_dim, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
// ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows.
//
// Threads: others may read the rows meanwhile.
ROPE_NODISCARD
rope_status rope_sinusoidal(const struct rope_angles *rows, float *values, size_t len);

#if defined(ROPE_STD)
// Makes the rows of frequencies at positions on the heap, as rope_rows_fill does. rope_table_free frees them.
//
// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_len returns.
//
// Threads: others may use the frequencies meanwhile, but not change or free them.
ROPE_NODISCARD
rope_status rope_table_new(const struct rope_angles *angles, struct rope_table **table);
#endif

#if defined(ROPE_STD)
// Describes the rows of a table in `rows`. They lie in the table, and are gone when it is freed. To pick some
// of them set `ids`.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: others may use the table meanwhile, but not free it.
//
// `table` is NULL or of this library; `rows` is NULL or points to a rope_angles.
ROPE_NODISCARD
rope_status rope_table_rows(const struct rope_table *table, struct rope_angles *rows);
#endif

#if defined(ROPE_STD)
// Frees a table. NULL is left alone.
//
// Returns ROPE_STATUS_HANDLE for memory that holds no table, ROPE_STATUS_MISALIGNED. The library cannot tell
// that a table was freed before.
//
// Threads: no other thread may use the table then or later.
//
// `table` is NULL or of this library, and neither it nor its rows are used any more.
rope_status rope_table_free(struct rope_table *table);
#endif

// ---- Positions ----

// The type of position ids, coordinates and inverse frequencies. No call can see the type of the memory: int64_t ids
// that are declared I32 are read as pairs of ids, of which every other one is 0 on little-endian machines.
enum rope_number ROPE_INT32_ENUM {
  ROPE_NUMBER_I32 = 401,  // int32_t
  ROPE_NUMBER_I64 = 402,  // int64_t
  ROPE_NUMBER_U32 = 403,  // uint32_t
  ROPE_NUMBER_F32 = 404,  // float
  ROPE_NUMBER_F64 = 405,  // double
  ROPE_NUMBER_U64 = 406,  // uint64_t
};
ROPE_ENUM_TYPE(rope_number);

// The form of a list of positions.
enum rope_positions_kind ROPE_INT32_ENUM {
  // `count` consecutive positions from `first` on, the same on all axes. Mixed frequencies on several axes refuse
  // it, and all other kinds with one number per token.
  ROPE_POSITIONS_KIND_RANGE = 2201,
  ROPE_POSITIONS_KIND_PER_TOKEN = 2202,  // One number per token, the same on all axes.
  // All tokens' numbers on axis 0, then all on axis 1 (Hugging Face's [3, batch * tokens], ggml's).
  ROPE_POSITIONS_KIND_AXIS_MAJOR = 2203,
  ROPE_POSITIONS_KIND_TOKEN_MAJOR = 2204,  // All numbers of token 0, then all of token 1.
  // Sequences packed one after another: the values are offsets, and sequence s has the tokens `values[s]`
  // to `values[s + 1]` (FlashAttention's cu_seqlens). Integers only.
  ROPE_POSITIONS_KIND_PACKED = 2205,
  // The tokens of rank `rank` of `ranks` (context parallelism), and of the kinds below: `rank * n / ranks` to
  // `(rank + 1) * n / ranks` of `n`, a multiple of `ranks` (Llama 3's all-gather). Without values it is one sequence
  // of `count` tokens; with values these are the offsets of packed sequences, as for PACKED.
  ROPE_POSITIONS_KIND_CONTIGUOUS_SHARD = 2206,
  // Chunk `rank` and then chunk `2 * ranks - 1 - rank` of `2 * ranks` (Megatron-LM, Transformer Engine). Packed
  // sequences are divided one by one, each of a multiple of `2 * ranks` tokens (cu_seqlens_padded).
  ROPE_POSITIONS_KIND_ZIGZAG_SHARD = 2207,
  // The same of any number of tokens, the first chunks one longer; of packed sequences first the early chunks of
  // all, then the late ones (sglang).
  ROPE_POSITIONS_KIND_UNEVEN_ZIGZAG_SHARD = 2208,
  // `rank`, `rank + ranks`, .. (Striped Attention); of packed sequences the whole buffer.
  ROPE_POSITIONS_KIND_STRIPED_SHARD = 2209,
};
ROPE_ENUM_TYPE(rope_positions_kind);

// Which position id Dual Chunk Attention gives a token (Qwen2.5-1M). With `L = chunk_size - local_size`, at position
// `p`:
enum rope_dual_chunk_query ROPE_INT32_ENUM {
  ROPE_DUAL_CHUNK_QUERY_INTRA = 2301,  // `p mod L`: of queries beside keys of their own chunk, and of keys.
  ROPE_DUAL_CHUNK_QUERY_SUCC = 2302,  // `min(p mod L + L, chunk_size)`: of queries beside keys of the chunk before.
  // `min(2 L - 1, chunk_size)`: of queries beside keys of earlier chunks, all the same.
  ROPE_DUAL_CHUNK_QUERY_INTER = 2303,
  ROPE_DUAL_CHUNK_QUERY_SUCC_CRITICAL = 2304,  // `p mod L + L`: of the estimate for the chunk before.
  ROPE_DUAL_CHUNK_QUERY_INTER_CRITICAL = 2305,  // `p mod L + chunk_size`: of the estimate for earlier chunks.
};
ROPE_ENUM_TYPE(rope_dual_chunk_query);

// The position ids of Dual Chunk Attention, of integer positions. All zero: the positions themselves.
typedef struct rope_dual_chunk {
  int32_t query;  // Which of them (`enum rope_dual_chunk_query`); 0: none.
  size_t chunk_size;  // Tokens of a chunk.
  size_t local_size;  // Tokens at the end of a chunk that the next one has too.
} rope_dual_chunk;

// The positions of some tokens: integers, negative ones too, or real coordinates.
typedef struct rope_positions {
  int32_t kind;  // The form of the list (`enum rope_positions_kind`).
  // The type of `values` and of `starts` (`enum rope_number`); floats are real-valued coordinates. Not used by
  // RANGE, nor by shards of one sequence.
  int32_t number;
  const void *values;  // The numbers. Not used by RANGE; NULL for shards of one sequence.
  size_t count;  // The number of values; of positions for RANGE; of tokens for a shard of one sequence.
  int64_t first;  // RANGE: the first position. Not used by others.
  // PACKED: where each sequence starts counting, `count - 1` numbers; NULL: at 0. Not used by others.
  const void *starts;
  size_t rank;  // Shards: the rank, from 0. Not used by others.
  size_t ranks;  // Shards: how many ranks there are. Not used by others.
  struct rope_dual_chunk dual_chunk;  // The ids that Dual Chunk Attention makes of the positions. All zero: none.
} rope_positions;

// `count` positions from `first` on.
struct rope_positions rope_positions_range(int64_t first, size_t count);

// One number per token: `count` of type `number` (`enum rope_number`). This call reads none of them; the calls that
// the positions are given to do.
struct rope_positions rope_positions_per_token(const void *values, size_t count, int32_t number);

// The tokens of rank `rank` of `ranks`, of one sequence of `tokens`: `kind` is one of the shards of
// `enum rope_positions_kind`. Of packed sequences set `values`, `count` and `number` to their offsets.
struct rope_positions rope_positions_shard(int32_t kind, size_t tokens, size_t rank, size_t ranks);

// Writes which tokens a rank has, in its order: their indices in the sequence, or in the packed buffer. `tokens` has
// room for `len` of them; `count` becomes how many there are. With `len` 0 it only counts.
//
// Returns ROPE_STATUS_STORAGE if there is less room, ROPE_STATUS_UNKNOWN_VALUE for positions that are no shard,
// ROPE_STATUS_RANK, ROPE_STATUS_SHARD_TOKENS, ROPE_STATUS_OFFSETS, ROPE_STATUS_NULL,
// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
ROPE_NODISCARD
rope_status rope_shard_tokens(const struct rope_positions *positions, size_t *tokens, size_t len, size_t *count);

// ---- Frequencies ----

// Bytes that are enough for rope_frequencies_init with rotary_dim channels: a constant, for static memory.
#define ROPE_FREQUENCIES_BYTES(rotary_dim) \
    (ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_CHUNK * ((size_t)(rotary_dim) / 16 + ((size_t)(rotary_dim) % 16 != 0)))

// Bytes of a chunk of eight pairs in ROPE_FREQUENCIES_BYTES.
#define ROPE_FREQUENCIES_CHUNK 576

// Bytes besides the chunks in ROPE_FREQUENCIES_BYTES.
#define ROPE_FREQUENCIES_HEAD 192

// The largest rotary_dim.
#define ROPE_ROTARY_DIM_MAX 65536

// Which angle a position has.
enum rope_angle ROPE_INT32_ENUM {
  ROPE_ANGLE_EXACT = 0,  // The exact product of position and frequency.
  // The angle of Hugging Face's models: position and inverse frequency as floats, their product rounded to a float,
  // and that taken as the angle.
  ROPE_ANGLE_HUGGING_FACE_F32 = 501,
};
ROPE_ENUM_TYPE(rope_angle);

// Which axis of the positions drives which pair, and which frequency a pair takes.
enum rope_axes_kind ROPE_INT32_ENUM {
  ROPE_AXES_KIND_TEXT = 1001,  // One axis over `rotary_dim` channels: text.
  // M-RoPE in chunks over `rotary_dim`: `sections` (`count` of them) pairs of axis 0, of axis 1, ..; Qwen2-VL has
  // {16, 24, 24} of 128 channels. The sections of this kind and of the next three sum to the pairs of `rotary_dim`.
  ROPE_AXES_KIND_MROPE = 1002,
  // Interleaved M-RoPE, `rotary_dim` and three `sections`: THWTHW..TT; Qwen3-VL has {24, 20, 20}.
  ROPE_AXES_KIND_MROPE_INTERLEAVED = 1003,
  // Height and width alternating, `rotary_dim` and `sections` {height, width, time}; ERNIE-4.5-VL has {22, 22, 20}.
  ROPE_AXES_KIND_MROPE_ALTERNATING = 1004,
  ROPE_AXES_KIND_MROPE_SPREAD = 1005,  // Spread evenly, `rotary_dim` and three `sections`: openPangu.
  ROPE_AXES_KIND_GGML_MROPE = 1006,  // ggml's MROPE: `rotary_dim` and four `sections`.
  ROPE_AXES_KIND_GGML_IMROPE = 1007,  // ggml's IMROPE: `rotary_dim` and four `sections`.
  // Base frequencies for each axis by itself: `sections` (`count` of them) pairs of each.
  ROPE_AXES_KIND_PER_AXIS = 1008,
  // Images: two axes. Each has half of the pairs of `rotary_dim`, and base frequencies of its own. Qwen's vision
  // towers, DINOv3.
  ROPE_AXES_KIND_VISION = 1009,
  // Pixtral's images: one set of base frequencies, the even ones for the height, the odd ones for the width, over
  // `rotary_dim`.
  ROPE_AXES_KIND_PIXTRAL = 1010,
  // WAN's video over `rotary_dim` (the head_dim): time, height and width, each with base frequencies of its own.
  ROPE_AXES_KIND_WAN = 1011,
  // One set of base frequencies, and the axis of every pair in `given` (`count` of them, 0 to 3).
  ROPE_AXES_KIND_GIVEN = 1012,
};
ROPE_ENUM_TYPE(rope_axes_kind);

// The change of a model to the frequencies base^(-2i/d). Each kind names the fields of rope_scaling that it reads.
enum rope_scaling_kind ROPE_INT32_ENUM {
  ROPE_SCALING_KIND_DEFAULT = 0,  // Not at all.
  ROPE_SCALING_KIND_LINEAR = 2501,  // Position interpolation: `factor`, ggml's `1 / freq_scale`.
  ROPE_SCALING_KIND_DYNAMIC_NTK = 2502,  // Hugging Face's dynamic: `factor`, `max_position_embeddings`, `length`.
  ROPE_SCALING_KIND_NTK_ALPHA = 2503,  // HunYuan's: `alpha`.
  ROPE_SCALING_KIND_NTK_FIXED = 2504,  // kexue.fm/9706: `factor`.
  ROPE_SCALING_KIND_NTK_MIXED = 2505,  // kexue.fm/9706 with a mixed base: `factor`, `mixed_b`.
  // NTK by parts: `factor`, `original_context`, `ntk_factor`, `extrapolation_factor`.
  ROPE_SCALING_KIND_NTK_BY_PARTS = 2506,
  // YaRN: `factor`, `original_context`, `beta_fast`, `beta_slow`, `untruncated`, `attention_factor`, `mscale`,
  // `mscale_all_dim`.
  ROPE_SCALING_KIND_YARN = 2507,
  // LongRoPE: `short_factor`, `long_factor`, `count`, `original_context`, `length`, `factor`, `attention_factor`.
  ROPE_SCALING_KIND_LONG_ROPE = 2508,
  ROPE_SCALING_KIND_LLAMA3 = 2509,  // Llama 3.1: `factor`, `low_freq_factor`, `high_freq_factor`, `original_context`.
  ROPE_SCALING_KIND_PROPORTIONAL = 2510,  // Gemma 4's full-attention layers: `partial_rotary_factor`, `factor`.
  ROPE_SCALING_KIND_FREQ_FACTORS = 2511,  // ggml's rope_freqs: `freq_factors`, `count`.
  ROPE_SCALING_KIND_LEARNED = 2512,  // A learned correction: `alphas`, `count`.
  ROPE_SCALING_KIND_TURNS = 2513,  // Turns instead of radians: DINOv3.
  ROPE_SCALING_KIND_PERIODS = 2514,  // Periods in geometric progression: `min_period`, `max_period`.
};
ROPE_ENUM_TYPE(rope_scaling_kind);

// The frequencies of all pairs of a head, and the factor on cos and sin. A handle, made once for a model.
//
// rope_frequencies_new, _new_inverse and _from_config make it on the heap; rope_frequencies_free frees it.
// rope_frequencies_init and _init_inverse make it in the caller's memory.
typedef struct rope_frequencies rope_frequencies;

// The axes. Fields that a kind does not name are not read.
typedef struct rope_axes {
  int32_t kind;  // `enum rope_axes_kind`.
  size_t rotary_dim;  // Channels of a head that rotate. PER_AXIS and GIVEN ignore it: their lists name every pair.
  size_t sections[4];  // Pairs of each section.
  size_t count;  // MROPE, PER_AXIS: how many sections, 1 to 4. GIVEN: how many pairs.
  const uint8_t *given;  // GIVEN: the axis of every pair.
} rope_axes;

// The parameters of a scaling, by their public names. A call does not read the fields that the kind does not name:
// a struct of zeros will do, with the fields that count filled in. rope_scaling_init fills in the published values
// as well.
typedef struct rope_scaling {
  int32_t kind;  // `enum rope_scaling_kind`.
  // YARN: other than 0 if the ends of the ramp are not rounded to whole pairs (`truncate: false`; gpt-oss).
  int32_t untruncated;
  double factor;  // The ratio of the extended context to the original one.
  uint64_t original_context;  // The context before scaling.
  uint64_t max_position_embeddings;  // The context of the model.
  uint64_t length;  // The length of the sequence so far: the largest position plus one.
  double low_freq_factor;  // LLAMA3: turns in the original context up to which a pair is slow. Published: 1.
  double high_freq_factor;  // LLAMA3: turns in the original context from which a pair is fast. Published: 4.
  // YARN: turns in the original context from which a pair is left as it is; 0 means the published 32.
  double beta_fast;
  double beta_slow;  // YARN: turns in the original context up to which a pair is interpolated; 0 means the published 1.
  double attention_factor;  // YARN, LONG_ROPE: the factor of cos and sin; 0: computed.
  double mscale;  // YARN.
  double mscale_all_dim;  // YARN.
  double alpha;  // NTK_ALPHA.
  double mixed_b;  // NTK_MIXED.
  double ntk_factor;  // NTK_BY_PARTS. Published: 1.
  double extrapolation_factor;  // NTK_BY_PARTS. Published: 1.
  double partial_rotary_factor;  // PROPORTIONAL: the part of the head that rotates, up to 1.
  double min_period;  // PERIODS: the period of the first pair.
  double max_period;  // PERIODS: the period of the last pair.
  const double *short_factor;  // LONG_ROPE: a divisor for each pair within the original context.
  const double *long_factor;  // LONG_ROPE: a divisor for each pair beyond it.
  const double *alphas;  // LEARNED: the logarithm of a factor for each pair.
  const float *freq_factors;  // FREQ_FACTORS: a divisor for each pair.
  size_t count;  // The length of each list: one number per pair.
} rope_scaling;

// The properties of frequencies, as rope_frequencies_describe writes them.
typedef struct rope_frequencies_info {
  size_t rotary_dim;  // Channels of a head that rotate: two for each pair.
  size_t axes;  // The number of axes of a position: 1 for text.
  size_t heads;  // Heads that have frequencies of their own (mixed ones); 1: heads share theirs.
  double attention_factor;  // The factor on cos and sin: 1 for most models.
  // The factor of DeepSeek-V2 and V3 on the scale of their softmax: 1 for other models. The attention
  // applies it; the rotation does not.
  double softmax_factor;
  int32_t angle;  // Which angle rows are made of (`enum rope_angle`, of mixed frequencies `enum rope_mixed_angle`).
} rope_frequencies_info;

// Makes frequencies in the caller's memory, for a base (rope_theta) and a scaling; NULL: none. Allocates nothing.
//
// `memory` has `size` bytes, of any alignment; ROPE_FREQUENCIES_BYTES(rotary_dim) are enough. The frequencies lie
// there: the caller neither moves nor reuses the memory as long as they are used, and has nothing to free. The
// earlier content of the memory is lost, even if the call is refused.
//
// Returns ROPE_STATUS_STORAGE if the memory is too short, ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES,
// ROPE_STATUS_SECTIONS, ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE,
// ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: no other thread may use the memory meanwhile.
//
// `memory` stays as long as the frequencies are used.
ROPE_NODISCARD
rope_status rope_frequencies_init(void *memory, size_t size, const struct rope_axes *axes, double base,
                                  const struct rope_scaling *scaling, struct rope_frequencies **frequencies);

// As rope_frequencies_init, from inverse frequencies (radians a position) of a model file or a training run. There
// are `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. The rows multiply cos and
// sin by `attention_factor`; give 1 if the model has none.
//
// Returns what rope_frequencies_init returns.
//
// Threads: no other thread may use the memory meanwhile.
ROPE_NODISCARD
rope_status rope_frequencies_init_inverse(void *memory, size_t size, const struct rope_axes *axes, const void *inverse,
                                          size_t count, int32_t number, double attention_factor,
                                          struct rope_frequencies **frequencies);

// Describes frequencies.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: others may use the frequencies meanwhile, but not change or free them.
ROPE_NODISCARD
rope_status rope_frequencies_describe(const struct rope_frequencies *frequencies, struct rope_frequencies_info *info);

// Writes the inverse frequency of every pair in radians a position, correctly rounded: `rotary_dim / 2` numbers.
// `inverse` has room for `len`.
//
// Returns ROPE_STATUS_STORAGE if `len` is too small, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: others may use the frequencies meanwhile, but not change or free them.
ROPE_NODISCARD
rope_status rope_frequencies_inverse(const struct rope_frequencies *frequencies, double *inverse, size_t len);

// Sets which angle rows are made of (`enum rope_angle`). New frequencies have ROPE_ANGLE_EXACT.
//
// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE.
//
// Threads: no other thread may use the frequencies meanwhile.
ROPE_NODISCARD
rope_status rope_frequencies_set_angle(struct rope_frequencies *frequencies, int32_t angle);

// Sets the backend that makes the rows (`enum rope_backend`). All backends make the same bits.
//
// Returns ROPE_STATUS_BACKEND_UNAVAILABLE, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_HANDLE.
//
// Threads: no other thread may use the frequencies meanwhile.
ROPE_NODISCARD
rope_status rope_frequencies_set_backend(struct rope_frequencies *frequencies, int32_t backend);

#if defined(ROPE_STD)
// Makes frequencies for a base (rope_theta) and a scaling; NULL: none. rope_frequencies_free frees them.
//
// Returns ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES, ROPE_STATUS_SECTIONS, ROPE_STATUS_PARAMETER,
// ROPE_STATUS_COUNT, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_LENGTH, ROPE_STATUS_OUT_OF_MEMORY.
ROPE_NODISCARD
rope_status rope_frequencies_new(const struct rope_axes *axes, double base, const struct rope_scaling *scaling,
                                 struct rope_frequencies **frequencies);
#endif

#if defined(ROPE_STD)
// As rope_frequencies_new, from inverse frequencies (radians a position) of a model file or a training run.
// There are `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. The rows multiply
// cos and sin by `attention_factor`; give 1 if the model has none.
//
// Returns what rope_frequencies_new returns.
ROPE_NODISCARD
rope_status rope_frequencies_new_inverse(const struct rope_axes *axes, const void *inverse, size_t count,
                                         int32_t number, double attention_factor,
                                         struct rope_frequencies **frequencies);
#endif

#if defined(ROPE_STD)
// Frees frequencies that a call has made on the heap. NULL is left alone.
//
// Returns ROPE_STATUS_HANDLE for frequencies of rope_frequencies_init, whose memory is the caller's, and for
// memory that holds no frequencies; ROPE_STATUS_MISALIGNED. The library cannot tell that a handle was freed
// before.
//
// Threads: no other thread may use the frequencies then or later.
//
// `frequencies` is NULL or of this library, and is not used any more.
rope_status rope_frequencies_free(struct rope_frequencies *frequencies);
#endif

// One axis over `rotary_dim` channels: text.
struct rope_axes rope_axes_text(size_t rotary_dim);

// Fills in a scaling: its kind (`enum rope_scaling_kind`), the published value of each field that has one, and
// zeros.
//
// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED.
ROPE_NODISCARD
rope_status rope_scaling_init(struct rope_scaling *scaling, int32_t kind);

// ---- Mixed frequencies ----

// The same for rope_mixed_frequencies_init.
#define ROPE_MIXED_FREQUENCIES_BYTES(axes, heads, pairs) \
    (ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_CHUNK * (size_t)(axes) * (size_t)(heads) * \
     ((size_t)(pairs) / 8 + ((size_t)(pairs) % 8 != 0)))

// Which angle a token's coordinates have on mixed axes.
enum rope_mixed_angle ROPE_INT32_ENUM {
  ROPE_MIXED_ANGLE_EXACT = 0,  // The exact sum of the products of coordinate and frequency.
  // The angle of timm and rope-vit: coordinates and inverse frequencies as floats, each product rounded to a float,
  // and each sum, axis 0 first.
  ROPE_MIXED_ANGLE_SUMMED_F32 = 1501,
};
ROPE_ENUM_TYPE(rope_mixed_angle);

#if defined(ROPE_MODELS)
// Which axis of a grid is the row, named as torch.meshgrid and timm's `grid_indexing` name it.
enum rope_grid_indexing ROPE_INT32_ENUM {
  ROPE_GRID_INDEXING_XY = 1401,  // Axis 0 is the column, axis 1 the row: the models of RoPE-ViT.
  ROPE_GRID_INDEXING_IJ = 1402,  // Axis 0 is the row, axis 1 the column.
};
ROPE_ENUM_TYPE(rope_grid_indexing);
#endif

// Inverse frequencies of mixed axes, in radians a unit of the coordinate: `[axes][heads][pairs]`, the order of timm's,
// rope-vit's and Mochi's parameters. Negative ones rotate the other way, zeros stand still.
typedef struct rope_mixed_inverse {
  const void *values;  // The numbers, aligned as their type is.
  size_t count;  // Their number: `axes * heads * pairs`.
  int32_t number;  // Their type: ROPE_NUMBER_F32 or ROPE_NUMBER_F64.
  size_t axes;  // Numbers that make up a position, 1 to 4.
  size_t heads;  // Heads with frequencies of their own: the number of heads of the tensor. 0 and 1: heads share theirs.
  size_t pairs;  // Pairs of a head that rotate, half of rotary_dim.
} rope_mixed_inverse;

// Creates mixed-axis frequencies: a pair's angle is the sum over axes of coordinate times frequency, and each head has
// its own frequencies (RoPE-Mixed in timm and rope-vit, Mochi). They lie in the caller's memory, as after
// rope_frequencies_init. Learned frequencies are created again after each change. The rows multiply cos and sin by
// `attention_factor`; pass 1 if the model has none. `angle` is the formula of the rows' angles
// (`enum rope_mixed_angle`). Allocates nothing.
//
// `memory` has `size` bytes, of any alignment; ROPE_MIXED_FREQUENCIES_BYTES(axes, heads, pairs) are enough. The
// frequencies lie there: the caller neither moves nor reuses the memory as long as they are used, and has nothing to
// free. The earlier content of the memory is lost, even if the call is refused.
//
// Returns ROPE_STATUS_STORAGE if the memory is too short, ROPE_STATUS_AXES unless there are 1 to 4,
// ROPE_STATUS_ROTARY_DIM for no pairs or too many, ROPE_STATUS_COUNT unless there are `axes * heads * pairs` numbers,
// ROPE_STATUS_PARAMETER, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: no other thread may use the memory meanwhile.
//
// `memory` stays as long as the frequencies are used.
ROPE_NODISCARD
rope_status rope_mixed_frequencies_init(void *memory, size_t size, const struct rope_mixed_inverse *inverse,
                                        double attention_factor, int32_t angle, struct rope_frequencies **frequencies);

#if defined(ROPE_STD)
// Makes mixed frequencies, as rope_mixed_frequencies_init does. rope_frequencies_free frees them.
//
// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_mixed_frequencies_init returns.
ROPE_NODISCARD
rope_status rope_mixed_frequencies_new(const struct rope_mixed_inverse *inverse, double attention_factor, int32_t angle,
                                       struct rope_frequencies **frequencies);
#endif

#if defined(ROPE_MODELS)
// Writes the frequencies that RoPE-Mixed starts from (init_random_2d_freqs in rope-vit and timm) to the first
// `2 * heads * pairs` floats of `inverse`, which has `len`: `[2][heads][pairs]`.
//
// Pair k of the first half of a head has the magnitude theta^(-2k / pairs) and looks along the head's direction, an
// angle in radians; the second half has the same magnitudes and looks a quarter turn further. The directions, one for
// each head, are the caller's random numbers of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), published as
// uniform in [0, 2 pi). Without directions (NULL) it is the axial start of rope-vit and timm (rotate=False): every
// head has the direction 0, so that the first half of the pairs looks along axis 0 and the second along axis 1.
//
// Returns ROPE_STATUS_ROTARY_DIM unless `pairs` is even and at most half of ROPE_ROTARY_DIM_MAX, ROPE_STATUS_PARAMETER
// for a theta that is not positive and for a direction beyond 2^20, ROPE_STATUS_TOO_FAST, ROPE_STATUS_STORAGE if `len`
// is too small, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
// ROPE_STATUS_MEMORY_OVERLAP. `inverse` is untouched then. The call allocates, and cannot report a lack of memory: the
// process ends.
//
// Threads: No other thread may use `inverse` meanwhile.
ROPE_NODISCARD
rope_status rope_initial_mixed(double theta, const void *directions, size_t heads, int32_t number, size_t pairs,
                               float *inverse, size_t len);
#endif

#if defined(ROPE_MODELS)
// Writes the positions of an image's `rows` times `columns` patches to the first `2 * rows * columns` numbers of the
// storage, which has `len` of type `number` (`enum rope_number`), and describes them in `positions`: all on axis 0,
// then all on axis 1 (`indexing`, `enum rope_grid_indexing`). Patch `row * columns + column` is the token of that
// number.
//
// Returns ROPE_STATUS_PARAMETER for more than 65535 rows or columns, ROPE_STATUS_STORAGE if `len` is too small,
// ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
// The storage is untouched then.
//
// Threads: No other thread may use the storage meanwhile.
//
// `storage` stays as long as the positions are used.
ROPE_NODISCARD
rope_status rope_grid_positions(int32_t indexing, size_t rows, size_t columns, void *storage, size_t len,
                                int32_t number, struct rope_positions *positions);
#endif

// ---- Models, from config.json and GGUF ----

#if defined(ROPE_MODELS)
// A model: the rotation of each of its layers, as its config.json and the code of its model type say it, or its GGUF
// file and llama.cpp. A handle. rope_model_from_config and rope_model_from_gguf make it; rope_model_free frees it.
typedef struct rope_model rope_model;
#endif

#if defined(ROPE_MODELS)
// The answers to questions that a config.json leaves open. A member at zero leaves its question open too.
typedef struct rope_config {
  // The part of a composite model that is meant ("vision_config"); NULL: the text's. All texts of this struct end
  // with a NUL.
  const char *part;
  const char *model_type;  // The model type, in place of the file's; NULL: the file's.
  // The layer type that is meant ("full_attention", "sliding_attention"), where they differ; NULL: not said.
  const char *layer_type;
  // Keys of the file, separated by commas, that are not meant: the model's code counts as if they were not there;
  // NULL: none.
  const char *without;
  // The length of the sequence, the largest position plus one, on which dynamic NTK and LongRoPE depend; 0: not
  // said.
  uint64_t length;
  // The channels of a head in the tensors that are rotated; 0: all of the model's. Multi-head latent attention
  // rotates the last channels of a head (128..192 of DeepSeek-V3). rope_model_describe_layer gives the plan for
  // whole heads, with `first_channel` 128. The plan of rope_frequencies_from_config has `first_channel` 0, so it
  // refuses such a model unless this is the number of channels that rotate (64). These then are tensors of their
  // own, or parts of longer heads: `data` points to the first of them.
  size_t head_dim;
  // 0 refuses a file with a key about the rotation that the model's code ignores and that would change the result
  // (ROPE_STATUS_UNREAD). 1 accepts the file and rotates as the code does; rope_model_ignored lists the keys.
  int32_t lenient;
} rope_config;
#endif

#if defined(ROPE_MODELS)
// The rotation of queries and keys in a layer of a model.
typedef struct rope_model_layer {
  int32_t rotates;  // 1 if the layer rotates them. Otherwise every member is 0.
  size_t rotation;  // The number of its rotation for rope_model_frequencies. Layers with the same number share rows.
  size_t head_dim;  // The channels of a query's head.
  size_t first;  // The first of them that rotates: 0, but for multi-head latent attention and DeepSeek-V4.
  size_t rotary_dim;  // The number of channels that rotate, from `first` on.
  // The plan for whole heads. With `first_channel` and `head_dim` 0 it is the plan for tensors of these channels
  // alone, as multi-head latent attention has them.
  struct rope_plan plan;
  int32_t rotates_values;  // 1 if the model rotates values as it rotates keys, else 0.
  int32_t unrotates_output;  // 1 if the model rotates the attention's output back in the same channels, else 0.
  // 1 for full-width rows, else 0. Full-width rows have a frequency per channel: rope_rows_fill makes rows of them,
  // which become full-width by `full_width = 1` and this layer's `rotary_dim`.
  int32_t full_width;
} rope_model_layer;
#endif

#if defined(ROPE_MODELS)
// Bytes in the caller's memory: a file that was read, or mapped.
typedef struct rope_bytes {
  const uint8_t *data;  // The first byte; NULL: none.
  size_t length;  // The number of bytes.
} rope_bytes;
#endif

#if defined(ROPE_MODELS)
// The answers to questions that a GGUF file leaves open. A member at zero leaves its question open too.
typedef struct rope_gguf {
  // The other parts of a file that was split, in any order; NULL: none. They matter if the first part does not list
  // the tensor of factors.
  const struct rope_bytes *parts;
  size_t part_count;  // Their number.
  // Keys of the file ("llama.rope.freq_scale"), separated by commas, that count as if they were not there; NULL:
  // none. The text ends with a NUL.
  const char *without;
  // The context of a sequence, which decides between rope_factors_long.weight and rope_factors_short.weight; 0: the
  // file's context_length.
  uint64_t context;
  const float *freq_factors;  // Factors that replace the file's tensors; NULL: the file's.
  size_t freq_factor_count;  // Their number. 0 with a `freq_factors` that is not NULL: the model has no factors.
} rope_gguf;
#endif

#if defined(ROPE_MODELS)
// Makes frequencies from the text of a model's config.json (`length` bytes; no NUL needed). rope_frequencies_free
// frees them.
//
// `config` has the answers that the file lacks, or is NULL. If `plan` is not NULL, the call sets its pairings to
// the model's and everything else in it to zero. If the file does not tell the pairing, or if the model does more than
// a plan says, the call is refused, because a model with a wrong rotation still produces text. Layers that do not all
// rotate alike have to be chosen by their type; the call is refused for those that do not rotate.
//
// Returns ROPE_STATUS_JSON, ROPE_STATUS_MISSING, ROPE_STATUS_INVALID, ROPE_STATUS_UNKNOWN, ROPE_STATUS_AMBIGUOUS,
// ROPE_STATUS_NO_SUCH, ROPE_STATUS_UNSUPPORTED, ROPE_STATUS_NOTHING_ROTATES, ROPE_STATUS_CHOOSE_PART,
// ROPE_STATUS_UNREAD (rope_error_detail tells the key),
// ROPE_STATUS_MODEL_HEAD if `head_dim` is neither all channels of a head nor those that rotate, or 0 for a model that
// rotates others than the first; ROPE_STATUS_UTF8, ROPE_STATUS_MEMORY_OVERLAP if `plan` lies over `frequencies`, and
// what rope_frequencies_new returns. The call cannot report a lack of memory: the process ends if the system
// gives none for reading the text.
ROPE_NODISCARD
rope_status rope_frequencies_from_config(const char *json, size_t length, const struct rope_config *config,
                                         struct rope_frequencies **frequencies, struct rope_plan *plan);
#endif

#if defined(ROPE_MODELS)
// Reads the text of a model's config.json (`length` bytes; no NUL needed) into the rotation of each layer.
// rope_model_free frees the model.
//
// `config` has the answers that the file lacks, or is NULL. Its `layer_type` and `head_dim` do not matter here.
//
// Returns what rope_frequencies_from_config returns, but for ROPE_STATUS_MODEL_HEAD. The call cannot report a lack of
// memory: the process ends if the system gives none for reading the text.
ROPE_NODISCARD
rope_status rope_model_from_config(const char *json, size_t length, const struct rope_config *config,
                                   struct rope_model **model);
#endif

#if defined(ROPE_MODELS)
// Frees a model. NULL is left alone.
//
// Returns ROPE_STATUS_HANDLE for memory that holds no model; ROPE_STATUS_MISALIGNED. The library cannot tell that a
// handle was freed before.
//
// Threads: no other thread may use the model then or later.
//
// `model` is NULL or of this library, and is not used any more.
rope_status rope_model_free(struct rope_model *model);
#endif

#if defined(ROPE_MODELS)
// Writes how many layers a model has.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: others may use the model meanwhile, but not free it.
ROPE_NODISCARD
rope_status rope_model_layers(const struct rope_model *model, size_t *layers);
#endif

#if defined(ROPE_MODELS)
// Writes how the layer with that index, from 0, rotates.
//
// Returns ROPE_STATUS_COUNT if the model has fewer layers; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: others may use the model meanwhile, but not free it.
ROPE_NODISCARD
rope_status rope_model_describe_layer(const struct rope_model *model, size_t index, struct rope_model_layer *layer);
#endif

#if defined(ROPE_MODELS)
// Writes a key that a model's config.json has and that the model's code ignores, though it is about the rotation: as a
// text with a NUL at its end, `path is value: reason`. `significant` becomes 1 if the key says something else than the
// code does, which `lenient` let pass, and 0 if it changes nothing. Keys are numbered from 0.
//
// Returns ROPE_STATUS_COUNT if there are no more; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE,
// ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP. A text that does not fit is cut off at a character's end.
//
// Threads: others may use the model meanwhile, but not free it.
//
// `buffer` has room for `size` bytes, and the other pointers are NULL or valid for the length of the call.
ROPE_NODISCARD
rope_status rope_model_ignored(const struct rope_model *model, size_t index, char *buffer, size_t size,
                               int32_t *significant);
#endif

#if defined(ROPE_MODELS)
// Makes the frequencies of a rotation (rope_model_layer.rotation). rope_frequencies_free frees them; they outlive the
// model.
//
// Returns ROPE_STATUS_COUNT if the model has fewer rotations; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP, ROPE_STATUS_OUT_OF_MEMORY.
//
// Threads: others may use the model meanwhile, but not free it.
ROPE_NODISCARD
rope_status rope_model_frequencies(const struct rope_model *model, size_t rotation,
                                   struct rope_frequencies **frequencies);
#endif

#if defined(ROPE_MODELS)
// Reads the bytes of a GGUF file, of version 2 or 3 in either byte order, into the rotation of each layer.
// rope_model_free frees the model, which needs the bytes no longer.
//
// Header, keys and the list of tensors are read, and of the tensors' data rope_freqs.weight, rope_factors_long.weight
// and rope_factors_short.weight; the bytes after them may be left out. Of a file that was split, `data` is the first
// part. `gguf` has the answers that the file lacks, or is NULL.
//
// Returns ROPE_STATUS_GGUF if the bytes are not a GGUF file, or end before the rotation's keys;
// ROPE_STATUS_MISSING, ROPE_STATUS_INVALID, ROPE_STATUS_UNKNOWN, ROPE_STATUS_UNSUPPORTED (rope_error_detail tells the
// key), ROPE_STATUS_UTF8, and what rope_frequencies_new returns. The call cannot report a lack of memory: the process
// ends if the system gives none for reading the file.
ROPE_NODISCARD
rope_status rope_model_from_gguf(const uint8_t *data, size_t length, const struct rope_gguf *gguf,
                                 struct rope_model **model);
#endif

// ---- Stages of a plan, a norm, a factor and a Hadamard transform ----

// The formulas that models have, each named after the code whose bits it gives. T is the element of the tensor that
// is read, r the reciprocal of the root mean square, m the mean, w the weights and b the biases.
enum rope_norm_formula ROPE_INT32_ENUM {
  // w T(x r): Hugging Face's LlamaRMSNorm and its copies; Llama, Qwen3, GLM-4.5, HunYuan, EXAONE 4, MiniMax-M2,
  // OLMoE.
  ROPE_NORM_FORMULA_LLAMA = 1601,
  // T(w (x r)): OLMo 2 and 3, gpt-oss, Gemma 3n and 4, whose values are normed without weights: with
  // `weighted` at 0.
  ROPE_NORM_FORMULA_OLMO2 = 1602,
  ROPE_NORM_FORMULA_GEMMA = 1603,  // T((x r) (1 + w)): Gemma 1 to 3, Qwen3-Next.
  ROPE_NORM_FORMULA_LLAMA4 = 1604,  // T(x r), without a weight: Llama 4, nanochat.
  // T(w ((x - m) r)), or T(w ((x - m) r) + b) with biases: Cohere, Command R, StableLM, Phi, Persimmon.
  ROPE_NORM_FORMULA_LAYER_NORM = 1605,
  ROPE_NORM_FORMULA_CHAMELEON = 1606,  // T(T(T((x - m) r) w) + b), weights and biases of each head: Chameleon.
  ROPE_NORM_FORMULA_ONCE = 1607,  // x r w, which the rotation takes as it is: fused kernels of GPU libraries.
};
ROPE_ENUM_TYPE(rope_norm_formula);

// The rounding of a norm's result.
enum rope_norm_result ROPE_INT32_ENUM {
  ROPE_NORM_RESULT_KEPT = 0,  // Not at all: the next stage takes the float.
  ROPE_NORM_RESULT_ROUNDED = 1701,  // To the element of the tensor that is read.
  // To the wider type of that element and the weights', as PyTorch promotes a product.
  ROPE_NORM_RESULT_PROMOTED = 1702,
};
ROPE_ENUM_TYPE(rope_norm_result);

// The values that a norm covers.
enum rope_norm_reach ROPE_INT32_ENUM {
  ROPE_NORM_REACH_HEAD = 0,  // Each head by itself.
  ROPE_NORM_REACH_ROW = 1801,  // All heads of a token together: OLMo 2, OLMoE, MiniMax-M2.
};
ROPE_ENUM_TYPE(rope_norm_reach);

// The order in which a norm sums squares. Either order is the same on every backend.
enum rope_norm_sum ROPE_INT32_ENUM {
  ROPE_NORM_SUM_PYTORCH = 0,  // In float, in the order of PyTorch's `mean` on x86: the bits of the eager model.
  ROPE_NORM_SUM_F64 = 1901,  // In double, in eight lanes, and the mean rounded to float once: nearer to the true mean.
};
ROPE_ENUM_TYPE(rope_norm_sum);

// The order of a stage and the rotation.
enum rope_stage_order ROPE_INT32_ENUM {
  ROPE_STAGE_ORDER_BEFORE_ROTATION = 0,  // Before the rotation.
  ROPE_STAGE_ORDER_AFTER_ROTATION = 2001,  // After it: the norms of HunYuan, Llama 4 and nanochat.
};
ROPE_ENUM_TYPE(rope_stage_order);

// The owner of a factor: the tensor, a token or a head.
enum rope_scale_kind ROPE_INT32_ENUM {
  ROPE_SCALE_KIND_CONSTANT = 2401,  // The tensor: the same `factor` everywhere.
  // A token of a sequence: `factors` is `[batch][tokens]`. Mistral 4's, Llama 4's temperature.
  ROPE_SCALE_KIND_PER_TOKEN = 2402,
  ROPE_SCALE_KIND_PER_TOKEN_AND_HEAD = 2403,  // A head of a token: `factors` is `[batch][tokens][heads]`.
};
ROPE_ENUM_TYPE(rope_scale_kind);

// Where a Hadamard transform multiplies by 1 / sqrt(block). For blocks that are a power of four both give the same
// floats, overflow and subnormal numbers apart.
enum rope_hadamard_factor ROPE_INT32_ENUM {
  // After the butterflies: DeepSeek, fast_hadamard_transform, SGLang, executorch, QuaRot.
  ROPE_HADAMARD_FACTOR_LAST = 0,
  ROPE_HADAMARD_FACTOR_FIRST = 1201,  // Before the butterflies: llama.cpp.
};
ROPE_ENUM_TYPE(rope_hadamard_factor);

// The transforms of engines.
enum rope_hadamard_preset ROPE_INT32_ENUM {
  // llama.cpp's of queries and of quantized keys: the largest block of 64, 128, 256 .. channels that divides the
  // head, multiplied first; none where 64 does not divide the head.
  ROPE_HADAMARD_PRESET_LLAMA_CPP_KEYS = 1301,
  // llama.cpp's of quantized values and of the attention's output: blocks of 64 channels, multiplied first; none
  // where 64 does not divide the head.
  ROPE_HADAMARD_PRESET_LLAMA_CPP_VALUES = 1302,
  ROPE_HADAMARD_PRESET_INDEXER = 1303,  // The indexers of DeepSeek-V3.2 and V4 and of GLM: the whole head is one block.
};
ROPE_ENUM_TYPE(rope_hadamard_preset);

// The weights, or the biases, of a norm: `[head_dim]`, which all heads share, or `[heads][head_dim]`. Zeros: none.
typedef struct rope_weights {
  const void *data;  // The first of them, aligned as its type is.
  size_t count;  // The number of weights.
  int32_t element;  // Their type (`enum rope_element`).
} rope_weights;

// A norm of queries or keys: its sum, its factors, and its rounding. Every operation is rounded to a float by itself.
//
// rope_norm_init fills in a formula and `eps`; then the caller sets the weights. A struct of zeros multiplies a head
// by the reciprocal of its root mean square, and rounds nothing.
typedef struct rope_norm {
  int32_t centered;  // Other than 0: the mean is taken off first, a layer norm.
  // Other than 0: it multiplies by `weight`, and is refused without. 0: it has none, and is refused with some.
  int32_t weighted;
  int32_t one_plus_weight;  // Other than 0: the factor is 1 + w.
  int32_t rounds_normed;  // Other than 0: the normed value is rounded to the element before the weight.
  // Other than 0: the product with the weight is rounded to the element before a bias is added.
  int32_t rounds_product;
  int32_t result;  // The rounding of the result (`enum rope_norm_result`).
  float eps;  // The number that is added to the mean. With 0 a head of zeros becomes NaNs.
  struct rope_weights weight;  // The weights; zeros where `weighted` is 0.
  struct rope_weights bias;  // The biases, which are added last; zeros: none.
  int32_t reach;  // The values that it covers (`enum rope_norm_reach`).
  int32_t order;  // On which side of the rotation it stands (`enum rope_stage_order`).
  int32_t sum;  // The order of the sum of squares (`enum rope_norm_sum`).
  // Sums of squares from the caller, where a row is split over ranks: one for each token of each sequence, or for
  // each head where heads are normed by themselves. rope_sum_of_squares computes the sums of a part. NULL: the call
  // computes them.
  const float *sums;
  size_t sums_count;  // The number of sums; not 0 if `sums` is given.
  size_t sums_width;  // Channels that each of them was summed over. Not used without sums.
} rope_norm;

// A factor on queries or keys. On its side of the rotation it follows the norm.
typedef struct rope_scale {
  int32_t kind;  // The owners of the factors (`enum rope_scale_kind`).
  float factor;  // CONSTANT: the factor. Not used by others.
  const float *factors;  // The factors. Not used by CONSTANT.
  size_t count;  // The number of factors. Not read for CONSTANT.
  int32_t order;  // On which side of the rotation it stands (`enum rope_stage_order`).
  int32_t unrounded;  // Other than 0: the product is not rounded to the element of the tensor that is read.
} rope_scale;

// A Hadamard transform of blocks of channels, in float: strides ascend, each operation is rounded by itself. It is its
// own inverse. Zeros: none.
typedef struct rope_hadamard {
  size_t block;  // Channels of a block, a power of two from 2 to 2048 that divides a head; 0: there is no transform.
  int32_t factor;  // Where it multiplies (`enum rope_hadamard_factor`).
} rope_hadamard;

// Fills in a norm of each head, before the rotation, by a formula (`enum rope_norm_formula`) and the eps of the model,
// its `rms_norm_eps` or `layer_norm_eps`. Unless the formula has no weights, they are to be set.
//
// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED. The calls check `eps`.
ROPE_NODISCARD
rope_status rope_norm_init(struct rope_norm *norm, int32_t formula, float eps);

// Fills in the transform that an engine applies to heads of `head_dim` channels (`enum rope_hadamard_preset`).
//
// Returns ROPE_STATUS_HADAMARD_BLOCK if the block would be longer than 2048 channels, or the indexer's head is no
// power of two; ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED. The struct is untouched then.
ROPE_NODISCARD
rope_status rope_hadamard_init(struct rope_hadamard *hadamard, int32_t preset, size_t head_dim);

// ---- KV caches ----

// The format of the values in a cache. All codes round to nearest.
enum rope_cache_format ROPE_INT32_ENUM {
  ROPE_CACHE_FORMAT_F32 = 701,  // IEEE single precision.
  ROPE_CACHE_FORMAT_F16 = 702,  // IEEE half precision.
  ROPE_CACHE_FORMAT_BF16 = 703,  // bfloat16.
  ROPE_CACHE_FORMAT_E4M3 = 704,  // Codes of FP8 E4M3FN up to 448; larger values become the largest.
  ROPE_CACHE_FORMAT_E5M2 = 705,  // Codes of FP8 E5M2 as PyTorch converts; larger values become infinities.
  ROPE_CACHE_FORMAT_E5M2_SATURATING = 706,  // Codes of FP8 E5M2 up to 57344; larger values become the largest. vLLM's.
  ROPE_CACHE_FORMAT_INT8_EVEN = 707,  // Integers of 8 bits, ties to even: ONNX Runtime's.
  ROPE_CACHE_FORMAT_INT8_ROUND_AWAY = 708,  // Integers of 8 bits, ties away from zero: vLLM's Triton kernel.
  // ggml's blocks of 32 values in 34 bytes, by its reference formula. The layout counts values.
  ROPE_CACHE_FORMAT_Q8_0 = 709,
  ROPE_CACHE_FORMAT_Q4_0 = 710,  // ggml's Q4_0: 32 values in 18 bytes, likewise.
  ROPE_CACHE_FORMAT_Q4_1 = 711,  // ggml's Q4_1: 32 values in 20 bytes.
  ROPE_CACHE_FORMAT_Q5_0 = 712,  // ggml's Q5_0: 32 values in 22 bytes.
  ROPE_CACHE_FORMAT_Q5_1 = 713,  // ggml's Q5_1: 32 values in 24 bytes.
  ROPE_CACHE_FORMAT_IQ4_NL = 714,  // ggml's IQ4_NL: 32 values in 18 bytes.
  // OCP's MXFP4: two codes of E2M1 in a byte, the even channel in its low half, and a power of two for 32 channels.
  ROPE_CACHE_FORMAT_MXFP4 = 715,
  ROPE_CACHE_FORMAT_MXFP8 = 716,  // OCP's MXFP8: codes of E4M3, and a power of two for 32 channels.
  // NVFP4: codes as in MXFP4, a scale of E4M3 for 16 channels, and a factor of the tensor: `scale.same`.
  ROPE_CACHE_FORMAT_NVFP4 = 717,
  // Codes of E4M3 and a float for 128 channels: the latent channels of DeepSeek's caches.
  ROPE_CACHE_FORMAT_E4M3_IN128 = 718,
  ROPE_CACHE_FORMAT_E4M3_IN64 = 719,  // Codes of E4M3 and a float for 64 channels.
  // OpenVINO's u8, in groups of 32 channels: a scale and a zero point as floats, and 32 codes. The layout counts
  // channels.
  ROPE_CACHE_FORMAT_U8_IN32 = 720,
  ROPE_CACHE_FORMAT_U8_IN64 = 721,  // Likewise, in groups of 64 channels.
  ROPE_CACHE_FORMAT_U8_IN128 = 722,  // Likewise, in groups of 128 channels.
  ROPE_CACHE_FORMAT_U4_IN32 = 723,  // OpenVINO's u4, likewise: two codes in a byte, the even channel in its high half.
  ROPE_CACHE_FORMAT_U4_IN64 = 724,  // Likewise, in groups of 64 channels.
  ROPE_CACHE_FORMAT_U4_IN128 = 725,  // Likewise, in groups of 128 channels.
  // OpenVINO's u8 by channel: for `scale.tokens` slots of a block, a scale and a zero point of each channel as
  // floats, and codes. The layout is HND, or NHD of one head, and counts channels; for each head and group of slots
  // lie the scales, the zero points and the codes, slot by slot. A call writes, shifts and moves whole groups, and
  // reads any slots.
  ROPE_CACHE_FORMAT_U8_BY_CHANNEL = 726,
  ROPE_CACHE_FORMAT_U4_BY_CHANNEL = 727,  // Likewise with two codes in a byte, the even channel in its high half.
  // KIVI's keys of 2 bits, likewise: scales and minima in f16, and the codes of a channel side by side, the first
  // slot in the lowest bits. `scale.tokens` is a multiple of 16.
  ROPE_CACHE_FORMAT_KIVI2 = 728,
  ROPE_CACHE_FORMAT_KIVI4 = 729,  // Likewise with 4 bits; a multiple of 8.
  // Unsigned codes in groups of `scale.channels` channels, of which each has two floats: a scale, and a zero point
  // or a minimum (`scale.group`).
  ROPE_CACHE_FORMAT_U8 = 730,
  ROPE_CACHE_FORMAT_U4 = 731,  // Likewise, two codes in a byte, the even channel in its high half.
};
ROPE_ENUM_TYPE(rope_cache_format);

// The order of a cache in memory, outermost first: N the slots of a block (page), H the heads, D the channels of a
// head, x the rest of the dimension before it, which was divided. A cache that is not paged has one block, or one
// for each sequence.
enum rope_cache_layout_kind ROPE_INT32_ENUM {
  // `extents` {blocks, N, H, D}: FlashInfer, vLLM, SGLang (N = 1), llama.cpp's rows, TensorRT.
  ROPE_CACHE_LAYOUT_KIND_NHD = 801,
  // `extents` {blocks, H, N, D}: FlashInfer, TensorRT-LLM, OpenVINO; ONNX Runtime and candle (block = sequence).
  ROPE_CACHE_LAYOUT_KIND_HND = 802,
  ROPE_CACHE_LAYOUT_KIND_HDN = 803,  // `extents` {blocks, H, D, N}: vLLM's keys on CPUs, llama.cpp's transposed values.
  ROPE_CACHE_LAYOUT_KIND_HDNX = 804,  // `extents` {blocks, H, D / x, N, x}: vLLM's older keys, mistral.rs.
  ROPE_CACHE_LAYOUT_KIND_HNDX = 805,  // `extents` {blocks, H, N / x, D, x}: interleaved values of vLLM and AITER.
  ROPE_CACHE_LAYOUT_KIND_STRIDED = 806,  // `extents` {blocks, N, H, D} in any order in memory: `strides`.
};
ROPE_ENUM_TYPE(rope_cache_layout_kind);

// The scale of numbers before they are rounded to a code.
enum rope_quant_scale_kind ROPE_INT32_ENUM {
  ROPE_QUANT_SCALE_KIND_DIVIDE = 901,  // x / s; read as code * s: vLLM on GPUs, LMDeploy.
  // x (1 / s), the reciprocal rounded; read as code * s: vLLM on CPUs, ONNX Runtime.
  ROPE_QUANT_SCALE_KIND_RECIPROCAL = 902,
  // x s; read as code * (1 / s), the reciprocal rounded: FlashInfer, TensorRT-LLM.
  ROPE_QUANT_SCALE_KIND_MULTIPLY = 903,
  // Made for each token and head, s = max(largest |x| / largest code, `least`) and x (1 / s), and kept in the cache
  // as a float, `behind` bytes after the first code of its head.
  ROPE_QUANT_SCALE_KIND_MADE_INLINE = 904,
  ROPE_QUANT_SCALE_KIND_MADE_APART = 905,  // Made likewise, and kept in the cache's `scales`.
  // Made likewise, and kept in the cache from byte `behind` of its memory on, at `strides` in bytes: after all codes
  // of a block, as in the pages of vLLM's indexers and of its NVFP4.
  ROPE_QUANT_SCALE_KIND_MADE_IN_BLOCK = 906,
};
ROPE_ENUM_TYPE(rope_quant_scale_kind);

// The scale of a group of channels, from their largest magnitude m.
enum rope_group_scale ROPE_INT32_ENUM {
  // MXFP4, MXFP8: a power of two, the exponent of m minus the exponent of the largest code, as OCP defines it.
  ROPE_GROUP_SCALE_FLOOR = 2701,
  // MXFP4, MXFP8: likewise, after m was rounded to the mantissa of the code, as in vLLM's MXFP4.
  ROPE_GROUP_SCALE_EVEN = 2702,
  // MXFP4, MXFP8: the least power of two that is at least m / largest code, as in NVIDIA's MXFP8.
  ROPE_GROUP_SCALE_UP = 2703,
  // E4M3_IN128, E4M3_IN64: max(m / 448, `least`), as in vLLM, where `least` is FLT_MIN.
  ROPE_GROUP_SCALE_QUOTIENT = 2704,
  // E4M3_IN128, E4M3_IN64: the least power of two that is at least max(m / 448, `least`), as in
  // DeepSeek's code.
  ROPE_GROUP_SCALE_POWER_OF_TWO = 2705,
  // E4M3_IN128, E4M3_IN64: the same power of two in a byte, as in the records of DeepSeek-V4.
  ROPE_GROUP_SCALE_E8M0 = 2706,
  // U8, U4: the scale (max - min) / largest code, and the zero point -min / scale: OpenVINO's.
  ROPE_GROUP_SCALE_ZERO_POINT = 2707,
  ROPE_GROUP_SCALE_MINIMUM = 2708,  // U8, U4: the same scale, and min: tract's.
};
ROPE_ENUM_TYPE(rope_group_scale);

// The form of a list of slots.
enum rope_slots_kind ROPE_INT32_ENUM {
  // `slots` has the slot of each token, block * block_size + place: a runtime's slot mapping.
  ROPE_SLOTS_KIND_MAPPING = 2601,
  ROPE_SLOTS_KIND_RANGE = 2602,  // `count` slots from `first` on.
  // By the pages of each sequence (FlashInfer's CSR): token i is of sequence `sequences[i]` at `positions[i]`; the
  // pages of sequence s are `pages[starts[s]]` to `pages[starts[s + 1] - 1]`.
  ROPE_SLOTS_KIND_PAGES = 2603,
  // By a page table: `pages` is `[batch][width]`, the pages of each sequence of the tensor, and `positions` has
  // the position of each token.
  ROPE_SLOTS_KIND_TABLE = 2604,
  // One block for each sequence of the tensor, and `positions` has the position of each token in it: ONNX Runtime.
  ROPE_SLOTS_KIND_SEQUENCES = 2605,
  // `offsets` has the index of each token's first element, in elements of the cache: for a cache that
  // rope_cache_layout cannot describe.
  ROPE_SLOTS_KIND_OFFSETS = 2606,
  // By a page table of sequences that are packed one after another in a tensor of one batch: sequence s has the
  // tokens `starts[s]` to `starts[s + 1] - 1` (FlashAttention's cu_seqlens), the first of them at `positions[s]`;
  // `pages` is `[sequences][width]`.
  ROPE_SLOTS_KIND_PACKED_TABLE = 2607,
};
ROPE_ENUM_TYPE(rope_slots_kind);

// The strides of a cache, in its elements (bytes where it keeps codes). Channel d of head h in slot s, which is place
// p = s % block_size, lies at
//
// (s / block_size) block + (p / group) group_stride + (p % group) token + h head + (d / chunk) chunk_stride + (d %
// chunk) channel
typedef struct rope_cache_strides {
  size_t block;  // From a block to the next.
  size_t group;  // Slots of a group; all of a block where there are no groups.
  size_t group_stride;  // From a group of slots to the next.
  size_t token;  // From a slot of a group to the next.
  size_t head;  // From a head to the next.
  size_t chunk;  // Channels of a chunk; all of a head where they lie side by side.
  size_t chunk_stride;  // From a chunk of channels to the next.
  size_t channel;  // From a channel of a chunk to the next.
} rope_cache_strides;

// Where the elements of a cache lie. The caller fills it in.
typedef struct rope_cache_layout {
  int32_t kind;  // The order in memory (`enum rope_cache_layout_kind`).
  size_t extents[5];  // The extents, as the kind names them.
  struct rope_cache_strides strides;  // STRIDED: the strides. Not used by others.
  // The first channel of each head that the cache uses, and the one after its last: where keys and values, or
  // codes and a scale, lie one after another in a head. {0, 0}: all.
  size_t channels[2];
} rope_cache_layout;

// The scale of a cache of codes. Fields that a kind does not name are not read. Scales of groups of channels are made:
// they lie one after another where a head has its scale, and are bytes but for U8, U4, and E4M3_IN128 and E4M3_IN64
// without E8M0.
typedef struct rope_quant_scale {
  int32_t kind;  // `enum rope_quant_scale_kind`.
  float same;  // DIVIDE, RECIPROCAL, MULTIPLY: s of all heads, where `each` is NULL. NVFP4: the factor of the tensor.
  const float *each;  // DIVIDE, RECIPROCAL, MULTIPLY: s of each head; NULL: all have `same`.
  size_t each_count;  // The length of `each`: one number per head of the cache, or 0 if `each` is NULL.
  float least;  // MADE_INLINE, MADE_APART: the least scale; vLLM's is 1e-6.
  int32_t group;  // MXFP4, MXFP8, E4M3_IN128, E4M3_IN64, U8, U4: how scales are made (`enum rope_group_scale`).
  size_t channels;  // U8, U4: channels of a group; 0: all of a head.
  // MADE_INLINE: bytes from the first code of a head to its scale. For a scale directly after the codes: the
  // bytes of the head's codes. MADE_IN_BLOCK: bytes from `memory` to the first scale.
  size_t behind;
  // MADE_APART: distances in scales between adjacent blocks, slots and heads. `[blocks][block_size][heads]` has
  // {block_size * heads, heads, 1}, times the groups of a head. MADE_IN_BLOCK: the same distances in bytes.
  size_t strides[3];
  // U8_BY_CHANNEL, U4_BY_CHANNEL, KIVI2, KIVI4: the slots of a group, which share the scale of each channel;
  // OpenVINO and KIVI have 32. It divides the slots of a block.
  size_t tokens;
} rope_quant_scale;

// The keys, or the values, of a layer in a cache. Calls that only read it do not write its memory.
typedef struct rope_cache {
  void *memory;  // The first byte, aligned as an element is.
  size_t bytes;  // The length of `memory` in bytes.
  int32_t format;  // The format (`enum rope_cache_format`).
  struct rope_cache_layout layout;  // Where it lies.
  struct rope_quant_scale scale;  // The scales of codes. Not read for other formats.
  void *scales;  // ROPE_QUANT_SCALE_KIND_MADE_APART: the scales, floats or bytes. Not used by others.
  size_t scales_count;  // The number of scales.
  // ROPE_QUANT_SCALE_KIND_MADE_APART of U8 and U4: the zero points or minima, as many as `scales_count` and at the
  // strides of the scales. NULL: each follows its scale in `scales`. Not used by others.
  void *zeros;
} rope_cache;

// A list of integers.
typedef struct rope_ids {
  const void *values;  // The integers.
  size_t count;  // The number of ids.
  int32_t number;  // Their type (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64).
} rope_ids;

// The slot of each token, sequence by sequence. Fields that a kind does not name are not
// read.
//
// A token with a negative slot or offset is skipped, and with pages, a table or sequences one at a negative position:
// nothing is written for it, and nothing read. In a mapping only the slot counts: the row of a negative position
// rotates backwards. A negative page of a position that exists is refused. Of two tokens with one slot the later one
// stays.
typedef struct rope_slots {
  int32_t kind;  // The form of the list (`enum rope_slots_kind`).
  struct rope_ids slots;  // MAPPING: the slot of each token.
  // PAGES, TABLE, SEQUENCES: the position of each token in its sequence. PACKED_TABLE: the position of the first
  // token of each sequence.
  struct rope_ids positions;
  struct rope_ids pages;  // PAGES: the pages of all sequences. TABLE, PACKED_TABLE: the table.
  // PAGES: the first page of each sequence, and the end of the last sequence's pages. PACKED_TABLE: the same for
  // tokens.
  struct rope_ids starts;
  struct rope_ids sequences;  // PAGES: the sequence of each token.
  size_t width;  // TABLE, PACKED_TABLE: pages of a sequence's line.
  size_t first;  // RANGE: the first slot.
  size_t count;  // RANGE: how many slots. OFFSETS: how many offsets.
  const int64_t *offsets;  // OFFSETS: the offset of each token.
} rope_slots;

// Moves heads within a cache: copies the i-th slot of `from` to the i-th of `to`, as bits with their scales, as if all
// slots were read before the first is written. Slots of `from` alone keep their heads. A move with a negative slot is
// skipped.
//
// The branch of a draft that was accepted moves to the slots after its prefix, and the tokens that stay after a drop
// close the gap. Keys whose positions change also rotate, by rope_rotate of the slots `to`; values only move.
//
// The moves run in the order of the lists or in its reverse, and nothing is allocated. One of the two fits every list
// that keeps the order of its tokens. Cycles, as an exchange of two slots, are refused with ROPE_STATUS_MOVE_ORDER.
//
// Returns ROPE_STATUS_MOVE_ORDER, ROPE_STATUS_SAME_TARGET, ROPE_STATUS_SLOT_COUNT unless the lists have one length,
// ROPE_STATUS_CACHE_LAYOUT for offsets, and what rope_rotate returns of a cache. The cache is untouched then.
//
// Threads: No other thread may use the cache's memory and scales meanwhile.
ROPE_NODISCARD
rope_status rope_move_slots(const struct rope_cache *cache, const struct rope_slots *from, const struct rope_slots *to);

// ---- Gradients ----

// The sums of rope_gradients over two tensors `a` and `b`: x is before the rotation, y after it; `a` has the plan's
// output pairing if it is y, or the gradient by y, and its input pairing if it is x.
enum rope_gradient_kind ROPE_INT32_ENUM {
  // `a` is y and `b` the gradient by it: `y1 dy2 - y2 dy1`, the gradient of the angle of each pair, to `sums`.
  ROPE_GRADIENT_KIND_ANGLES = 1101,
  // `a` is x and `b` the gradient by it: `x1 dx2 - x2 dx1`, the same number but for rounding.
  ROPE_GRADIENT_KIND_ANGLES_OF_INPUT = 1102,
  // `a` is y and `b` the gradient by it: `y1 dy1 + y2 dy2`, the gradient of the logarithm of the factor of each
  // pair: of what cos and sin of a row are multiplied by (an attention factor, or xPos, which has one for each
  // pair).
  ROPE_GRADIENT_KIND_FACTORS = 1103,
  // `a` is x and `b` the gradient by y. Adds `x1 dy1 + x2 dy2`, the gradient of the cos of each row, to `sums`, and
  // `x1 dy2 - x2 dy1`, the gradient of its sin, to `sin`. With it, given rows are parameters.
  ROPE_GRADIENT_KIND_COS_SIN = 1104,
  // The same for full-width rows. For the channels `i` and `j` of a pair, adds `xi dyi` to the gradient of `cos[i]`,
  // `-xj dyi` to `sin[i]`, `xj dyj` to `cos[j]` and `xi dyj` to `sin[j]`. `sums` (of cos) and `sin` have a place for
  // each channel: their `pairs` is the rotary_dim of the rows.
  ROPE_GRADIENT_KIND_CHANNELS = 1105,
};
ROPE_ENUM_TYPE(rope_gradient_kind);

// Gradients of pairs, `[rows][heads][pairs]`: the sums of a backward pass, in doubles of the caller's.
//
// There is a row for each token, which all sequences share, or one for each token of each sequence. Calls add to
// the sums: begin with zeros, or with the sums of other layers.
//
// The order of a sum is fixed: sequence by sequence where they share a row, in each head by head where heads do, then
// the next call (Q first, then K). So the bits are the same on every backend and in every layout, and threads may have
// tokens of their own, each with the rows of its tokens. To deal out heads or sequences that share a row would change
// the order.
typedef struct rope_pair_gradients {
  double *sums;  // The first of the sums; there are `rows * heads * pairs`.
  size_t rows;  // Tokens, or sequences times tokens.
  size_t heads;  // Heads with sums of their own: the number of heads of the tensor. 0 and 1: heads share theirs.
  size_t pairs;  // Pairs of a head that rotate: half of the rotary_dim of the rows.
} rope_pair_gradients;

// The backward pass of rope_rotate, by a plan without a norm: `dy`, the gradient by the rotated tensor `y`, becomes
// the gradient by the tensor before, and `y1 dy2 - y2 dy1` is added to the gradient of the angle of each pair. `dy`
// becomes what ROPE_DIRECTION_TRANSPOSE makes of it, bit for bit. Both tensors have one element and one shape.
//
// A scale and a Hadamard transform are transposed, in reverse order, and round where they do in the forward pass. With
// a Hadamard transform the gradients of the angles are computed from `y` and `dy` transformed back, in float.
//
// Returns ROPE_STATUS_BACKWARD_DIRECTION unless the plan rotates forward, ROPE_STATUS_NOT_LINEAR for a plan with a
// norm, ROPE_STATUS_SHAPE_MISMATCH, ROPE_STATUS_GRADIENT_HEADS, ROPE_STATUS_GRADIENT_SHAPE unless the gradients have
// as many pairs as the rows, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_UNKNOWN_VALUE for two elements,
// ROPE_STATUS_OPERAND for a cache, ROPE_STATUS_ANGLES for frequencies at positions, and what rope_rotate returns.
// Nothing is touched then.
//
// Threads: No other thread may use the memory of `dy` or of the sums meanwhile; others may read `y` and the rows. The
// bits do not depend on how tokens are divided among threads.
ROPE_NODISCARD
rope_status rope_backward(const struct rope_plan *plan, const struct rope_operand *y, const struct rope_operand *dy,
                          const struct rope_angles *rows, const struct rope_pair_gradients *angles);

// The backward pass of rope_rotate_into between tensors, by a plan without stages: as rope_backward, from `dy` into
// `dx`, which may have another element. `y` and `dy` have one element and the plan's output pairing; `dx` has its
// input pairing. All three have one shape.
//
// Returns what rope_backward returns, but the pairing may change; ROPE_STATUS_NOT_LINEAR for a plan with stages.
// Nothing is touched then.
//
// Threads: No other thread may use the memory of `dx` or of the sums meanwhile; others may read `y`, `dy` and the rows.
ROPE_NODISCARD
rope_status rope_backward_into(const struct rope_plan *plan, const struct rope_operand *y,
                               const struct rope_operand *dy, const struct rope_operand *dx,
                               const struct rope_angles *rows, const struct rope_pair_gradients *angles);

// Adds gradients (`enum rope_gradient_kind`) of two tensors that are only read. They have one element and one shape.
// `sin` is used by COS_SIN and CHANNELS, and may be NULL for others.
//
// Returns ROPE_STATUS_BACKWARD_DIRECTION unless the plan rotates forward, ROPE_STATUS_NOT_LINEAR for one with stages,
// ROPE_STATUS_SHAPE_MISMATCH, ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD if the gradients have more pairs than a head,
// ROPE_STATUS_ROW_COUNT unless they have a row for each token or one for each token of each sequence,
// ROPE_STATUS_GRADIENT_HEADS unless they have one head or the heads of the tensors; of COS_SIN and CHANNELS
// ROPE_STATUS_GRADIENT_PAIRING if the plan's pairing changes and ROPE_STATUS_GRADIENT_SHAPE unless `sums` and `sin`
// have one shape; of CHANNELS ROPE_STATUS_ROTARY_DIM if they are none or odd, and ROPE_STATUS_HEAD_DIM_ON_STACK;
// ROPE_STATUS_OPERAND for a cache, ROPE_STATUS_BACKEND_UNAVAILABLE, ROPE_STATUS_SHAPE_OVERFLOW,
// ROPE_STATUS_OUT_OF_BOUNDS; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE,
// ROPE_STATUS_MEMORY_OVERLAP. Nothing is added then.
//
// Threads: No other thread may use the memory of the sums meanwhile; others may read the tensors.
ROPE_NODISCARD
rope_status rope_gradients(int32_t kind, const struct rope_plan *plan, const struct rope_operand *a,
                           const struct rope_operand *b, const struct rope_pair_gradients *sums,
                           const struct rope_pair_gradients *sin);

// Adds to `out` the gradient of the inverse frequencies, `[axes][heads][pairs]` with the heads of the gradients of
// angles: the sum over rows of the position times the gradient, row after row, each product and each sum rounded to a
// double. A pair that follows one axis has a gradient on this axis. `out` has `len` numbers.
//
// Returns ROPE_STATUS_STORAGE unless `len` is `axes * heads * pairs`, ROPE_STATUS_COUNT unless there is a position for
// each row, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE,
// ROPE_STATUS_MEMORY_OVERLAP, and what rope_rows_len returns for positions. Nothing is added then.
//
// Threads: No other thread may use the sums or `out` meanwhile.
ROPE_NODISCARD
rope_status rope_pair_gradients_frequencies(const struct rope_pair_gradients *angles,
                                            const struct rope_positions *positions, size_t axes, double *out,
                                            size_t len);

// Adds to `out` the gradient of the positions, `[rows][axes]`, where they are learned or computed: of each the sum
// over heads and pairs of the inverse frequency times the gradient of the angle, head by head and in each pair by
// pair. The `count` inverse frequencies, in radians, are `[axes][heads][pairs]` with the heads of the gradients. `out`
// has `len` numbers.
//
// Returns ROPE_STATUS_COUNT unless `count` is `axes * heads * pairs`, ROPE_STATUS_STORAGE unless `len` is
// `rows * axes`, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP. Nothing is
// added then.
//
// Threads: As rope_pair_gradients_frequencies.
ROPE_NODISCARD
rope_status rope_pair_gradients_positions(const struct rope_pair_gradients *angles, const double *inverse, size_t count,
                                          size_t axes, double *out, size_t len);

// Writes to `total` the sum of all, row by row, head by head, pair by pair: of rope_gradients the gradient of
// the logarithm of one attention factor.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: As rope_pair_gradients_frequencies.
ROPE_NODISCARD
rope_status rope_pair_gradients_total(const struct rope_pair_gradients *gradients, double *total);

// Computes the gradients of the cos and sin of each row from the gradients of angles and of the logarithms of factors,
// and adds them to `cos` and `sin`, in the same shape: with `m = cos^2 + sin^2`, `(cos dlnA - sin dphi) / m` and
// `(sin dlnA + cos dphi) / m`.
// With the tensor before the rotation at hand, rope_gradients of ROPE_GRADIENT_KIND_COS_SIN has one rounding less and
// takes any row. `cos` and `sin` have `len` numbers each. The four arrays are apart.
//
// Returns ROPE_STATUS_GRADIENT_SHAPE unless factors and rows have the shape of the angles' gradients,
// ROPE_STATUS_STORAGE unless `len` is as many, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_ROW_OF_ZEROS where cos and sin
// are both zero, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what
// rope_rotate returns for rows. Nothing is added then.
//
// Threads: As rope_pair_gradients_frequencies; others may read the rows.
ROPE_NODISCARD
rope_status rope_pair_gradients_cos_sin(const struct rope_pair_gradients *angles,
                                        const struct rope_pair_gradients *factors, const struct rope_angles *rows,
                                        double *cos, double *sin, size_t len);

// Converts the `count` gradients by `f` to gradients by `r`, `dr = f0 df`, for frequencies `f = r f0` that are learned
// as ratios to fixed ones. With `f` in place of `f0` it converts to gradients by `l` of `f = exp(l)`, learned as
// logarithms, or by `alpha` of `f = f0 exp(alpha)`.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
//
// Threads: No other thread may use the gradients meanwhile; others may read the frequencies.
ROPE_NODISCARD
rope_status rope_gradients_to_ratio(const double *frequencies, double *gradients, size_t count);

// Of `f_i = b^(-i/count)`, frequencies that follow from a learned base: writes its gradient to `gradient`,
// `db = sum of -(i / (count b)) f_i df_i`, pair by pair.
//
// Returns what rope_gradients_to_ratio returns.
//
// Threads: As rope_gradients_to_ratio; others may read the gradients too.
ROPE_NODISCARD
rope_status rope_gradients_to_base(double base, const double *frequencies, const double *gradients, size_t count,
                                   double *gradient);

// ---- Instruction sets ----

// An instruction set that the kernels are compiled for. All give the same bits; they differ in speed.
enum rope_backend ROPE_INT32_ENUM {
  ROPE_BACKEND_BEST = 0,  // The fastest that this CPU can run.
  ROPE_BACKEND_SCALAR = 601,  // Any target, without vectors.
  ROPE_BACKEND_PORTABLE = 602,  // Any target: 4 lanes of the build's target.
  ROPE_BACKEND_NEON = 603,  // 64-bit ARM: 4 lanes.
  ROPE_BACKEND_AVX2 = 604,  // x86 with AVX2, FMA and F16C: 8 lanes.
  ROPE_BACKEND_AVX512 = 605,  // x86 with AVX-512 F, BW, DQ, VL and VBMI2: 16 lanes.
  ROPE_BACKEND_AVX512_BF16 = 606,  // x86 with all that AVX512 needs, and AVX512-BF16 and VBMI for bf16: 16 lanes.
  ROPE_BACKEND_RVV = 607,  // 64-bit RISC-V with V 1.0: vectors of the CPU's own length.
  ROPE_BACKEND_SVE = 608,  // 64-bit ARM with SVE: vectors of the CPU's own length.
};
ROPE_ENUM_TYPE(rope_backend);

// 1 if this CPU, and this build of the library, can run a backend (`enum rope_backend`), otherwise 0. A number that
// names no backend gives 0.
int32_t rope_backend_available(int32_t backend);

// Returns the name of a backend in lower case; for ROPE_BACKEND_BEST, the name of the fastest backend that this CPU
// can run; NULL for a number that names no backend. The text is static; do not free it.
const char *rope_backend_name(int32_t backend);

// ---- Statuses and messages ----

// The result of a call. A refused call has touched no tensor.
enum rope_status ROPE_INT32_ENUM {
  ROPE_STATUS_OK = 0,  // Done.
  ROPE_STATUS_NULL = 1,  // A pointer is NULL where memory is needed.
  ROPE_STATUS_MISALIGNED = 2,  // A pointer is not a multiple of the alignment of its type.
  ROPE_STATUS_LENGTH = 3,  // A length is more than an address space can hold, or runs past its end.
  ROPE_STATUS_UNKNOWN_VALUE = 4,  // An integer names no value of its enumeration, or a value that has no meaning here.
  ROPE_STATUS_MEMORY_OVERLAP = 5,  // Memory that a call writes overlaps other memory that it reads or writes.
  ROPE_STATUS_HANDLE = 6,  // A pointer is to no handle of this library, or to one of another kind than the call takes.
  ROPE_STATUS_OUT_OF_MEMORY = 7,  // The allocator has no memory.
  ROPE_STATUS_INTERNAL = 8,  // A bug of the library, caught. The tensor that the call was writing may be half written.
  ROPE_STATUS_UTF8 = 9,  // Text is not UTF-8.
  ROPE_STATUS_POSITION_RANGE = 10,  // A range of positions ends beyond 2^63.
  ROPE_STATUS_SHAPE_OVERFLOW = 20,  // The index of the last element of a tensor does not fit size_t.
  ROPE_STATUS_OUT_OF_BOUNDS = 21,  // A layout reaches past the memory of the tensor or cache.
  ROPE_STATUS_OVERLAP = 22,  // Two indices of a tensor that is written could name one element.
  // rotary_dim is odd, zero or too large, or the scaling, the axes or the plan's parts need another.
  ROPE_STATUS_ROTARY_DIM = 23,
  // The rows rotate more channels than a head has, from the first that rotates on.
  ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD = 24,
  ROPE_STATUS_ROWS_LENGTH = 25,  // Values are not a whole number of rows.
  ROPE_STATUS_ROW_WIDTH = 26,  // A row of cos has neither a value for each pair nor each of them twice.
  ROPE_STATUS_ROW_COUNT = 27,  // Neither one row per token nor one per token of every sequence.
  ROPE_STATUS_ROWS_PER_HEAD = 65,  // The number of rows is not a multiple of the number of heads.
  ROPE_STATUS_ROW_HEADS = 66,  // Rows per head belong to another number of heads.
  // Strided rows belong to other sequences, or they lie as sequences that are no table.
  ROPE_STATUS_ROW_SEQUENCES = 67,
  // ROPE_DIRECTION_INVERSE: a pair of the rows has another magnitude than the attention factor.
  ROPE_STATUS_ROW_MAGNITUDE = 68,
  ROPE_STATUS_NO_INVERSE = 69,  // No floats undo a pair of the rows.
  ROPE_STATUS_POSITION_OUTSIDE_TABLE = 28,  // An id names no row of the table.
  ROPE_STATUS_ATTENTION_FACTOR = 29,  // An attention factor is zero, infinite or not a number.
  ROPE_STATUS_PAIRING_CHANGES_IN_PLACE = 30,  // A plan that changes the pairing was to work in place.
  ROPE_STATUS_SHAPE_MISMATCH = 31,  // Source and target have different shapes.
  ROPE_STATUS_QUERY_KEY_MISMATCH = 32,  // Q and K differ in more than their heads.
  ROPE_STATUS_BACKEND_UNAVAILABLE = 33,  // This CPU, or this build, lacks the instruction set.
  ROPE_STATUS_PARAMETER = 34,  // A base, factor or other number makes no sense.
  ROPE_STATUS_COUNT = 35,  // A list with one number for each pair has another length.
  ROPE_STATUS_STORAGE = 36,  // Storage is too short.
  ROPE_STATUS_TOO_FAST = 37,  // One position would rotate a pair by 32768 turns or more.
  ROPE_STATUS_AXES = 38,  // The axes do not add up.
  ROPE_STATUS_SECTIONS = 70,  // Sections of M-RoPE do not sum to the pairs of rotary_dim.
  // Positions are not one for each axis of a token: a list does not divide by the number of axes, or mixed
  // frequencies on several axes got one number per token.
  ROPE_STATUS_POSITIONS_PER_AXIS = 39,
  ROPE_STATUS_COORDINATE = 40,  // A coordinate is not a number, or beyond 2^63.
  ROPE_STATUS_OFFSETS = 41,  // Offsets of packed sequences do not start at 0, or fall.
  ROPE_STATUS_ROWS_TOO_LONG = 42,  // Rows of more bytes than memory can have.
  // A row has more than 2048 values, too many for a call that makes rows on the stack.
  ROPE_STATUS_ROTARY_DIM_ON_STACK = 43,
  ROPE_STATUS_JSON = 44,  // A configuration is not JSON, or not an object.
  ROPE_STATUS_MISSING = 45,  // A key of a configuration is missing, and has no known default.
  ROPE_STATUS_INVALID = 46,  // A key of a configuration has a value of another type or outside of its range.
  ROPE_STATUS_UNKNOWN = 47,  // A name in a configuration stands for no known variant.
  ROPE_STATUS_NO_SUCH = 75,  // A configuration has no part, or no type of layers, of the name that was chosen.
  ROPE_STATUS_MODEL_HEAD = 77,  // The heads are neither whole heads of the model nor the channels of them that rotate.
  ROPE_STATUS_AMBIGUOUS = 48,  // A configuration holds several answers, and none was chosen.
  ROPE_STATUS_UNSUPPORTED = 49,  // A model rotates in a way that is not answered.
  ROPE_STATUS_NOTHING_ROTATES = 84,  // Nothing of a model rotates, or nothing of the chosen part or layers.
  ROPE_STATUS_CHOOSE_PART = 85,  // A model has no rotation of its own, but its parts have, and none was chosen.
  // A row of cos or sin that should keep each value twice, in two halves that are the same, does not.
  ROPE_STATUS_HALVES_DIFFER = 50,
  // The last row of joined cos and sin has the same values in both halves: it is `cat(freqs, freqs)` of cos or of
  // sin alone, which rope_rows_apart takes.
  ROPE_STATUS_HALVES_EQUAL = 71,
  ROPE_STATUS_UNREAD = 51,  // A configuration has a key about the rotation that the model's code ignores.
  ROPE_STATUS_CACHE_LAYOUT = 52,  // The strides of a cache make no cache, or none for its format.
  ROPE_STATUS_CACHE_HEADS = 53,  // The tensor and the cache have different heads.
  // The parts of an operand share bytes, differ in more than their channels, or divide a head at other channels than
  // the other operand; or the plan has a stage on whole heads.
  ROPE_STATUS_PARTS = 97,
  ROPE_STATUS_SLOT_COUNT = 54,  // Not one slot for each token of each sequence.
  ROPE_STATUS_SLOT = 55,  // A slot or a page that the cache does not have.
  ROPE_STATUS_SAME_TARGET = 91,  // Two moves of slots within a cache write one slot.
  // Neither the order of moves within a cache nor its reverse reads each slot before it is written.
  ROPE_STATUS_MOVE_ORDER = 92,
  ROPE_STATUS_SLOT_OFFSET = 56,  // From its offset a token would reach past the cache.
  ROPE_STATUS_PAGE_POSITION = 57,  // A position that its sequence has no page for, or a sequence that is not there.
  ROPE_STATUS_HEAD_DIM_ON_STACK = 58,  // A head does not fit the stack: it has more than 2048 channels.
  ROPE_STATUS_FULL_WIDTH_ROWS = 81,  // Full-width rows, which are no rotation, were given to an operation of rotations.
  ROPE_STATUS_RANK = 82,  // There is no such rank.
  ROPE_STATUS_SHARD_TOKENS = 83,  // Tokens that a shard cannot deal out evenly.
  ROPE_STATUS_NEGATIVE_PAGE = 86,  // The page of a position that exists is negative.
  // Rows with an attention factor, which cached keys have already, were given to a shift.
  ROPE_STATUS_SHIFT_FACTOR = 87,
  ROPE_STATUS_WEIGHT_MISSING = 76,  // A norm whose formula has weights was given none.
  ROPE_STATUS_WEIGHT_UNUSED = 72,  // A norm whose formula has no weights was given some.
  ROPE_STATUS_CENTERED_SUMS = 59,  // A norm that is centered was given sums.
  ROPE_STATUS_HADAMARD_BLOCK = 78,  // A block of a Hadamard transform is no power of two from 2 to 2048.
  ROPE_STATUS_HADAMARD_HEAD = 79,  // The block of a Hadamard transform does not divide a head.
  ROPE_STATUS_NOT_LINEAR = 80,  // A rotation in a cache, or a backward pass, of a plan with a norm.
  ROPE_STATUS_NO_INTEGER = 60,  // Keys were to be moved between positions that are coordinates.
  ROPE_STATUS_BACKWARD_DIRECTION = 61,  // A backward pass of a plan that does not rotate forward.
  ROPE_STATUS_GRADIENT_PAIRING = 73,  // A plan that changes the pairing has no gradients of cos and sin.
  ROPE_STATUS_GRADIENT_HEADS = 62,  // Gradients have neither one head nor the heads of the tensor.
  ROPE_STATUS_GRADIENT_SHAPE = 63,  // Gradients have another shape than the rows, or than other gradients.
  ROPE_STATUS_ROW_OF_ZEROS = 64,  // cos and sin of a row are both zero.
  ROPE_STATUS_OPERAND = 89,  // An operand is a cache, and the call takes tensors.
  ROPE_STATUS_ANGLES = 90,  // Angles are frequencies at positions, and the call takes rows.
  ROPE_STATUS_GGUF = 88,  // The bytes are no GGUF file, or do not have what its rotation depends on.
  ROPE_STATUS_SLOT_REPEATED = 96,  // A slot of a rotation in place belongs to two tokens whose rows differ.
  // Slots that share scales by channel, of which a call would write, shift or move a part.
  ROPE_STATUS_PART_OF_GROUP = 98,
  ROPE_STATUS_UNUSED_MEMORY = 95,  // A member of rope_call_memory names memory that the prepared call does not use.
  ROPE_STATUS_REFUSED = 99,  // Refused by rope-core for a reason that this header has no name for.
};

// Returns the meaning of a status (`enum rope_status`) in one sentence, for any other number a sentence about unknown
// statuses. The text is static; do not free it.
const char *rope_error_message(int32_t status);

#if defined(ROPE_STD)
// Writes the last refusal of this thread to `buffer`, in words and with the values that were in the way:
// "position id 9 (at index 2) is outside the table's 0..8". The text is empty if no call was refused. It ends
// with a NUL, and is cut at `size` bytes.
//
// The status alone says what went wrong. The text is for people, and its wording may change.
//
// Returns ROPE_STATUS_NULL, ROPE_STATUS_LENGTH.
//
// Threads: May be called from any thread at any time. Every thread has its own last refusal.
//
// `buffer` is NULL or points to `size` writable bytes.
rope_status rope_error_detail(char *buffer, size_t size);
#endif

// ---- Versions ----

// The version of the header, as text.
#define ROPE_TEXT_OF_(x) #x
#define ROPE_TEXT_OF(x) ROPE_TEXT_OF_(x)
#define ROPE_VERSION_STRING \
    ROPE_TEXT_OF(ROPE_VERSION_MAJOR) "." ROPE_TEXT_OF(ROPE_VERSION_MINOR) "." ROPE_TEXT_OF(ROPE_VERSION_PATCH)

// The major version of the header. It counts incompatible changes.
#define ROPE_VERSION_MAJOR 0

// The minor version of the header. It counts additions; before 1.0 it counts incompatible changes as well.
#define ROPE_VERSION_MINOR 1

// The patch version of the header. It counts repairs.
#define ROPE_VERSION_PATCH 0

// The version of the library: major * 1000000 + minor * 1000 + patch.
//
// Programs that link the shared library may compare it with the header's. The two fit if they have the same major
// version and, before 1.0, the same minor version.
uint32_t rope_version(void);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ROPE_H
