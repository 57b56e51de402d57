/* The C part: rotates keys of [tokens, HEADS, HEAD_DIM] in place, without an allocator. */
#include <rope.h>

enum { HEADS = 2, HEAD_DIM = 64 };

static unsigned char memory[ROPE_FREQUENCIES_BYTES(HEAD_DIM)];

/* Returns a rope_status. */
int32_t rotate_keys(float *keys, size_t tokens, int64_t first) {
    const rope_plan plan = {.pairing = ROPE_PAIRING_HALF};
    const rope_axes axes = rope_axes_text(HEAD_DIM);
    const rope_positions positions = rope_positions_range(first, tokens);
    rope_frequencies *frequencies = NULL;
    rope_operand x = {.data = keys, .len = tokens * HEADS * HEAD_DIM, .element = ROPE_ELEMENT_F32};
    rope_angles at;

    rope_status status = rope_frequencies_init(memory, sizeof memory, &axes, 10000.0, NULL, &frequencies);
    if (status == ROPE_STATUS_OK) status = rope_layout_init(&x.layout, ROPE_ORDER_BSHD, 1, tokens, HEADS, HEAD_DIM);
    at = rope_angles_at(frequencies, &positions);
    if (status == ROPE_STATUS_OK) status = rope_rotate(&plan, &x, &at);
    return (int32_t)status;
}
