// The rotation as one writes it in C: plain loops of intrinsics, one for each instruction set, element and pairing.
// What rope-core's kernels are measured against, by the formulations `intrinsics/..`: see intrinsics.rs.
//
// The arithmetic is rope-core's, and so are the bits: x cos - y sin and x sin + y cos in f32, every product and sum
// rounded by itself (the file is compiled with -ffp-contract=off), 16-bit elements rounded once, to nearest even. A NaN
// becomes a quiet NaN, and nothing is flushed to zero.
//
// A loop rotates a line: the heads of a token, which share a row of cos and sin, or one head of some tokens, with a row
// each. It keeps some vectors of the row in registers while the heads pass; pairs that do not fill one are for the next
// narrower loop. Tokens-major, the lines of a tensor follow one another in the function that is called; `heads_major`
// finds those of a heads-major tensor.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))

// Rotates the first 2 * pairs channels of each head of `x`, as an engine would call it: raw pointers, no checks. `rows`
// holds a row per token, cos of all pairs, then sin. Strides are in elements.
typedef void tensor(void *x, const float *rows, size_t tokens, size_t heads, size_t pairs, size_t token_stride,
                    size_t head_stride);

// What to do: rotate heads that share a row, rotate heads with a row each, or put a row in the order that the loop
// wants.
enum task { SHARED, OWN, ORDER };

struct line {
    enum task task;
    void *x;
    size_t heads, stride, pairs;
    const float *rows;
    size_t row_stride;
    // The same rows in the loop's order, for OWN and ORDER.
    float *ordered;
    size_t ordered_stride;
    // From a head to the one that is asked for while it rotates, in bytes: 0 for none.
    ptrdiff_t ahead;
    // Whether ORDER has met a row that OWN has to rotate one pair after the other.
    int special;
};

// From pair `at` on.
typedef void loop(struct line *line, size_t at);

INLINE void ask_for(const void *x, ptrdiff_t ahead, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const void *)((uintptr_t)x + (uintptr_t)ahead + i));
}

// ---------------------------------------------------------------- one pair after the other: what fills no vector

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX512 __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#define AVX512BF16 __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")))
// Conversions of f16.
#define F16 __attribute__((target("f16c")))
INLINE F16 float f16_get(const uint16_t *x) {
    return _cvtsh_ss(*x);
}
INLINE F16 void f16_put(uint16_t *x, float y) {
    *x = _cvtss_sh(y, _MM_FROUND_TO_NEAREST_INT);
}
#else
#include <arm_neon.h>
#define NEON
#define F16
INLINE float f16_get(const uint16_t *x) {
    __fp16 y;
    memcpy(&y, x, sizeof y);
    return y;
}
INLINE void f16_put(uint16_t *x, float y) {
    const __fp16 rounded = (__fp16)y;
    memcpy(x, &rounded, sizeof rounded);
}
#endif

INLINE float f32_get(const float *x) {
    return *x;
}
INLINE void f32_put(float *x, float y) {
    *x = y;
}
INLINE float bf16_get(const uint16_t *x) {
    const uint32_t bits = (uint32_t)*x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}
