// Rotates by ggml's CPU backend, and compares with the formulas in double precision: `rope exact` fails unless every
// element is within its bound, at any position. `rope time` prints the time of an operator.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

struct test_case {
    ggml_type type;
    int mode, n_dims, threads, first;
    bool yarn, factors, back, inplace;
};

static const int64_t HEAD = 128, HEADS = 5, TOKENS = 7;

static double oracle(const test_case & c, const std::vector<float> & x, const std::vector<float> & factors,
                     const float * result) {
    const double scale = c.yarn ? 0.25 : 1.0, base = 500000.0;
    float corr[2];
    ggml_rope_yarn_corr_dims(c.n_dims, 4096, (float) base, 32.0f, 1.0f, corr);
    double worst = 0.0;
    for (int64_t row = 0; row < TOKENS*HEADS; row++) {
        const float * from = &x[row*HEAD], * to = result + row*HEAD;
        std::vector<double> want(from, from + HEAD);
        for (int i = 0; i < c.n_dims/2; i++) {
            const double ramp = (i - corr[0])/std::max(0.001, (double) corr[1] - corr[0]);
            const double mix = c.yarn ? 1.0 - std::min(1.0, std::max(0.0, ramp)) : 0.0;
            const double inverse =
                pow(base, -2.0*i/c.n_dims)/(c.factors ? factors[i] : 1.0f)*(scale*(1.0 - mix) + mix);
            const double angle = (double) (c.first + row/HEADS)*inverse*(c.back ? -1.0 : 1.0);
            const double magnitude = c.yarn ? 1.0 + 0.1*log(1.0/scale) : 1.0;
            const int a = c.mode == GGML_ROPE_TYPE_NORMAL ? 2*i : i;
            const int b = c.mode == GGML_ROPE_TYPE_NORMAL ? 2*i + 1 : i + c.n_dims/2;
            want[a] = (from[a]*cos(angle) - from[b]*sin(angle))*magnitude;
            want[b] = (from[a]*sin(angle) + from[b]*cos(angle))*magnitude;
        }
        for (int i = 0; i < HEAD; i++) {
            worst = std::max(worst, fabs(to[i] - want[i]));
        }
    }
    return worst;
}

// Runs an operator; returns its result as f32, and the shortest time of some runs.
static std::vector<float> run(const test_case & c, int64_t tokens, int64_t heads, const std::vector<float> & x,
                              const std::vector<float> & factors, int runs, double * least) {
    ggml_init_params params = { 256u << 20, nullptr, false };
    ggml_context * ctx = ggml_init(params);
    ggml_tensor * a = ggml_new_tensor_3d(ctx, c.type, HEAD, heads, tokens);
    ggml_tensor * positions = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, tokens);
    ggml_tensor * ff = nullptr;
    if (c.factors) {
        ff = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, c.n_dims/2);
        memcpy(ff->data, factors.data(), ggml_nbytes(ff));
    }
    for (int64_t i = 0; i < ggml_nelements(a); i++) {
        if (c.type == GGML_TYPE_F16) {
            ((ggml_fp16_t *) a->data)[i] = ggml_fp32_to_fp16(x[i]);
        } else {
            ((float *) a->data)[i] = x[i];
        }
    }
    for (int64_t i = 0; i < tokens; i++) {
        ((int32_t *) positions->data)[i] = c.first + (int32_t) i;
    }
    auto make = c.back ? ggml_rope_ext_back : c.inplace ? ggml_rope_ext_inplace : ggml_rope_ext;
    ggml_tensor * y = make(ctx, a, positions, ff, c.n_dims, c.mode, 4096, 500000.0f, c.yarn ? 0.25f : 1.0f,
                           c.yarn ? 1.0f : 0.0f, 1.0f, 32.0f, 1.0f);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, c.threads);
    *least = INFINITY;
    for (int i = 0; i < runs; i++) {
        const auto start = std::chrono::steady_clock::now();
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
            exit(2);
        }
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
        *least = std::min(*least, time.count());
    }
    std::vector<float> result(ggml_nelements(y));
    for (size_t i = 0; i < result.size(); i++) {
        result[i] = c.type == GGML_TYPE_F16 ? ggml_fp16_to_fp32(((ggml_fp16_t *) y->data)[i]) : ((float *) y->data)[i];
    }
    ggml_backend_free(backend);
    ggml_free(ctx);
    return result;
}

static std::vector<float> numbers(int64_t n) {
    std::vector<float> x(n);
    for (int64_t i = 0; i < n; i++) {
        // Exact in f16.
        x[i] = (float) (i*37 % 2049 - 1024)/1024.0f;
    }
    return x;
}

int main(int argc, char ** argv) {
    const bool exact = argc > 1 && strcmp(argv[1], "exact") == 0;
    std::vector<float> factors(HEAD/2);
    for (size_t i = 0; i < factors.size(); i++) {
        factors[i] = 1.0f + (float) i/16.0f;
    }
    double least;
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        for (int64_t tokens : { 1, 512 }) {
            for (ggml_type type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
                const test_case c = { type, GGML_ROPE_TYPE_NEOX, 128, 1, 1000, false, false, false, false };
                run(c, tokens, 32, numbers(tokens*32*HEAD), factors, tokens == 1 ? 5000 : 200, &least);
                printf("%s, %d tokens x 32 heads x 128: %.1f us\n", ggml_type_name(type), (int) tokens, least);
            }
        }
        return 0;
    }
    int passed = 0, failed = 0;
    for (int first : { 0, 131065, 1048569 }) {
        double worst[2] = { 0.0, 0.0 };
        for (int bits = 0; bits < 128; bits++) {
            const test_case c = {
                bits & 1 ? GGML_TYPE_F16 : GGML_TYPE_F32, bits & 2 ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL,
                bits & 4 ? 96 : 128, bits & 8 ? 3 : 1, first, (bits & 16) != 0, (bits & 32) != 0, (bits & 64) != 0,
                (bits & 72) == 8,
            };
            const std::vector<float> x = numbers(TOKENS*HEADS*HEAD);
            const std::vector<float> result = run(c, TOKENS, HEADS, x, factors, 1, &least);
            const double error = oracle(c, x, factors, result.data());
            worst[bits & 1] = std::max(worst[bits & 1], error);
            // Results are below 2: a unit in the last place of f16 is 2^-10, and of f32 2^-23.
            (error <= (bits & 1 ? 0.51/1024.0 : 4e-7) ? passed : failed)++;
        }
        printf("positions from %d on: off by %.1e in f32, %.1e in f16\n", first, worst[0], worst[1]);
    }
    printf("test result: %s. %d passed; %d failed\n", failed ? "FAILED" : "ok", passed, failed);
    return exact && failed ? 1 : 0;
}
