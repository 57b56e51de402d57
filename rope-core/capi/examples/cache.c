/* What stands between a projection and the attention of a Qwen3: Q normed and rotated in place; K normed, rotated and
 * written, and V written, into a paged cache of FP8; then a context shift of the keys that lie there. After it a latent
 * cache, DeepSeek's record of a token, and a drop of tokens after attention sinks. Allocates nothing. Returns 0 if all
 * is as it should be. C99. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rope.h>

/* A row of a latent cache: DeepSeek-V3's. */
enum { LATENT = 512, ROTARY = 64, ROW = LATENT + ROTARY };
enum { TOKENS = 6, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 128 };
/* Pages of four slots. */
enum { PAGES = 8, PAGE = 4, PAGE_BYTES = PAGE * KV_HEADS * HEAD_DIM };

static float q[TOKENS * HEADS * HEAD_DIM];
static float k[TOKENS * KV_HEADS * HEAD_DIM];
static float v[TOKENS * KV_HEADS * HEAD_DIM];
static float q_weight[HEAD_DIM], k_weight[HEAD_DIM];
static unsigned char keys[PAGES * PAGE_BYTES], values[PAGES * PAGE_BYTES];

static unsigned char memory[ROPE_FREQUENCIES_BYTES(HEAD_DIM)];
static float storage[ROPE_ROWS_LEN(TOKENS, HEAD_DIM)];
static float moves[ROPE_ROWS_LEN(TOKENS, HEAD_DIM)];

/* Ends the program if something went wrong, and says what. */
static void must(rope_status status, const char *call) {
    if (status != ROPE_STATUS_OK) {
        char detail[256] = "";
#ifdef ROPE_STD
        (void)rope_error_detail(detail, sizeof detail);
#endif
        fprintf(stderr, "%s: %s (%s)\n", call, rope_error_message((int32_t)status), detail);
        exit(1);
    }
}
#define MUST(call) must((call), #call)

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}
#define EXPECT(condition) expect((condition), #condition)

static void fill(float *x, size_t len) {
    size_t i;
    for (i = 0; i < len; i++) {
        x[i] = (float)(i % 17) / 8.0f - 0.9f;
    }
}

static rope_operand tensor(float *data, size_t heads) {
    rope_operand made;
    memset(&made, 0, sizeof made);
    made.data = data;
    made.len = TOKENS * heads * HEAD_DIM;
    made.element = ROPE_ELEMENT_F32;
    MUST(rope_layout_init(&made.layout, ROPE_ORDER_BSHD, 1, TOKENS, heads, HEAD_DIM));
    return made;
}

/* Slots of a cache. */
static rope_operand in_slots(const rope_cache *cache, const rope_slots *slots) {
    rope_operand made;
    memset(&made, 0, sizeof made);
    made.cache = cache;
    made.slots = slots;
    return made;
}

/* Qwen3's norm of a head: eps 1e-6, weights of a head. */
static rope_norm norm(const float *weight) {
    rope_norm made;
    MUST(rope_norm_init(&made, ROPE_NORM_FORMULA_LLAMA, 1e-6f));
    made.weight.data = weight;
    made.weight.count = HEAD_DIM;
    made.weight.element = ROPE_ELEMENT_F32;
    return made;
}

/* Pages of FP8 as vLLM has them, with one scale for all. */
static rope_cache paged(unsigned char *bytes, size_t size) {
    rope_cache made;
    memset(&made, 0, sizeof made);
    made.memory = bytes;
    made.bytes = size;
    made.format = ROPE_CACHE_FORMAT_E4M3;
    made.layout.kind = ROPE_CACHE_LAYOUT_KIND_NHD;
    made.layout.extents[0] = PAGES;
    made.layout.extents[1] = PAGE;
    made.layout.extents[2] = KV_HEADS;
    made.layout.extents[3] = HEAD_DIM;
    made.scale.kind = ROPE_QUANT_SCALE_KIND_DIVIDE;
    made.scale.same = 0.125f;
    return made;
}

