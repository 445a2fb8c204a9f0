"""The part of the runtime that is machine code: LLVM IR text, compiled once a process.

Offsets of frame and device (`layout`), constants of the platform and of CPython are filled in by `runtime_text`.
Local variables live in allocas, which the optimiser turns into registers; the text reads like C for it.

Worker threads. `qd_parallel` publishes a job in @state: bits 0-15 count the workers inside it, bits 16-31 those that
ever came in, bit 32 says that it is open, the bits above number the jobs. A worker enters by compare-and-exchange,
takes chunks from @job_next and leaves by subtracting itself. The caller takes chunks too, closes the job when none
is left and waits only for workers inside. A worker that wakes up late finds the job closed and sleeps on.

The monitor. A thread ticks every 50 ms while launches run and raises bit 2 of the flag of a device whose launch is
older than a tick; the launching thread, which looks at the flag on loop back-edges, then takes the GIL, lets CPython
run signal handlers, and stops the launch when one raised.
"""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends.cpu import layout as L

_FP_MODE = {
    "x86_64": """
define internal i64 @fp_flush() {
  %m = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %m)
  %old = load i32, ptr %m
  %new = or i32 %old, 32832
  store i32 %new, ptr %m
  call void @llvm.x86.sse.ldmxcsr(ptr %m)
  %r = zext i32 %old to i64
  ret i64 %r
}
define internal void @fp_restore(i64 %mode) {
  %m = alloca i32
  %old = trunc i64 %mode to i32
  store i32 %old, ptr %m
  call void @llvm.x86.sse.ldmxcsr(ptr %m)
  ret void
}
define internal void @relax() {
  call void @llvm.x86.sse2.pause()
  ret void
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
""",
    "aarch64": """
define internal i64 @fp_flush() {
  %old = call i64 asm sideeffect "mrs $0, fpcr", "=r"()
  %new = or i64 %old, 16777216
  call void asm sideeffect "msr fpcr, $0", "r"(i64 %new)
  ret i64 %old
}
define internal void @fp_restore(i64 %mode) {
  call void asm sideeffect "msr fpcr, $0", "r"(i64 %mode)
  ret void
}
define internal void @relax() {
  call void asm sideeffect "yield", ""()
  ret void
}
""",
}

