/* Rotates Q and K of a model, with handles and without an allocator; prints the first values; returns 0 if all is as
 * it should be. C99. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rope.h>

enum { TOKENS = 5, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 128, START = 70000 };

static float q[TOKENS * HEADS * HEAD_DIM];
static float q_again[TOKENS * HEADS * HEAD_DIM];

/* All that firmware needs: 4.8 kB of frequencies, 2.5 kB of rows. */
static unsigned char memory[ROPE_FREQUENCIES_BYTES(HEAD_DIM)];
static float storage[ROPE_ROWS_LEN(TOKENS, HEAD_DIM)];

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

static rope_operand tensor(void *data, size_t len, int32_t element, size_t heads) {
    rope_operand made;
    memset(&made, 0, sizeof made);
    made.data = data;
    made.len = len;
    made.element = element;
    MUST(rope_layout_init(&made.layout, ROPE_ORDER_BSHD, 1, TOKENS, heads, HEAD_DIM));
    return made;
}

static void fill(float *x, size_t len) {
    size_t i;
    for (i = 0; i < len; i++) {
        x[i] = (float)(i % 17) / 8.0f - 1.0f;
    }
}

#ifdef ROPE_STD
/* With handles, which the program frees at the end. */
static void on_the_heap(const rope_plan *plan, const rope_axes *axes, const rope_scaling *scaling) {
    static float k[TOKENS * KV_HEADS * HEAD_DIM];
    static uint16_t cache[TOKENS * KV_HEADS * HEAD_DIM];
    rope_frequencies *frequencies = NULL;
    rope_table *table = NULL;
    rope_angles rows;
    rope_positions positions = rope_positions_range(START, TOKENS);
    rope_operand query = tensor(q, sizeof q / sizeof *q, ROPE_ELEMENT_F32, HEADS);
    rope_operand target = tensor(cache, sizeof cache / sizeof *cache, ROPE_ELEMENT_F16, KV_HEADS);
    rope_operand key = tensor(k, sizeof k / sizeof *k, ROPE_ELEMENT_F32, KV_HEADS);
    rope_angles at;

    fill(k, sizeof k / sizeof *k);
    /* once per model */
    MUST(rope_frequencies_new(axes, 500000.0, scaling, &frequencies));
    /* once per forward step, shared by every layer, by Q and by K */
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_table_new(&at, &table));
    MUST(rope_table_rows(table, &rows));
    /* per layer: Q in place, K into a cache of half precision */
    MUST(rope_rotate(plan, &query, &rows));
    MUST(rope_rotate_into(plan, &key, &target, &rows));

    MUST(rope_table_free(table));
    MUST(rope_frequencies_free(frequencies));
}

/* The file of a model's configuration says everything. */
static void from_config(void) {
    static const char json[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"rope_theta\": 500000.0}";
    rope_frequencies *frequencies = NULL;
    rope_frequencies_info info;
    rope_plan plan;
    char detail[64];
    MUST(rope_frequencies_from_config(json, sizeof json - 1, NULL, &frequencies, &plan));
    MUST(rope_frequencies_describe(frequencies, &info));
    EXPECT(info.rotary_dim == 128 && info.axes == 1 && plan.pairing == ROPE_PAIRING_HALF);
    MUST(rope_frequencies_free(frequencies));
    EXPECT(rope_frequencies_from_config("{]", 2, NULL, &frequencies, NULL) == ROPE_STATUS_JSON);
    MUST(rope_error_detail(detail, sizeof detail));
    EXPECT(strstr(detail, "line 1") != NULL);
}
#endif

/* Without an allocator: static memory only. */
static void without_an_allocator(const rope_plan *plan, const rope_axes *axes, const rope_scaling *scaling) {
    rope_frequencies *frequencies = NULL;
    rope_angles at, rows;
    rope_positions positions = rope_positions_range(START, TOKENS);
    rope_operand query = tensor(q_again, sizeof q_again / sizeof *q_again, ROPE_ELEMENT_F32, HEADS);
    rope_plan back = *plan;
    float before[HEAD_DIM];

    MUST(rope_frequencies_init(memory, sizeof memory, axes, 500000.0, scaling, &frequencies));
    /* without rows */
    memcpy(before, q_again, sizeof before);
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rotate(plan, &query, &at));
    back.direction = ROPE_DIRECTION_INVERSE;
    MUST(rope_rotate(&back, &query, &at));
    EXPECT(fabsf(q_again[1] - before[1]) < 1e-6f);
    fill(q_again, sizeof q_again / sizeof *q_again);
    /* with rows */
    MUST(rope_rows_fill(&at, storage, sizeof storage / sizeof *storage, &rows));
    MUST(rope_rotate(plan, &query, &rows));
}

