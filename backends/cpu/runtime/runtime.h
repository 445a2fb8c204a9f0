/* What the files of the runtime share: launch frames, devices, and what they call in the system and in Python.
 * A name that begins with qd_ is known to kernels or to Python.
 *
 * No header of a system is included, because the code is compiled once for all systems (scripts/cpu_runtime.py). What
 * differs between systems stands in `host`, what differs between processors in processor.c. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define load(what, order) atomic_load_explicit(&(what), memory_order_##order)
#define store(what, value, order) atomic_store_explicit(&(what), value, memory_order_##order)
#define replace(what, expected, value, order) \
    atomic_compare_exchange_strong_explicit(&(what), &(expected), value, memory_order_##order, memory_order_relaxed)

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* --- frames and devices: layout.py has the same names and offsets ------------------------------------------------- */

typedef struct Frame Frame;
typedef struct Device Device;
typedef struct Move Move;
/* Iterations of a task; `worker` is ALONE while no other thread runs any. */
typedef void Chunk(Frame *, uint64_t begin, uint64_t end, int64_t worker);
enum { ALONE = -1 };

enum { OVERFLOW = 1, ASSERT = 2, CANCELLED = 4, PRINTED = 8 }; /* bits of a status */
enum { STOP = 1, LOOK = 2 }; /* bits of a device's flag: stop the launch; let Python look for signals */

struct Frame {
    Device *device;
    void (*entry)(Frame *); /* the kernel's code */
    _Atomic int64_t status;
    int64_t release_gil; /* whether a launch releases the GIL */
    int64_t zero_at, zero_bytes; /* offset and size of what a launch clears first */
    _Atomic int64_t failed;      /* 0, or the status bit of the failure that is recorded */
    int64_t fail_what, fail_count; /* the number of an assert and of its values, or of an adstack and its depth */
    int64_t fail_values[8];
    int64_t slab_bytes, lanes; /* bytes of a worker's adstacks; how many iterations side by side they serve */
    int64_t launch, replay; /* the number of the launch, for random draws; 0, or the launch whose draws this one repeats */
    void *copies_at;        /* the workers' copies for the running task, or NULL (copies.py) */
    uint64_t copies_stride; /* bytes of a worker's copies */
    int64_t copies_shift[8]; /* by buffer, where in a worker's copies its element 0 would be, in bytes */
    double *shares_at;      /* a partial result for each share of the iterations (shares.py) */
    uint64_t share;         /* iterations of a share */
    const Move *move;       /* the copy of a box that runs (moves.c) */
};

struct Device {
    _Atomic int32_t cancel; /* the flag */
    void *heap;
    uint64_t threads;
    _Atomic int64_t print_lock;
    uint64_t print_bytes, print_room;
    int64_t *print_data;
    int64_t print_lost;
    _Atomic int64_t running; /* whether a launch without the GIL is in flight */
    _Atomic int64_t age;     /* ticks of the monitor since it began */
    void *thread_state;      /* the PyThreadState that the launch gave back; NULL while it holds the GIL */
    int64_t fp_mode;         /* the caller's floating-point mode */
    Device *next;            /* the device made before */
    int64_t launches, seed;
    void *copies_room; /* memory of the workers' copies, zero except while a task runs */
    uint64_t copies_bytes;
    void *add_to, *add_from; /* target and first copy of the addition that is running */
    uint64_t add_stride, add_copies;
};

/* --- the processor (processor.c) ---------------------------------------------------------------------------------- */

int64_t qd_fp_flush(void); /* denormals count as zero from now on, on this thread; returns the mode before */
void qd_fp_restore(int64_t mode);
void qd_relax(void);

/* --- the system and the build of CPython -------------------------------------------------------------------------- */

static struct Host {
    int32_t clock_monotonic, sig_setmask;
    int64_t object_bytes; /* object.__basicsize__: the head of every object, its type the last word */
} host;

typedef struct { int64_t room[16]; } System; /* a mutex, a condition, or a set of signals, of any system */
typedef int64_t Thread;

int clock_gettime(int clock, int64_t *seconds_and_nanoseconds);
int pthread_cond_broadcast(System *);
int pthread_cond_init(System *, const void *);
int pthread_cond_signal(System *);
int pthread_cond_wait(System *, System *);
int pthread_create(Thread *, const void *, void *(*)(void *), void *);
int pthread_join(Thread, void **);
int pthread_mutex_init(System *, const void *);
int pthread_mutex_lock(System *);
int pthread_mutex_unlock(System *);
int pthread_sigmask(int how, const System *, System *);
int sched_yield(void);
int sigfillset(System *);
int usleep(uint32_t);
int open(const char *, int, ...);
int close(int);
int64_t pread(int, void *, size_t, int64_t);
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
void free(void *);

void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
int PyErr_CheckSignals(void);
void *PyErr_Occurred(void);

/* --- between the files -------------------------------------------------------------------------------------------- */

static void wake_monitor(void);
uint64_t qd_parallel(Frame *, Chunk *, uint64_t total, uint64_t grain, uint64_t timed, uint64_t unit);