/* The norm and the rotation of the first pair by hand, in double. */
static void check_by_hand(const float *q_before) {
    double sum = 0.0, r, x, y, c = cos(5.0), s = sin(5.0);
    const float *last = q_before + (TOKENS - 1) * HEADS * HEAD_DIM;
    const float *got = q + (TOKENS - 1) * HEADS * HEAD_DIM;
    int i;
    for (i = 0; i < HEAD_DIM; i++) {
        sum += (double)last[i] * (double)last[i];
    }
    r = 1.0 / sqrt(sum / HEAD_DIM + 1e-6);
    x = (double)last[0] * r * (double)q_weight[0];
    y = (double)last[HEAD_DIM / 2] * r * (double)q_weight[HEAD_DIM / 2];
    EXPECT(fabs((double)got[0] - (x * c - y * s)) < 1e-5);
    EXPECT(fabs((double)got[HEAD_DIM / 2] - (x * s + y * c)) < 1e-5);
}

/* A latent cache `[slots, 576]` is one of one head, and the plan's first channel is that of the key in it. */
static void latent_cache(void) {
    static unsigned char made[ROPE_FREQUENCIES_BYTES(ROTARY)];
    static float x[2 * ROW], kept[PAGE * ROW];
    rope_plan plan = {.pairing = ROPE_PAIRING_INTERLEAVED, .first_channel = LATENT};
    rope_axes axes = rope_axes_text(ROTARY);
    rope_positions positions = rope_positions_range(0, 2);
    rope_frequencies *frequencies = NULL;
    rope_angles at;
    rope_cache cache;
    rope_slots slots;
    rope_operand rows, target;
    const float *key = kept + 2 * ROW + LATENT;

    fill(x, sizeof x / sizeof *x);
    memset(&rows, 0, sizeof rows);
    rows.data = x;
    rows.len = sizeof x / sizeof *x;
    rows.element = ROPE_ELEMENT_F32;
    MUST(rope_layout_init(&rows.layout, ROPE_ORDER_BSHD, 1, 2, 1, ROW));
    memset(&cache, 0, sizeof cache);
    cache.memory = kept;
    cache.bytes = sizeof kept;
    cache.format = ROPE_CACHE_FORMAT_F32;
    cache.layout.kind = ROPE_CACHE_LAYOUT_KIND_NHD;
    cache.layout.extents[0] = 1;
    cache.layout.extents[1] = PAGE;
    cache.layout.extents[2] = 1;
    cache.layout.extents[3] = ROW;
    memset(&slots, 0, sizeof slots);
    slots.kind = ROPE_SLOTS_KIND_RANGE;
    slots.first = 1;
    slots.count = 2;
    target = in_slots(&cache, &slots);
    MUST(rope_frequencies_init(made, sizeof made, &axes, 10000.0, NULL, &frequencies));
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rotate_into(&plan, &rows, &target, &at));
    EXPECT(memcmp(kept + 2 * ROW, x + ROW, LATENT * sizeof *x) == 0);
    EXPECT(fabs((double)key[0] - ((double)x[ROW + LATENT] * cos(1.0) - (double)x[ROW + LATENT + 1] * sin(1.0))) < 1e-6);
}

/* DeepSeek's record of a token: 512 codes of E4M3 in tiles of 128, their four scales, and a rotated key of 64 channels
 * in bfloat16. The latent and the key are two operands, and so are their places in the cache. */
