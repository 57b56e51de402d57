// Catches what a kernel of rope_kernels throws, as libtorch does: refusals and panics unwind through its frames.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

using Stack = unsigned long long;
extern "C" void (*rotate_in_place)(Stack *, Stack inputs, Stack outputs);

// libstdc++'s class, whose headers zig lacks.
namespace std {
struct exception {
    virtual ~exception();
    virtual const char *what() const noexcept;
};
}

static int unwound;

struct Frame {
    ~Frame() { unwound++; }
};

static void call(Stack inputs) {
    Frame frame;
    Stack stack[32] = {};
    rotate_in_place(stack, inputs, 0);
}

static bool throws(Stack inputs, const char *begin) {
    try {
        call(inputs);
    } catch (const std::exception &failure) {
        puts(failure.what());
        return strncmp(failure.what(), begin, strlen(begin)) == 0;
    }
    return false;
}

int main(int count, char **arguments) {
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
    if (!library) return puts(dlerror()), 1;
    auto registered = (int (*)(int))dlsym(library, "rope_kernels_register");
    if (!registered || registered(1) || !rotate_in_place) return 2;
    // A null pointer for a tensor; more arguments than any operator has.
    for (int turn = 0; turn < 2; turn++)
        if (!throws(5, "x is no tensor") || !throws(25, "rope_kernels panicked: ")) return 3;
    return unwound == 4 ? 0 : 4;
}
