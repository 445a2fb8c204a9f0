/* Copies of memory in pages (backends/pages.py), of which only what is not 0 takes memory. */
#include "runtime.h"

enum { RUN = 2048 /* pages that the system is asked about together */, THERE = 62 /* first of the bits of a page that exists */ };

static bool is_zero(const uint64_t *words, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (words[i] != 0)
            return false;
    return true;
}

/* The system's words about pages from `at` on. Where it gives none, all pages count as there. */
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