/* The angle of the first pair is the position in radians: one rotation by hand. */
static void check_by_hand(void) {
    float x[2 * HEAD_DIM];
    double c = cos((double)START), s = sin((double)START);
    fill(x, 2 * HEAD_DIM);
    EXPECT(fabs((double)q_again[0] - ((double)x[0] * c - (double)x[HEAD_DIM / 2] * s)) < 1e-6);
    EXPECT(fabs((double)q_again[HEAD_DIM / 2] - ((double)x[0] * s + (double)x[HEAD_DIM / 2] * c)) < 1e-6);
}

/* A call that makes no sense is refused, and touches nothing. */
static void refusals(const rope_plan *plan) {
    rope_operand query = tensor(q, sizeof q / sizeof *q, ROPE_ELEMENT_F32, HEADS);
    rope_angles rows = rope_rows_joined(storage, sizeof storage / sizeof *storage, HEAD_DIM);
    rope_plan unset = *plan;
    unset.pairing = 0;
    EXPECT(rope_rotate(NULL, &query, &rows) == ROPE_STATUS_NULL);
    EXPECT(rope_rotate(&unset, &query, &rows) == ROPE_STATUS_UNKNOWN_VALUE);
    query.len -= 1;
    EXPECT(rope_rotate(plan, &query, &rows) == ROPE_STATUS_OUT_OF_BOUNDS);
    query.len += 1;
    query.data = (unsigned char *)q + 1;
    EXPECT(rope_rotate(plan, &query, &rows) == ROPE_STATUS_MISALIGNED);
    query.data = storage;
    query.layout.shape[1] = query.layout.shape[2] = 1;
    rows.len = HEAD_DIM;
    EXPECT(rope_rotate(plan, &query, &rows) == ROPE_STATUS_MEMORY_OVERLAP);
}

int main(void) {
    rope_plan plan = {.pairing = ROPE_PAIRING_HALF};
    rope_axes axes = rope_axes_text(HEAD_DIM);
    rope_scaling scaling;

    EXPECT(rope_version() / 1000 == ROPE_VERSION_MAJOR * 1000 + ROPE_VERSION_MINOR);
    printf("rope %s, backend %s\n", ROPE_VERSION_STRING, rope_backend_name(ROPE_BACKEND_BEST));

    MUST(rope_scaling_init(&scaling, ROPE_SCALING_KIND_LLAMA3));
    scaling.factor = 8.0;
    scaling.original_context = 8192;
    fill(q, sizeof q / sizeof *q);
    fill(q_again, sizeof q_again / sizeof *q_again);

    without_an_allocator(&plan, &axes, &scaling);
    check_by_hand();
#ifdef ROPE_STD
    on_the_heap(&plan, &axes, &scaling);
    EXPECT(memcmp(q, q_again, sizeof q) == 0);
    from_config();
#endif
    refusals(&plan);

    printf("q[0..4]: %.9g %.9g %.9g %.9g\n", (double)q_again[0], (double)q_again[1], (double)q_again[2], (double)q_again[3]);
    return 0;
}