INLINE void bf16_put(uint16_t *x, float y) {
    uint32_t bits;
    memcpy(&bits, &y, sizeof y);
    // Rounding could carry a NaN into an infinity.
    *x = (uint16_t)((y != y ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define MEMBERS_half(i) {i, pairs + i}
#define MEMBERS_interleaved(i) {2 * i, 2 * i + 1}

// `.._pairs` rotates pairs `at` to `end` of a head; `.._scalar` is the last loop.
#define PAIRS(ELEMENT, PAIRING, TARGET, T) \
    APART TARGET void ELEMENT##_##PAIRING##_pairs(T *x, size_t pairs, size_t at, size_t end, const float *row) { \
        for (size_t i = at; i < end; i++) { \
            const size_t member[2] = MEMBERS_##PAIRING(i); \
            const float p = ELEMENT##_get(x + member[0]), q = ELEMENT##_get(x + member[1]); \
            const float cos = row[i], sin = row[pairs + i]; \
            ELEMENT##_put(x + member[0], p * cos - q * sin); \
            ELEMENT##_put(x + member[1], p * sin + q * cos); \
        } \
    } \
    static void ELEMENT##_##PAIRING##_scalar(struct line *l, size_t at) { \
        if (at == l->pairs || l->task == ORDER) return; \
        for (size_t head = 0; head < l->heads; head++) { \
            T *x = (T *)l->x + head * l->stride; \
            ELEMENT##_##PAIRING##_pairs(x, l->pairs, at, l->pairs, l->rows + head * l->row_stride); \
        } \
    }
PAIRS(f32, half, , float)
PAIRS(f32, interleaved, , float)
PAIRS(bf16, half, , uint16_t)
PAIRS(bf16, interleaved, , uint16_t)
PAIRS(f16, half, F16, uint16_t)
PAIRS(f16, interleaved, F16, uint16_t)

// ---------------------------------------------------------------- heads-major tensors, and what is prefetched

// Sizes of tensors.
enum { NEVER = 0, BEYOND_L1 = 48 << 10, BEYOND_L2 = 2 << 20 };

// With 64-byte loads the core's own prefetching falls behind: asking for the heads that come takes W1 of f32 from 1.11
// to 0.97 times the roof and W4 from 1.30 to 1.16 (4 to 8 heads ahead alike, 12 less). It does nothing for 32-byte
// loads, and costs a third where everything is in the first cache.
enum { HEADS_AHEAD = 8 };

// Tokens of a head that rotate together: as many of all heads, and their rows stay in the first cache.
enum { BLOCK = 16, ROOM = BLOCK * 1024 };

// Blocks of tokens through all heads. While a block of a head rotates, the same tokens of the next head are asked for.
// Their rows are put in order once for all heads: for each of them it would take up to a third of the time in 16 bits.
APART void heads_major(loop *rotate, size_t element, char *x, const float *rows, size_t tokens, size_t heads,
                       size_t pairs, size_t token_stride, size_t head_stride) {
    _Alignas(64) float ordered[ROOM];
    const size_t row = 2 * pairs, ordered_row = 4 * pairs, most = ROOM / ordered_row;
    const size_t block = most < BLOCK ? most : BLOCK;
    const int far = tokens * heads * 2 * pairs * element > BEYOND_L2;
    for (size_t token = 0, count; token < tokens; token += count) {
        count = tokens - token < block ? tokens - token : block;
        struct line line = {.heads = count, .stride = token_stride, .pairs = pairs, .row_stride = row};
        line.task = ORDER;
        for (size_t i = 0; i < count; i++) {
            line.rows = rows + (token + i) * row;
            line.ordered = ordered + i * ordered_row;
            rotate(&line, 0);
        }
        line.task = OWN;
        line.rows = rows + token * row;
        line.ordered = ordered, line.ordered_stride = ordered_row;
        for (size_t head = 0; head < heads; head++) {
            line.x = x + (head * head_stride + token * token_stride) * element;
            const ptrdiff_t next_head = (ptrdiff_t)(head_stride * element);
            const ptrdiff_t next_block = (ptrdiff_t)(count * token_stride * element);
            const ptrdiff_t back = (ptrdiff_t)(heads - 1) * next_head;
            if (far) line.ahead = head + 1 < heads ? next_head : next_block - back;
            rotate(&line, 0);
        }
    }
}

// ---------------------------------------------------------------- the loop

// `KIND_ISA`, in steps of n times SPAN pairs: n is MOST, then half of it, and the narrower loop rotates the rest. Its
// vectors are V. load_LOAD(n, r, cos, sin) loads the row of a step in n times ROWS registers; CHECK says whether they
// will do. KIND_rotate_ISA(n, x, pairs, at, r) rotates a step of a head, or returns 0 if it cannot, which is rare. What
// cannot rotate by vectors rotates one pair after the other. KIND_tensor_ISA is the `tensor` that a caller gets; from
// FAR bytes on it prefetches.
#define LOOP(KIND, ISA, TARGET, T, V, SPAN, ROWS, LOAD, CHECK, MOST, NARROWER, FAR) \
    INLINE TARGET size_t KIND##_pass_##ISA(struct line *line, size_t at, const enum task task, const int n) { \
        typedef V anywhere __attribute__((aligned(4), may_alias)); \
        const struct line l = *line; \
        const size_t step = (size_t)n * SPAN, heads = task == ORDER ? 0 : l.heads; \
        V r[16]; \
        for (; l.pairs - at >= step; at += step) { \
            T *x = l.x; \
            const float *row = l.rows; \
            float *ordered = l.ordered + at * (ROWS * sizeof(V) / sizeof(float) / SPAN); \
            if (task != OWN) load_##LOAD(n, r, row + at, row + l.pairs + at); \
            const int special = task == OWN ? l.special : !CHECK(n * ROWS, r); \
            if (task == ORDER) line->special |= special; \
            for (int i = 0; task == ORDER && i < n * ROWS; i++) ((anywhere *)ordered)[i] = r[i]; \
            if (__builtin_expect(special, 0)) { \
                for (size_t head = 0; head < heads; head++) \
                    KIND##_pairs(x + head * l.stride, l.pairs, at, at + step, row + head * l.row_stride); \
                continue; \
            } \
            for (size_t head = 0; head < heads; head++) { \
                if (l.ahead != 0) ask_for(x + 2 * at, l.ahead, 2 * step * sizeof(T)); \
                for (int i = 0; task == OWN && i < n * ROWS; i++) r[i] = ((anywhere *)ordered)[i]; \
                if (__builtin_expect(!KIND##_rotate_##ISA(n, x, l.pairs, at, r), 0)) \
                    KIND##_pairs(x, l.pairs, at, at + step, row); \
                x += l.stride, row += l.row_stride, ordered += l.ordered_stride; \
            } \
        } \
        return at; \
    } \
    INLINE TARGET size_t KIND##_passes_##ISA(struct line *line, size_t at, const enum task task) { \
        if (MOST >= 8) at = KIND##_pass_##ISA(line, at, task, 8); \
        if (MOST >= 4) at = KIND##_pass_##ISA(line, at, task, 4); \
        if (MOST >= 2) at = KIND##_pass_##ISA(line, at, task, 2); \
        return KIND##_pass_##ISA(line, at, task, 1); \
    } \
    static TARGET void KIND##_##ISA(struct line *line, size_t at) { \
        if (line->task == SHARED) at = KIND##_passes_##ISA(line, at, SHARED); \
        else if (line->task == OWN) at = KIND##_passes_##ISA(line, at, OWN); \
        else at = KIND##_passes_##ISA(line, at, ORDER); \
        KIND##_##NARROWER(line, at); \
    } \
    static TARGET void KIND##_tensor_##ISA(void *x, const float *rows, size_t tokens, size_t heads, size_t pairs, \
                                           size_t token_stride, size_t head_stride) { \
        const size_t bytes = tokens * heads * 2 * pairs * sizeof(T); \
        if (tokens > 1 && head_stride >= token_stride) { \
            heads_major(KIND##_##ISA, sizeof(T), x, rows, tokens, heads, pairs, token_stride, head_stride); \
            return; \
        } \
        struct line line = {.task = SHARED, .x = x, .heads = heads, .stride = head_stride, .pairs = pairs, .rows = rows}; \
        if (FAR != NEVER && bytes > FAR) line.ahead = (ptrdiff_t)(HEADS_AHEAD * head_stride * sizeof(T)); \
        for (; tokens > 0; tokens--) { \
            const size_t at = KIND##_passes_##ISA(&line, 0, SHARED); \
            if (at < pairs) { \
                struct line rest = line; \
                KIND##_##NARROWER(&rest, at); \
            } \
            line.x = (T *)line.x + token_stride, line.rows += 2 * pairs; \
        } \
    }

#define ANY(registers, r) 1

#if defined(__x86_64__)
// ---------------------------------------------------------------- AVX2

INLINE AVX2 void load_8(int n, __m256 *r, const float *cos, const float *sin) {
    for (int i = 0; i < n; i++) {
        r[2 * i] = _mm256_loadu_ps(cos + 8 * i);
        r[2 * i + 1] = _mm256_loadu_ps(sin + 8 * i);
    }
}

// Each value twice, for the members of 4 pairs.
INLINE AVX2 void load_4_twice(int n, __m256 *r, const float *cos, const float *sin) {
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (int i = 0; i < n; i++) {
        r[2 * i] = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + 4 * i)), twice);
        r[2 * i + 1] = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + 4 * i)), twice);
    }
}

