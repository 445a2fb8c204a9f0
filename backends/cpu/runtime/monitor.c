/* The monitor, and the start and end of all threads.
 *
 * The monitor is a thread that ticks while launches run and raises LOOK in the flag of a device whose launch is older
 * than a tick. The launching thread, which looks at the flag on loop back-edges, then takes the GIL, lets CPython run
 * signal handlers, and stops the launch when one raised (`qd_poll`). */
#include "runtime.h"

enum { TICK_US = 50000, QUIET_TICKS = 20 /* after which the monitor sleeps */ };

static Device *_Atomic devices; /* the last one made */
static Thread monitor;
static bool monitor_on;
static _Atomic int32_t monitor_asleep;
static System monitor_wake;

static void wake_monitor(void) {
    if (!load(monitor_asleep, seq_cst))
        return;
    pthread_mutex_lock(&lock);
    store(monitor_asleep, 0, seq_cst);
    pthread_cond_signal(&monitor_wake);
    pthread_mutex_unlock(&lock);
}

static void sleep_until_launch(void) {
    pthread_mutex_lock(&lock);
    store(monitor_asleep, 1, seq_cst);
    while (!load(stopping, seq_cst) && load(monitor_asleep, seq_cst))
        pthread_cond_wait(&monitor_wake, &lock);
    pthread_mutex_unlock(&lock);
}

static void *watch(void *unused) {
    block_signals();
    for (int quiet = 1;; quiet++) {
        usleep(TICK_US);
        if (load(stopping, acquire))
            return NULL;
        for (Device *d = load(devices, acquire); d != NULL; d = d->next) {
            if (!load(d->running, acquire))
                continue;
            quiet = 0;
            if (atomic_fetch_add_explicit(&d->age, 1, memory_order_relaxed) > 0)
                atomic_fetch_or(&d->cancel, LOOK);
        }
        if (quiet > QUIET_TICKS) {
            quiet = 0;
            sleep_until_launch();
        }
    }
}

/* --- called from Python with the GIL ------------------------------------------------------------------------------ */

/* First use in a process, and in a child after fork: no threads exist, whatever the words say. A launch that was under
 * way is cancelled: of the threads that ran it the child has at most the one that forked. */
void qd_reset(int32_t clock_monotonic, int32_t sig_setmask, int64_t object_bytes) {
    host = (struct Host){clock_monotonic, sig_setmask, object_bytes};
    if (load(busy, relaxed))
        atomic_fetch_or(&job.frame->status, CANCELLED);
    store(state, 0, relaxed);
    store(busy, 0, relaxed);
    store(sleepers, 0, relaxed);
    store(stopping, 0, relaxed);
    store(monitor_asleep, 0, relaxed);
    workers = 0;
    monitor_on = false;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&monitor_wake, NULL);
    for (Device *d = load(devices, relaxed); d != NULL; d = d->next) {
        store(d->cancel, load(d->running, relaxed) ? STOP : 0, relaxed);
        store(d->running, 0, relaxed);
        store(d->print_lock, 0, relaxed);
        d->copies_room = NULL; /* memory of the parent's */
        d->copies_bytes = 0;
    }
}

/* Brings the number of workers to `count` and starts the monitor; fewer threads where the system refuses more. */
int64_t qd_start(uint64_t count) {
    if (!monitor_on)
        monitor_on = pthread_create(&monitor, NULL, watch, NULL) == 0;
    while (workers < count && pthread_create(&threads[workers], NULL, work, NULL) == 0)
        workers++;
    return workers;
}

/* Ends all threads; the caller has released the GIL. Launches in flight are cancelled. */
void qd_stop(void) {
    store(stopping, 1, seq_cst);
    for (Device *d = load(devices, acquire); d != NULL; d = d->next)
        atomic_fetch_or(&d->cancel, STOP);
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&wake);
    pthread_cond_broadcast(&monitor_wake);
    pthread_mutex_unlock(&lock);
    if (monitor_on)
        pthread_join(monitor, NULL);
    monitor_on = false;
    for (; workers > 0; workers--)
        pthread_join(threads[workers - 1], NULL);
    store(stopping, 0, seq_cst);
}

void qd_add_device(Device *d) {
    d->next = load(devices, relaxed);
    store(devices, d, release);
}
