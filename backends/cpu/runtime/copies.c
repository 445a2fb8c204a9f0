/* The workers' copies of what a task adds to (copies.py): room for them, and their sum. */
#include "runtime.h"

enum { LINE = 64 /* bytes of a cache line */, GRAIN = 16384 /* elements of a chunk */ };

/* Room for zeroed copies of `bytes` each for all workers but the first; NULL where there are none, they take more than
 * `limit` bytes together, or there is no memory. */
void *qd_copies(Frame *f, uint64_t bytes, uint64_t limit) {
    Device *d = f->device;
    uint64_t need = (d->threads - 1) * bytes;
    if (need == 0 || need > limit)
        return NULL;
    if (d->copies_bytes < need) {
        free(d->copies_room);
        d->copies_room = calloc(need + LINE, 1);
        d->copies_bytes = d->copies_room == NULL ? 0 : need;
    }
    return d->copies_room == NULL ? NULL : (void *)(((uintptr_t)d->copies_room + LINE - 1) & -(uintptr_t)LINE);
}

/* Frees the room. */
void qd_drop_copies(Device *d) {
    free(d->copies_room);
    d->copies_room = NULL;
    d->copies_bytes = 0;
}

/* Adds elements `begin` to `end` of each copy to the target, and zeroes them in the copy, eight at a time. */
#define ADD(name, type)                                                                              \
    typedef type name##_8 __attribute__((vector_size(8 * sizeof(type)), aligned(sizeof(type))));     \
    static void name(Frame *f, uint64_t begin, uint64_t end, int64_t worker) {                       \
        Device *d = f->device;                                                                       \
        type *to = d->add_to;                                                                        \
        for (uint64_t copy = 0; copy < d->add_copies; copy++) {                                      \
            type *from = (type *)((char *)d->add_from + copy * d->add_stride);                       \
            uint64_t i = begin;                                                                      \
            for (; i + 8 <= end; i += 8) {                                                           \
                *(name##_8 *)(to + i) += *(name##_8 *)(from + i);                                    \
                *(name##_8 *)(from + i) = (name##_8){0};                                             \
            }                                                                                        \
            for (; i < end; i++) {                                                                   \
                to[i] += from[i];                                                                    \
                from[i] = 0;                                                                         \
            }                                                                                        \
        }                                                                                            \
    }

ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i32, uint32_t)
ADD(add_i64, uint64_t)

/* Adds the first `count` elements of `copies` copies, which begin at `from`, to those at `to`, and zeroes them. After a
 * launch that was stopped the copies are only zeroed. */
void qd_add_copies(Frame *f, uint64_t kind, void *to, void *from, uint64_t count, uint64_t copies) {
    static Chunk *const add[] = {add_f32, add_f64, add_i32, add_i64};
    Device *d = f->device;
    d->add_to = to;
    d->add_from = from;
    d->add_copies = copies;
    d->add_stride = f->copies_stride;
    qd_parallel(f, add[kind], count, GRAIN, 0, 0);
    if (load(f->status, relaxed) & (ASSERT | CANCELLED))
        for (uint64_t copy = 0; copy < copies; copy++)
            memset((char *)from + copy * d->add_stride, 0, count << (2 + (kind & 1)));
}
