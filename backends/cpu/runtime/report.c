/* What kernels report: the first failure of a launch, and prints. */
#include "runtime.h"

enum { MOST_PRINT_BYTES = 1 << 26, LEAST_PRINT_BYTES = 4096 };

/* Sets a bit of the status; whether it is the first failure of the launch, which is then recorded. */
static bool first_failure(Frame *f, int64_t bit, int64_t what, int64_t count) {
    int64_t none = 0;
    bool first = replace(f->failed, none, bit, acq_rel);
    if (first) {
        f->fail_what = what;
        f->fail_count = count;
    }
    atomic_fetch_or(&f->status, bit);
    return first;
}

void qd_assert(Frame *f, int64_t number, int64_t count, const int64_t *values) {
    if (first_failure(f, ASSERT, number, count))
        for (int64_t i = 0; i < count; i++)
            f->fail_values[i] = values[i];
}

void qd_overflow(Frame *f, int64_t stack, int64_t depth) { first_failure(f, OVERFLOW, stack, depth); }

/* Whether the print buffer has room for so many bytes, after growing if need be. */
static bool has_room(Device *d, uint64_t bytes) {
    if (bytes <= d->print_room)
        return true;
    uint64_t size = most(most(2 * d->print_room, LEAST_PRINT_BYTES), bytes);
    int64_t *data = size <= MOST_PRINT_BYTES ? realloc(d->print_data, size) : NULL;
    if (data == NULL)
        return false;
    d->print_data = data;
    d->print_room = size;
    return true;
}

/* Appends (number, values) to the device's print buffer, or counts a print that is lost. */
void qd_print(Frame *f, int64_t number, uint64_t count, const int64_t *values) {
    Device *d = f->device;
    atomic_fetch_or_explicit(&f->status, PRINTED, memory_order_relaxed);
    for (int64_t none = 0; !replace(d->print_lock, none, 1, acquire); none = 0)
        qd_relax();
    uint64_t after = d->print_bytes + 8 * (count + 1);
    if (has_room(d, after)) {
        int64_t *at = d->print_data + d->print_bytes / 8;
        *at++ = number;
        for (uint64_t i = 0; i < count; i++)
            at[i] = values[i];
        d->print_bytes = after;
    } else {
        d->print_lost++;
    }
    store(d->print_lock, 0, release);
}
