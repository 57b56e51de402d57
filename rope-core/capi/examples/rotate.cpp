// Rotates on two threads with one table, on every backend, and compares the bits: checked, and as a call that is
// prepared once and runs at the memory of each thread. 0 if they are the same. C++17.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rope.h>

namespace {

// What was refused, in the library's words.
void must(rope_status status) {
    if (status != ROPE_STATUS_OK) {
        char detail[256];
        (void)rope_error_detail(detail, sizeof detail);
        throw std::runtime_error(std::string(rope_error_message(status)) + ": " + detail);
    }
}

struct Free {
    void operator()(rope_frequencies *frequencies) const { (void)rope_frequencies_free(frequencies); }
    void operator()(rope_table *table) const { (void)rope_table_free(table); }
};
using Frequencies = std::unique_ptr<rope_frequencies, Free>;
using Table = std::unique_ptr<rope_table, Free>;

Frequencies frequencies(const rope_axes &axes, double base) {
    rope_frequencies *made = nullptr;
    must(rope_frequencies_new(&axes, base, nullptr, &made));
    return Frequencies(made);
}

Table table(const rope_frequencies &frequencies, const std::vector<std::int64_t> &ids) {
    const rope_positions positions = rope_positions_per_token(ids.data(), ids.size(), ROPE_NUMBER_I64);
    const rope_angles at = rope_angles_at(&frequencies, &positions);
    rope_table *made = nullptr;
    must(rope_table_new(&at, &made));
    return Table(made);
}

// A prepared call. It has nothing to free; it is here that a status becomes an exception, and memory a range of floats.
class Call {
public:
    Call(const rope_plan &plan, const rope_operand &x, const rope_angles &rows) {
        must(rope_prepare(&plan, &x, &rows, &call_));
    }
    // Runs at a tensor of the same shape, with rows of the same number.
    void run_at(float *x, const float *rows) const {
        rope_call_memory memory{};
        memory.x = x;
        memory.cos = rows;
        must(rope_call_run_at(&call_, &memory));
    }

private:
    rope_call call_;
};

constexpr std::size_t tokens = 6, heads = 8, head_dim = 64;

rope_operand tensor(float *data, std::size_t len, std::size_t some_tokens) {
    rope_operand made{};
    made.data = data;
    made.len = len;
    made.element = ROPE_ELEMENT_F32;
    must(rope_layout_init(&made.layout, ROPE_ORDER_BSHD, 1, some_tokens, heads, head_dim));
    return made;
}

std::vector<float> values() {
    std::vector<float> x(tokens * heads * head_dim);
    for (std::size_t i = 0; i < x.size(); i++) {
        x[i] = static_cast<float>(i % 23) / 11.0f - 1.0f;
    }
    return x;
}

std::vector<float> rotated(const rope_plan &plan, const rope_angles &rows) {
    std::vector<float> x = values();
    const rope_operand q = tensor(x.data(), x.size(), tokens);
    must(rope_rotate(&plan, &q, &rows));
    return x;
}

// Each thread has its own tokens, and their rows: picked from the table by id.
std::vector<float> rotated_by_two(const rope_plan &plan, const rope_angles &rows) {
    std::vector<float> x = values();
    const std::uint32_t ids[tokens] = {0, 1, 2, 3, 4, 5};
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < tokens; first += tokens / 2) {
        threads.emplace_back([&, first] {
            const std::size_t len = tokens / 2 * heads * head_dim;
            const rope_operand part = tensor(x.data() + first * heads * head_dim, len, tokens / 2);
            rope_angles some = rows;
            some.ids = ids + first;
            some.ids_count = tokens / 2;
            some.ids_number = ROPE_NUMBER_U32;
            must(rope_rotate(&plan, &part, &some));
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    return x;
}

// The same by one call, which the threads share: each runs it at its tokens, and at their rows of the table.
std::vector<float> prepared_for_two(const rope_plan &plan, const rope_angles &rows) {
    std::vector<float> x = values();
    const std::size_t len = tokens / 2 * heads * head_dim;
    rope_angles some = rows;
    some.len = rows.len / 2;
    const Call call(plan, tensor(x.data(), len, tokens / 2), some);
    std::vector<std::thread> threads;
    for (std::size_t part = 0; part < 2; part++) {
        threads.emplace_back([&, part] { call.run_at(x.data() + part * len, rows.cos + part * some.len); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    return x;
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace

int main() try {
    const Frequencies model = frequencies(rope_axes_text(head_dim), 10000.0);
    const Table table_of_step = table(*model, {17, 512, -3, 1 << 20, 0, 4000000000});
    rope_angles rows;
    must(rope_table_rows(table_of_step.get(), &rows));

    rope_plan plan{};
    plan.pairing = ROPE_PAIRING_INTERLEAVED;
    plan.backend = ROPE_BACKEND_SCALAR;
    const std::vector<float> expected = rotated(plan, rows);
    int ran = 0;
    for (std::int32_t backend = ROPE_BACKEND_SCALAR; rope_backend_name(backend) != nullptr; backend++) {
        if (rope_backend_available(backend) == 0) {
            continue;
        }
        plan.backend = backend;
        if (!same(rotated(plan, rows), expected) || !same(rotated_by_two(plan, rows), expected) ||
            !same(prepared_for_two(plan, rows), expected)) {
            std::fprintf(stderr, "%s gives other bits\n", rope_backend_name(backend));
            return 1;
        }
        ran++;
    }
    std::printf("rope %s: the same bits from %d backends, on one thread and on two\n", ROPE_VERSION_STRING, ran);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