// Of 16 pairs: cos of the even ones, of the odd ones, then sin.
INLINE AVX2 void load_16_even_odd(int n, __m256 *r, const float *cos, const float *sin) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            const float *values = (k == 0 ? cos : sin) + 16 * i;
            const __m256 low = _mm256_loadu_ps(values), high = _mm256_loadu_ps(values + 8);
            const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
            const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xdd));
            r[4 * i + 2 * k] = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
            r[4 * i + 2 * k + 1] = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
        }
    }
}

INLINE AVX2 __m256 first8(__m256 p, __m256 q, __m256 cos, __m256 sin) {
    return _mm256_sub_ps(_mm256_mul_ps(p, cos), _mm256_mul_ps(q, sin));
}
INLINE AVX2 __m256 second8(__m256 p, __m256 q, __m256 cos, __m256 sin) {
    return _mm256_add_ps(_mm256_mul_ps(p, sin), _mm256_mul_ps(q, cos));
}
// Both members of 4 pairs.
INLINE AVX2 __m256 both8(__m256 pq, __m256 cos, __m256 sin) {
    return _mm256_addsub_ps(_mm256_mul_ps(pq, cos), _mm256_mul_ps(_mm256_permute_ps(pq, 0xb1), sin));
}

INLINE AVX2 int f32_half_rotate_avx2(int n, float *x, size_t pairs, size_t at, const __m256 *r) {
    float *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 8, b += 8) {
        const __m256 p = _mm256_loadu_ps(a), q = _mm256_loadu_ps(b);
        _mm256_storeu_ps(a, first8(p, q, r[2 * i], r[2 * i + 1]));
        _mm256_storeu_ps(b, second8(p, q, r[2 * i], r[2 * i + 1]));
    }
    return 1;
}

INLINE AVX2 int f32_interleaved_rotate_avx2(int n, float *x, size_t pairs, size_t at, const __m256 *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 8) _mm256_storeu_ps(x, both8(_mm256_loadu_ps(x), r[2 * i], r[2 * i + 1]));
    return 1;
}

INLINE AVX2 __m256 f16_get8(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}
// A store of words is one that gcc makes with the conversion, in one instruction; _mm_storeu_si128 is another.
typedef int16_t words8 __attribute__((vector_size(16), aligned(2), may_alias));
INLINE AVX2 void f16_put8(uint16_t *x, __m256 y) {
    *(words8 *)x = (words8)_mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT);
}

