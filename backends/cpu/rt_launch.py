"""The runtime's machine code, second part: launching, stopping, failures and prints (see `rt_text`)."""

TEXT = r"""
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
  %pc = getelementptr i8, ptr %device, i64 ${LAUNCHES}
  %count = load i64, ptr %pc
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %pc
  %py = getelementptr i8, ptr %frame, i64 ${REPLAY}
  %replay = load i64, ptr %py
  %new = icmp eq i64 %replay, 0
  %number = select i1 %new, i64 %count1, i64 %replay
  %pl = getelementptr i8, ptr %frame, i64 ${LAUNCH}
  store i64 %number, ptr %pl
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
"""
