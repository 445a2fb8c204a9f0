/* Launching a kernel and stopping it. */
#include "runtime.h"

/* Launches the frame's kernel and returns its status. Called with the GIL. A Python exception is set where a signal
 * handler raised one; the status then has CANCELLED. */
int64_t qd_launch(Frame *f) {
    Device *d = f->device;
    store(f->status, 0, relaxed);
    store(f->failed, 0, relaxed);
    memset((char *)f + f->zero_at, 0, f->zero_bytes);
    d->launches++;
    f->launch = f->replay ? f->replay : d->launches;
    store(d->cancel, 0, relaxed);
    store(d->age, 0, relaxed);
    d->thread_state = NULL;
    int64_t mode = d->fp_mode = qd_fp_flush();
    if (f->release_gil) {
        store(d->running, 1, seq_cst);
        wake_monitor();
        d->thread_state = PyEval_SaveThread();
        f->entry(f);
        qd_fp_restore(mode);
        void *state = d->thread_state;
        store(d->running, 0, release);
        PyEval_RestoreThread(state);
    } else {
        f->entry(f);
        qd_fp_restore(mode);
    }
    return load(f->status, relaxed);
}

/* Lets Python run signal handlers, and other threads; whether a handler raised. */
static bool handlers_raise(Device *d) {
    qd_fp_restore(d->fp_mode);
    bool without = d->thread_state != NULL;
    if (without)
        PyEval_RestoreThread(d->thread_state);
    bool raised = PyErr_CheckSignals() != 0;
    void *state = PyEval_SaveThread();
    if (without)
        d->thread_state = state;
    else
        PyEval_RestoreThread(state);
    qd_fp_flush();
    return raised;
}

/* Called where the device's flag is not 0: whether to leave. */
__attribute__((noinline)) bool qd_poll(Frame *f, uint64_t worker) {
    Device *d = f->device;
    if (worker != 0) /* not the thread that launched */
        return load(d->cancel, relaxed) & STOP;
    int32_t flag = atomic_fetch_and(&d->cancel, ~LOOK);
    if (!(flag & STOP)) {
        if (!(flag & LOOK) || !handlers_raise(d))
            return false;
        atomic_fetch_or(&d->cancel, STOP);
    }
    atomic_fetch_or(&f->status, CANCELLED);
    return true;
}

/* Whether the launch has failed or is to end, seen by one of its threads. */
static bool should_stop(Frame *f, uint64_t worker) {
    if (load(f->status, relaxed) & (ASSERT | CANCELLED))
        return true;
    return load(f->device->cancel, relaxed) != 0 && qd_poll(f, worker);
}