INLINE AVX2 int f16_half_rotate_avx2(int n, uint16_t *x, size_t pairs, size_t at, const __m256 *r) {
    uint16_t *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 8, b += 8) {
        const __m256 p = f16_get8(a), q = f16_get8(b);
        f16_put8(a, first8(p, q, r[2 * i], r[2 * i + 1]));
        f16_put8(b, second8(p, q, r[2 * i], r[2 * i + 1]));
    }
    return 1;
}

INLINE AVX2 int f16_interleaved_rotate_avx2(int n, uint16_t *x, size_t pairs, size_t at, const __m256 *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 8) f16_put8(x, both8(f16_get8(x), r[2 * i], r[2 * i + 1]));
    return 1;
}

// A bf16 is the upper half of an f32: of 16 words the even ones by one shift, the odd ones by one mask.
INLINE AVX2 __m256 even8(__m256i words) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
INLINE AVX2 __m256 odd8(__m256i words) {
    return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x10000)));
}
// To nearest even, in the upper halves: for all but a NaN.
INLINE AVX2 __m256i round8(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
}
INLINE AVX2 void bf16_put16(uint16_t *x, __m256 even, __m256 odd) {
    const __m256i low = _mm256_srli_epi32(round8(even), 16);
    _mm256_storeu_si256((__m256i *)x, _mm256_blend_epi16(low, round8(odd), 0xaa));
}

// Rounding carries no NaN into an infinity if its lower half is zero, and that of a NaN from a bf16 is, and of one from
// infinities. A NaN in the row may have any lower half: whether there is one is asked once, when the row is loaded.
INLINE AVX2 int numbers8(int registers, const __m256 *r) {
    __m256 nan = _mm256_setzero_ps();
    for (int i = 0; i < registers; i += 2) nan = _mm256_or_ps(nan, _mm256_cmp_ps(r[i], r[i + 1], _CMP_UNORD_Q));
    return _mm256_testz_ps(nan, nan);
}

INLINE AVX2 int bf16_half_rotate_avx2(int n, uint16_t *x, size_t pairs, size_t at, const __m256 *r) {
    uint16_t *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 16, b += 16, r += 4) {
        const __m256i p = _mm256_loadu_si256((const __m256i *)a), q = _mm256_loadu_si256((const __m256i *)b);
        const __m256 pe = even8(p), po = odd8(p), qe = even8(q), qo = odd8(q);
        bf16_put16(a, first8(pe, qe, r[0], r[2]), first8(po, qo, r[1], r[3]));
        bf16_put16(b, second8(pe, qe, r[0], r[2]), second8(po, qo, r[1], r[3]));
    }
    return 1;
}

INLINE AVX2 int bf16_interleaved_rotate_avx2(int n, uint16_t *x, size_t pairs, size_t at, const __m256 *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 16, r += 2) {
        const __m256i pq = _mm256_loadu_si256((const __m256i *)x);
        const __m256 p = even8(pq), q = odd8(pq);
        bf16_put16(x, first8(p, q, r[0], r[1]), second8(p, q, r[0], r[1]));
    }
    return 1;
}

// In as many passes over the heads as the 16 registers ask for.
LOOP(f32_half, avx2, AVX2, float, __m256, 8, 2, 8, ANY, 4, scalar, NEVER)
LOOP(f32_interleaved, avx2, AVX2, float, __m256, 4, 2, 4_twice, ANY, 4, scalar, NEVER)
LOOP(f16_half, avx2, AVX2, uint16_t, __m256, 8, 2, 8, ANY, 4, scalar, NEVER)
LOOP(f16_interleaved, avx2, AVX2, uint16_t, __m256, 4, 2, 4_twice, ANY, 4, scalar, NEVER)
LOOP(bf16_half, avx2, AVX2, uint16_t, __m256, 16, 4, 16_even_odd, numbers8, 2, scalar, NEVER)
LOOP(bf16_interleaved, avx2, AVX2, uint16_t, __m256, 8, 2, 8, numbers8, 4, scalar, NEVER)

// ---------------------------------------------------------------- AVX-512

INLINE AVX512 void load_16(int n, __m512 *r, const float *cos, const float *sin) {
    for (int i = 0; i < n; i++) {
        r[2 * i] = _mm512_loadu_ps(cos + 16 * i);
        r[2 * i + 1] = _mm512_loadu_ps(sin + 16 * i);
    }
}

// Each value twice, for the members of 8 pairs, and the sin of first members negative.
INLINE AVX512 void load_8_twice(int n, __m512 *r, const float *cos, const float *sin) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512 minus = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000));
    for (int i = 0; i < n; i++) {
        r[2 * i] = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(cos + 8 * i)));
        r[2 * i + 1] = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(sin + 8 * i)));
        r[2 * i + 1] = _mm512_xor_ps(r[2 * i + 1], minus);
    }
}

