/* Frequencies that are learned: RoPE-Mixed, in which every head of an image's attention has frequencies of its own on
 * both axes. A loss, its gradient by the backward pass, the same by central differences, and a descent that finds the
 * frequencies that made the target. Allocates nothing. Returns 0 if all is as it should be. C99. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rope.h>

enum { SIDE = 4, TOKENS = SIDE * SIDE, HEADS = 2, PAIRS = 4, HEAD_DIM = 2 * PAIRS, AXES = 2 };
enum { LEN = TOKENS * HEADS * HEAD_DIM, FREQUENCIES = AXES * HEADS * PAIRS };

static float x[LEN], y[LEN], dy[LEN], target[LEN];
static double sums[TOKENS * HEADS * PAIRS];
static int32_t patches[AXES * TOKENS];
static float storage[ROPE_ROWS_LEN(TOKENS *HEADS, HEAD_DIM)];
static unsigned char memory[ROPE_MIXED_FREQUENCIES_BYTES(AXES, HEADS, PAIRS)];

static const rope_plan plan = {.pairing = ROPE_PAIRING_HALF};
static rope_positions positions;

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

static rope_operand tensor(float *data) {
    rope_operand made;
    memset(&made, 0, sizeof made);
    made.data = data;
    made.len = LEN;
    made.element = ROPE_ELEMENT_F32;
    MUST(rope_layout_init(&made.layout, ROPE_ORDER_BSHD, 1, TOKENS, HEADS, HEAD_DIM));
    return made;
}

/* Rotates x into y by these frequencies, and leaves their rows in the storage. */
static rope_angles rotate(const double *learned) {
    rope_mixed_inverse inverse = {NULL, FREQUENCIES, ROPE_NUMBER_F64, AXES, HEADS, PAIRS};
    rope_frequencies *frequencies = NULL;
    rope_angles at, rows;
    rope_operand rotated = tensor(y);
    inverse.values = learned;
    MUST(rope_mixed_frequencies_init(memory, sizeof memory, &inverse, 1.0, ROPE_MIXED_ANGLE_EXACT, &frequencies));
    at = rope_angles_at(frequencies, &positions);
    MUST(rope_rows_fill(&at, storage, sizeof storage / sizeof *storage, &rows));
    memcpy(y, x, sizeof x);
    MUST(rope_rotate(&plan, &rotated, &rows));
    return rows;
}

/* Half of the squared distance of y from the target; adds to the gradient by the frequencies, if there is one. */
static double loss(const double *learned, double *gradient) {
    rope_angles rows = rotate(learned);
    rope_operand rotated = tensor(y), by_rotated = tensor(dy);
    rope_pair_gradients angles = {NULL, TOKENS, HEADS, PAIRS};
    double total = 0.0;
    int i;
    for (i = 0; i < LEN; i++) {
        dy[i] = y[i] - target[i];
        total += 0.5 * (double)dy[i] * (double)dy[i];
    }
    if (gradient != NULL) {
        memset(sums, 0, sizeof sums);
        angles.sums = sums;
        /* dy becomes dx, which the layers before would go on with. */
        MUST(rope_backward(&plan, &rotated, &by_rotated, &rows, &angles));
        MUST(rope_pair_gradients_frequencies(&angles, &positions, AXES, gradient, FREQUENCIES));
    }
    return total;
}

/* The positions of the patches, and what the frequencies start from: of each head in a direction of its own, which is a
 * random number in a model. */
static void start(float *planted) {
    static const double directions[HEADS] = {0.3, 4.1};
#ifdef ROPE_MODELS
    MUST(rope_grid_positions(ROPE_GRID_INDEXING_XY, SIDE, SIDE, patches, AXES * TOKENS, ROPE_NUMBER_I32, &positions));
    MUST(rope_initial_mixed(10.0, directions, HEADS, ROPE_NUMBER_F64, PAIRS, planted, FREQUENCIES));
#else
    int i, head, pair;
    for (i = 0; i < TOKENS; i++) {
        patches[i] = i % SIDE;
        patches[TOKENS + i] = i / SIDE;
    }
    memset(&positions, 0, sizeof positions);
    positions.kind = ROPE_POSITIONS_KIND_AXIS_MAJOR;
    positions.number = ROPE_NUMBER_I32;
    positions.values = patches;
    positions.count = AXES * TOKENS;
    for (head = 0; head < HEADS; head++) {
        for (pair = 0; pair < PAIRS; pair++) {
            double magnitude = pow(10.0, -(double)(pair / 2) / (PAIRS / 2));
            double angle = directions[head] + pair % 2 * 1.5707963;
            planted[head * PAIRS + pair] = (float)(magnitude * cos(angle));
            planted[(HEADS + head) * PAIRS + pair] = (float)(magnitude * sin(angle));
        }
    }
#endif
}

int main(void) {
    float planted[FREQUENCIES];
    double learned[FREQUENCIES], gradient[FREQUENCIES], before, after, step = 1.0 / 1024.0;
    int i, round;

    for (i = 0; i < LEN; i++) {
        x[i] = (float)(i * 7 % 17) / 8.0f - 0.9f;
    }
    start(planted);
    for (i = 0; i < FREQUENCIES; i++) {
        learned[i] = (double)planted[i];
    }
    (void)rotate(learned);
    memcpy(target, y, sizeof y);
    for (i = 0; i < FREQUENCIES; i++) {
        learned[i] += i % 3 == 0 ? 0.125 : -0.0625;
    }

    /* The gradient is what central differences say. */
    memset(gradient, 0, sizeof gradient);
    before = loss(learned, gradient);
    for (i = 0; i < FREQUENCIES; i++) {
        double at = learned[i], up, down;
        learned[i] = at + step;
        up = loss(learned, NULL);
        learned[i] = at - step;
        down = loss(learned, NULL);
        learned[i] = at;
        EXPECT(fabs((up - down) / (2.0 * step) - gradient[i]) < 1e-3 * (1.0 + fabs(gradient[i])));
    }

    /* Descent finds the frequencies that the target was made with. */
    for (round = 0; round < 400; round++) {
        memset(gradient, 0, sizeof gradient);
        (void)loss(learned, gradient);
        for (i = 0; i < FREQUENCIES; i++) {
            learned[i] -= 0.01 * gradient[i];
        }
    }
    after = loss(learned, NULL);
    EXPECT(after < 1e-6 * before);
    for (i = 0; i < FREQUENCIES; i++) {
        EXPECT(fabs(learned[i] - (double)planted[i]) < 1e-3);
    }

    /* Gradients of heads that the tensor does not have are refused, and nothing is added. */
    {
        rope_operand rotated = tensor(y);
        rope_pair_gradients angles = {NULL, TOKENS, 3, PAIRS};
        static double other[TOKENS * 3 * PAIRS];
        angles.sums = other;
        EXPECT(rope_gradients(ROPE_GRADIENT_KIND_ANGLES, &plan, &rotated, &rotated, &angles, NULL)
               == ROPE_STATUS_GRADIENT_HEADS);
        EXPECT(other[0] == 0.0);
    }

    printf("loss %.6f -> %.1e\n", before, after);
    return 0;
}
