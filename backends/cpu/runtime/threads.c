/* Worker threads, and tasks that they share.
 *
 * A job is published in `state`: bits 0-15 count the workers inside it, bits 16-31 those that ever came in, bit 32 says
 * that it is open, the bits above number the jobs. A worker enters by compare-and-exchange, takes chunks from `next` and
 * leaves by subtracting itself. The caller takes chunks too, closes the job when none is left and waits only for workers
 * inside. A worker that wakes up late finds the job closed and sleeps on. */
#include "runtime.h"

enum {
    MOST_WORKERS = 1024,      /* device.py asks for no more */
    SPINS = 2000,             /* before a thread that waits sleeps or yields */
    INLINE_CHUNK = 1 << 16,   /* iterations between two looks at the flag, where no worker takes part */
    LONGEST_CHUNK = 1 << 20,
    WORTH_NS = 10000,         /* work for which workers are woken */
    CHUNKS_PER_THREAD = 8,
};
#define INSIDE UINT64_C(0xffff)
#define ENTERING UINT64_C(0x10001) /* one more inside, and one more that ever came in */
#define OPEN (UINT64_C(1) << 32)

static struct {
    Chunk *run;
    Frame *frame;
    uint64_t total, chunk, unit;
    _Atomic uint64_t limit; /* workers that may come in */
} job;
static _Alignas(128) _Atomic uint64_t next; /* the first iteration that nobody has taken */
static _Alignas(128) _Atomic uint64_t sleepers;
static _Atomic uint64_t state;
static _Atomic int32_t busy; /* whether a launch has the workers */

static Thread threads[MOST_WORKERS];
static uint64_t workers;
static _Atomic int32_t stopping;
static System lock, wake;

static uint64_t now(void) {
    int64_t t[2];
    clock_gettime(host.clock_monotonic, t);
    return t[0] * INT64_C(1000000000) + t[1];
}

static void block_signals(void) {
    System set;
    sigfillset(&set);
    pthread_sigmask(host.sig_setmask, &set, NULL);
}

/* Runs iterations `begin` to `end`, unless the launch is to stop. A call has iterations of one `unit`, and no more than
 * LONGEST_CHUNK, because a unit of a long loop can take hours. With `unit` 0 there are no units. */
static void run_units(Frame *f, Chunk *run, uint64_t begin, uint64_t end, uint64_t unit, int64_t worker) {
    for (uint64_t to;; begin = to) {
        to = least(least(begin + LONGEST_CHUNK, end), unit ? begin - begin % unit + unit : end);
        run(f, begin, to, worker);
        if (to == end || should_stop(f, worker == ALONE ? 0 : worker))
            return;
    }
}

static uint64_t whole_units(uint64_t n, uint64_t unit) { return unit ? (n + unit - 1) / unit * unit : n; }

/* Runs chunks of the job until there are none, or the launch is to stop. */
static void take_chunks(uint64_t worker) {
    Chunk *run = job.run;
    Frame *frame = job.frame;
    uint64_t total = job.total, chunk = job.chunk, unit = job.unit, begin;
    while ((begin = atomic_fetch_add_explicit(&next, chunk, memory_order_relaxed)) < total) {
        if (should_stop(frame, worker))
            return;
        run_units(frame, run, begin, least(begin + chunk, total), unit, worker);
    }
}

/* Whether there is an open job that is not the one with the number `seen`. */
static bool has_job(uint64_t s, uint64_t seen) { return s & OPEN && s >> 32 != seen; }

static void sleep_until_job(uint64_t seen) {
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&sleepers, 1);
    while (!load(stopping, seq_cst) && !has_job(load(state, seq_cst), seen))
        pthread_cond_wait(&wake, &lock);
    atomic_fetch_sub(&sleepers, 1);
    pthread_mutex_unlock(&lock);
}

/* A worker's life: spin for a job for a while, then sleep until one is published. */
static void *work(void *unused) {
    uint64_t seen = 0;
    int spins = 0;
    block_signals();
    qd_fp_flush();
    while (!load(stopping, acquire)) {
        uint64_t s = load(state, acquire);
        if (has_job(s, seen)) {
            uint64_t entered = s >> 16 & INSIDE;
            if (entered < load(job.limit, relaxed)) {
                if (replace(state, s, s + ENTERING, acq_rel)) {
                    take_chunks(entered + 1);
                    atomic_fetch_sub_explicit(&state, 1, memory_order_release);
                    seen = s >> 32;
                    spins = 0;
                }
                continue;
            }
            seen = s >> 32;
        }
        if (++spins < SPINS) {
            qd_relax();
        } else {
            sleep_until_job(seen);
            spins = 0;
        }
    }
    return NULL;
}