// Of 32 pairs: cos of the even ones, of the odd ones, then sin.
INLINE AVX512 void load_32_even_odd(int n, __m512 *r, const float *cos, const float *sin) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            const float *values = (k == 0 ? cos : sin) + 32 * i;
            const __m512 low = _mm512_loadu_ps(values), high = _mm512_loadu_ps(values + 16);
            r[4 * i + 2 * k] = _mm512_permutex2var_ps(low, even, high);
            r[4 * i + 2 * k + 1] = _mm512_permutex2var_ps(low, odd, high);
        }
    }
}

INLINE AVX512 __m512 first16(__m512 p, __m512 q, __m512 cos, __m512 sin) {
    return _mm512_sub_ps(_mm512_mul_ps(p, cos), _mm512_mul_ps(q, sin));
}
INLINE AVX512 __m512 second16(__m512 p, __m512 q, __m512 cos, __m512 sin) {
    return _mm512_add_ps(_mm512_mul_ps(p, sin), _mm512_mul_ps(q, cos));
}
// Both members of 8 pairs.
INLINE AVX512 __m512 both16(__m512 pq, __m512 cos, __m512 sin) {
    return _mm512_add_ps(_mm512_mul_ps(pq, cos), _mm512_mul_ps(_mm512_permute_ps(pq, 0xb1), sin));
}

INLINE AVX512 int f32_half_rotate_avx512(int n, float *x, size_t pairs, size_t at, const __m512 *r) {
    float *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 16, b += 16) {
        const __m512 p = _mm512_loadu_ps(a), q = _mm512_loadu_ps(b);
        _mm512_storeu_ps(a, first16(p, q, r[2 * i], r[2 * i + 1]));
        _mm512_storeu_ps(b, second16(p, q, r[2 * i], r[2 * i + 1]));
    }
    return 1;
}

INLINE AVX512 int f32_interleaved_rotate_avx512(int n, float *x, size_t pairs, size_t at, const __m512 *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 16) _mm512_storeu_ps(x, both16(_mm512_loadu_ps(x), r[2 * i], r[2 * i + 1]));
    return 1;
}

INLINE AVX512 __m512 f16_get16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}
typedef int16_t words16 __attribute__((vector_size(32), aligned(2), may_alias));
INLINE AVX512 void f16_put16(uint16_t *x, __m512 y) {
    *(words16 *)x = (words16)_mm512_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT);
}

INLINE AVX512 int f16_half_rotate_avx512(int n, uint16_t *x, size_t pairs, size_t at, const __m512 *r) {
    uint16_t *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 16, b += 16) {
        const __m512 p = f16_get16(a), q = f16_get16(b);
        f16_put16(a, first16(p, q, r[2 * i], r[2 * i + 1]));
        f16_put16(b, second16(p, q, r[2 * i], r[2 * i + 1]));
    }
    return 1;
}

INLINE AVX512 int f16_interleaved_rotate_avx512(int n, uint16_t *x, size_t pairs, size_t at, const __m512 *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 16) f16_put16(x, both16(f16_get16(x), r[2 * i], r[2 * i + 1]));
    return 1;
}

INLINE AVX512 __m512 even16(__m512i words) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
INLINE AVX512 __m512 odd16(__m512i words) {
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x10000)));
}
// To nearest even, in the upper halves: for all but a NaN. Asking for the last bit and adding it under the mask takes
// three instructions where shift, mask and two additions take four.
INLINE AVX512 __m512i round16(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    return _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
}
// The upper halves of the even lanes go below those of the odd ones, by one shuffle under a mask.
INLINE AVX512 void bf16_put32(uint16_t *x, __m512 even, __m512 odd) {
    const __m128i upper = _mm_setr_epi8(2, 3, 0, 0, 6, 7, 0, 0, 10, 11, 0, 0, 14, 15, 0, 0);
    const __m512i down = _mm512_broadcast_i32x4(upper);
    const __mmask64 below = 0x3333333333333333;
    _mm512_storeu_si512(x, _mm512_mask_shuffle_epi8(round16(odd), below, round16(even), down));
}

INLINE AVX512 int numbers16(int registers, const __m512 *r) {
    __mmask16 fine = 0xffff;
    for (int i = 0; i < registers; i += 2) fine = _mm512_mask_cmp_ps_mask(fine, r[i], r[i + 1], _CMP_ORD_Q);
    return fine == 0xffff;
}

INLINE AVX512 int bf16_half_rotate_avx512(int n, uint16_t *x, size_t pairs, size_t at, const __m512 *r) {
    uint16_t *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 32, b += 32, r += 4) {
        const __m512i p = _mm512_loadu_si512(a), q = _mm512_loadu_si512(b);
        const __m512 pe = even16(p), po = odd16(p), qe = even16(q), qo = odd16(q);
        bf16_put32(a, first16(pe, qe, r[0], r[2]), first16(po, qo, r[1], r[3]));
        bf16_put32(b, second16(pe, qe, r[0], r[2]), second16(po, qo, r[1], r[3]));
    }
    return 1;
}

