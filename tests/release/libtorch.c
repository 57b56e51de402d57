// What a stub of libtorch has beside functions that do nothing: it keeps one kernel.
#include <string.h>

void *rotate_in_place;

int torch_library_impl(void *library, const char *name, void *kernel) {
    (void)library;
    if (strcmp(name, "rotate_") == 0) rotate_in_place = kernel;
    return 0;
}