static void record_of_parts(void) {
    enum { SLOTS = 8, SCALES = 4, RECORD = LATENT + SCALES * 4 + ROTARY * 2 };
    static unsigned char made[ROPE_FREQUENCIES_BYTES(ROTARY)];
    static uint16_t kept[SLOTS * RECORD / 2], before[SLOTS * RECORD / 2];
    static float latent[2 * LATENT], key[2 * ROTARY], back[2 * ROW], shift[ROPE_ROWS_LEN(1, ROTARY)];
    rope_plan plan = {.pairing = ROPE_PAIRING_INTERLEAVED, .first_channel = LATENT};
    rope_axes axes = rope_axes_text(ROTARY);
    rope_positions positions = rope_positions_range(0, 2), moved = rope_positions_range(-1, 1);
    rope_frequencies *frequencies = NULL;
    rope_angles at, back_by;
    rope_cache codes, keys_of;
    rope_slots slots;
    rope_operand latents, rotated, to_codes, to_keys, read;
    const unsigned char *record = (const unsigned char *)kept + 3 * RECORD;
    size_t i;

    for (i = 0; i < sizeof latent / sizeof *latent; i++) {
        latent[i] = 3.5f;
    }
    for (i = 0; i < sizeof key / sizeof *key; i++) {
        key[i] = 1.0f;
    }
    memset(&rotated, 0, sizeof rotated);
    rotated.data = key;
    rotated.len = sizeof key / sizeof *key;
    rotated.element = ROPE_ELEMENT_F32;
    MUST(rope_layout_init(&rotated.layout, ROPE_ORDER_BSHD, 1, 2, 1, ROTARY));
    latents = rotated;
    latents.data = latent;
    latents.len = sizeof latent / sizeof *latent;
    MUST(rope_layout_init(&latents.layout, ROPE_ORDER_BSHD, 1, 2, 1, LATENT));
    latents.next = &rotated;

    memset(&codes, 0, sizeof codes);
    codes.memory = kept;
    codes.bytes = sizeof kept;
    codes.layout.kind = ROPE_CACHE_LAYOUT_KIND_NHD;
    codes.layout.extents[0] = codes.layout.extents[2] = 1;
    codes.layout.extents[1] = SLOTS;
    keys_of = codes;
    codes.format = ROPE_CACHE_FORMAT_E4M3_IN128;
    codes.layout.extents[3] = RECORD;
    codes.layout.channels[1] = LATENT;
    codes.scale.kind = ROPE_QUANT_SCALE_KIND_MADE_INLINE;
    codes.scale.group = ROPE_GROUP_SCALE_QUOTIENT;
    codes.scale.least = FLT_MIN;
    codes.scale.behind = LATENT;
    keys_of.format = ROPE_CACHE_FORMAT_BF16;
    keys_of.layout.extents[3] = RECORD / 2;
    keys_of.layout.channels[0] = (LATENT + SCALES * 4) / 2;
    keys_of.layout.channels[1] = RECORD / 2;
    memset(&slots, 0, sizeof slots);
    slots.kind = ROPE_SLOTS_KIND_RANGE;
    slots.first = 2;
    slots.count = 2;
    to_codes = in_slots(&codes, &slots);
    to_keys = in_slots(&keys_of, NULL);
    to_codes.next = &to_keys;

    MUST(rope_frequencies_init(made, sizeof made, &axes, 10000.0, NULL, &frequencies));
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rotate_into(&plan, &latents, &to_codes, &at));
    /* 3.5 is the code of 448 with the scale 3.5 / 448, in the byte order of the machine. */
    EXPECT(record[0] == 0x7e && record[LATENT - 1] == 0x7e);
    {
        const float scale = 3.5f / 448.0f;
        EXPECT(memcmp(record + LATENT, &scale, sizeof scale) == 0);
    }
    /* The second token moves to the position of the first, where its key did not rotate. Its latent keeps its bits. */
    memcpy(before, kept, sizeof kept);
    slots.first = 3;
    slots.count = 1;
    at = rope_angles_at(frequencies, &moved);
    at.moves = 1;
    MUST(rope_rows_fill(&at, shift, ROTARY, &back_by));
    MUST(rope_rotate(&plan, &to_codes, &back_by));
    EXPECT(memcmp(kept, before, (size_t)3 * RECORD + LATENT + SCALES * 4) == 0);
    EXPECT(memcmp(kept, before, sizeof kept) != 0);
    slots.first = 2;
    slots.count = 2;
    memset(&read, 0, sizeof read);
    read.data = back;
    read.len = sizeof back / sizeof *back;
    read.element = ROPE_ELEMENT_F32;
    MUST(rope_layout_init(&read.layout, ROPE_ORDER_BSHD, 1, 2, 1, ROW));
    MUST(rope_apply_into(&plan, &to_codes, &read));
    for (i = 0; i < ROW; i++) {
        EXPECT(fabsf(back[ROW + i] - back[i]) < 0.01f);
    }
    EXPECT(back[0] == 3.5f && back[LATENT] == 1.0f);

    /* Parts that share bytes are refused, and channels that rotate in two parts. */
    memcpy(before, kept, sizeof kept);
    plan.first_channel = LATENT - 2;
    EXPECT(rope_rotate(&plan, &to_codes, &back_by) == ROPE_STATUS_PARTS);
    plan.first_channel = LATENT;
    at = rope_angles_at(frequencies, &positions);
    keys_of.layout.channels[0] -= 1;
    keys_of.layout.channels[1] -= 1;
    EXPECT(rope_rotate_into(&plan, &latents, &to_codes, &at) == ROPE_STATUS_PARTS);
    EXPECT(memcmp(kept, before, sizeof kept) == 0);
}

