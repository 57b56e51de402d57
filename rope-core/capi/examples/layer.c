/* One layer of a Llama 3.1: its queries rotate in place, its keys on their way into a cache of bf16. C99. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rope.h>

/* Four new tokens after 100 cached ones, in rows of [tokens, heads, head_dim]. */
enum { TOKENS = 4, HEADS = 32, KV_HEADS = 8, HEAD_DIM = 128, START = 100, SLOTS = 256 };

static float q[TOKENS * HEADS * HEAD_DIM], k[TOKENS * KV_HEADS * HEAD_DIM];
static uint16_t cache[SLOTS * KV_HEADS * HEAD_DIM]; /* the bits of bf16 */

static void must(rope_status status) {
    if (status != ROPE_STATUS_OK) {
        char detail[256];
        (void)rope_error_detail(detail, sizeof detail);
        fprintf(stderr, "%s: %s\n", rope_error_message((int32_t)status), detail);
        exit(1);
    }
}

int main(void) {
    /* the file config.json of the model */
    static const char json[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"rope_theta\": 500000.0,"
        " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"
        " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}";
    rope_frequencies *frequencies = NULL;
    rope_table *table = NULL;
    rope_plan plan;
    rope_rows rows;
    const rope_positions positions = rope_positions_range(START, TOKENS);
    rope_tensor_mut query, target;
    rope_tensor key;
    size_t i;

    for (i = 0; i < sizeof q / sizeof *q; i++) q[i] = 1.0f;
    for (i = 0; i < sizeof k / sizeof *k; i++) k[i] = 1.0f;

    /* once per model: the frequencies, and the pairing of its heads */
    must(rope_frequencies_from_config(json, strlen(json), NULL, &frequencies, &plan));
    /* once per forward step, shared by every layer: the cos and sin of its positions */
    must(rope_table_new(frequencies, &positions, &table));
    must(rope_table_rows(table, &rows));

    /* per layer: Q in place */
    query.data = q;
    query.len = sizeof q / sizeof *q;
    query.element = ROPE_ELEMENT_F32;
    must(rope_layout_bshd(&query.layout, 1, TOKENS, HEADS, HEAD_DIM));
    must(rope_rotate(&plan, &query, &rows));

    /* K into the cache, behind what is there */
    target.data = cache + START * KV_HEADS * HEAD_DIM;
    target.len = sizeof cache / sizeof *cache - START * KV_HEADS * HEAD_DIM;
    target.element = ROPE_ELEMENT_BF16;
    must(rope_layout_bshd(&target.layout, 1, TOKENS, KV_HEADS, HEAD_DIM));
    key.data = k;
    key.len = sizeof k / sizeof *k;
    key.element = ROPE_ELEMENT_F32;
    key.layout = target.layout;
    must(rope_rotate_into(&plan, &key, &target, &rows));

    must(rope_table_free(table));
    must(rope_frequencies_free(frequencies));
    /* 100 radians: cos - sin = 1.368685, and in bf16 1.3671875 */
    printf("q %.6f, cached k 0x%04x\n", (double)q[0], (unsigned)cache[START * KV_HEADS * HEAD_DIM]);
    return !(q[0] > 1.36868f && q[0] < 1.36869f && cache[START * KV_HEADS * HEAD_DIM] == 0x3faf);
}
