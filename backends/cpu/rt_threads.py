"""The runtime's machine code, first part: worker threads and the monitor, as LLVM IR text (see `rt_text`).

Worker threads. `qd_parallel` publishes a job in @state: bits 0-15 count the workers inside it, bits 16-31 those that
ever came in, bit 32 says that it is open, the bits above number the jobs. A worker enters by compare-and-exchange,
takes chunks from @job_next and leaves by subtracting itself. The caller takes chunks too, closes the job when none
is left and waits only for workers inside. A worker that wakes up late finds the job closed and sleeps on.

The monitor. A thread ticks every 50 ms while launches run and raises bit 2 of the flag of a device whose launch is
older than a tick; the launching thread, which looks at the flag on loop back-edges, then takes the GIL, lets CPython
run signal handlers, and stops the launch when one raised (`qd_poll`).
"""

TEXT = r"""
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

; Runs fn(frame, begin, end, worker) over 0..total in chunks of at least %grain, where worker is -1 while no other
; thread runs any, and returns how many workers but the caller took part. With %timed an iteration's cost is not known:
; the first ones run here, on the clock, until what is left is seen to be worth waking workers for.
define i64 @qd_parallel(ptr %frame, ptr %fn, i64 %total, i64 %grain, i64 %timed) {
entry:
  %at = alloca i64
  %step = alloca i64
  %helped = alloca i64
  store i64 0, ptr %helped
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
  call void %fn(ptr %frame, i64 %b0, i64 %e0, i64 -1)
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
  %came = lshr i64 %s, 16
  %entered = and i64 %came, 65535
  store i64 %entered, ptr %helped
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
  call void %fn(ptr %frame, i64 %b1, i64 %e1, i64 -1)
  store i64 %e1, ptr %at
  br label %here
out:
  %count = load i64, ptr %helped
  ret i64 %count
}

; --- the monitor ------------------------------------------------------------

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

; First use in a process, and in a child after fork: no threads exist, whatever the words say. A launch that was under
; way is cancelled: of the threads that ran it the child has at most the one that forked.
define void @qd_reset() {
entry:
  %taken = load i32, ptr @busy
  %shared = icmp ne i32 %taken, 0
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
  br i1 %shared, label %job, label %list
job:
  %frame = load ptr, ptr @job_frame
  %ps = getelementptr i8, ptr %frame, i64 ${STATUS}
  atomicrmw or ptr %ps, i64 ${CANCELLED} monotonic
  br label %list
list:
  %first = load ptr, ptr @devices
  br label %each
each:
  %d = phi ptr [%first, %list], [%next, %device]
  %end = icmp eq ptr %d, null
  br i1 %end, label %out, label %device
device:
  %pr = getelementptr i8, ptr %d, i64 ${RUNNING}
  %running = load i64, ptr %pr
  %flag = trunc i64 %running to i32
  store i32 %flag, ptr %d
  store i64 0, ptr %pr
  %pl = getelementptr i8, ptr %d, i64 ${PRINT_LOCK}
  store i64 0, ptr %pl
  %pcr = getelementptr i8, ptr %d, i64 ${COPIES_ROOM}
  store ptr null, ptr %pcr
  %pcb = getelementptr i8, ptr %d, i64 ${COPIES_BYTES}
  store i64 0, ptr %pcb
  %pn = getelementptr i8, ptr %d, i64 ${NEXT}
  %next = load ptr, ptr %pn
  br label %each
out:
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
"""