/* Four attention sinks stay, the next ten of forty tokens are dropped, and the rest moves back by ten slots, which are
 * no multiple of a page. Keys rotate by one delta, values stay as they are. One layer, in pages of 16 slots. */
static void drop_after_sinks(void) {
    enum { SINKS = 4, DROPPED = 10, ALL = 40, REST = ALL - SINKS - DROPPED, BLOCK = 16, BLOCKS = 3, SLOT = 2 * ROTARY };
    static unsigned char made[ROPE_FREQUENCIES_BYTES(ROTARY)];
    static float x[ALL * SLOT], kept[BLOCKS * BLOCK * SLOT], kept_values[BLOCKS * BLOCK * SLOT];
    static float read[ALL * SLOT], delta[ROPE_ROWS_LEN(1, ROTARY)];
    static int32_t tokens[ALL];
    static const int32_t pages[BLOCKS] = {2, 0, 1};
    rope_plan plan = {.pairing = ROPE_PAIRING_HALF};
    rope_axes axes = rope_axes_text(ROTARY);
    rope_positions positions = rope_positions_range(0, ALL);
    rope_frequencies *frequencies = NULL;
    rope_angles at, back;
    rope_cache cache, value_cache;
    rope_slots slots, from, to;
    rope_operand heads, target;
    size_t i;

    fill(x, sizeof x / sizeof *x);
    memset(&heads, 0, sizeof heads);
    heads.data = x;
    heads.len = sizeof x / sizeof *x;
    heads.element = ROPE_ELEMENT_F32;
    MUST(rope_layout_init(&heads.layout, ROPE_ORDER_BSHD, 1, ALL, 2, ROTARY));
    memset(&cache, 0, sizeof cache);
    cache.memory = kept;
    cache.bytes = sizeof kept;
    cache.format = ROPE_CACHE_FORMAT_F32;
    cache.layout.kind = ROPE_CACHE_LAYOUT_KIND_NHD;
    cache.layout.extents[0] = BLOCKS;
    cache.layout.extents[1] = BLOCK;
    cache.layout.extents[2] = 2;
    cache.layout.extents[3] = ROTARY;
    value_cache = cache;
    value_cache.memory = kept_values;
    /* The slots of tokens by their positions and the pages of the sequence. */
    for (i = 0; i < ALL; i++) {
        tokens[i] = (int32_t)i;
    }
    memset(&slots, 0, sizeof slots);
    slots.kind = ROPE_SLOTS_KIND_TABLE;
    slots.width = BLOCKS;
    slots.pages.values = pages;
    slots.pages.count = BLOCKS;
    slots.pages.number = ROPE_NUMBER_I32;
    slots.positions.values = tokens;
    slots.positions.count = ALL;
    slots.positions.number = ROPE_NUMBER_I32;
    MUST(rope_frequencies_init(made, sizeof made, &axes, 10000.0, NULL, &frequencies));
    at = rope_angles_at(frequencies, &positions);
    target = in_slots(&cache, &slots);
    MUST(rope_rotate_into(&plan, &heads, &target, &at));
    target = in_slots(&value_cache, &slots);
    MUST(rope_apply_into(&plan, &heads, &target));

    /* The rest moves to the slots after the sinks, */
    from = to = slots;
    from.positions.values = tokens + SINKS + DROPPED;
    to.positions.values = tokens + SINKS;
    from.positions.count = to.positions.count = REST;
    MUST(rope_move_slots(&cache, &from, &to));
    MUST(rope_move_slots(&value_cache, &from, &to));
    /* and its keys rotate back, by one row for all. */
    positions = rope_positions_range(-DROPPED, 1);
    at = rope_angles_at(frequencies, &positions);
    at.moves = 1;
    MUST(rope_rows_fill(&at, delta, sizeof delta / sizeof *delta, &back));
    back.sin = back.cos + ROTARY / 2;
    back.len = ROTARY / 2;
    back.layout.shape[0] = back.layout.shape[2] = 1;
    back.layout.shape[1] = REST;
    back.layout.shape[3] = ROTARY / 2;
    target = in_slots(&cache, &to);
    MUST(rope_rotate(&plan, &target, &back));

    /* The cache is that of a sequence without the dropped tokens. */
    slots.positions.count = SINKS + REST;
    memmove(x + SINKS * SLOT, x + (SINKS + DROPPED) * SLOT, (size_t)REST * SLOT * sizeof *x);
    heads.data = read;
    MUST(rope_layout_init(&heads.layout, ROPE_ORDER_BSHD, 1, SINKS + REST, 2, ROTARY));
    target = in_slots(&value_cache, &slots);
    MUST(rope_apply_into(&plan, &target, &heads));
    EXPECT(memcmp(read, x, (size_t)(SINKS + REST) * SLOT * sizeof *x) == 0);
    target = in_slots(&cache, &slots);
    MUST(rope_apply_into(&plan, &target, &heads));
    heads.data = x;
    positions = rope_positions_range(0, SINKS + REST);
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rotate(&plan, &heads, &at));
    EXPECT(memcmp(read, x, SINKS * SLOT * sizeof *x) == 0);
    for (i = SINKS * SLOT; i < (size_t)(SINKS + REST) * SLOT; i++) {
        EXPECT(fabsf(read[i] - x[i]) < 1e-5f);
    }
}

