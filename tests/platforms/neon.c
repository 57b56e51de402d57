// What one writes first for a 64-bit ARM: the rotation as a plain loop of NEON intrinsics, of 16 tokens of 8 heads of 128 channels.
// The measure for the instructions of rope-core. Arguments: half or interleaved, and how often.
#include <arm_neon.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 16, HEADS = 8, PAIRS = 64 };

static float x[TOKENS][HEADS][2 * PAIRS], table[TOKENS][2][PAIRS];

__attribute__((noinline)) static void half(void) {
    for (int t = 0; t < TOKENS; t++) {
        const float *cos = table[t][0], *sin = table[t][1];
        for (int h = 0; h < HEADS; h++) {
            float *a = x[t][h], *b = a + PAIRS;
            for (int i = 0; i < PAIRS; i += 4) {
                float32x4_t c = vld1q_f32(cos + i), s = vld1q_f32(sin + i);
                float32x4_t p = vld1q_f32(a + i), q = vld1q_f32(b + i);
                vst1q_f32(a + i, vsubq_f32(vmulq_f32(p, c), vmulq_f32(q, s)));
                vst1q_f32(b + i, vaddq_f32(vmulq_f32(p, s), vmulq_f32(q, c)));
            }
        }
    }
}

__attribute__((noinline)) static void interleaved(void) {
    for (int t = 0; t < TOKENS; t++) {
        const float *cos = table[t][0], *sin = table[t][1];
        for (int h = 0; h < HEADS; h++) {
            float *a = x[t][h];
            for (int i = 0; i < PAIRS; i += 4) {
                float32x4_t c = vld1q_f32(cos + i), s = vld1q_f32(sin + i);
                float32x4x2_t pq = vld2q_f32(a + 2 * i), out;
                out.val[0] = vsubq_f32(vmulq_f32(pq.val[0], c), vmulq_f32(pq.val[1], s));
                out.val[1] = vaddq_f32(vmulq_f32(pq.val[0], s), vmulq_f32(pq.val[1], c));
                vst2q_f32(a + 2 * i, out);
            }
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int i = 0; i < TOKENS * HEADS * 2 * PAIRS; i++) (&x[0][0][0])[i] = (float)i;
    for (int i = 0; i < TOKENS * 2 * PAIRS; i++) (&table[0][0][0])[i] = i & 64 ? 0.8f : 0.6f;
    for (int times = atoi(argv[2]); times > 0; times--) {
        if (strcmp(argv[1], "half") == 0) half();
        else interleaved();
    }
    return x[1][2][3] == 0;
}
