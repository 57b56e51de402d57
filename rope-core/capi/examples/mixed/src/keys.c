/* The C part: rotates keys of [tokens, HEADS, HEAD_DIM] in place, without an allocator. */
#include <rope.h>

enum { HEADS = 2, HEAD_DIM = 64 };

static unsigned char memory[ROPE_FREQUENCIES_BYTES(HEAD_DIM)];

/* Returns a rope_status. */
int32_t rotate_keys(float *keys, size_t tokens, int64_t first) {
    const rope_plan plan = {ROPE_PAIRING_HALF, 0, 0, 0};
    const rope_axes axes = rope_axes_text(HEAD_DIM);
    const rope_positions positions = rope_positions_range(first, tokens);
    rope_frequencies *frequencies = NULL;
    rope_tensor_mut x = {keys, tokens * HEADS * HEAD_DIM, ROPE_ELEMENT_F32, {{0}, {0}}};

    rope_status status = rope_frequencies_init(memory, sizeof memory, &axes, 10000.0, NULL, &frequencies);
    if (status == ROPE_STATUS_OK) status = rope_layout_bshd(&x.layout, 1, tokens, HEADS, HEAD_DIM);
    if (status == ROPE_STATUS_OK) status = rope_rotate_at(&plan, &x, frequencies, &positions);
    return (int32_t)status;
}
