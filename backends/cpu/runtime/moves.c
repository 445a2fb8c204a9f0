/* Copies of arrays: of boxes of elements, and of memory in pages (backends/pages.py), of which only what is not 0 takes
 * memory. */
#include "runtime.h"

enum { STEP = 64 /* bytes that a copy takes at a time */, CHUNK = 16384 /* bytes for which waking a thread pays */ };

typedef struct { int64_t begin; uint64_t extent; } Axis; /* of the box of a task */
typedef struct { uint64_t from, to; } Stride; /* bytes from one element to the next along an axis */

struct Move {
    char *to, *from;
    uint64_t bytes; /* of a row */
    uint64_t count; /* of the axes along which rows lie */
    const Axis *axes;
    const Stride *strides;
};

/* Steps of a single row. */
static void move_steps(Frame *f, uint64_t begin, uint64_t end, int64_t worker) {
    const Move *m = f->move;
    uint64_t at = begin * STEP;
    memmove(m->to + at, m->from + at, least(end * STEP, m->bytes) - at);
}

static void move_rows(Frame *f, uint64_t begin, uint64_t end, int64_t worker) {
    const Move *m = f->move;
    uint64_t last = m->count - 1, along = m->axes[last].extent;
    while (begin < end) {
        char *to = m->to, *from = m->from;
        uint64_t rest = begin, stop = least(end, begin + along - begin % along);
        for (uint64_t k = m->count; k-- > 0; rest /= m->axes[k].extent) {
            to += rest % m->axes[k].extent * m->strides[k].to;
            from += rest % m->axes[k].extent * m->strides[k].from;
        }
        for (; begin < stop; begin++) {
            memmove(to, from, m->bytes);
            to += m->strides[last].to;
            from += m->strides[last].from;
        }
    }
}

/* Copies a box of elements of `bytes` bytes each, of `count` axes; along the last axis they lie in a row, along the others
 * they have strides. Rows that follow each other in both arrays become one. Where the arrays overlap, the kernel's
 * iterations race. */
void qd_move(
    Frame *f, char *to, char *from, const Axis *axes, const Stride *strides, uint64_t count, uint64_t bytes
) {
    bytes *= axes[--count].extent;
    while (count > 0 && strides[count - 1].to == bytes && strides[count - 1].from == bytes)
        bytes *= axes[--count].extent;
    uint64_t rows = bytes > 0;
    for (uint64_t k = 0; k < count; k++)
        rows *= axes[k].extent;
    f->move = &(Move){to, from, bytes, count, axes, strides};
    if (rows > 0 && count == 0)
        qd_parallel(f, move_steps, bytes / STEP + (bytes % STEP != 0), CHUNK / STEP, 0, 0);
    else if (rows > 0)
        qd_parallel(f, move_rows, rows, most(CHUNK / bytes, 1), 0, 0);
}

enum { RUN = 2048 /* pages that the system is asked about together */, THERE = 62 /* first of the bits of a page that exists */ };

static bool is_zero(const uint64_t *words, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (words[i] != 0)
            return false;
    return true;
}

/* Reads the system's words about pages from `at` on. If it gives none, all pages count as present. */
static void ask(int file, const char *at, uint64_t page, uint64_t count, uint64_t *words) {
    int64_t bytes = 8 * (int64_t)count;
    if (file < 0 || pread(file, words, (size_t)bytes, 8 * (int64_t)((uint64_t)at / page)) != bytes)
        memset(words, -1, (size_t)bytes);
}

/* Makes `pages` pages of `page` bytes the same as others. A page of zeros is not made. */
void qd_copy_pages(char *to, char *from, uint64_t pages, uint64_t page) {
    uint64_t theirs[RUN], mine[RUN], words = page / 8;
    int file = open("/proc/self/pagemap", 0);
    for (uint64_t first = 0; first < pages; first += RUN) {
        uint64_t count = least(RUN, pages - first);
        ask(file, from + first * page, page, count, theirs);
        ask(file, to + first * page, page, count, mine);
        for (uint64_t k = 0; k < count; k++) {
            char *target = to + (first + k) * page, *source = from + (first + k) * page;
            if (theirs[k] >> THERE != 0 && !is_zero((uint64_t *)source, words))
                memcpy(target, source, page);
            else if (mine[k] >> THERE != 0 && !is_zero((uint64_t *)target, words))
                memset(target, 0, page);
        }
    }
    if (file >= 0)
        close(file);
}