INLINE AVX512 int bf16_interleaved_rotate_avx512(int n, uint16_t *x, size_t pairs, size_t at, const __m512 *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 32, r += 2) {
        const __m512i pq = _mm512_loadu_si512(x);
        const __m512 p = even16(pq), q = odd16(pq);
        bf16_put32(x, first16(p, q, r[0], r[1]), second16(p, q, r[0], r[1]));
    }
    return 1;
}

// 64 pairs fit in registers at once.
LOOP(f32_half, avx512, AVX512, float, __m512, 16, 2, 16, ANY, 8, avx2, BEYOND_L1)
LOOP(f32_interleaved, avx512, AVX512, float, __m512, 8, 2, 8_twice, ANY, 8, avx2, BEYOND_L1)
LOOP(f16_half, avx512, AVX512, uint16_t, __m512, 16, 2, 16, ANY, 8, avx2, BEYOND_L2)
LOOP(f16_interleaved, avx512, AVX512, uint16_t, __m512, 8, 2, 8_twice, ANY, 8, avx2, BEYOND_L2)
LOOP(bf16_half, avx512, AVX512, uint16_t, __m512, 32, 4, 32_even_odd, numbers16, 2, avx2, BEYOND_L2)
LOOP(bf16_interleaved, avx512, AVX512, uint16_t, __m512, 16, 2, 16, numbers16, 4, avx2, BEYOND_L2)

// ---------------------------------------------------------------- AVX512-BF16, and the byte shuffles of VBMI

// vcvtne2ps2bf16 rounds 32 values and makes a NaN quiet, but flushes subnormals to zero. A result that is zero is one,
// or was flushed: whether there is a zero is asked once for all pairs of a head, and only if there is, what it was.
INLINE AVX512BF16 int none_flushed(int n, const __m512 *u, const __m512 *v, const __m512i *words) {
    __mmask32 nonzero = 0xffffffff;
    for (int i = 0; i < n; i++) {
        nonzero = _mm512_mask_test_epi16_mask(nonzero, words[i], _mm512_set1_epi16(0x7fff));
    }
    if (__builtin_expect(nonzero == 0xffffffff, 1)) return 1;
    enum { SUBNORMAL = 0x20 };
    __mmask16 found = 0;
    for (int i = 0; i < n; i++) {
        found |= _mm512_fpclass_ps_mask(u[i], SUBNORMAL) | _mm512_fpclass_ps_mask(v[i], SUBNORMAL);
    }
    return found == 0;
}

// Words as f32 in their own order, by one shuffle with zeros below where a conversion and a shift are two.
#define F32_OF(i) 0, 0, 2 * (i), 2 * (i) + 1
#define F32_OF_4(i) F32_OF(i), F32_OF(i + 1), F32_OF(i + 2), F32_OF(i + 3)
static const _Alignas(64) uint8_t LOW[64] = {F32_OF_4(0), F32_OF_4(4), F32_OF_4(8), F32_OF_4(12)};
static const _Alignas(64) uint8_t HIGH[64] = {F32_OF_4(16), F32_OF_4(20), F32_OF_4(24), F32_OF_4(28)};
INLINE AVX512BF16 __m512 widened(__m512i words, const uint8_t *which) {
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi8(0xcccccccccccccccc, _mm512_load_si512(which), words));
}
INLINE AVX512BF16 __m512i rounded(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// Of 32 pairs: cos, then sin.
INLINE AVX512BF16 void load_32(int n, __m512 *r, const float *cos, const float *sin) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            r[4 * i + k] = _mm512_loadu_ps(cos + 32 * i + 16 * k);
            r[4 * i + 2 + k] = _mm512_loadu_ps(sin + 32 * i + 16 * k);
        }
    }
}

INLINE AVX512BF16 int bf16_half_rotate_avx512bf16(int n, uint16_t *x, size_t pairs, size_t at, const __m512 *r) {
    uint16_t *a = x + at, *b = x + pairs + at;
    __m512 u[8], v[8];
    __m512i words[8];
    for (int i = 0; i < n; i++) {
        const __m512i p = _mm512_loadu_si512(a + 32 * i), q = _mm512_loadu_si512(b + 32 * i);
        u[2 * i] = first16(widened(p, LOW), widened(q, LOW), r[4 * i], r[4 * i + 2]);
        v[2 * i] = second16(widened(p, LOW), widened(q, LOW), r[4 * i], r[4 * i + 2]);
        u[2 * i + 1] = first16(widened(p, HIGH), widened(q, HIGH), r[4 * i + 1], r[4 * i + 3]);
        v[2 * i + 1] = second16(widened(p, HIGH), widened(q, HIGH), r[4 * i + 1], r[4 * i + 3]);
        words[2 * i] = rounded(u[2 * i], u[2 * i + 1]);
        words[2 * i + 1] = rounded(v[2 * i], v[2 * i + 1]);
    }
    if (__builtin_expect(!none_flushed(2 * n, u, v, words), 0)) return 0;
    for (int i = 0; i < n; i++) {
        _mm512_storeu_si512(a + 32 * i, words[2 * i]);
        _mm512_storeu_si512(b + 32 * i, words[2 * i + 1]);
    }
    return 1;
}

