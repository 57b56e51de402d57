/* The layers of a Llama 3.1, as an engine runs them: the two calls of a layer are prepared once, for the number of
 * tokens, and run in each layer at its own memory. Queries rotate in place, keys on their way into a cache of bf16.
 * C99. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rope.h>

/*/* Four new tokens after 100 cached ones, in rows of [tokens, heads, head_dim]. */
enum { LAYERS = 3, TOKENS = 4, HEADS = 32, KV_HEADS = 8, HEAD_DIM = 128, START = 100, SLOTS = 256 };

static float q[LAYERS][TOKENS * HEADS * HEAD_DIM], k[LAYERS][TOKENS * KV_HEADS * HEAD_DIM];
static uint16_t cache[LAYERS][SLOTS * KV_HEADS * HEAD_DIM]; /* the bits of bf16 */

static void must(rope_status status) {
    if (status != ROPE_STATUS_OK) {
        char detail[256];
        (void)rope_error_detail(detail, sizeof detail);
        fprintf(stderr, "%s: %s\n", rope_error_message((int32_t)status), detail);
        exit(1);
    }
}

/* Heads of all tokens, [tokens, heads, head_dim]. */
static rope_operand tensor(void *data, size_t len, int32_t element, size_t heads) {
    rope_operand made;
    memset(&made, 0, sizeof made);
    made.data = data;
    made.len = len;
    made.element = element;
    must(rope_layout_init(&made.layout, ROPE_ORDER_BSHD, 1, TOKENS, heads, HEAD_DIM));
    return made;
}

int main(void) {
    /* the file config.json of the model */
    static const char json[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"rope_theta\": 500000.0,"
        " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"
        " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}";
    static float storage[ROPE_ROWS_LEN(TOKENS, HEAD_DIM)];
    rope_frequencies *frequencies = NULL;
    rope_plan plan;
    rope_angles of_step, rows;
    rope_positions positions = rope_positions_range(0, TOKENS);
    rope_operand query = tensor(q[0], sizeof q[0] / sizeof *q[0], ROPE_ELEMENT_F32, HEADS);
    rope_operand key = tensor(k[0], sizeof k[0] / sizeof *k[0], ROPE_ELEMENT_F32, KV_HEADS);
    rope_operand target = tensor(cache[0], (size_t)TOKENS * KV_HEADS * HEAD_DIM, ROPE_ELEMENT_BF16, KV_HEADS);
    rope_call rotate_q, write_k;
    size_t layer, i;
    int wrong = 0;

    for (layer = 0; layer < LAYERS; layer++) {
        for (i = 0; i < sizeof q[0] / sizeof *q[0]; i++) q[layer][i] = (float)(layer + 1);
        for (i = 0; i < sizeof k[0] / sizeof *k[0]; i++) k[layer][i] = (float)(layer + 1);
    }

    /* once per model: the frequencies, and the pairing of its heads */
    must(rope_frequencies_from_config(json, strlen(json), NULL, &frequencies, &plan));
    /* once per number of tokens: the calls of a layer, which borrow the storage of the rows */
    of_step = rope_angles_at(frequencies, &positions);
    must(rope_rows_fill(&of_step, storage, sizeof storage / sizeof *storage, &rows));
    must(rope_prepare(&plan, &query, &rows, &rotate_q));
    must(rope_prepare_into(&plan, &key, &target, &rows, &write_k));

    /* once per forward step, shared by every layer: the cos and sin of its positions, in the same storage */
    positions.first = START;
    must(rope_rows_fill(&of_step, storage, sizeof storage / sizeof *storage, &rows));
    for (layer = 0; layer < LAYERS; layer++) {
        rope_call_memory queries, keys;
        memset(&queries, 0, sizeof queries);
        memset(&keys, 0, sizeof keys);
        queries.x = q[layer];
        must(rope_call_run_at(&rotate_q, &queries));
        keys.x = k[layer];
        keys.y = cache[layer] + START * KV_HEADS * HEAD_DIM; /* behind what is there */
        must(rope_call_run_at(&write_k, &keys));
    }
    must(rope_frequencies_free(frequencies));

    /* 100 radians: cos - sin = 1.368685, and in bf16 1.3671875; twice and three times as much in the next layers */
    for (layer = 0; layer < LAYERS; layer++) {
        static const uint16_t expected[LAYERS] = {0x3faf, 0x402f, 0x4083};
        const float ratio = q[layer][0] / (float)(layer + 1);
        const uint16_t written = cache[layer][START * KV_HEADS * HEAD_DIM];
        printf("layer %u: q %.6f, cached k 0x%04x\n", (unsigned)layer, (double)q[layer][0], (unsigned)written);
        wrong += !(ratio > 1.36868f && ratio < 1.36869f && written == expected[layer]);
    }
    return wrong;
}