/* Runs the iterations from `begin` on this thread. */
static void run_here(Frame *f, Chunk *run, uint64_t begin, uint64_t total, uint64_t chunk, uint64_t unit) {
    chunk = whole_units(chunk, unit);
    for (uint64_t end; begin < total && !should_stop(f, 0); begin = end) {
        end = least(begin + chunk, total);
        run_units(f, run, begin, end, unit, ALONE);
    }
}

/* Runs the first iterations on this thread and times them, until the rest is known to be worth waking workers for.
 * Returns the first iteration of the rest, or `total` if nothing is left. */
static uint64_t run_timed(Frame *f, Chunk *run, uint64_t total, uint64_t unit) {
    uint64_t begin = 0;
    for (uint64_t step = whole_units(least(most(total / 16, 1), LONGEST_CHUNK), unit);; step *= 2) {
        uint64_t end = least(begin + step, total);
        uint64_t start = now();
        run_units(f, run, begin, end, unit, ALONE);
        uint64_t took = now() - start;
        if (end == total || should_stop(f, 0))
            return total;
        bool worth = took > WORTH_NS * (end - begin) / (total - end); /* took * left could overflow */
        begin = end;
        if (worth)
            return begin;
    }
}

/* Runs the iterations from `begin` on this thread and on at most `helpers` workers, which no other launch may use.
 * Returns how many workers took part. */
static uint64_t run_shared(
    Frame *f, Chunk *run, uint64_t begin, uint64_t total, uint64_t grain, uint64_t unit, uint64_t helpers) {
    uint64_t left = total - begin;
    uint64_t chunk = least(most(most(left / (CHUNKS_PER_THREAD * (helpers + 1)), grain), 1), LONGEST_CHUNK);
    chunk = whole_units(chunk, unit);
    uint64_t wanted = least(helpers, (left + chunk - 1) / chunk - 1);
    job.run = run;
    job.frame = f;
    job.total = total;
    job.chunk = chunk;
    job.unit = unit;
    store(job.limit, wanted, relaxed);
    store(next, begin, relaxed);
    uint64_t before = load(state, relaxed);
    store(state, ((before | OPEN) + 2 * OPEN) & ~(OPEN - 1), seq_cst);
    if (load(sleepers, seq_cst)) {
        pthread_mutex_lock(&lock);
        if (wanted == 1)
            pthread_cond_signal(&wake);
        else
            pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&lock);
    }
    take_chunks(0);
    atomic_fetch_and(&state, ~OPEN);
    uint64_t s;
    for (int spins = 0; (s = load(state, acquire)) & INSIDE; spins++) {
        should_stop(f, 0); /* for signals */
        if (spins < SPINS)
            qd_relax();
        else
            sched_yield();
    }
    return s >> 16 & INSIDE;
}

/* Runs run(frame, begin, end, worker) over 0..total in chunks of at least `grain`. With `timed` an iteration's cost is
 * not known. With a `unit`, 0..total is cut into pieces of so many iterations, and each call runs within one piece.
 * Returns how many workers took part, without the caller. */
uint64_t qd_parallel(Frame *f, Chunk *run, uint64_t total, uint64_t grain, uint64_t timed, uint64_t unit) {
    uint64_t helpers = f->device->threads - 1, begin = 0;
    if (helpers == 0 || total <= grain) {
        run_here(f, run, 0, total, most(grain, INLINE_CHUNK), unit);
        return 0;
    }
    if (timed && (begin = run_timed(f, run, total, unit)) == total)
        return 0;
    int32_t no = 0;
    if (!replace(busy, no, 1, acquire)) { /* another launch has the workers */
        run_here(f, run, begin, total, INLINE_CHUNK, unit);
        return 0;
    }
    uint64_t helped = run_shared(f, run, begin, total, grain, unit, helpers);
    store(busy, 0, release);
    return helped;
}