// The words of first members and of second ones, alternating.
#define MEMBERS_OF(i) 2 * (i), 2 * (i) + 1, 32 + 2 * (i), 32 + 2 * (i) + 1
#define MEMBERS_OF_4(i) MEMBERS_OF(i), MEMBERS_OF(i + 1), MEMBERS_OF(i + 2), MEMBERS_OF(i + 3)
static const _Alignas(64) uint8_t IN_TURNS[64] = {MEMBERS_OF_4(0), MEMBERS_OF_4(4), MEMBERS_OF_4(8), MEMBERS_OF_4(12)};

INLINE AVX512BF16 int bf16_interleaved_rotate_avx512bf16(int n, uint16_t *x, size_t pairs, size_t at, const __m512 *r) {
    (void)pairs;
    x += 2 * at;
    __m512 u[8], v[8];
    __m512i words[8];
    for (int i = 0; i < n; i++) {
        const __m512i pq = _mm512_loadu_si512(x + 32 * i);
        u[i] = first16(even16(pq), odd16(pq), r[2 * i], r[2 * i + 1]);
        v[i] = second16(even16(pq), odd16(pq), r[2 * i], r[2 * i + 1]);
        words[i] = _mm512_permutexvar_epi8(_mm512_load_si512(IN_TURNS), rounded(u[i], v[i]));
    }
    if (__builtin_expect(!none_flushed(n, u, v, words), 0)) return 0;
    for (int i = 0; i < n; i++) _mm512_storeu_si512(x + 32 * i, words[i]);
    return 1;
}

LOOP(bf16_half, avx512bf16, AVX512BF16, uint16_t, __m512, 32, 4, 32, ANY, 2, avx2, BEYOND_L2)
LOOP(bf16_interleaved, avx512bf16, AVX512BF16, uint16_t, __m512, 16, 2, 16, ANY, 4, avx2, BEYOND_L2)

#else
// ---------------------------------------------------------------- NEON

INLINE void load_4(int n, float32x4_t *r, const float *cos, const float *sin) {
    for (int i = 0; i < n; i++) {
        r[2 * i] = vld1q_f32(cos + 4 * i);
        r[2 * i + 1] = vld1q_f32(sin + 4 * i);
    }
}
// Of 8 pairs: cos, then sin.
INLINE void load_8(int n, float32x4_t *r, const float *cos, const float *sin) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            r[4 * i + k] = vld1q_f32(cos + 8 * i + 4 * k);
            r[4 * i + 2 + k] = vld1q_f32(sin + 8 * i + 4 * k);
        }
    }
}

INLINE float32x4_t first4(float32x4_t p, float32x4_t q, float32x4_t cos, float32x4_t sin) {
    return vsubq_f32(vmulq_f32(p, cos), vmulq_f32(q, sin));
}
INLINE float32x4_t second4(float32x4_t p, float32x4_t q, float32x4_t cos, float32x4_t sin) {
    return vaddq_f32(vmulq_f32(p, sin), vmulq_f32(q, cos));
}

// Two vectors at a time, so that loads and stores pair up.
INLINE int f32_half_rotate_neon(int n, float *x, size_t pairs, size_t at, const float32x4_t *r) {
    float *a = x + at, *b = x + pairs + at;
    for (int i = 0; i < n; i++, a += 8, b += 8, r += 4) {
        const float32x4_t p[2] = {vld1q_f32(a), vld1q_f32(a + 4)}, q[2] = {vld1q_f32(b), vld1q_f32(b + 4)};
        vst1q_f32(a, first4(p[0], q[0], r[0], r[2]));
        vst1q_f32(a + 4, first4(p[1], q[1], r[1], r[3]));
        vst1q_f32(b, second4(p[0], q[0], r[0], r[2]));
        vst1q_f32(b + 4, second4(p[1], q[1], r[1], r[3]));
    }
    return 1;
}

INLINE int f32_interleaved_rotate_neon(int n, float *x, size_t pairs, size_t at, const float32x4_t *r) {
    (void)pairs;
    x += 2 * at;
    for (int i = 0; i < n; i++, x += 8) {
        const float32x4x2_t pq = vld2q_f32(x);
        float32x4x2_t rotated;
        rotated.val[0] = first4(pq.val[0], pq.val[1], r[2 * i], r[2 * i + 1]);
        rotated.val[1] = second4(pq.val[0], pq.val[1], r[2 * i], r[2 * i + 1]);
        vst2q_f32(x, rotated);
    }
    return 1;
}