_TEXT = r"""
@state = internal global i64 0
@busy = internal global i32 0
@job_fn = internal global ptr null
@job_frame = internal global ptr null
@job_total = internal global i64 0
@job_chunk = internal global i64 0
@job_limit = internal global i64 0
@job_next = internal global i64 0, align 128
@sleepers = internal global i64 0, align 128
@workers = internal global i64 0
@stopping = internal global i32 0
@threads = internal global [1024 x i64] zeroinitializer
@lock = internal global [16 x i64] zeroinitializer
@wake = internal global [16 x i64] zeroinitializer
@devices = internal global ptr null
@monitor = internal global i64 0
@monitor_on = internal global i32 0
@monitor_asleep = internal global i32 0
@monitor_wake = internal global [16 x i64] zeroinitializer

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i32 @usleep(i32)
declare i32 @clock_gettime(i32, ptr)
declare ptr @realloc(ptr, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare double @PyFloat_AsDouble(ptr)
declare double @PyLong_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare void @Py_IncRef(ptr)
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyBool_Type = external global i8
@_Py_TrueStruct = external global i8
@_Py_NoneStruct = external global i8
@_Py_NotImplementedStruct = external global i8
@_Py_EllipsisObject = external global i8

; --- worker threads ---------------------------------------------------------------------------------------------

define internal i64 @now() {
  %t = alloca [2 x i64]
  call i32 @clock_gettime(i32 ${MONOTONIC}, ptr %t)
  %s = load i64, ptr %t
  %p = getelementptr i64, ptr %t, i64 1
  %n = load i64, ptr %p
  %a = mul i64 %s, 1000000000
  %r = add i64 %a, %n
  ret i64 %r
}

define internal void @block_signals() {
  %set = alloca [16 x i64]
  call i32 @sigfillset(ptr %set)
  call i32 @pthread_sigmask(i32 ${SIG_SETMASK}, ptr %set, ptr null)
  ret void
}

; Runs chunks of the current job until there are none, or the launch is to stop.
define internal void @take_chunks(i64 %worker) noinline {
entry:
  %fn = load ptr, ptr @job_fn
  %frame = load ptr, ptr @job_frame
  %total = load i64, ptr @job_total
  %chunk = load i64, ptr @job_chunk
  br label %next
next:
  %begin = atomicrmw add ptr @job_next, i64 %chunk monotonic
  %some = icmp ult i64 %begin, %total
  br i1 %some, label %look, label %done
look:
  %stop = call i1 @should_stop(ptr %frame, i64 %worker)
  br i1 %stop, label %done, label %run
run:
  %after = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %after, i64 %total)
  call void %fn(ptr %frame, i64 %begin, i64 %end, i64 %worker)
  br label %next
done:
  ret void
}

define internal i1 @should_stop(ptr %frame, i64 %worker) {
entry:
  %ps = getelementptr i8, ptr %frame, i64 ${STATUS}
  %status = load atomic i64, ptr %ps monotonic, align 8
  %bits = and i64 %status, ${STOP_STATUS}
  %failed = icmp ne i64 %bits, 0
  br i1 %failed, label %yes, label %look
look:
  %device = load ptr, ptr %frame
  %flag = load atomic i32, ptr %device monotonic, align 4
  %quiet = icmp eq i32 %flag, 0
  br i1 %quiet, label %no, label %poll
poll:
  %r = call i1 @qd_poll(ptr %frame, i64 %worker)
  ret i1 %r
yes:
  ret i1 true
no:
  ret i1 false
}

; A worker's life: spin for a job for a while, then sleep until one is published.
define internal ptr @worker(ptr %self) {
entry:
  %seen = alloca i64
  %spins = alloca i64
  store i64 0, ptr %seen
  store i64 0, ptr %spins
  call void @block_signals()
  call i64 @fp_flush()
  br label %look
look:
  %stop = load atomic i32, ptr @stopping acquire, align 4
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %out, label %state
state:
  %s = load atomic i64, ptr @state acquire, align 8
  %number = lshr i64 %s, 32
  %open = trunc i64 %number to i1
  %last = load i64, ptr %seen
  %new = icmp ne i64 %number, %last
  %mine = and i1 %open, %new
  br i1 %mine, label %room, label %idle
room:
  %high = lshr i64 %s, 16
  %entered = and i64 %high, 65535
  %limit = load i64, ptr @job_limit
  %free = icmp ult i64 %entered, %limit
  br i1 %free, label %enter, label %full
full:
  store i64 %number, ptr %seen
  br label %idle
enter:
  %s2 = add i64 %s, 65537
  %pair = cmpxchg ptr @state, i64 %s, i64 %s2 acq_rel monotonic
  %in = extractvalue { i64, i1 } %pair, 1
  br i1 %in, label %work, label %look
work:
  %id = add i64 %entered, 1
  call void @take_chunks(i64 %id)
  atomicrmw sub ptr @state, i64 1 release
  store i64 %number, ptr %seen
  store i64 0, ptr %spins
  br label %look
idle:
  %n = load i64, ptr %spins
  %n2 = add i64 %n, 1
  store i64 %n2, ptr %spins
  %patient = icmp ult i64 %n2, ${SPINS}
  br i1 %patient, label %spin, label %sleep
spin:
  call void @relax()
  br label %look
sleep:
  store i64 0, ptr %spins
  call i32 @pthread_mutex_lock(ptr @lock)
  atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %check
check:
  %stop2 = load atomic i32, ptr @stopping seq_cst, align 4
  %stops2 = icmp ne i32 %stop2, 0
  br i1 %stops2, label %up, label %check2
check2:
  %s3 = load atomic i64, ptr @state seq_cst, align 8
  %number3 = lshr i64 %s3, 32
  %open3 = trunc i64 %number3 to i1
  %last3 = load i64, ptr %seen
  %new3 = icmp ne i64 %number3, %last3
  %mine3 = and i1 %open3, %new3
  br i1 %mine3, label %up, label %wait
wait:
  call i32 @pthread_cond_wait(ptr @wake, ptr @lock)
  br label %check
up:
  atomicrmw sub ptr @sleepers, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %look
out:
  ret ptr null
}

; Runs fn(frame, begin, end, worker) over 0..total in chunks of at least %grain. With %timed an iteration's cost is
; not known: the first ones run here, on the clock, until what is left is seen to be worth waking workers for.
define void @qd_parallel(ptr %frame, ptr %fn, i64 %total, i64 %grain, i64 %timed) {
entry:
  %at = alloca i64
  %step = alloca i64
  store i64 0, ptr %at
  %none = icmp eq i64 %total, 0
  br i1 %none, label %out, label %some
some:
  %device = load ptr, ptr %frame
  %pt = getelementptr i8, ptr %device, i64 ${THREADS}
  %threads = load i64, ptr %pt
  %alone = icmp ule i64 %threads, 1
  %small = icmp ule i64 %total, %grain
  %inline = or i1 %alone, %small
  %size = call i64 @llvm.umax.i64(i64 %grain, i64 ${INLINE_CHUNK})
  store i64 %size, ptr %step
  br i1 %inline, label %here, label %many
many:
  %measure = icmp ne i64 %timed, 0
  br i1 %measure, label %timing, label %acquire
timing:
  %sixteenth = lshr i64 %total, 4
  %first = call i64 @llvm.umax.i64(i64 %sixteenth, i64 1)
  store i64 %first, ptr %step
  br label %probe
probe:
  %b0 = load i64, ptr %at
  %n0 = load i64, ptr %step
  %want = add i64 %b0, %n0
  %e0 = call i64 @llvm.umin.i64(i64 %want, i64 %total)
  %t0 = call i64 @now()
  call void %fn(ptr %frame, i64 %b0, i64 %e0, i64 0)
  %t1 = call i64 @now()
  store i64 %e0, ptr %at
  %finished = icmp uge i64 %e0, %total
  br i1 %finished, label %out, label %judge
judge:
  %stop0 = call i1 @should_stop(ptr %frame, i64 0)
  br i1 %stop0, label %out, label %judge2
judge2:
  %took = sub i64 %t1, %t0
  %rest = sub i64 %total, %e0
  %whole = mul i64 %took, %rest
  %did = sub i64 %e0, %b0
  %expect = udiv i64 %whole, %did
  %twice = mul i64 %n0, 2
  store i64 %twice, ptr %step
  %long = icmp ugt i64 %expect, ${WORTH_NS}
  br i1 %long, label %acquire, label %probe
acquire:
  %got = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %ours = extractvalue { i32, i1 } %got, 1
  br i1 %ours, label %publish, label %taken
taken:
  store i64 ${INLINE_CHUNK}, ptr %step
  br label %here
publish:
  %begin = load i64, ptr %at
  %left = sub i64 %total, %begin
  %parts = mul i64 %threads, 8
  %even = udiv i64 %left, %parts
  %even1 = call i64 @llvm.umax.i64(i64 %even, i64 %grain)
  %even2 = call i64 @llvm.umax.i64(i64 %even1, i64 1)
  %chunk = call i64 @llvm.umin.i64(i64 %even2, i64 ${LONGEST_CHUNK})
  store ptr %fn, ptr @job_fn
  store ptr %frame, ptr @job_frame
  store i64 %total, ptr @job_total
  store i64 %chunk, ptr @job_chunk
  %helpers = sub i64 %threads, 1
  %past = add i64 %left, %chunk
  %past1 = sub i64 %past, 1
  %chunks = udiv i64 %past1, %chunk
  %others = sub i64 %chunks, 1
  %wanted = call i64 @llvm.umin.i64(i64 %helpers, i64 %others)
  store i64 %wanted, ptr @job_limit
  store i64 %begin, ptr @job_next
  %before = load atomic i64, ptr @state monotonic, align 8
  %number = lshr i64 %before, 32
  %number1 = or i64 %number, 1
  %number2 = add i64 %number1, 2
  %fresh = shl i64 %number2, 32
  store atomic i64 %fresh, ptr @state seq_cst, align 8
  %asleep = load atomic i64, ptr @sleepers seq_cst, align 8
  %nobody = icmp eq i64 %asleep, 0
  br i1 %nobody, label %work, label %rouse
rouse:
  call i32 @pthread_mutex_lock(ptr @lock)
  %few = icmp eq i64 %wanted, 1
  br i1 %few, label %one, label %all
one:
  call i32 @pthread_cond_signal(ptr @wake)
  br label %roused
all:
  call i32 @pthread_cond_broadcast(ptr @wake)
  br label %roused
roused:
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %work
work:
  call void @take_chunks(i64 0)
  atomicrmw and ptr @state, i64 -4294967297 seq_cst
  store i64 0, ptr %step
  br label %join
join:
  %s = load atomic i64, ptr @state acquire, align 8
  %inside = and i64 %s, 65535
  %left_all = icmp eq i64 %inside, 0
  br i1 %left_all, label %release, label %patience
patience:
  call i1 @should_stop(ptr %frame, i64 0)
  %spun = load i64, ptr %step
  %spun1 = add i64 %spun, 1
  store i64 %spun1, ptr %step
  %yield = icmp ugt i64 %spun1, 2000
  br i1 %yield, label %give, label %spin
give:
  call i32 @sched_yield()
  br label %join
spin:
  call void @relax()
  br label %join
release:
  store atomic i32 0, ptr @busy release, align 4
  br label %out
here:
  %b1 = load i64, ptr %at
  %ended = icmp uge i64 %b1, %total
  br i1 %ended, label %out, label %go
go:
  %stop1 = call i1 @should_stop(ptr %frame, i64 0)
  br i1 %stop1, label %out, label %run
run:
  %n1 = load i64, ptr %step
  %w1 = add i64 %b1, %n1
  %e1 = call i64 @llvm.umin.i64(i64 %w1, i64 %total)
  call void %fn(ptr %frame, i64 %b1, i64 %e1, i64 0)
  store i64 %e1, ptr %at
  br label %here
out:
  ret void
}

; --- stopping ---------------------------------------------------------------------------------------------------

; Called where the device's flag is not 0: whether to leave. On the launching thread a tick lets signal handlers run.
define i1 @qd_poll(ptr %frame, i64 %worker) noinline {
entry:
  %device = load ptr, ptr %frame
  %boss = icmp eq i64 %worker, 0
  br i1 %boss, label %main, label %helper
helper:
  %w0 = load atomic i32, ptr %device monotonic, align 4
  %w1 = trunc i32 %w0 to i1
  ret i1 %w1
main:
  %w = atomicrmw and ptr %device, i32 -3 seq_cst
  %stop = trunc i32 %w to i1
  br i1 %stop, label %stopped, label %tick
tick:
  %bit = and i32 %w, 2
  %ticked = icmp ne i32 %bit, 0
  br i1 %ticked, label %signals, label %on
signals:
  %pm = getelementptr i8, ptr %device, i64 ${FP_MODE}
  %mode = load i64, ptr %pm
  call void @fp_restore(i64 %mode)
  %pts = getelementptr i8, ptr %device, i64 ${THREAD_STATE}
  %ts = load ptr, ptr %pts
  %holds = icmp eq ptr %ts, null
  br i1 %holds, label %with, label %without
with:
  %r1 = call i32 @PyErr_CheckSignals()
  %ts1 = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %ts1)
  br label %checked
without:
  call void @PyEval_RestoreThread(ptr %ts)
  %r2 = call i32 @PyErr_CheckSignals()
  %ts2 = call ptr @PyEval_SaveThread()
  store ptr %ts2, ptr %pts
  br label %checked
checked:
  %r = phi i32 [%r1, %with], [%r2, %without]
  call i64 @fp_flush()
  %raised = icmp ne i32 %r, 0
  br i1 %raised, label %raise, label %on
raise:
  atomicrmw or ptr %device, i32 1 seq_cst
  br label %stopped
stopped:
  %ps = getelementptr i8, ptr %frame, i64 ${STATUS}
  atomicrmw or ptr %ps, i64 ${CANCELLED} seq_cst
  ret i1 true
on:
  ret i1 false
}

define internal ptr @watch(ptr %self) {
entry:
  %quiet = alloca i64
  store i64 0, ptr %quiet
  call void @block_signals()
  br label %sleep
sleep:
  call i32 @usleep(i32 50000)
  %stop = load atomic i32, ptr @stopping acquire, align 4
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %out, label %scan
scan:
  %first = load atomic ptr, ptr @devices acquire, align 8
  %q = load i64, ptr %quiet
  %q1 = add i64 %q, 1
  store i64 %q1, ptr %quiet
  br label %each
each:
  %d = phi ptr [%first, %scan], [%next, %step]
  %end = icmp eq ptr %d, null
  br i1 %end, label %rest, label %device
device:
  %pr = getelementptr i8, ptr %d, i64 ${RUNNING}
  %running = load atomic i64, ptr %pr acquire, align 8
  %pa = getelementptr i8, ptr %d, i64 ${AGE}
  %age = load atomic i64, ptr %pa monotonic, align 8
  %idle = icmp eq i64 %running, 0
  br i1 %idle, label %step, label %busy
busy:
  store i64 0, ptr %quiet
  %age1 = add i64 %age, 1
  store atomic i64 %age1, ptr %pa monotonic, align 8
  %old = icmp ugt i64 %age, 0
  br i1 %old, label %flag, label %step
flag:
  atomicrmw or ptr %d, i32 2 seq_cst
  br label %step
step:
  %pn = getelementptr i8, ptr %d, i64 ${NEXT}
  %next = load ptr, ptr %pn
  br label %each
rest:
  %q2 = load i64, ptr %quiet
  %long = icmp ugt i64 %q2, 20
  br i1 %long, label %deep, label %sleep
deep:
  store i64 0, ptr %quiet
  call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 1, ptr @monitor_asleep seq_cst, align 4
  br label %wait
wait:
  %stop2 = load atomic i32, ptr @stopping seq_cst, align 4
  %a = load atomic i32, ptr @monitor_asleep seq_cst, align 4
  %woken = icmp eq i32 %a, 0
  %stops2 = icmp ne i32 %stop2, 0
  %up = or i1 %woken, %stops2
  br i1 %up, label %awake, label %wait2
wait2:
  call i32 @pthread_cond_wait(ptr @monitor_wake, ptr @lock)
  br label %wait
awake:
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %sleep
out:
  ret ptr null
}

; --- start and stop of the threads; called from Python with the GIL ------------------------------------------------

; First use in a process, and in a child after fork: no threads exist, whatever the words say.
define void @qd_reset() {
  store i64 0, ptr @state
  store i32 0, ptr @busy
  store i64 0, ptr @sleepers
  store i64 0, ptr @workers
  store i32 0, ptr @stopping
  store i64 0, ptr @monitor
  store i32 0, ptr @monitor_on
  store i32 0, ptr @monitor_asleep
  call i32 @pthread_mutex_init(ptr @lock, ptr null)
  call i32 @pthread_cond_init(ptr @wake, ptr null)
  call i32 @pthread_cond_init(ptr @monitor_wake, ptr null)
  ret void
}

; Brings the number of workers to %count and starts the monitor; fewer threads where the system refuses more.
define i64 @qd_start(i64 %count) {
entry:
  %on = load i32, ptr @monitor_on
  %watched = icmp ne i32 %on, 0
  br i1 %watched, label %more, label %begin
begin:
  %r0 = call i32 @pthread_create(ptr @monitor, ptr null, ptr @watch, ptr null)
  %ok0 = icmp eq i32 %r0, 0
  %on1 = zext i1 %ok0 to i32
  store i32 %on1, ptr @monitor_on
  br label %more
more:
  %n = load i64, ptr @workers
  %enough = icmp uge i64 %n, %count
  br i1 %enough, label %out, label %create
create:
  %slot = getelementptr i64, ptr @threads, i64 %n
  %r = call i32 @pthread_create(ptr %slot, ptr null, ptr @worker, ptr null)
  %ok = icmp eq i32 %r, 0
  br i1 %ok, label %next, label %out
next:
  %n1 = add i64 %n, 1
  store i64 %n1, ptr @workers
  br label %more
out:
  %made = load i64, ptr @workers
  ret i64 %made
}

; Ends all threads; the caller has released the GIL. Launches in flight are cancelled.
define void @qd_stop() {
entry:
  store atomic i32 1, ptr @stopping seq_cst, align 4
  %first = load ptr, ptr @devices
  br label %each
each:
  %d = phi ptr [%first, %entry], [%next, %device]
  %end = icmp eq ptr %d, null
  br i1 %end, label %wake_all, label %device
device:
  atomicrmw or ptr %d, i32 1 seq_cst
  %pn = getelementptr i8, ptr %d, i64 ${NEXT}
  %next = load ptr, ptr %pn
  br label %each
wake_all:
  call i32 @pthread_mutex_lock(ptr @lock)
  call i32 @pthread_cond_broadcast(ptr @wake)
  call i32 @pthread_cond_broadcast(ptr @monitor_wake)
  call i32 @pthread_mutex_unlock(ptr @lock)
  %on = load i32, ptr @monitor_on
  %watched = icmp ne i32 %on, 0
  br i1 %watched, label %join_monitor, label %join
join_monitor:
  %m = load i64, ptr @monitor
  call i32 @pthread_join(i64 %m, ptr null)
  store i32 0, ptr @monitor_on
  br label %join
join:
  %n = load i64, ptr @workers
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %one
one:
  %n1 = sub i64 %n, 1
  %slot = getelementptr i64, ptr @threads, i64 %n1
  %t = load i64, ptr %slot
  call i32 @pthread_join(i64 %t, ptr null)
  store i64 %n1, ptr @workers
  br label %join
out:
  store atomic i32 0, ptr @stopping seq_cst, align 4
  ret void
}

define void @qd_add_device(ptr %device) {
  %pn = getelementptr i8, ptr %device, i64 ${NEXT}
  %first = load ptr, ptr @devices
  store ptr %first, ptr %pn
  store atomic ptr %device, ptr @devices release, align 8
  ret void
}

; --- failures and prints -----------------------------------------------------------------------------------------

define internal i1 @claim(ptr %frame, i64 %bit, i64 %what, i64 %count) {
entry:
  %ps = getelementptr i8, ptr %frame, i64 ${STATUS}
  %pf = getelementptr i8, ptr %frame, i64 ${FAILED}
  %pair = cmpxchg ptr %pf, i64 0, i64 %bit acq_rel monotonic
  %first = extractvalue { i64, i1 } %pair, 1
  br i1 %first, label %record, label %out
record:
  %pw = getelementptr i8, ptr %frame, i64 ${FAIL_WHAT}
  store i64 %what, ptr %pw
  %pc = getelementptr i8, ptr %frame, i64 ${FAIL_COUNT}
  store i64 %count, ptr %pc
  br label %out
out:
  atomicrmw or ptr %ps, i64 %bit seq_cst
  ret i1 %first
}

define void @qd_assert(ptr %frame, i64 %number, i64 %count, ptr %values) noinline {
entry:
  %first = call i1 @claim(ptr %frame, i64 ${ASSERT}, i64 %number, i64 %count)
  br i1 %first, label %loop, label %out
loop:
  %i = phi i64 [0, %entry], [%i1, %copy]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %copy, label %out
copy:
  %src = getelementptr i64, ptr %values, i64 %i
  %v = load i64, ptr %src
  %base = getelementptr i8, ptr %frame, i64 ${FAIL_VALUES}
  %dst = getelementptr i64, ptr %base, i64 %i
  store i64 %v, ptr %dst
  %i1 = add i64 %i, 1
  br label %loop
out:
  ret void
}

define void @qd_overflow(ptr %frame, i64 %stack, i64 %depth) noinline {
  call i1 @claim(ptr %frame, i64 ${OVERFLOW}, i64 %stack, i64 %depth)
  ret void
}

; Appends (frame, number, values) to the device's print buffer.
define void @qd_print(ptr %frame, i64 %number, i64 %count, ptr %values) noinline {
entry:
  %device = load ptr, ptr %frame
  %pl = getelementptr i8, ptr %device, i64 ${PRINT_LOCK}
  %pb = getelementptr i8, ptr %device, i64 ${PRINT_BYTES}
  %pr = getelementptr i8, ptr %device, i64 ${PRINT_ROOM}
  %pd = getelementptr i8, ptr %device, i64 ${PRINT_DATA}
  %pm = getelementptr i8, ptr %device, i64 ${PRINT_LOST}
  %ps = getelementptr i8, ptr %frame, i64 ${STATUS}
  atomicrmw or ptr %ps, i64 ${PRINTED} monotonic
  br label %try
try:
  %pair = cmpxchg ptr %pl, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %pair, 1
  br i1 %got, label %have, label %spin
spin:
  call void @relax()
  br label %try
have:
  %used = load i64, ptr %pb
  %words = add i64 %count, 1
  %bytes = mul i64 %words, 8
  %after = add i64 %used, %bytes
  %room = load i64, ptr %pr
  %fits = icmp ule i64 %after, %room
  br i1 %fits, label %append, label %grow
grow:
  %twice = mul i64 %room, 2
  %least = call i64 @llvm.umax.i64(i64 %twice, i64 4096)
  %size = call i64 @llvm.umax.i64(i64 %least, i64 %after)
  %big = icmp ugt i64 %size, ${PRINT_LIMIT}
  br i1 %big, label %lose, label %take
take:
  %old = load ptr, ptr %pd
  %fresh = call ptr @realloc(ptr %old, i64 %size)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %lose, label %grown
grown:
  store ptr %fresh, ptr %pd
  store i64 %size, ptr %pr
  br label %append
append:
  %data = load ptr, ptr %pd
  %at = getelementptr i8, ptr %data, i64 %used
  store i64 %number, ptr %at
  store i64 %after, ptr %pb
  br label %loop
loop:
  %i = phi i64 [0, %append], [%i1, %copy]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %copy, label %free
copy:
  %src = getelementptr i64, ptr %values, i64 %i
  %v = load i64, ptr %src
  %i1 = add i64 %i, 1
  %dst = getelementptr i64, ptr %at, i64 %i1
  store i64 %v, ptr %dst
  br label %loop
lose:
  %lost = load i64, ptr %pm
  %lost1 = add i64 %lost, 1
  store i64 %lost1, ptr %pm
  br label %free
free:
  store atomic i64 0, ptr %pl release, align 8
  ret void
}

; --- launching ---------------------------------------------------------------------------------------------------

; Launches the frame's kernel and returns its status. Called with the GIL. A Python exception is set where a signal
; handler raised one; the status then has CANCELLED.
define i64 @qd_launch(ptr %frame) {
entry:
  %device = load ptr, ptr %frame
  %ps = getelementptr i8, ptr %frame, i64 ${STATUS}
  store i64 0, ptr %ps
  %pf = getelementptr i8, ptr %frame, i64 ${FAILED}
  store i64 0, ptr %pf
  %pz = getelementptr i8, ptr %frame, i64 ${ZERO_AT}
  %zero_at = load i64, ptr %pz
  %zero = getelementptr i8, ptr %frame, i64 %zero_at
  %pn = getelementptr i8, ptr %frame, i64 ${ZERO_BYTES}
  %bytes = load i64, ptr %pn
  call void @llvm.memset.p0.i64(ptr %zero, i8 0, i64 %bytes, i1 false)
  %pl = getelementptr i8, ptr %frame, i64 ${LAUNCH}
  %launch = load i64, ptr %pl
  %launch1 = add i64 %launch, 1
  store i64 %launch1, ptr %pl
  store atomic i32 0, ptr %device monotonic, align 4
  %pa = getelementptr i8, ptr %device, i64 ${AGE}
  store i64 0, ptr %pa
  %pg = getelementptr i8, ptr %device, i64 ${RUNNING}
  %pe = getelementptr i8, ptr %frame, i64 ${ENTRY}
  %kernel = load ptr, ptr %pe
  %pts = getelementptr i8, ptr %device, i64 ${THREAD_STATE}
  store ptr null, ptr %pts
  %pm = getelementptr i8, ptr %device, i64 ${FP_MODE}
  %mode = call i64 @fp_flush()
  store i64 %mode, ptr %pm
  %pk = getelementptr i8, ptr %frame, i64 ${RELEASE_GIL}
  %release = load i64, ptr %pk
  %brief = icmp eq i64 %release, 0
  br i1 %brief, label %quick, label %slow
quick:
  call void %kernel(ptr %frame)
  call void @fp_restore(i64 %mode)
  br label %out
slow:
  store atomic i64 1, ptr %pg seq_cst, align 8
  %asleep = load atomic i32, ptr @monitor_asleep seq_cst, align 4
  %rouse = icmp ne i32 %asleep, 0
  br i1 %rouse, label %wake_monitor, label %go
wake_monitor:
  call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 0, ptr @monitor_asleep seq_cst, align 4
  call i32 @pthread_cond_signal(ptr @monitor_wake)
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %go
go:
  %ts = call ptr @PyEval_SaveThread()
  store ptr %ts, ptr %pts
  call void %kernel(ptr %frame)
  call void @fp_restore(i64 %mode)
  %ts2 = load ptr, ptr %pts
  store atomic i64 0, ptr %pg release, align 8
  call void @PyEval_RestoreThread(ptr %ts2)
  br label %out
out:
  %status = load i64, ptr %ps
  ret i64 %status
}

; The fast entry: self is (address of the plan, frame). The plan: frame, how many parameters, kind and offset of the
; returned value, then ${PARAM_BYTES} bytes a parameter: kind, offset in the frame, and what the kind needs.
define ptr @qd_call(ptr %self, ptr %args, i64 %nargs) {
entry:
  %item = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %plan = call ptr @PyLong_AsVoidPtr(ptr %item)
  %frame = load ptr, ptr %plan
  %pn = getelementptr i64, ptr %plan, i64 1
  %n = load i64, ptr %pn
  %right = icmp eq i64 %n, %nargs
  br i1 %right, label %next, label %mismatch
next:
  %i = phi i64 [0, %entry], [%i1, %taken]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %param, label %launch
param:
  %i1 = add i64 %i, 1
  %skip = mul i64 %i, ${PARAM_BYTES}
  %base = add i64 %skip, 32
  %p = getelementptr i8, ptr %plan, i64 %base
  %kind = load i64, ptr %p
  %po = getelementptr i64, ptr %p, i64 1
  %offset = load i64, ptr %po
  %dst = getelementptr i8, ptr %frame, i64 %offset
  %pa = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %pa
  %pt = getelementptr i8, ptr %arg, i64 ${OB_TYPE}
  %type = load ptr, ptr %pt
  %p2 = getelementptr i64, ptr %p, i64 2
  %w2 = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %p, i64 3
  %w3 = load i64, ptr %p3
  switch i64 %kind, label %mismatch [ i64 0, label %taken i64 1, label %float i64 2, label %int
                                      i64 3, label %truth i64 4, label %array ]
float:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is_float, label %from_float, label %maybe_int
from_float:
  %x0 = call double @PyFloat_AsDouble(ptr %arg)
  br label %put_float
maybe_int:
  %is_int0 = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int0, label %from_int, label %mismatch
from_int:
  %x1 = call double @PyLong_AsDouble(ptr %arg)
  %minus1 = fcmp oeq double %x1, -1.0
  br i1 %minus1, label %doubt_float, label %put_float
doubt_float:
  %e1 = call ptr @PyErr_Occurred()
  %fine1 = icmp eq ptr %e1, null
  br i1 %fine1, label %put_float, label %clear
put_float:
  %x = phi double [%x0, %from_float], [%x1, %from_int], [%x1, %doubt_float]
  %single = icmp eq i64 %w2, 4
  br i1 %single, label %put_single, label %put_double
put_single:
  %xs = fptrunc double %x to float
  store float %xs, ptr %dst
  br label %taken
put_double:
  store double %x, ptr %dst
  br label %taken
int:
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %take_int, label %mismatch
take_int:
  %v = call i64 @PyLong_AsLongLong(ptr %arg)
  %minus1i = icmp eq i64 %v, -1
  br i1 %minus1i, label %doubt_int, label %check_int
doubt_int:
  %e2 = call ptr @PyErr_Occurred()
  %fine2 = icmp eq ptr %e2, null
  br i1 %fine2, label %check_int, label %clear
check_int:
  %low = icmp sge i64 %v, %w2
  %high = icmp sle i64 %v, %w3
  %in = and i1 %low, %high
  br i1 %in, label %put_int, label %mismatch
put_int:
  store i64 %v, ptr %dst
  br label %taken
truth:
  %is_bool = icmp eq ptr %type, @PyBool_Type
  br i1 %is_bool, label %put_truth, label %mismatch
put_truth:
  %t = icmp eq ptr %arg, @_Py_TrueStruct
  %t64 = zext i1 %t to i64
  store i64 %t64, ptr %dst
  br label %taken
array:
  %p4 = getelementptr i64, ptr %p, i64 4
  %w4 = load i64, ptr %p4
  %p5 = getelementptr i64, ptr %p, i64 5
  %w5 = load ptr, ptr %p5
  %p6 = getelementptr i64, ptr %p, i64 6
  %w6 = load ptr, ptr %p6
  %p7 = getelementptr i64, ptr %p, i64 7
  %extents_at = load i64, ptr %p7
  %is_array = icmp eq ptr %type, %w6
  br i1 %is_array, label %dtype, label %mismatch
dtype:
  %pd = getelementptr i8, ptr %arg, i64 ${NP_DESCR}
  %descr = load ptr, ptr %pd
  %same = icmp eq ptr %descr, %w5
  %pnd = getelementptr i8, ptr %arg, i64 ${NP_NDIM}
  %ndim = load i32, ptr %pnd
  %ndim64 = zext i32 %ndim to i64
  %rank = icmp eq i64 %ndim64, %w2
  %pfl = getelementptr i8, ptr %arg, i64 ${NP_FLAGS}
  %flags = load i32, ptr %pfl
  %flags64 = zext i32 %flags to i64
  %has = and i64 %flags64, %w3
  %laid = icmp eq i64 %has, %w3
  %ok1 = and i1 %same, %rank
  %ok = and i1 %ok1, %laid
  br i1 %ok, label %put_array, label %mismatch
put_array:
  %pda = getelementptr i8, ptr %arg, i64 ${NP_DATA}
  %data = load ptr, ptr %pda
  store ptr %data, ptr %dst
  %pdi = getelementptr i8, ptr %arg, i64 ${NP_DIMS}
  %dims = load ptr, ptr %pdi
  %exts = getelementptr i8, ptr %frame, i64 %extents_at
  br label %axis
axis:
  %k = phi i64 [0, %put_array], [%k1, %copy_axis]
  %axes = icmp ult i64 %k, %w4
  br i1 %axes, label %copy_axis, label %taken
copy_axis:
  %psrc = getelementptr i64, ptr %dims, i64 %k
  %extent = load i64, ptr %psrc
  %pdst = getelementptr i64, ptr %exts, i64 %k
  store i64 %extent, ptr %pdst
  %k1 = add i64 %k, 1
  br label %axis
taken:
  br label %next
launch:
  %status = call i64 @qd_launch(ptr %frame)
  %good = icmp eq i64 %status, 0
  br i1 %good, label %value, label %failed
failed:
  %bit = and i64 %status, ${CANCELLED}
  %cancelled = icmp ne i64 %bit, 0
  br i1 %cancelled, label %raised, label %ellipsis
raised:
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %ellipsis, label %null
null:
  ret ptr null
value:
  %pk = getelementptr i64, ptr %plan, i64 2
  %ret_kind = load i64, ptr %pk
  %pro = getelementptr i64, ptr %plan, i64 3
  %ret_at = load i64, ptr %pro
  %ret = getelementptr i8, ptr %frame, i64 %ret_at
  switch i64 %ret_kind, label %none [ i64 1, label %r_f32 i64 2, label %r_f64 i64 3, label %r_i8 i64 4, label %r_i16
                                      i64 5, label %r_i32 i64 6, label %r_i64 i64 7, label %r_u64 i64 8, label %r_u1 ]
r_f32:
  %f = load float, ptr %ret
  %fd = fpext float %f to double
  %o1 = call ptr @PyFloat_FromDouble(double %fd)
  ret ptr %o1
r_f64:
  %d = load double, ptr %ret
  %o2 = call ptr @PyFloat_FromDouble(double %d)
  ret ptr %o2
r_i8:
  %i8 = load i8, ptr %ret
  %i8w = sext i8 %i8 to i64
  %o3 = call ptr @PyLong_FromLongLong(i64 %i8w)
  ret ptr %o3
r_i16:
  %i16 = load i16, ptr %ret
  %i16w = sext i16 %i16 to i64
  %o4 = call ptr @PyLong_FromLongLong(i64 %i16w)
  ret ptr %o4
r_i32:
  %i32 = load i32, ptr %ret
  %i32w = sext i32 %i32 to i64
  %o5 = call ptr @PyLong_FromLongLong(i64 %i32w)
  ret ptr %o5
r_i64:
  %i64 = load i64, ptr %ret
  %o6 = call ptr @PyLong_FromLongLong(i64 %i64)
  ret ptr %o6
r_u64:
  %u64 = load i64, ptr %ret
  %o7 = call ptr @PyLong_FromUnsignedLongLong(i64 %u64)
  ret ptr %o7
r_u1:
  %u1 = load i8, ptr %ret
  %u1w = zext i8 %u1 to i64
  %o8 = call ptr @PyBool_FromLong(i64 %u1w)
  ret ptr %o8
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
clear:
  call void @PyErr_Clear()
  br label %mismatch
mismatch:
  call void @Py_IncRef(ptr @_Py_NotImplementedStruct)
  ret ptr @_Py_NotImplementedStruct
ellipsis:
  call void @Py_IncRef(ptr @_Py_EllipsisObject)
  ret ptr @_Py_EllipsisObject
}
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """What differs between operating systems and builds of CPython."""

    machine: str  # x86_64 or aarch64
    darwin: bool
    object_bytes: int  # object.__basicsize__: the head of every object, its type the last word


OVERFLOW, ASSERT, CANCELLED, PRINTED = 1, 2, 4, 8
PARAM_BYTES = 64


def runtime_text(p: Platform) -> str:
    """The runtime's LLVM IR for a platform, without triple and data layout."""
    head = p.object_bytes
    constants = {
        "STATUS": L.STATUS, "RELEASE_GIL": L.RELEASE_GIL, "ENTRY": L.ENTRY, "ZERO_AT": L.ZERO_AT,
        "ZERO_BYTES": L.ZERO_BYTES, "FAILED": L.FAILED, "FAIL_WHAT": L.FAIL_WHAT, "FAIL_COUNT": L.FAIL_COUNT,
        "FAIL_VALUES": L.FAIL_VALUES, "LAUNCH": L.LAUNCH, "THREADS": L.THREADS, "PRINT_LOCK": L.PRINT_LOCK,
        "PRINT_BYTES": L.PRINT_BYTES, "PRINT_ROOM": L.PRINT_ROOM, "PRINT_DATA": L.PRINT_DATA,
        "PRINT_LOST": L.PRINT_LOST, "RUNNING": L.RUNNING, "AGE": L.AGE, "THREAD_STATE": L.THREAD_STATE,
        "FP_MODE": L.FP_MODE, "NEXT": L.NEXT,
        "OVERFLOW": OVERFLOW, "ASSERT": ASSERT, "CANCELLED": CANCELLED, "PRINTED": PRINTED,
        "STOP_STATUS": ASSERT | CANCELLED,
        "MONOTONIC": 6 if p.darwin else 1, "SIG_SETMASK": 3 if p.darwin else 2,
        "SPINS": 2000, "INLINE_CHUNK": 1 << 16, "LONGEST_CHUNK": 1 << 20, "WORTH_NS": 10000,
        "PRINT_LIMIT": 1 << 26, "PARAM_BYTES": PARAM_BYTES, "OB_TYPE": head - 8,
        # PyArrayObject after the head: data, nd, dimensions, strides, base, descr, flags
        "NP_DATA": head, "NP_NDIM": head + 8, "NP_DIMS": head + 16, "NP_DESCR": head + 40, "NP_FLAGS": head + 48,
    }  # fmt: skip
    text = _TEXT
    for name, value in constants.items():
        text = text.replace("${" + name + "}", str(value))
    return _FP_MODE[p.machine] + text
