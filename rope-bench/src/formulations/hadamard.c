// A Hadamard transform as one writes it in C: the butterflies of hadamard.rs in rope-core by intrinsics, for heads of
// 128 channels side by side. What rope-core's transform is measured against: see `hadamard` in intrinsics.rs.
//
// Strides 1, 2, .. 64 in this order, every sum and difference rounded by itself, then one product with 1 / sqrt(128).
// 64 channels stay in registers for the first six strides; the last one goes through memory.

#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define FACTOR 0x1.6a09e6p-4f

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))

// a + b below, a - b above: the other lane, and this one with the signs of a mask.
#define WITHIN(v, other, mask) _mm256_add_ps(other, _mm256_xor_ps(v, mask))

INLINE AVX2 void half_head(float *x) {
    const __m256 odd = _mm256_castsi256_ps(_mm256_set1_epi64x((long long)0x8000000000000000));
    const __m256 pairs = _mm256_castsi256_ps(_mm256_set_epi32(INT32_MIN, INT32_MIN, 0, 0, INT32_MIN, INT32_MIN, 0, 0));
    const __m256 high = _mm256_castsi256_ps(_mm256_set_epi32(INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, 0, 0, 0, 0));
    __m256 v[8];
    for (int i = 0; i < 8; i++) {
        __m256 a = _mm256_loadu_ps(x + 8 * i);
        a = WITHIN(a, _mm256_permute_ps(a, 0xb1), odd);
        a = WITHIN(a, _mm256_permute_ps(a, 0x4e), pairs);
        v[i] = WITHIN(a, _mm256_permute2f128_ps(a, a, 1), high);
    }
    for (int stride = 1; stride < 8; stride *= 2) {
        for (int i = 0; i < 8; i++) {
            if (i & stride) continue;
            __m256 a = v[i], b = v[i + stride];
            v[i] = _mm256_add_ps(a, b);
            v[i + stride] = _mm256_sub_ps(a, b);
        }
    }
    for (int i = 0; i < 8; i++) _mm256_storeu_ps(x + 8 * i, v[i]);
}

AVX2 void rope_bench_hadamard_avx2(float *x, size_t heads) {
    const __m256 factor = _mm256_set1_ps(FACTOR);
    for (; heads > 0; heads--, x += 128) {
        half_head(x);
        half_head(x + 64);
        for (int i = 0; i < 64; i += 8) {
            __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + 64 + i);
            _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_add_ps(a, b), factor));
            _mm256_storeu_ps(x + 64 + i, _mm256_mul_ps(_mm256_sub_ps(a, b), factor));
        }
    }
}
#else
#include <arm_neon.h>

INLINE float32x4_t within(float32x4_t v, float32x4_t other, uint32x4_t mask) {
    return vaddq_f32(other, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(v), mask)));
}

INLINE void half_head(float *x) {
    const uint32x4_t odd = {0, 0x80000000, 0, 0x80000000}, high = {0, 0, 0x80000000, 0x80000000};
    float32x4_t v[16];
    for (int i = 0; i < 16; i++) {
        float32x4_t a = vld1q_f32(x + 4 * i);
        a = within(a, vrev64q_f32(a), odd);
        v[i] = within(a, vextq_f32(a, a, 2), high);
    }
    for (int stride = 1; stride < 16; stride *= 2) {
        for (int i = 0; i < 16; i++) {
            if (i & stride) continue;
            float32x4_t a = v[i], b = v[i + stride];
            v[i] = vaddq_f32(a, b);
            v[i + stride] = vsubq_f32(a, b);
        }
    }
    for (int i = 0; i < 16; i++) vst1q_f32(x + 4 * i, v[i]);
}

void rope_bench_hadamard_neon(float *x, size_t heads) {
    for (; heads > 0; heads--, x += 128) {
        half_head(x);
        half_head(x + 64);
        for (int i = 0; i < 64; i += 4) {
            float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + 64 + i);
            vst1q_f32(x + i, vmulq_n_f32(vaddq_f32(a, b), FACTOR));
            vst1q_f32(x + 64 + i, vmulq_n_f32(vsubq_f32(a, b), FACTOR));
        }
    }
}
#endif