// 8 words of a 16-bit element as f32, and back.
INLINE float32x4_t f16_low(uint16x8_t words) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(words)));
}
INLINE float32x4_t f16_high(uint16x8_t words) {
    return vcvt_high_f32_f16(vreinterpretq_f16_u16(words));
}
INLINE uint16x8_t f16_words(float32x4_t low, float32x4_t high) {
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high));
}
INLINE float32x4_t bf16_low(uint16x8_t words) {
    return vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16));
}
INLINE float32x4_t bf16_high(uint16x8_t words) {
    return vreinterpretq_f32_u32(vshll_high_n_u16(words, 16));
}
// To nearest even, for all but a NaN.
INLINE uint16x8_t bf16_words(float32x4_t low, float32x4_t high) {
    const uint32x4_t below = vdupq_n_u32(0x7fff), one = vdupq_n_u32(1);
    const uint32x4_t l = vreinterpretq_u32_f32(low), h = vreinterpretq_u32_f32(high);
    const uint16x4_t upper = vaddhn_u32(l, vaddq_u32(below, vandq_u32(vshrq_n_u32(l, 16), one)));
    return vaddhn_high_u32(upper, h, vaddq_u32(below, vandq_u32(vshrq_n_u32(h, 16), one)));
}
// See numbers8. Only a NaN is not equal to itself.
INLINE int numbers4(int registers, const float32x4_t *r) {
    uint32x4_t fine = vdupq_n_u32(0xffffffff);
    for (int i = 0; i < registers; i++) fine = vandq_u32(fine, vceqq_f32(r[i], r[i]));
    return vminvq_u32(fine) != 0;
}

#define TURN_16_BITS(ELEMENT) \
    INLINE uint16x8_t ELEMENT##_first8(uint16x8_t p, uint16x8_t q, const float32x4_t *r) { \
        const float32x4_t low = first4(ELEMENT##_low(p), ELEMENT##_low(q), r[0], r[2]); \
        return ELEMENT##_words(low, first4(ELEMENT##_high(p), ELEMENT##_high(q), r[1], r[3])); \
    } \
    INLINE uint16x8_t ELEMENT##_second8(uint16x8_t p, uint16x8_t q, const float32x4_t *r) { \
        const float32x4_t low = second4(ELEMENT##_low(p), ELEMENT##_low(q), r[0], r[2]); \
        return ELEMENT##_words(low, second4(ELEMENT##_high(p), ELEMENT##_high(q), r[1], r[3])); \
    } \
    INLINE int ELEMENT##_half_rotate_neon(int n, uint16_t *x, size_t pairs, size_t at, const float32x4_t *r) { \
        uint16_t *a = x + at, *b = x + pairs + at; \
        for (int i = 0; i < n; i++, a += 8, b += 8, r += 4) { \
            const uint16x8_t p = vld1q_u16(a), q = vld1q_u16(b); \
            vst1q_u16(a, ELEMENT##_first8(p, q, r)); \
            vst1q_u16(b, ELEMENT##_second8(p, q, r)); \
        } \
        return 1; \
    } \
    INLINE int ELEMENT##_interleaved_rotate_neon(int n, uint16_t *x, size_t pairs, size_t at, const float32x4_t *r) { \
        (void)pairs; \
        x += 2 * at; \
        for (int i = 0; i < n; i++, x += 16, r += 4) { \
            const uint16x8x2_t pq = vld2q_u16(x); \
            uint16x8x2_t rotated; \
            rotated.val[0] = ELEMENT##_first8(pq.val[0], pq.val[1], r); \
            rotated.val[1] = ELEMENT##_second8(pq.val[0], pq.val[1], r); \
            vst2q_u16(x, rotated); \
        } \
        return 1; \
    }
TURN_16_BITS(bf16)
TURN_16_BITS(f16)

LOOP(f32_half, neon, NEON, float, float32x4_t, 8, 4, 8, ANY, 4, scalar, NEVER)
LOOP(f32_interleaved, neon, NEON, float, float32x4_t, 4, 2, 4, ANY, 8, scalar, NEVER)
LOOP(bf16_half, neon, NEON, uint16_t, float32x4_t, 8, 4, 8, numbers4, 4, scalar, NEVER)
LOOP(bf16_interleaved, neon, NEON, uint16_t, float32x4_t, 8, 4, 8, numbers4, 4, scalar, NEVER)
LOOP(f16_half, neon, NEON, uint16_t, float32x4_t, 8, 4, 8, ANY, 4, scalar, NEVER)
LOOP(f16_interleaved, neon, NEON, uint16_t, float32x4_t, 8, 4, 8, ANY, 4, scalar, NEVER)
#endif

// ---------------------------------------------------------------- what Rust asks for, once

// Elements: f32, bf16, f16. Pairings: half, interleaved.
#define OFFER(NAME, ISA) \
    tensor *rope_bench_##NAME(unsigned element, unsigned pairing); \
    tensor *rope_bench_##NAME(unsigned element, unsigned pairing) { \
        static tensor *const kernels[3][2] = { \
            {f32_half_tensor_##ISA, f32_interleaved_tensor_##ISA}, \
            {bf16_half_tensor_##NAME, bf16_interleaved_tensor_##NAME}, \
            {f16_half_tensor_##ISA, f16_interleaved_tensor_##ISA}, \
        }; \
        return kernels[element][pairing]; \
    }
#if defined(__x86_64__)
OFFER(avx2, avx2)
OFFER(avx512, avx512)
OFFER(avx512bf16, avx512)
#else
OFFER(neon, neon)
#endif