int main(void) {
    static float q_before[TOKENS * HEADS * HEAD_DIM], read[TOKENS * KV_HEADS * HEAD_DIM];
    static float expected[TOKENS * KV_HEADS * HEAD_DIM];
    static unsigned char before[PAGES * PAGE_BYTES];
    /* The sequence has pages 5 and 2; the last two tokens are padding. */
    static int64_t mapping[TOKENS] = {-1, -1, -1, -1, -1, -1};
    static const int64_t slots_of_step[TOKENS] = {5 * PAGE, 5 * PAGE + 1, 5 * PAGE + 2, 5 * PAGE + 3, -1, -1};
    /* The first token keeps its place, the others move back by two positions. */
    static const int32_t deltas[TOKENS] = {0, -2, -2, -2, -2, -2};
    rope_plan plan = {.pairing = ROPE_PAIRING_HALF};
    rope_plan query, key;
    rope_call rotate_q, write_k, write_v;
    rope_norm q_norm, k_norm;
    rope_cache key_cache = paged(keys, sizeof keys), value_cache = paged(values, sizeof values);
    rope_slots slots;
    rope_operand q_heads = tensor(q, HEADS), k_heads = tensor(k, KV_HEADS), v_heads = tensor(v, KV_HEADS);
    rope_operand back = tensor(read, KV_HEADS), expected_heads = back;
    rope_axes axes = rope_axes_text(HEAD_DIM);
    rope_positions positions = rope_positions_range(0, TOKENS);
    rope_positions moved = rope_positions_per_token(deltas, TOKENS, ROPE_NUMBER_I32);
    rope_frequencies *frequencies = NULL;
    rope_angles at, rows;
    static const int64_t branch[] = {5 * PAGE + 1, 5 * PAGE + 3}, exchanged[] = {5 * PAGE + 3, 5 * PAGE + 1};
    enum { SLOT = KV_HEADS * HEAD_DIM };
    unsigned char *const page = keys + 5 * PAGE_BYTES;
    rope_slots from, to;
    rope_operand key_slots, value_slots;
    size_t i;

    fill(q, sizeof q / sizeof *q);
    fill(k, sizeof k / sizeof *k);
    fill(v, sizeof v / sizeof *v);
    for (i = 0; i < HEAD_DIM; i++) {
        q_weight[i] = 1.0f + (float)(i % 5) / 16.0f;
        k_weight[i] = 1.0f - (float)(i % 3) / 16.0f;
    }
    memcpy(q_before, q, sizeof q);
    memset(&slots, 0, sizeof slots);
    slots.kind = ROPE_SLOTS_KIND_MAPPING;
    slots.slots.values = mapping;
    slots.slots.count = TOKENS;
    slots.slots.number = ROPE_NUMBER_I64;

    /* once per model, and once per layer: the weights of its norms */
    MUST(rope_frequencies_init(memory, sizeof memory, &axes, 1000000.0, NULL, &frequencies));
    q_norm = norm(q_weight);
    k_norm = norm(k_weight);
    query = plan;
    query.norm = &q_norm;
    key = plan;
    key.norm = &k_norm;
    key_slots = in_slots(&key_cache, &slots);
    value_slots = in_slots(&value_cache, &slots);

    /* once per number of tokens: the calls of a layer, which borrow the list of slots and the storage of the rows. What
     * is wrong is found here, before anything is written. */
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rows_fill(&at, storage, sizeof storage / sizeof *storage, &rows));
    MUST(rope_prepare(&query, &q_heads, &rows, &rotate_q));
    MUST(rope_prepare_into(&key, &k_heads, &key_slots, &rows, &write_k));
    MUST(rope_prepare_into(&plan, &v_heads, &value_slots, NULL, &write_v));

    /* per step: rows for all layers and the slots of the tokens; Q in place, K and V into their slots */
    memcpy(mapping, slots_of_step, sizeof mapping);
    MUST(rope_call_run(&rotate_q));
    MUST(rope_call_run(&write_k));
    MUST(rope_call_run(&write_v));
    check_by_hand(q_before);

    /* What attention reads: the values as they were, but for the three bits of their mantissa. */
    MUST(rope_apply_into(&plan, &value_slots, &back));
    for (i = 0; i < (size_t)4 * KV_HEADS * HEAD_DIM; i++) {
        EXPECT(fabsf(read[i] - v[i]) <= fabsf(v[i]) / 16.0f + 1e-3f);
    }
    /* Nothing was read for tokens without a slot. */
    EXPECT(read[4 * KV_HEADS * HEAD_DIM] == 0.0f && read[TOKENS * KV_HEADS * HEAD_DIM - 1] == 0.0f);

    /* later: two tokens after the first have been dropped, and the keys move back */
    memcpy(before, keys, sizeof keys);
    at = rope_angles_at(frequencies, &moved);
    at.moves = 1;
    MUST(rope_rows_fill(&at, moves, sizeof moves / sizeof *moves, &rows));
    MUST(rope_rotate(&plan, &key_slots, &rows));
    EXPECT(memcmp(keys + 5 * PAGE_BYTES, before + 5 * PAGE_BYTES, KV_HEADS * HEAD_DIM) == 0);
    EXPECT(memcmp(keys + 5 * PAGE_BYTES + KV_HEADS * HEAD_DIM, before + 5 * PAGE_BYTES + KV_HEADS * HEAD_DIM,
                  KV_HEADS * HEAD_DIM) != 0);
    /* They are what they would be at their new positions, but for two roundings to FP8. */
    positions.first = -2;
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rows_fill(&at, storage, sizeof storage / sizeof *storage, &rows));
    MUST(rope_apply_into(&plan, &key_slots, &back));
    expected_heads.data = expected;
    MUST(rope_rotate_into(&key, &k_heads, &expected_heads, &rows));
    for (i = KV_HEADS * HEAD_DIM; i < (size_t)4 * KV_HEADS * HEAD_DIM; i++) {
        EXPECT(fabsf(read[i] - expected[i]) < 0.35f);
    }

    /* One delta for many slots: a row whose token stride is 0. */
    positions = rope_positions_range(-1, 1);
    at = rope_angles_at(frequencies, &positions);
    at.moves = 1;
    MUST(rope_rows_fill(&at, moves, HEAD_DIM, &rows));
    EXPECT(rope_rotate(&plan, &key_slots, &rows) == ROPE_STATUS_ROW_COUNT);
    rows.sin = rows.cos + HEAD_DIM / 2;
    rows.len = HEAD_DIM / 2;
    rows.layout.shape[0] = rows.layout.shape[2] = 1;
    rows.layout.shape[1] = TOKENS;
    rows.layout.shape[3] = HEAD_DIM / 2;
    MUST(rope_rotate(&plan, &key_slots, &rows));

    /* A branch of a draft was accepted: two of the tokens move to the slots from the first on. */
    from = to = slots;
    from.slots.values = branch;
    from.slots.count = 2;
    to.kind = ROPE_SLOTS_KIND_RANGE;
    to.first = (size_t)5 * PAGE;
    to.count = 2;
    memcpy(before, keys, sizeof keys);
    MUST(rope_move_slots(&key_cache, &from, &to));
    MUST(rope_move_slots(&value_cache, &from, &to));
    EXPECT(memcmp(page, before + 5 * PAGE_BYTES + SLOT, SLOT) == 0);
    EXPECT(memcmp(page + SLOT, before + 5 * PAGE_BYTES + 3 * SLOT, SLOT) == 0);
    /* No order of its two moves exchanges two slots. */
    to = from;
    to.slots.values = exchanged;
    EXPECT(rope_move_slots(&key_cache, &from, &to) == ROPE_STATUS_MOVE_ORDER);

    latent_cache();
    record_of_parts();
    drop_after_sinks();

    /* A slot that the cache does not have is refused, and neither cache is touched. */
    memcpy(before, keys, sizeof keys);
    key_cache.layout.extents[0] = 5;
    EXPECT(rope_apply_into(&key, &k_heads, &key_slots) == ROPE_STATUS_SLOT);
    slots.slots.count -= 1;
    EXPECT(rope_apply_into(&key, &k_heads, &key_slots) == ROPE_STATUS_SLOT_COUNT);
    key_cache.memory = k;
    EXPECT(rope_apply_into(&key, &k_heads, &key_slots) == ROPE_STATUS_MEMORY_OVERLAP);
    EXPECT(memcmp(keys, before, sizeof keys) == 0);

    printf("q[0..2]: %.9g %.9g, the first key's codes: %02x %02x\n", (double)q[0], (double)q[1],
           (unsigned)keys[5 * PAGE_BYTES], (unsigned)keys[5 * PAGE_BYTES + 1]);
    return 0;
}
