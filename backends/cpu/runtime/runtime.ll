; made by scripts/cpu_runtime.py from the sources 76fa652d47dafdb8

%struct.System = type { [16 x i64] }
%struct.Move = type { ptr, ptr, i64, i64, ptr, ptr }
%struct.Axis = type { i64, i64 }
%struct.Stride = type { i64, i64 }
%struct.Param = type { i64, i64, %union.anon }
%union.anon = type { %struct.anon.2 }
%struct.anon.2 = type { i32, i32, i64, ptr, ptr, i64 }

@busy = internal global i32 0, align 4
@qd_add_copies.add = internal unnamed_addr constant [4 x ptr] [ptr @add_f32, ptr @add_f64, ptr @add_i32, ptr @add_i64], align 16
@.str = private unnamed_addr constant [19 x i8] c"/proc/self/pagemap\00", align 1
@host.0 = internal unnamed_addr global i32 0, align 8
@host.1 = internal unnamed_addr global i32 0, align 8
@host.2 = internal unnamed_addr global i64 0, align 8
@job.0 = internal unnamed_addr global ptr null, align 8
@job.1 = internal unnamed_addr global ptr null, align 8
@job.2 = internal unnamed_addr global i64 0, align 8
@job.3 = internal unnamed_addr global i64 0, align 8
@job.4 = internal unnamed_addr global i64 0, align 8
@job.5 = internal unnamed_addr global i64 0, align 8
@state = internal global i64 0, align 8
@sleepers = internal global i64 0, align 128
@stopping = internal unnamed_addr global i32 0, align 4
@monitor_asleep = internal unnamed_addr global i32 0, align 4
@workers = internal unnamed_addr global i64 0, align 8
@monitor_on = internal unnamed_addr global i8 0, align 1
@lock = internal global %struct.System zeroinitializer, align 8
@wake = internal global %struct.System zeroinitializer, align 8
@monitor_wake = internal global %struct.System zeroinitializer, align 8
@devices = internal unnamed_addr global ptr null, align 8
@monitor = internal global i64 0, align 8
@threads = internal global [1024 x i64] zeroinitializer, align 16
@_Py_NotImplementedStruct = external global [0 x i8], align 1
@_Py_EllipsisObject = external global [0 x i8], align 1
@next = internal global i64 0, align 128
@PyFloat_Type = external global [0 x i8], align 1
@PyLong_Type = external global [0 x i8], align 1
@_Py_TrueStruct = external global [0 x i8], align 1
@PyBool_Type = external global [0 x i8], align 1
@_Py_NoneStruct = external global [0 x i8], align 1

define i64 @qd_launch(ptr %0) nounwind {
  %2 = load ptr, ptr %0, align 8
  %3 = getelementptr inbounds i8, ptr %0, i64 16
  store atomic i64 0, ptr %3 monotonic, align 8
  %4 = getelementptr inbounds i8, ptr %0, i64 48
  store atomic i64 0, ptr %4 monotonic, align 8
  %5 = getelementptr inbounds i8, ptr %0, i64 32
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 %6
  %8 = getelementptr inbounds i8, ptr %0, i64 40
  %9 = load i64, ptr %8, align 8
  %10 = tail call ptr @memset(ptr %7, i32 0, i64 %9)
  %11 = getelementptr inbounds i8, ptr %2, i64 104
  %12 = load i64, ptr %11, align 8
  %13 = add nsw i64 %12, 1
  store i64 %13, ptr %11, align 8
  %14 = getelementptr inbounds i8, ptr %0, i64 160
  %15 = load i64, ptr %14, align 8
  %16 = icmp eq i64 %15, 0
  %17 = select i1 %16, i64 %13, i64 %15
  %18 = getelementptr inbounds i8, ptr %0, i64 152
  store i64 %17, ptr %18, align 8
  store atomic i32 0, ptr %2 monotonic, align 8
  %19 = getelementptr inbounds i8, ptr %2, i64 72
  store atomic i64 0, ptr %19 monotonic, align 8
  %20 = getelementptr inbounds i8, ptr %2, i64 80
  store ptr null, ptr %20, align 8
  %21 = tail call i64 @qd_fp_flush()
  %22 = getelementptr inbounds i8, ptr %2, i64 88
  store i64 %21, ptr %22, align 8
  %23 = getelementptr inbounds i8, ptr %0, i64 24
  %24 = load i64, ptr %23, align 8
  %25 = icmp eq i64 %24, 0
  br i1 %25, label %39, label %26

26:                                               ; preds = %1
  %27 = getelementptr inbounds i8, ptr %2, i64 64
  store atomic i64 1, ptr %27 seq_cst, align 8
  %28 = load atomic i32, ptr @monitor_asleep seq_cst, align 4
  %29 = icmp eq i32 %28, 0
  br i1 %29, label %34, label %30

30:                                               ; preds = %26
  %31 = tail call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 0, ptr @monitor_asleep seq_cst, align 4
  %32 = tail call i32 @pthread_cond_signal(ptr @monitor_wake)
  %33 = tail call i32 @pthread_mutex_unlock(ptr @lock)
  br label %34

34:                                               ; preds = %26, %30
  %35 = tail call ptr @PyEval_SaveThread()
  store ptr %35, ptr %20, align 8
  %36 = getelementptr inbounds i8, ptr %0, i64 8
  %37 = load ptr, ptr %36, align 8
  tail call void %37(ptr %0)
  tail call void @qd_fp_restore(i64 %21)
  %38 = load ptr, ptr %20, align 8
  store atomic i64 0, ptr %27 release, align 8
  tail call void @PyEval_RestoreThread(ptr %38)
  br label %42

39:                                               ; preds = %1
  %40 = getelementptr inbounds i8, ptr %0, i64 8
  %41 = load ptr, ptr %40, align 8
  tail call void %41(ptr %0)
  tail call void @qd_fp_restore(i64 %21)
  br label %42

42:                                               ; preds = %39, %34
  %43 = load atomic i64, ptr %3 monotonic, align 8
  ret i64 %43
}
declare void @llvm.lifetime.start.p0(i64 immarg, ptr)
declare ptr @memset(ptr, i32, i64)
declare i64 @qd_fp_flush()
declare ptr @PyEval_SaveThread()
declare void @qd_fp_restore(i64)
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.lifetime.end.p0(i64 immarg, ptr)

define zeroext i1 @qd_poll(ptr %0, i64 %1) nounwind {
  %3 = load ptr, ptr %0, align 8
  %4 = icmp eq i64 %1, 0
  br i1 %4, label %9, label %5

5:                                                ; preds = %2
  %6 = load atomic i32, ptr %3 monotonic, align 8
  %7 = and i32 %6, 1
  %8 = icmp ne i32 %7, 0
  br label %36

9:                                                ; preds = %2
  %10 = atomicrmw and ptr %3, i32 -3 seq_cst, align 8
  %11 = and i32 %10, 1
  %12 = icmp eq i32 %11, 0
  br i1 %12, label %13, label %33

13:                                               ; preds = %9
  %14 = and i32 %10, 2
  %15 = icmp eq i32 %14, 0
  br i1 %15, label %36, label %16

16:                                               ; preds = %13
  %17 = getelementptr inbounds i8, ptr %3, i64 88
  %18 = load i64, ptr %17, align 8
  tail call void @qd_fp_restore(i64 %18)
  %19 = getelementptr inbounds i8, ptr %3, i64 80
  %20 = load ptr, ptr %19, align 8
  %21 = icmp eq ptr %20, null
  br i1 %21, label %23, label %22

22:                                               ; preds = %16
  tail call void @PyEval_RestoreThread(ptr %20)
  br label %23

23:                                               ; preds = %22, %16
  %24 = tail call i32 @PyErr_CheckSignals()
  %25 = tail call ptr @PyEval_SaveThread()
  br i1 %21, label %27, label %26

26:                                               ; preds = %23
  store ptr %25, ptr %19, align 8
  br label %28

27:                                               ; preds = %23
  tail call void @PyEval_RestoreThread(ptr %25)
  br label %28

28:                                               ; preds = %26, %27
  %29 = icmp eq i32 %24, 0
  %30 = tail call i64 @qd_fp_flush()
  br i1 %29, label %36, label %31

31:                                               ; preds = %28
  %32 = atomicrmw or ptr %3, i32 1 seq_cst, align 8
  br label %33

33:                                               ; preds = %31, %9
  %34 = getelementptr inbounds i8, ptr %0, i64 16
  %35 = atomicrmw or ptr %34, i64 4 seq_cst, align 8
  br label %36

36:                                               ; preds = %33, %28, %13, %5
  %37 = phi i1 [ %8, %5 ], [ true, %33 ], [ false, %28 ], [ false, %13 ]
  ret i1 %37
}

define void @qd_assert(ptr %0, i64 %1, i64 %2, ptr %3) nounwind {
  %5 = getelementptr inbounds i8, ptr %0, i64 48
  %6 = cmpxchg ptr %5, i64 0, i64 2 acq_rel monotonic, align 8
  %7 = extractvalue { i64, i1 } %6, 1
  br i1 %7, label %11, label %8

8:                                                ; preds = %4
  %9 = getelementptr inbounds i8, ptr %0, i64 16
  %10 = atomicrmw or ptr %9, i64 2 seq_cst, align 8
  br label %26

11:                                               ; preds = %4
  %12 = getelementptr inbounds i8, ptr %0, i64 56
  store i64 %1, ptr %12, align 8
  %13 = getelementptr inbounds i8, ptr %0, i64 64
  store i64 %2, ptr %13, align 8
  %14 = getelementptr inbounds i8, ptr %0, i64 16
  %15 = atomicrmw or ptr %14, i64 2 seq_cst, align 8
  %16 = icmp sgt i64 %2, 0
  br i1 %16, label %17, label %26

17:                                               ; preds = %11
  %18 = getelementptr inbounds i8, ptr %0, i64 72
  br label %19

19:                                               ; preds = %17, %19
  %20 = phi i64 [ 0, %17 ], [ %24, %19 ]
  %21 = getelementptr inbounds i64, ptr %3, i64 %20
  %22 = load i64, ptr %21, align 8
  %23 = getelementptr inbounds [8 x i64], ptr %18, i64 0, i64 %20
  store i64 %22, ptr %23, align 8
  %24 = add nuw nsw i64 %20, 1
  %25 = icmp eq i64 %24, %2
  br i1 %25, label %26, label %19

26:                                               ; preds = %19, %11, %8
  ret void
}

define void @qd_overflow(ptr %0, i64 %1, i64 %2) nounwind {
  %4 = getelementptr inbounds i8, ptr %0, i64 48
  %5 = cmpxchg ptr %4, i64 0, i64 1 acq_rel monotonic, align 8
  %6 = extractvalue { i64, i1 } %5, 1
  br i1 %6, label %7, label %10

7:                                                ; preds = %3
  %8 = getelementptr inbounds i8, ptr %0, i64 56
  store i64 %1, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %0, i64 64
  store i64 %2, ptr %9, align 8
  br label %10

10:                                               ; preds = %3, %7
  %11 = getelementptr inbounds i8, ptr %0, i64 16
  %12 = atomicrmw or ptr %11, i64 1 seq_cst, align 8
  ret void
}

define void @qd_print(ptr %0, i64 %1, i64 %2, ptr %3) nounwind {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 16
  %7 = atomicrmw or ptr %6, i64 8 monotonic, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 24
  %9 = cmpxchg ptr %8, i64 0, i64 1 acquire monotonic, align 8
  %10 = extractvalue { i64, i1 } %9, 1
  br i1 %10, label %11, label %35

11:                                               ; preds = %35, %4
  %12 = getelementptr inbounds i8, ptr %5, i64 32
  %13 = load i64, ptr %12, align 8
  %14 = shl i64 %2, 3
  %15 = add i64 %14, 8
  %16 = add i64 %15, %13
  %17 = getelementptr inbounds i8, ptr %5, i64 40
  %18 = load i64, ptr %17, align 8
  %19 = icmp ult i64 %18, %16
  br i1 %19, label %23, label %20

20:                                               ; preds = %11
  %21 = getelementptr inbounds i8, ptr %5, i64 48
  %22 = load ptr, ptr %21, align 8
  br label %38

23:                                               ; preds = %11
  %24 = shl i64 %18, 1
  %25 = tail call i64 @llvm.umax.i64(i64 %24, i64 %16)
  %26 = tail call i64 @llvm.umax.i64(i64 %25, i64 4096)
  %27 = icmp ult i64 %25, 67108865
  br i1 %27, label %28, label %53

28:                                               ; preds = %23
  %29 = getelementptr inbounds i8, ptr %5, i64 48
  %30 = load ptr, ptr %29, align 8
  %31 = tail call ptr @realloc(ptr %30, i64 %26)
  %32 = icmp eq ptr %31, null
  br i1 %32, label %53, label %33

33:                                               ; preds = %28
  store ptr %31, ptr %29, align 8
  store i64 %26, ptr %17, align 8
  %34 = load i64, ptr %12, align 8
  br label %38

35:                                               ; preds = %4, %35
  tail call void @qd_relax()
  %36 = cmpxchg ptr %8, i64 0, i64 1 acquire monotonic, align 8
  %37 = extractvalue { i64, i1 } %36, 1
  br i1 %37, label %11, label %35

38:                                               ; preds = %20, %33
  %39 = phi i64 [ %13, %20 ], [ %34, %33 ]
  %40 = phi ptr [ %22, %20 ], [ %31, %33 ]
  %41 = lshr i64 %39, 3
  %42 = getelementptr inbounds i64, ptr %40, i64 %41
  %43 = getelementptr inbounds i8, ptr %42, i64 8
  store i64 %1, ptr %42, align 8
  %44 = icmp eq i64 %2, 0
  br i1 %44, label %45, label %46

45:                                               ; preds = %46, %38
  store i64 %16, ptr %12, align 8
  br label %57

46:                                               ; preds = %38, %46
  %47 = phi i64 [ %51, %46 ], [ 0, %38 ]
  %48 = getelementptr inbounds i64, ptr %3, i64 %47
  %49 = load i64, ptr %48, align 8
  %50 = getelementptr inbounds i64, ptr %43, i64 %47
  store i64 %49, ptr %50, align 8
  %51 = add nuw i64 %47, 1
  %52 = icmp eq i64 %51, %2
  br i1 %52, label %45, label %46

53:                                               ; preds = %28, %23
  %54 = getelementptr inbounds i8, ptr %5, i64 56
  %55 = load i64, ptr %54, align 8
  %56 = add nsw i64 %55, 1
  store i64 %56, ptr %54, align 8
  br label %57

57:                                               ; preds = %53, %45
  store atomic i64 0, ptr %8 release, align 8
  ret void
}
declare void @qd_relax()

define i64 @qd_parallel(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5) nounwind {
  %7 = alloca [2 x i64], align 16
  %8 = alloca [2 x i64], align 16
  %9 = load ptr, ptr %0, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 16
  %11 = load i64, ptr %10, align 8
  %12 = add i64 %11, -1
  %13 = icmp ne i64 %12, 0
  %14 = icmp ugt i64 %2, %3
  %15 = and i1 %14, %13
  br i1 %15, label %18, label %16

16:                                               ; preds = %6
  %17 = tail call i64 @llvm.umax.i64(i64 %3, i64 65536)
  tail call fastcc void @run_here(ptr %0, ptr %1, i64 0, i64 %2, i64 %17, i64 %5)
  br label %166

18:                                               ; preds = %6
  %19 = icmp eq i64 %4, 0
  br i1 %19, label %94, label %20

20:                                               ; preds = %18
  %21 = lshr i64 %2, 4
  %22 = tail call i64 @llvm.umax.i64(i64 %21, i64 1)
  %23 = tail call i64 @llvm.umin.i64(i64 %22, i64 1048576)
  %24 = icmp eq i64 %5, 0
  br i1 %24, label %30, label %25

25:                                               ; preds = %20
  %26 = add i64 %5, -1
  %27 = add i64 %26, %23
  %28 = urem i64 %27, %5
  %29 = sub nuw i64 %27, %28
  br label %30

30:                                               ; preds = %25, %20
  %31 = phi i64 [ %29, %25 ], [ %23, %20 ]
  %32 = getelementptr inbounds i8, ptr %8, i64 8
  %33 = getelementptr inbounds i8, ptr %0, i64 16
  %34 = getelementptr inbounds i8, ptr %7, i64 8
  br label %35

35:                                               ; preds = %87, %30
  %36 = phi i64 [ %31, %30 ], [ %93, %87 ]
  %37 = phi i64 [ 0, %30 ], [ %39, %87 ]
  %38 = add i64 %37, %36
  %39 = call i64 @llvm.umin.i64(i64 %38, i64 %2)
  call void @llvm.lifetime.start.p0(i64 16, ptr %8)
  %40 = load i32, ptr @host.0, align 8
  %41 = call i32 @clock_gettime(i32 %40, ptr %8)
  %42 = load i64, ptr %8, align 16
  %43 = load i64, ptr %32, align 8
  call void @llvm.lifetime.end.p0(i64 16, ptr %8)
  br label %44

44:                                               ; preds = %66, %35
  %45 = phi i64 [ %37, %35 ], [ %54, %66 ]
  %46 = add i64 %45, 1048576
  %47 = call i64 @llvm.umin.i64(i64 %46, i64 %39)
  br i1 %24, label %52, label %48

48:                                               ; preds = %44
  %49 = urem i64 %45, %5
  %50 = add i64 %45, %5
  %51 = sub i64 %50, %49
  br label %52

52:                                               ; preds = %48, %44
  %53 = phi i64 [ %51, %48 ], [ %39, %44 ]
  %54 = call i64 @llvm.umin.i64(i64 %47, i64 %53)
  call void %1(ptr %0, i64 %45, i64 %54, i64 -1)
  %55 = icmp eq i64 %54, %39
  br i1 %55, label %67, label %56

56:                                               ; preds = %52
  %57 = load atomic i64, ptr %33 monotonic, align 8
  %58 = and i64 %57, 6
  %59 = icmp eq i64 %58, 0
  br i1 %59, label %60, label %67

60:                                               ; preds = %56
  %61 = load ptr, ptr %0, align 8
  %62 = load atomic i32, ptr %61 monotonic, align 8
  %63 = icmp eq i32 %62, 0
  br i1 %63, label %66, label %64

64:                                               ; preds = %60
  %65 = call zeroext i1 @qd_poll(ptr %0, i64 0)
  br i1 %65, label %67, label %66

66:                                               ; preds = %64, %60
  br label %44

67:                                               ; preds = %64, %56, %52
  call void @llvm.lifetime.start.p0(i64 16, ptr %7)
  %68 = load i32, ptr @host.0, align 8
  %69 = call i32 @clock_gettime(i32 %68, ptr %7)
  %70 = load i64, ptr %7, align 16
  %71 = load i64, ptr %34, align 8
  call void @llvm.lifetime.end.p0(i64 16, ptr %7)
  %72 = sub i64 %70, %42
  %73 = mul i64 %72, 1000000000
  %74 = sub i64 %71, %43
  %75 = add i64 %74, %73
  %76 = icmp ult i64 %38, %2
  br i1 %76, label %77, label %166

77:                                               ; preds = %67
  %78 = load atomic i64, ptr %33 monotonic, align 8
  %79 = and i64 %78, 6
  %80 = icmp eq i64 %79, 0
  br i1 %80, label %81, label %166

81:                                               ; preds = %77
  %82 = load ptr, ptr %0, align 8
  %83 = load atomic i32, ptr %82 monotonic, align 8
  %84 = icmp eq i32 %83, 0
  br i1 %84, label %87, label %85

85:                                               ; preds = %81
  %86 = call zeroext i1 @qd_poll(ptr %0, i64 0)
  br i1 %86, label %166, label %87

87:                                               ; preds = %85, %81
  %88 = sub i64 %39, %37
  %89 = mul i64 %88, 10000
  %90 = sub i64 %2, %39
  %91 = udiv i64 %89, %90
  %92 = icmp ugt i64 %75, %91
  %93 = shl i64 %36, 1
  br i1 %92, label %94, label %35

94:                                               ; preds = %87, %18
  %95 = phi i64 [ 0, %18 ], [ %39, %87 ]
  %96 = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %97 = extractvalue { i32, i1 } %96, 1
  br i1 %97, label %99, label %98

98:                                               ; preds = %94
  call fastcc void @run_here(ptr %0, ptr %1, i64 %95, i64 %2, i64 65536, i64 %5)
  br label %166

99:                                               ; preds = %94
  %100 = sub i64 %2, %95
  %101 = shl i64 %12, 3
  %102 = add i64 %101, 8
  %103 = udiv i64 %100, %102
  %104 = call i64 @llvm.umax.i64(i64 %103, i64 %3)
  %105 = call i64 @llvm.umax.i64(i64 %104, i64 1)
  %106 = call i64 @llvm.umin.i64(i64 %105, i64 1048576)
  %107 = icmp eq i64 %5, 0
  br i1 %107, label %113, label %108

108:                                              ; preds = %99
  %109 = add i64 %5, -1
  %110 = add i64 %109, %106
  %111 = urem i64 %110, %5
  %112 = sub nuw i64 %110, %111
  br label %113

113:                                              ; preds = %108, %99
  %114 = phi i64 [ %112, %108 ], [ %106, %99 ]
  %115 = add i64 %100, -1
  %116 = add i64 %115, %114
  %117 = udiv i64 %116, %114
  %118 = add i64 %117, -1
  %119 = call i64 @llvm.umin.i64(i64 %12, i64 %118)
  store ptr %1, ptr @job.0, align 8
  store ptr %0, ptr @job.1, align 8
  store i64 %2, ptr @job.2, align 8
  store i64 %114, ptr @job.3, align 8
  store i64 %5, ptr @job.4, align 8
  store atomic i64 %119, ptr @job.5 monotonic, align 8
  store atomic i64 %95, ptr @next monotonic, align 128
  %120 = load atomic i64, ptr @state monotonic, align 8
  %121 = and i64 %120, -8589934592
  %122 = add i64 %121, 12884901888
  store atomic i64 %122, ptr @state seq_cst, align 8
  %123 = load atomic i64, ptr @sleepers seq_cst, align 128
  %124 = icmp eq i64 %123, 0
  br i1 %124, label %134, label %125

125:                                              ; preds = %113
  %126 = call i32 @pthread_mutex_lock(ptr @lock)
  %127 = icmp eq i64 %119, 1
  br i1 %127, label %128, label %130

128:                                              ; preds = %125
  %129 = call i32 @pthread_cond_signal(ptr @wake)
  br label %132

130:                                              ; preds = %125
  %131 = call i32 @pthread_cond_broadcast(ptr @wake)
  br label %132

132:                                              ; preds = %130, %128
  %133 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %134

134:                                              ; preds = %132, %113
  call fastcc void @take_chunks(i64 0)
  %135 = atomicrmw and ptr @state, i64 -4294967297 seq_cst, align 8
  %136 = load atomic i64, ptr @state acquire, align 8
  %137 = and i64 %136, 65535
  %138 = icmp eq i64 %137, 0
  br i1 %138, label %162, label %139

139:                                              ; preds = %134
  %140 = getelementptr inbounds i8, ptr %0, i64 16
  br label %141

141:                                              ; preds = %157, %139
  %142 = phi i32 [ 0, %139 ], [ %158, %157 ]
  %143 = load atomic i64, ptr %140 monotonic, align 8
  %144 = and i64 %143, 6
  %145 = icmp eq i64 %144, 0
  br i1 %145, label %146, label %152

146:                                              ; preds = %141
  %147 = load ptr, ptr %0, align 8
  %148 = load atomic i32, ptr %147 monotonic, align 8
  %149 = icmp eq i32 %148, 0
  br i1 %149, label %152, label %150

150:                                              ; preds = %146
  %151 = call zeroext i1 @qd_poll(ptr %0, i64 0)
  br label %152

152:                                              ; preds = %150, %146, %141
  %153 = icmp ult i32 %142, 2000
  br i1 %153, label %154, label %155

154:                                              ; preds = %152
  call void @qd_relax()
  br label %157

155:                                              ; preds = %152
  %156 = call i32 @sched_yield()
  br label %157

157:                                              ; preds = %155, %154
  %158 = add nuw nsw i32 %142, 1
  %159 = load atomic i64, ptr @state acquire, align 8
  %160 = and i64 %159, 65535
  %161 = icmp eq i64 %160, 0
  br i1 %161, label %162, label %141

162:                                              ; preds = %157, %134
  %163 = phi i64 [ %136, %134 ], [ %159, %157 ]
  %164 = lshr exact i64 %163, 16
  %165 = and i64 %164, 65535
  store atomic i32 0, ptr @busy release, align 4
  br label %166

166:                                              ; preds = %77, %85, %67, %98, %162, %16
  %167 = phi i64 [ 0, %16 ], [ %165, %162 ], [ 0, %98 ], [ 0, %67 ], [ 0, %85 ], [ 0, %77 ]
  ret i64 %167
}

define internal fastcc void @run_here(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5) unnamed_addr nounwind {
  %7 = icmp eq i64 %5, 0
  br i1 %7, label %13, label %8

8:                                                ; preds = %6
  %9 = add i64 %4, -1
  %10 = add i64 %9, %5
  %11 = urem i64 %10, %5
  %12 = sub nuw i64 %10, %11
  br label %13

13:                                               ; preds = %6, %8
  %14 = phi i64 [ %12, %8 ], [ %4, %6 ]
  %15 = getelementptr inbounds i8, ptr %0, i64 16
  %16 = icmp ult i64 %2, %3
  br i1 %16, label %17, label %28

17:                                               ; preds = %13, %55
  %18 = phi i64 [ %31, %55 ], [ %2, %13 ]
  %19 = load atomic i64, ptr %15 monotonic, align 8
  %20 = and i64 %19, 6
  %21 = icmp eq i64 %20, 0
  br i1 %21, label %22, label %28

22:                                               ; preds = %17
  %23 = load ptr, ptr %0, align 8
  %24 = load atomic i32, ptr %23 monotonic, align 8
  %25 = icmp eq i32 %24, 0
  br i1 %25, label %29, label %26

26:                                               ; preds = %22
  %27 = tail call zeroext i1 @qd_poll(ptr %0, i64 0)
  br i1 %27, label %28, label %29

28:                                               ; preds = %26, %55, %17, %13
  ret void

29:                                               ; preds = %22, %26
  %30 = add i64 %18, %14
  %31 = tail call i64 @llvm.umin.i64(i64 %30, i64 %3)
  br label %32

32:                                               ; preds = %54, %29
  %33 = phi i64 [ %18, %29 ], [ %42, %54 ]
  %34 = add i64 %33, 1048576
  %35 = tail call i64 @llvm.umin.i64(i64 %34, i64 %31)
  br i1 %7, label %40, label %36

36:                                               ; preds = %32
  %37 = urem i64 %33, %5
  %38 = add i64 %33, %5
  %39 = sub i64 %38, %37
  br label %40

40:                                               ; preds = %36, %32
  %41 = phi i64 [ %39, %36 ], [ %31, %32 ]
  %42 = tail call i64 @llvm.umin.i64(i64 %35, i64 %41)
  tail call void %1(ptr %0, i64 %33, i64 %42, i64 -1)
  %43 = icmp eq i64 %42, %31
  br i1 %43, label %55, label %44

44:                                               ; preds = %40
  %45 = load atomic i64, ptr %15 monotonic, align 8
  %46 = and i64 %45, 6
  %47 = icmp eq i64 %46, 0
  br i1 %47, label %48, label %55

48:                                               ; preds = %44
  %49 = load ptr, ptr %0, align 8
  %50 = load atomic i32, ptr %49 monotonic, align 8
  %51 = icmp eq i32 %50, 0
  br i1 %51, label %54, label %52

52:                                               ; preds = %48
  %53 = tail call zeroext i1 @qd_poll(ptr %0, i64 0)
  br i1 %53, label %55, label %54

54:                                               ; preds = %52, %48
  br label %32

55:                                               ; preds = %40, %44, %52
  %56 = icmp ult i64 %30, %3
  br i1 %56, label %17, label %28
}

define ptr @qd_copies(ptr %0, i64 %1, i64 %2) nounwind {
  %4 = load ptr, ptr %0, align 8
  %5 = getelementptr inbounds i8, ptr %4, i64 16
  %6 = load i64, ptr %5, align 8
  %7 = add i64 %6, -1
  %8 = mul i64 %7, %1
  %9 = add i64 %8, -1
  %10 = icmp ult i64 %9, %2
  br i1 %10, label %11, label %30

11:                                               ; preds = %3
  %12 = getelementptr inbounds i8, ptr %4, i64 128
  %13 = load i64, ptr %12, align 8
  %14 = icmp ult i64 %13, %8
  %15 = getelementptr inbounds i8, ptr %4, i64 120
  %16 = load ptr, ptr %15, align 8
  br i1 %14, label %17, label %22

17:                                               ; preds = %11
  tail call void @free(ptr %16)
  %18 = add i64 %8, 64
  %19 = tail call ptr @calloc(i64 %18, i64 1)
  store ptr %19, ptr %15, align 8
  %20 = icmp eq ptr %19, null
  %21 = select i1 %20, i64 0, i64 %8
  store i64 %21, ptr %12, align 8
  br label %22

22:                                               ; preds = %11, %17
  %23 = phi ptr [ %19, %17 ], [ %16, %11 ]
  %24 = icmp eq ptr %23, null
  %25 = ptrtoint ptr %23 to i64
  %26 = add i64 %25, 63
  %27 = and i64 %26, -64
  %28 = inttoptr i64 %27 to ptr
  %29 = select i1 %24, ptr null, ptr %28
  br label %30

30:                                               ; preds = %3, %22
  %31 = phi ptr [ %29, %22 ], [ null, %3 ]
  ret ptr %31
}
declare void @free(ptr)
declare ptr @calloc(i64, i64)

define void @qd_drop_copies(ptr %0) nounwind {
  %2 = getelementptr inbounds i8, ptr %0, i64 120
  %3 = load ptr, ptr %2, align 8
  tail call void @free(ptr %3)
  store ptr null, ptr %2, align 8
  %4 = getelementptr inbounds i8, ptr %0, i64 128
  store i64 0, ptr %4, align 8
  ret void
}

define void @qd_add_copies(ptr %0, i64 %1, ptr %2, ptr %3, i64 %4, i64 %5) nounwind {
  %7 = load ptr, ptr %0, align 8
  %8 = getelementptr inbounds i8, ptr %7, i64 136
  store ptr %2, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %7, i64 144
  store ptr %3, ptr %9, align 8
  %10 = getelementptr inbounds i8, ptr %7, i64 160
  store i64 %5, ptr %10, align 8
  %11 = getelementptr inbounds i8, ptr %0, i64 176
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %7, i64 152
  store i64 %12, ptr %13, align 8
  %14 = getelementptr inbounds [4 x ptr], ptr @qd_add_copies.add, i64 0, i64 %1
  %15 = load ptr, ptr %14, align 8
  %16 = tail call i64 @qd_parallel(ptr %0, ptr %15, i64 %4, i64 16384, i64 0, i64 0)
  %17 = getelementptr inbounds i8, ptr %0, i64 16
  %18 = load atomic i64, ptr %17 monotonic, align 8
  %19 = and i64 %18, 6
  %20 = icmp ne i64 %19, 0
  %21 = icmp ne i64 %5, 0
  %22 = and i1 %20, %21
  br i1 %22, label %23, label %35

23:                                               ; preds = %6
  %24 = and i64 %1, 1
  %25 = or disjoint i64 %24, 2
  %26 = shl i64 %4, %25
  br label %27

27:                                               ; preds = %23, %27
  %28 = phi i64 [ 0, %23 ], [ %33, %27 ]
  %29 = load i64, ptr %13, align 8
  %30 = mul i64 %29, %28
  %31 = getelementptr inbounds i8, ptr %3, i64 %30
  %32 = tail call ptr @memset(ptr %31, i32 0, i64 %26)
  %33 = add nuw i64 %28, 1
  %34 = icmp eq i64 %33, %5
  br i1 %34, label %35, label %27

35:                                               ; preds = %27, %6
  ret void
}

define internal void @add_f32(ptr %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr inbounds i8, ptr %5, i64 136
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 160
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %16, label %11

11:                                               ; preds = %4
  %12 = getelementptr inbounds i8, ptr %5, i64 144
  %13 = getelementptr inbounds i8, ptr %5, i64 152
  %14 = add i64 %1, 8
  %15 = icmp ugt i64 %14, %2
  br label %17

16:                                               ; preds = %45, %4
  ret void

17:                                               ; preds = %11, %45
  %18 = phi i64 [ 0, %11 ], [ %46, %45 ]
  %19 = load ptr, ptr %12, align 8
  %20 = load i64, ptr %13, align 8
  %21 = mul i64 %20, %18
  %22 = getelementptr inbounds i8, ptr %19, i64 %21
  br i1 %15, label %23, label %26

23:                                               ; preds = %26, %17
  %24 = phi i64 [ %1, %17 ], [ %27, %26 ]
  %25 = icmp ult i64 %24, %2
  br i1 %25, label %36, label %45

26:                                               ; preds = %17, %26
  %27 = phi i64 [ %34, %26 ], [ %14, %17 ]
  %28 = phi i64 [ %27, %26 ], [ %1, %17 ]
  %29 = getelementptr inbounds float, ptr %22, i64 %28
  %30 = load <8 x float>, ptr %29, align 4
  %31 = getelementptr inbounds float, ptr %7, i64 %28
  %32 = load <8 x float>, ptr %31, align 4
  %33 = fadd <8 x float> %30, %32
  store <8 x float> %33, ptr %31, align 4
  store <8 x float> zeroinitializer, ptr %29, align 4
  %34 = add i64 %27, 8
  %35 = icmp ugt i64 %34, %2
  br i1 %35, label %23, label %26

36:                                               ; preds = %23, %36
  %37 = phi i64 [ %43, %36 ], [ %24, %23 ]
  %38 = getelementptr inbounds float, ptr %22, i64 %37
  %39 = load float, ptr %38, align 4
  %40 = getelementptr inbounds float, ptr %7, i64 %37
  %41 = load float, ptr %40, align 4
  %42 = fadd float %39, %41
  store float %42, ptr %40, align 4
  store float 0.000000e+00, ptr %38, align 4
  %43 = add nuw i64 %37, 1
  %44 = icmp eq i64 %43, %2
  br i1 %44, label %45, label %36

45:                                               ; preds = %36, %23
  %46 = add nuw i64 %18, 1
  %47 = load i64, ptr %8, align 8
  %48 = icmp ult i64 %46, %47
  br i1 %48, label %17, label %16
}

define internal void @add_f64(ptr %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr inbounds i8, ptr %5, i64 136
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 160
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %16, label %11

11:                                               ; preds = %4
  %12 = getelementptr inbounds i8, ptr %5, i64 144
  %13 = getelementptr inbounds i8, ptr %5, i64 152
  %14 = add i64 %1, 8
  %15 = icmp ugt i64 %14, %2
  br label %17

16:                                               ; preds = %45, %4
  ret void

17:                                               ; preds = %11, %45
  %18 = phi i64 [ 0, %11 ], [ %46, %45 ]
  %19 = load ptr, ptr %12, align 8
  %20 = load i64, ptr %13, align 8
  %21 = mul i64 %20, %18
  %22 = getelementptr inbounds i8, ptr %19, i64 %21
  br i1 %15, label %23, label %26

23:                                               ; preds = %26, %17
  %24 = phi i64 [ %1, %17 ], [ %27, %26 ]
  %25 = icmp ult i64 %24, %2
  br i1 %25, label %36, label %45

26:                                               ; preds = %17, %26
  %27 = phi i64 [ %34, %26 ], [ %14, %17 ]
  %28 = phi i64 [ %27, %26 ], [ %1, %17 ]
  %29 = getelementptr inbounds double, ptr %22, i64 %28
  %30 = load <8 x double>, ptr %29, align 8
  %31 = getelementptr inbounds double, ptr %7, i64 %28
  %32 = load <8 x double>, ptr %31, align 8
  %33 = fadd <8 x double> %30, %32
  store <8 x double> %33, ptr %31, align 8
  store <8 x double> zeroinitializer, ptr %29, align 8
  %34 = add i64 %27, 8
  %35 = icmp ugt i64 %34, %2
  br i1 %35, label %23, label %26

36:                                               ; preds = %23, %36
  %37 = phi i64 [ %43, %36 ], [ %24, %23 ]
  %38 = getelementptr inbounds double, ptr %22, i64 %37
  %39 = load double, ptr %38, align 8
  %40 = getelementptr inbounds double, ptr %7, i64 %37
  %41 = load double, ptr %40, align 8
  %42 = fadd double %39, %41
  store double %42, ptr %40, align 8
  store double 0.000000e+00, ptr %38, align 8
  %43 = add nuw i64 %37, 1
  %44 = icmp eq i64 %43, %2
  br i1 %44, label %45, label %36

45:                                               ; preds = %36, %23
  %46 = add nuw i64 %18, 1
  %47 = load i64, ptr %8, align 8
  %48 = icmp ult i64 %46, %47
  br i1 %48, label %17, label %16
}

define internal void @add_i32(ptr %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr inbounds i8, ptr %5, i64 136
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 160
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %16, label %11

11:                                               ; preds = %4
  %12 = getelementptr inbounds i8, ptr %5, i64 144
  %13 = getelementptr inbounds i8, ptr %5, i64 152
  %14 = add i64 %1, 8
  %15 = icmp ugt i64 %14, %2
  br label %17

16:                                               ; preds = %45, %4
  ret void

17:                                               ; preds = %11, %45
  %18 = phi i64 [ 0, %11 ], [ %46, %45 ]
  %19 = load ptr, ptr %12, align 8
  %20 = load i64, ptr %13, align 8
  %21 = mul i64 %20, %18
  %22 = getelementptr inbounds i8, ptr %19, i64 %21
  br i1 %15, label %23, label %26

23:                                               ; preds = %26, %17
  %24 = phi i64 [ %1, %17 ], [ %27, %26 ]
  %25 = icmp ult i64 %24, %2
  br i1 %25, label %36, label %45

26:                                               ; preds = %17, %26
  %27 = phi i64 [ %34, %26 ], [ %14, %17 ]
  %28 = phi i64 [ %27, %26 ], [ %1, %17 ]
  %29 = getelementptr inbounds i32, ptr %22, i64 %28
  %30 = load <8 x i32>, ptr %29, align 4
  %31 = getelementptr inbounds i32, ptr %7, i64 %28
  %32 = load <8 x i32>, ptr %31, align 4
  %33 = add <8 x i32> %32, %30
  store <8 x i32> %33, ptr %31, align 4
  store <8 x i32> zeroinitializer, ptr %29, align 4
  %34 = add i64 %27, 8
  %35 = icmp ugt i64 %34, %2
  br i1 %35, label %23, label %26

36:                                               ; preds = %23, %36
  %37 = phi i64 [ %43, %36 ], [ %24, %23 ]
  %38 = getelementptr inbounds i32, ptr %22, i64 %37
  %39 = load i32, ptr %38, align 4
  %40 = getelementptr inbounds i32, ptr %7, i64 %37
  %41 = load i32, ptr %40, align 4
  %42 = add i32 %41, %39
  store i32 %42, ptr %40, align 4
  store i32 0, ptr %38, align 4
  %43 = add nuw i64 %37, 1
  %44 = icmp eq i64 %43, %2
  br i1 %44, label %45, label %36

45:                                               ; preds = %36, %23
  %46 = add nuw i64 %18, 1
  %47 = load i64, ptr %8, align 8
  %48 = icmp ult i64 %46, %47
  br i1 %48, label %17, label %16
}

define internal void @add_i64(ptr %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = load ptr, ptr %0, align 8
  %6 = getelementptr inbounds i8, ptr %5, i64 136
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 160
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %16, label %11

11:                                               ; preds = %4
  %12 = getelementptr inbounds i8, ptr %5, i64 144
  %13 = getelementptr inbounds i8, ptr %5, i64 152
  %14 = add i64 %1, 8
  %15 = icmp ugt i64 %14, %2
  br label %17

16:                                               ; preds = %45, %4
  ret void

17:                                               ; preds = %11, %45
  %18 = phi i64 [ 0, %11 ], [ %46, %45 ]
  %19 = load ptr, ptr %12, align 8
  %20 = load i64, ptr %13, align 8
  %21 = mul i64 %20, %18
  %22 = getelementptr inbounds i8, ptr %19, i64 %21
  br i1 %15, label %23, label %26

23:                                               ; preds = %26, %17
  %24 = phi i64 [ %1, %17 ], [ %27, %26 ]
  %25 = icmp ult i64 %24, %2
  br i1 %25, label %36, label %45

26:                                               ; preds = %17, %26
  %27 = phi i64 [ %34, %26 ], [ %14, %17 ]
  %28 = phi i64 [ %27, %26 ], [ %1, %17 ]
  %29 = getelementptr inbounds i64, ptr %22, i64 %28
  %30 = load <8 x i64>, ptr %29, align 8
  %31 = getelementptr inbounds i64, ptr %7, i64 %28
  %32 = load <8 x i64>, ptr %31, align 8
  %33 = add <8 x i64> %32, %30
  store <8 x i64> %33, ptr %31, align 8
  store <8 x i64> zeroinitializer, ptr %29, align 8
  %34 = add i64 %27, 8
  %35 = icmp ugt i64 %34, %2
  br i1 %35, label %23, label %26

36:                                               ; preds = %23, %36
  %37 = phi i64 [ %43, %36 ], [ %24, %23 ]
  %38 = getelementptr inbounds i64, ptr %22, i64 %37
  %39 = load i64, ptr %38, align 8
  %40 = getelementptr inbounds i64, ptr %7, i64 %37
  %41 = load i64, ptr %40, align 8
  %42 = add i64 %41, %39
  store i64 %42, ptr %40, align 8
  store i64 0, ptr %38, align 8
  %43 = add nuw i64 %37, 1
  %44 = icmp eq i64 %43, %2
  br i1 %44, label %45, label %36

45:                                               ; preds = %36, %23
  %46 = add nuw i64 %18, 1
  %47 = load i64, ptr %8, align 8
  %48 = icmp ult i64 %46, %47
  br i1 %48, label %17, label %16
}

define void @qd_move(ptr %0, ptr %1, ptr %2, ptr %3, ptr %4, i64 %5, i64 %6) nounwind {
  %8 = alloca %struct.Move, align 8
  %9 = add i64 %5, -1
  %10 = getelementptr inbounds %struct.Axis, ptr %3, i64 %9, i32 1
  %11 = load i64, ptr %10, align 8
  %12 = mul i64 %11, %6
  %13 = icmp eq i64 %9, 0
  br i1 %13, label %31, label %14

14:                                               ; preds = %7, %25
  %15 = phi i64 [ %29, %25 ], [ %12, %7 ]
  %16 = phi i64 [ %26, %25 ], [ %9, %7 ]
  %17 = getelementptr %struct.Stride, ptr %4, i64 %16
  %18 = getelementptr i8, ptr %17, i64 -8
  %19 = load i64, ptr %18, align 8
  %20 = icmp eq i64 %19, %15
  br i1 %20, label %21, label %35

21:                                               ; preds = %14
  %22 = getelementptr i8, ptr %17, i64 -16
  %23 = load i64, ptr %22, align 8
  %24 = icmp eq i64 %23, %15
  br i1 %24, label %25, label %35

25:                                               ; preds = %21
  %26 = add i64 %16, -1
  %27 = getelementptr inbounds %struct.Axis, ptr %3, i64 %26, i32 1
  %28 = load i64, ptr %27, align 8
  %29 = mul i64 %28, %15
  %30 = icmp eq i64 %26, 0
  br i1 %30, label %31, label %14

31:                                               ; preds = %25, %7
  %32 = phi i64 [ %12, %7 ], [ %29, %25 ]
  %33 = icmp ne i64 %32, 0
  %34 = zext i1 %33 to i64
  br label %38

35:                                               ; preds = %14, %21
  %36 = icmp ne i64 %15, 0
  %37 = zext i1 %36 to i64
  br label %51

38:                                               ; preds = %51, %31
  %39 = phi i1 [ true, %31 ], [ false, %51 ]
  %40 = phi i64 [ %32, %31 ], [ %15, %51 ]
  %41 = phi i64 [ 0, %31 ], [ %16, %51 ]
  %42 = phi i64 [ %34, %31 ], [ %56, %51 ]
  store ptr %1, ptr %8, align 8
  %43 = getelementptr inbounds i8, ptr %8, i64 8
  store ptr %2, ptr %43, align 8
  %44 = getelementptr inbounds i8, ptr %8, i64 16
  store i64 %40, ptr %44, align 8
  %45 = getelementptr inbounds i8, ptr %8, i64 24
  store i64 %41, ptr %45, align 8
  %46 = getelementptr inbounds i8, ptr %8, i64 32
  store ptr %3, ptr %46, align 8
  %47 = getelementptr inbounds i8, ptr %8, i64 40
  store ptr %4, ptr %47, align 8
  %48 = getelementptr inbounds i8, ptr %0, i64 264
  store ptr %8, ptr %48, align 8
  %49 = icmp ne i64 %42, 0
  %50 = and i1 %39, %49
  br i1 %50, label %59, label %66

51:                                               ; preds = %35, %51
  %52 = phi i64 [ %57, %51 ], [ 0, %35 ]
  %53 = phi i64 [ %56, %51 ], [ %37, %35 ]
  %54 = getelementptr inbounds %struct.Axis, ptr %3, i64 %52, i32 1
  %55 = load i64, ptr %54, align 8
  %56 = mul i64 %55, %53
  %57 = add nuw i64 %52, 1
  %58 = icmp eq i64 %57, %16
  br i1 %58, label %38, label %51

59:                                               ; preds = %38
  %60 = lshr i64 %40, 6
  %61 = and i64 %40, 63
  %62 = icmp ne i64 %61, 0
  %63 = zext i1 %62 to i64
  %64 = add nuw nsw i64 %60, %63
  %65 = call i64 @qd_parallel(ptr %0, ptr @move_steps, i64 %64, i64 256, i64 0, i64 0)
  br label %71

66:                                               ; preds = %38
  br i1 %49, label %67, label %71

67:                                               ; preds = %66
  %68 = udiv i64 16384, %40
  %69 = call i64 @llvm.umax.i64(i64 %68, i64 1)
  %70 = call i64 @qd_parallel(ptr %0, ptr @move_rows, i64 %42, i64 %69, i64 0, i64 0)
  br label %71

71:                                               ; preds = %66, %67, %59
  ret void
}

define internal void @move_steps(ptr %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = getelementptr inbounds i8, ptr %0, i64 264
  %6 = load ptr, ptr %5, align 8
  %7 = shl i64 %1, 6
  %8 = load ptr, ptr %6, align 8
  %9 = getelementptr inbounds i8, ptr %8, i64 %7
  %10 = getelementptr inbounds i8, ptr %6, i64 8
  %11 = load ptr, ptr %10, align 8
  %12 = getelementptr inbounds i8, ptr %11, i64 %7
  %13 = shl i64 %2, 6
  %14 = getelementptr inbounds i8, ptr %6, i64 16
  %15 = load i64, ptr %14, align 8
  %16 = tail call i64 @llvm.umin.i64(i64 %13, i64 %15)
  %17 = sub i64 %16, %7
  %18 = tail call ptr @memmove(ptr %9, ptr %12, i64 %17)
  ret void
}

define internal void @move_rows(ptr %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = getelementptr inbounds i8, ptr %0, i64 264
  %6 = load ptr, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 24
  %8 = load i64, ptr %7, align 8
  %9 = add i64 %8, -1
  %10 = getelementptr inbounds i8, ptr %6, i64 32
  %11 = load ptr, ptr %10, align 8
  %12 = getelementptr inbounds %struct.Axis, ptr %11, i64 %9, i32 1
  %13 = load i64, ptr %12, align 8
  %14 = icmp ult i64 %1, %2
  br i1 %14, label %15, label %73

15:                                               ; preds = %4
  %16 = getelementptr inbounds i8, ptr %6, i64 8
  %17 = getelementptr inbounds i8, ptr %6, i64 40
  %18 = getelementptr inbounds i8, ptr %6, i64 16
  br label %22

19:                                               ; preds = %58, %35
  %20 = phi i64 [ %23, %35 ], [ %71, %58 ]
  %21 = icmp ult i64 %20, %2
  br i1 %21, label %22, label %73

22:                                               ; preds = %15, %19
  %23 = phi i64 [ %1, %15 ], [ %20, %19 ]
  %24 = load ptr, ptr %6, align 8
  %25 = load ptr, ptr %16, align 8
  %26 = add i64 %23, %13
  %27 = urem i64 %23, %13
  %28 = sub i64 %26, %27
  %29 = tail call i64 @llvm.umin.i64(i64 %2, i64 %28)
  %30 = load i64, ptr %7, align 8
  %31 = icmp eq i64 %30, 0
  br i1 %31, label %35, label %32

32:                                               ; preds = %22
  %33 = load ptr, ptr %10, align 8
  %34 = load ptr, ptr %17, align 8
  br label %39

35:                                               ; preds = %39, %22
  %36 = phi ptr [ %24, %22 ], [ %52, %39 ]
  %37 = phi ptr [ %25, %22 ], [ %55, %39 ]
  %38 = icmp ult i64 %23, %29
  br i1 %38, label %58, label %19

39:                                               ; preds = %32, %39
  %40 = phi i64 [ %30, %32 ], [ %44, %39 ]
  %41 = phi i64 [ %23, %32 ], [ %56, %39 ]
  %42 = phi ptr [ %25, %32 ], [ %55, %39 ]
  %43 = phi ptr [ %24, %32 ], [ %52, %39 ]
  %44 = add i64 %40, -1
  %45 = getelementptr inbounds %struct.Axis, ptr %33, i64 %44, i32 1
  %46 = load i64, ptr %45, align 8
  %47 = urem i64 %41, %46
  %48 = getelementptr inbounds %struct.Stride, ptr %34, i64 %44
  %49 = getelementptr inbounds i8, ptr %48, i64 8
  %50 = load i64, ptr %49, align 8
  %51 = mul i64 %50, %47
  %52 = getelementptr inbounds i8, ptr %43, i64 %51
  %53 = load i64, ptr %48, align 8
  %54 = mul i64 %53, %47
  %55 = getelementptr inbounds i8, ptr %42, i64 %54
  %56 = udiv i64 %41, %46
  %57 = icmp eq i64 %44, 0
  br i1 %57, label %35, label %39

58:                                               ; preds = %35, %58
  %59 = phi i64 [ %71, %58 ], [ %23, %35 ]
  %60 = phi ptr [ %70, %58 ], [ %37, %35 ]
  %61 = phi ptr [ %68, %58 ], [ %36, %35 ]
  %62 = load i64, ptr %18, align 8
  %63 = tail call ptr @memmove(ptr %61, ptr %60, i64 %62)
  %64 = load ptr, ptr %17, align 8
  %65 = getelementptr inbounds %struct.Stride, ptr %64, i64 %9
  %66 = getelementptr inbounds i8, ptr %65, i64 8
  %67 = load i64, ptr %66, align 8
  %68 = getelementptr inbounds i8, ptr %61, i64 %67
  %69 = load i64, ptr %65, align 8
  %70 = getelementptr inbounds i8, ptr %60, i64 %69
  %71 = add nuw i64 %59, 1
  %72 = icmp ult i64 %71, %29
  br i1 %72, label %58, label %19

73:                                               ; preds = %19, %4
  ret void
}

define void @qd_copy_pages(ptr %0, ptr %1, i64 %2, i64 %3) nounwind {
  %5 = alloca [2048 x i64], align 16
  %6 = alloca [2048 x i64], align 16
  call void @llvm.lifetime.start.p0(i64 16384, ptr %5)
  call void @llvm.lifetime.start.p0(i64 16384, ptr %6)
  %7 = lshr i64 %3, 3
  %8 = tail call i32 (ptr, i32, ...) @open(ptr @.str, i32 0)
  %9 = icmp eq i64 %2, 0
  br i1 %9, label %13, label %10

10:                                               ; preds = %4
  %11 = icmp slt i32 %8, 0
  %12 = icmp ult i64 %3, 8
  br label %15

13:                                               ; preds = %45, %4
  %14 = icmp sgt i32 %8, -1
  br i1 %14, label %97, label %99

15:                                               ; preds = %10, %45
  %16 = phi i64 [ %2, %10 ], [ %48, %45 ]
  %17 = phi i64 [ 0, %10 ], [ %46, %45 ]
  %18 = call i64 @llvm.umin.i64(i64 %16, i64 2048)
  %19 = call i64 @llvm.umax.i64(i64 %18, i64 1)
  %20 = sub i64 %2, %17
  %21 = call i64 @llvm.umin.i64(i64 %20, i64 2048)
  %22 = mul i64 %17, %3
  %23 = shl nuw nsw i64 %21, 3
  br i1 %11, label %24, label %26

24:                                               ; preds = %15
  %25 = call ptr @memset(ptr %5, i32 -1, i64 %23)
  br label %43

26:                                               ; preds = %15
  %27 = getelementptr inbounds i8, ptr %1, i64 %22
  %28 = ptrtoint ptr %27 to i64
  %29 = udiv i64 %28, %3
  %30 = shl nsw i64 %29, 3
  %31 = call i64 @pread(i32 %8, ptr %5, i64 %23, i64 %30)
  %32 = icmp eq i64 %31, %23
  br i1 %32, label %35, label %33

33:                                               ; preds = %26
  %34 = call ptr @memset(ptr %5, i32 -1, i64 %23)
  br label %35

35:                                               ; preds = %26, %33
  %36 = getelementptr inbounds i8, ptr %0, i64 %22
  %37 = ptrtoint ptr %36 to i64
  %38 = udiv i64 %37, %3
  %39 = shl nsw i64 %38, 3
  %40 = call i64 @pread(i32 %8, ptr %6, i64 %23, i64 %39)
  %41 = icmp eq i64 %40, %23
  br i1 %41, label %42, label %43

42:                                               ; preds = %43, %35
  br label %49

43:                                               ; preds = %24, %35
  %44 = call ptr @memset(ptr %6, i32 -1, i64 %23)
  br label %42

45:                                               ; preds = %94
  %46 = add i64 %17, 2048
  %47 = icmp ult i64 %46, %2
  %48 = add i64 %16, -2048
  br i1 %47, label %15, label %13

49:                                               ; preds = %42, %94
  %50 = phi i64 [ %95, %94 ], [ 0, %42 ]
  %51 = add nuw nsw i64 %50, %17
  %52 = mul i64 %51, %3
  %53 = getelementptr inbounds i8, ptr %0, i64 %52
  %54 = getelementptr inbounds i8, ptr %1, i64 %52
  %55 = getelementptr inbounds [2048 x i64], ptr %5, i64 0, i64 %50
  %56 = load i64, ptr %55, align 8
  %57 = icmp ult i64 %56, 4611686018427387904
  br i1 %57, label %74, label %58

58:                                               ; preds = %49
  br i1 %12, label %94, label %59

59:                                               ; preds = %58
  %60 = load i64, ptr %54, align 8
  %61 = icmp eq i64 %60, 0
  br i1 %61, label %62, label %72

62:                                               ; preds = %59, %66
  %63 = phi i64 [ %64, %66 ], [ 0, %59 ]
  %64 = add nuw nsw i64 %63, 1
  %65 = icmp eq i64 %64, %7
  br i1 %65, label %70, label %66

66:                                               ; preds = %62
  %67 = getelementptr inbounds i64, ptr %54, i64 %64
  %68 = load i64, ptr %67, align 8
  %69 = icmp eq i64 %68, 0
  br i1 %69, label %62, label %70

70:                                               ; preds = %66, %62
  %71 = icmp ult i64 %64, %7
  br i1 %71, label %72, label %74

72:                                               ; preds = %59, %70
  %73 = call ptr @memcpy(ptr %53, ptr %54, i64 %3)
  br label %94

74:                                               ; preds = %70, %49
  %75 = getelementptr inbounds [2048 x i64], ptr %6, i64 0, i64 %50
  %76 = load i64, ptr %75, align 8
  %77 = icmp ult i64 %76, 4611686018427387904
  %78 = or i1 %12, %77
  br i1 %78, label %94, label %79

79:                                               ; preds = %74
  %80 = load i64, ptr %53, align 8
  %81 = icmp eq i64 %80, 0
  br i1 %81, label %82, label %92

82:                                               ; preds = %79, %86
  %83 = phi i64 [ %84, %86 ], [ 0, %79 ]
  %84 = add nuw nsw i64 %83, 1
  %85 = icmp eq i64 %84, %7
  br i1 %85, label %90, label %86

86:                                               ; preds = %82
  %87 = getelementptr inbounds i64, ptr %53, i64 %84
  %88 = load i64, ptr %87, align 8
  %89 = icmp eq i64 %88, 0
  br i1 %89, label %82, label %90

90:                                               ; preds = %86, %82
  %91 = icmp ult i64 %84, %7
  br i1 %91, label %92, label %94

92:                                               ; preds = %79, %90
  %93 = call ptr @memset(ptr %53, i32 0, i64 %3)
  br label %94

94:                                               ; preds = %58, %74, %90, %92, %72
  %95 = add nuw nsw i64 %50, 1
  %96 = icmp eq i64 %95, %19
  br i1 %96, label %45, label %49

97:                                               ; preds = %13
  %98 = call i32 @close(i32 %8)
  br label %99

99:                                               ; preds = %97, %13
  call void @llvm.lifetime.end.p0(i64 16384, ptr %6)
  call void @llvm.lifetime.end.p0(i64 16384, ptr %5)
  ret void
}
declare i32 @open(ptr, i32, ...)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @close(i32)

define void @qd_no_shares(ptr writeonly %0, i64 %1, double %2) nounwind {
  %4 = icmp eq i64 %1, 0
  br i1 %4, label %5, label %6

5:                                                ; preds = %6, %3
  ret void

6:                                                ; preds = %3, %6
  %7 = phi i64 [ %9, %6 ], [ 0, %3 ]
  %8 = getelementptr inbounds double, ptr %0, i64 %7
  store double %2, ptr %8, align 8
  %9 = add nuw i64 %7, 1
  %10 = icmp eq i64 %9, %1
  br i1 %10, label %5, label %6
}

define double @qd_sum_of_shares(ptr %0, i64 %1) nounwind {
  %3 = icmp eq i64 %1, 0
  br i1 %3, label %4, label %6

4:                                                ; preds = %6, %2
  %5 = phi double [ -0.000000e+00, %2 ], [ %11, %6 ]
  ret double %5

6:                                                ; preds = %2, %6
  %7 = phi i64 [ %12, %6 ], [ 0, %2 ]
  %8 = phi double [ %11, %6 ], [ -0.000000e+00, %2 ]
  %9 = getelementptr inbounds double, ptr %0, i64 %7
  %10 = load double, ptr %9, align 8
  %11 = fadd double %8, %10
  %12 = add nuw i64 %7, 1
  %13 = icmp eq i64 %12, %1
  br i1 %13, label %4, label %6
}

define double @qd_product_of_shares(ptr %0, i64 %1) nounwind {
  %3 = icmp eq i64 %1, 0
  br i1 %3, label %4, label %6

4:                                                ; preds = %6, %2
  %5 = phi double [ 1.000000e+00, %2 ], [ %11, %6 ]
  ret double %5

6:                                                ; preds = %2, %6
  %7 = phi i64 [ %12, %6 ], [ 0, %2 ]
  %8 = phi double [ %11, %6 ], [ 1.000000e+00, %2 ]
  %9 = getelementptr inbounds double, ptr %0, i64 %7
  %10 = load double, ptr %9, align 8
  %11 = fmul double %8, %10
  %12 = add nuw i64 %7, 1
  %13 = icmp eq i64 %12, %1
  br i1 %13, label %4, label %6
}

define void @qd_reset(i32 %0, i32 %1, i64 %2) nounwind {
  store i32 %0, ptr @host.0, align 8
  store i32 %1, ptr @host.1, align 8
  store i64 %2, ptr @host.2, align 8
  %4 = load atomic i32, ptr @busy monotonic, align 4
  %5 = icmp eq i32 %4, 0
  br i1 %5, label %10, label %6

6:                                                ; preds = %3
  %7 = load ptr, ptr @job.1, align 8
  %8 = getelementptr inbounds i8, ptr %7, i64 16
  %9 = atomicrmw or ptr %8, i64 4 seq_cst, align 8
  br label %10

10:                                               ; preds = %6, %3
  store atomic i64 0, ptr @state monotonic, align 8
  store atomic i32 0, ptr @busy monotonic, align 4
  store atomic i64 0, ptr @sleepers monotonic, align 128
  store atomic i32 0, ptr @stopping monotonic, align 4
  store atomic i32 0, ptr @monitor_asleep monotonic, align 4
  store i64 0, ptr @workers, align 8
  store i8 0, ptr @monitor_on, align 1
  %11 = tail call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %12 = tail call i32 @pthread_cond_init(ptr @wake, ptr null)
  %13 = tail call i32 @pthread_cond_init(ptr @monitor_wake, ptr null)
  %14 = load atomic i64, ptr @devices monotonic, align 8
  %15 = icmp eq i64 %14, 0
  br i1 %15, label %18, label %16

16:                                               ; preds = %10
  %17 = inttoptr i64 %14 to ptr
  br label %19

18:                                               ; preds = %19, %10
  ret void

19:                                               ; preds = %16, %19
  %20 = phi ptr [ %29, %19 ], [ %17, %16 ]
  %21 = getelementptr inbounds i8, ptr %20, i64 64
  %22 = load atomic i64, ptr %21 monotonic, align 8
  %23 = icmp ne i64 %22, 0
  %24 = zext i1 %23 to i32
  store atomic i32 %24, ptr %20 monotonic, align 8
  store atomic i64 0, ptr %21 monotonic, align 8
  %25 = getelementptr inbounds i8, ptr %20, i64 24
  store atomic i64 0, ptr %25 monotonic, align 8
  %26 = getelementptr inbounds i8, ptr %20, i64 120
  store ptr null, ptr %26, align 8
  %27 = getelementptr inbounds i8, ptr %20, i64 128
  store i64 0, ptr %27, align 8
  %28 = getelementptr inbounds i8, ptr %20, i64 96
  %29 = load ptr, ptr %28, align 8
  %30 = icmp eq ptr %29, null
  br i1 %30, label %18, label %19
}
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)

define i64 @qd_start(i64 %0) nounwind {
  %2 = load i8, ptr @monitor_on, align 1
  %3 = trunc nuw i8 %2 to i1
  br i1 %3, label %8, label %4

4:                                                ; preds = %1
  %5 = tail call i32 @pthread_create(ptr @monitor, ptr null, ptr @watch, ptr null)
  %6 = icmp eq i32 %5, 0
  %7 = zext i1 %6 to i8
  store i8 %7, ptr @monitor_on, align 1
  br label %8

8:                                                ; preds = %4, %1
  %9 = load i64, ptr @workers, align 8
  %10 = icmp ult i64 %9, %0
  br i1 %10, label %11, label %20

11:                                               ; preds = %8, %17
  %12 = phi i64 [ %18, %17 ], [ %9, %8 ]
  %13 = getelementptr inbounds [1024 x i64], ptr @threads, i64 0, i64 %12
  %14 = tail call i32 @pthread_create(ptr %13, ptr null, ptr @work, ptr null)
  %15 = icmp eq i32 %14, 0
  %16 = load i64, ptr @workers, align 8
  br i1 %15, label %17, label %20

17:                                               ; preds = %11
  %18 = add i64 %16, 1
  store i64 %18, ptr @workers, align 8
  %19 = icmp ult i64 %18, %0
  br i1 %19, label %11, label %20

20:                                               ; preds = %11, %17, %8
  %21 = phi i64 [ %9, %8 ], [ %16, %11 ], [ %18, %17 ]
  ret i64 %21
}
declare i32 @pthread_create(ptr, ptr, ptr, ptr)

define internal noalias ptr @watch(ptr readnone %0) nounwind {
  %2 = alloca %struct.System, align 8
  call void @llvm.lifetime.start.p0(i64 128, ptr %2)
  %3 = call i32 @sigfillset(ptr %2)
  %4 = load i32, ptr @host.1, align 8
  %5 = call i32 @pthread_sigmask(i32 %4, ptr %2, ptr null)
  call void @llvm.lifetime.end.p0(i64 128, ptr %2)
  %6 = call i32 @usleep(i32 50000)
  %7 = load atomic i32, ptr @stopping acquire, align 4
  %8 = icmp eq i32 %7, 0
  br i1 %8, label %10, label %9

9:                                                ; preds = %49, %1
  ret ptr null

10:                                               ; preds = %1, %49
  %11 = phi i32 [ %51, %49 ], [ 1, %1 ]
  %12 = load atomic i64, ptr @devices acquire, align 8
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %16, label %14

14:                                               ; preds = %10
  %15 = inttoptr i64 %12 to ptr
  br label %19

16:                                               ; preds = %31, %10
  %17 = phi i32 [ %11, %10 ], [ %32, %31 ]
  %18 = icmp sgt i32 %17, 20
  br i1 %18, label %36, label %49

19:                                               ; preds = %14, %31
  %20 = phi i32 [ %32, %31 ], [ %11, %14 ]
  %21 = phi ptr [ %34, %31 ], [ %15, %14 ]
  %22 = getelementptr inbounds i8, ptr %21, i64 64
  %23 = load atomic i64, ptr %22 acquire, align 8
  %24 = icmp eq i64 %23, 0
  br i1 %24, label %31, label %25

25:                                               ; preds = %19
  %26 = getelementptr inbounds i8, ptr %21, i64 72
  %27 = atomicrmw add ptr %26, i64 1 monotonic, align 8
  %28 = icmp sgt i64 %27, 0
  br i1 %28, label %29, label %31

29:                                               ; preds = %25
  %30 = atomicrmw or ptr %21, i32 2 seq_cst, align 8
  br label %31

31:                                               ; preds = %25, %29, %19
  %32 = phi i32 [ 0, %29 ], [ 0, %25 ], [ %20, %19 ]
  %33 = getelementptr inbounds i8, ptr %21, i64 96
  %34 = load ptr, ptr %33, align 8
  %35 = icmp eq ptr %34, null
  br i1 %35, label %16, label %19

36:                                               ; preds = %16
  %37 = call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 1, ptr @monitor_asleep seq_cst, align 4
  %38 = load atomic i32, ptr @stopping seq_cst, align 4
  %39 = icmp eq i32 %38, 0
  br i1 %39, label %40, label %47

40:                                               ; preds = %36, %43
  %41 = load atomic i32, ptr @monitor_asleep seq_cst, align 4
  %42 = icmp eq i32 %41, 0
  br i1 %42, label %47, label %43

43:                                               ; preds = %40
  %44 = call i32 @pthread_cond_wait(ptr @monitor_wake, ptr @lock)
  %45 = load atomic i32, ptr @stopping seq_cst, align 4
  %46 = icmp eq i32 %45, 0
  br i1 %46, label %40, label %47

47:                                               ; preds = %40, %43, %36
  %48 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %49

49:                                               ; preds = %16, %47
  %50 = phi i32 [ 0, %47 ], [ %17, %16 ]
  %51 = add nsw i32 %50, 1
  %52 = call i32 @usleep(i32 50000)
  %53 = load atomic i32, ptr @stopping acquire, align 4
  %54 = icmp eq i32 %53, 0
  br i1 %54, label %10, label %9
}

define internal noalias ptr @work(ptr readnone %0) nounwind {
  %2 = alloca %struct.System, align 8
  call void @llvm.lifetime.start.p0(i64 128, ptr %2)
  %3 = call i32 @sigfillset(ptr %2)
  %4 = load i32, ptr @host.1, align 8
  %5 = call i32 @pthread_sigmask(i32 %4, ptr %2, ptr null)
  call void @llvm.lifetime.end.p0(i64 128, ptr %2)
  %6 = call i64 @qd_fp_flush()
  %7 = load atomic i32, ptr @stopping acquire, align 4
  %8 = icmp eq i32 %7, 0
  br i1 %8, label %9, label %59

9:                                                ; preds = %1, %54
  %10 = phi i64 [ %56, %54 ], [ 0, %1 ]
  %11 = phi i32 [ %55, %54 ], [ 0, %1 ]
  %12 = load atomic i64, ptr @state acquire, align 8
  %13 = and i64 %12, 4294967296
  %14 = icmp ne i64 %13, 0
  %15 = lshr i64 %12, 32
  %16 = icmp ne i64 %15, %10
  %17 = and i1 %14, %16
  br i1 %17, label %18, label %30

18:                                               ; preds = %9
  %19 = lshr i64 %12, 16
  %20 = and i64 %19, 65535
  %21 = load atomic i64, ptr @job.5 monotonic, align 8
  %22 = icmp ult i64 %20, %21
  br i1 %22, label %23, label %30

23:                                               ; preds = %18
  %24 = add i64 %12, 65537
  %25 = cmpxchg ptr @state, i64 %12, i64 %24 acq_rel monotonic, align 8
  %26 = extractvalue { i64, i1 } %25, 1
  br i1 %26, label %27, label %54

27:                                               ; preds = %23
  %28 = add nuw nsw i64 %20, 1
  call fastcc void @take_chunks(i64 %28)
  %29 = atomicrmw sub ptr @state, i64 1 release, align 8
  br label %54

30:                                               ; preds = %18, %9
  %31 = phi i64 [ %10, %9 ], [ %15, %18 ]
  %32 = icmp slt i32 %11, 1999
  br i1 %32, label %33, label %35

33:                                               ; preds = %30
  %34 = add nsw i32 %11, 1
  call void @qd_relax()
  br label %54

35:                                               ; preds = %30
  %36 = call i32 @pthread_mutex_lock(ptr @lock)
  %37 = atomicrmw add ptr @sleepers, i64 1 seq_cst, align 128
  %38 = load atomic i32, ptr @stopping seq_cst, align 4
  %39 = icmp eq i32 %38, 0
  br i1 %39, label %40, label %51

40:                                               ; preds = %35, %47
  %41 = load atomic i64, ptr @state seq_cst, align 8
  %42 = and i64 %41, 4294967296
  %43 = icmp ne i64 %42, 0
  %44 = lshr i64 %41, 32
  %45 = icmp ne i64 %44, %31
  %46 = and i1 %43, %45
  br i1 %46, label %51, label %47

47:                                               ; preds = %40
  %48 = call i32 @pthread_cond_wait(ptr @wake, ptr @lock)
  %49 = load atomic i32, ptr @stopping seq_cst, align 4
  %50 = icmp eq i32 %49, 0
  br i1 %50, label %40, label %51

51:                                               ; preds = %40, %47, %35
  %52 = atomicrmw sub ptr @sleepers, i64 1 seq_cst, align 128
  %53 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %54

54:                                               ; preds = %27, %23, %33, %51
  %55 = phi i32 [ %34, %33 ], [ 0, %51 ], [ %11, %23 ], [ 0, %27 ]
  %56 = phi i64 [ %31, %33 ], [ %31, %51 ], [ %10, %23 ], [ %15, %27 ]
  %57 = load atomic i32, ptr @stopping acquire, align 4
  %58 = icmp eq i32 %57, 0
  br i1 %58, label %9, label %59

59:                                               ; preds = %54, %1
  ret ptr null
}

define void @qd_stop() nounwind {
  store atomic i32 1, ptr @stopping seq_cst, align 4
  %1 = load atomic i64, ptr @devices acquire, align 8
  %2 = icmp eq i64 %1, 0
  br i1 %2, label %5, label %3

3:                                                ; preds = %0
  %4 = inttoptr i64 %1 to ptr
  br label %12

5:                                                ; preds = %12, %0
  %6 = tail call i32 @pthread_mutex_lock(ptr @lock)
  %7 = tail call i32 @pthread_cond_broadcast(ptr @wake)
  %8 = tail call i32 @pthread_cond_broadcast(ptr @monitor_wake)
  %9 = tail call i32 @pthread_mutex_unlock(ptr @lock)
  %10 = load i8, ptr @monitor_on, align 1
  %11 = trunc nuw i8 %10 to i1
  br i1 %11, label %18, label %21

12:                                               ; preds = %3, %12
  %13 = phi ptr [ %16, %12 ], [ %4, %3 ]
  %14 = atomicrmw or ptr %13, i32 1 seq_cst, align 8
  %15 = getelementptr inbounds i8, ptr %13, i64 96
  %16 = load ptr, ptr %15, align 8
  %17 = icmp eq ptr %16, null
  br i1 %17, label %5, label %12

18:                                               ; preds = %5
  %19 = load i64, ptr @monitor, align 8
  %20 = tail call i32 @pthread_join(i64 %19, ptr null)
  br label %21

21:                                               ; preds = %18, %5
  store i8 0, ptr @monitor_on, align 1
  %22 = load i64, ptr @workers, align 8
  %23 = icmp eq i64 %22, 0
  br i1 %23, label %33, label %24

24:                                               ; preds = %21, %24
  %25 = phi i64 [ %31, %24 ], [ %22, %21 ]
  %26 = add i64 %25, -1
  %27 = getelementptr inbounds [1024 x i64], ptr @threads, i64 0, i64 %26
  %28 = load i64, ptr %27, align 8
  %29 = tail call i32 @pthread_join(i64 %28, ptr null)
  %30 = load i64, ptr @workers, align 8
  %31 = add i64 %30, -1
  store i64 %31, ptr @workers, align 8
  %32 = icmp eq i64 %31, 0
  br i1 %32, label %33, label %24

33:                                               ; preds = %24, %21
  store atomic i32 0, ptr @stopping seq_cst, align 4
  ret void
}
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_join(i64, ptr)

define void @qd_add_device(ptr %0) nounwind {
  %2 = load atomic i64, ptr @devices monotonic, align 8
  %3 = inttoptr i64 %2 to ptr
  %4 = getelementptr inbounds i8, ptr %0, i64 96
  store ptr %3, ptr %4, align 8
  %5 = ptrtoint ptr %0 to i64
  store atomic i64 %5, ptr @devices release, align 8
  ret void
}

define ptr @qd_call(ptr %0, ptr %1, i64 %2) nounwind {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = tail call ptr @PyTuple_GetItem(ptr %0, i64 0)
  %7 = tail call ptr @PyLong_AsVoidPtr(ptr %6)
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds i8, ptr %7, i64 8
  %10 = load i64, ptr %9, align 8
  %11 = icmp eq i64 %10, %2
  %12 = icmp sgt i64 %2, 0
  %13 = and i1 %11, %12
  br i1 %13, label %14, label %16

14:                                               ; preds = %3
  %15 = getelementptr inbounds i8, ptr %7, i64 40
  br label %18

16:                                               ; preds = %129, %3
  %17 = phi i1 [ %11, %3 ], [ %130, %129 ]
  br i1 %17, label %134, label %228

18:                                               ; preds = %14, %129
  %19 = phi i64 [ 0, %14 ], [ %131, %129 ]
  %20 = getelementptr inbounds [0 x %struct.Param], ptr %15, i64 0, i64 %19
  %21 = getelementptr inbounds ptr, ptr %1, i64 %19
  %22 = load ptr, ptr %21, align 8
  %23 = getelementptr inbounds i8, ptr %20, i64 8
  %24 = load i64, ptr %23, align 8
  %25 = getelementptr inbounds i8, ptr %8, i64 %24
  %26 = load i64, ptr %20, align 8
  switch i64 %26, label %228 [
    i64 0, label %129
    i64 1, label %27
    i64 2, label %51
    i64 3, label %72
    i64 4, label %80
  ]

27:                                               ; preds = %18
  %28 = load i64, ptr @host.2, align 8
  %29 = getelementptr inbounds i8, ptr %22, i64 %28
  %30 = getelementptr inbounds i8, ptr %29, i64 -8
  %31 = load ptr, ptr %30, align 8
  %32 = icmp eq ptr %31, @PyFloat_Type
  br i1 %32, label %33, label %35

33:                                               ; preds = %27
  %34 = tail call double @PyFloat_AsDouble(ptr %22)
  br label %43

35:                                               ; preds = %27
  %36 = icmp eq ptr %31, @PyLong_Type
  br i1 %36, label %37, label %228

37:                                               ; preds = %35
  %38 = tail call double @PyLong_AsDouble(ptr %22)
  %39 = fcmp oeq double %38, -1.000000e+00
  br i1 %39, label %40, label %43

40:                                               ; preds = %37
  %41 = tail call ptr @PyErr_Occurred()
  %42 = icmp eq ptr %41, null
  br i1 %42, label %43, label %227

43:                                               ; preds = %40, %37, %33
  %44 = phi double [ %34, %33 ], [ -1.000000e+00, %40 ], [ %38, %37 ]
  %45 = getelementptr inbounds i8, ptr %20, i64 16
  %46 = load i64, ptr %45, align 8
  %47 = icmp eq i64 %46, 4
  br i1 %47, label %48, label %50

48:                                               ; preds = %43
  %49 = fptrunc double %44 to float
  store float %49, ptr %25, align 4
  br label %129

50:                                               ; preds = %43
  store double %44, ptr %25, align 8
  br label %129

51:                                               ; preds = %18
  %52 = load i64, ptr @host.2, align 8
  %53 = getelementptr inbounds i8, ptr %22, i64 %52
  %54 = getelementptr inbounds i8, ptr %53, i64 -8
  %55 = load ptr, ptr %54, align 8
  %56 = icmp eq ptr %55, @PyLong_Type
  br i1 %56, label %57, label %228

57:                                               ; preds = %51
  %58 = tail call i64 @PyLong_AsLongLong(ptr %22)
  %59 = icmp eq i64 %58, -1
  br i1 %59, label %60, label %63

60:                                               ; preds = %57
  %61 = tail call ptr @PyErr_Occurred()
  %62 = icmp eq ptr %61, null
  br i1 %62, label %63, label %227

63:                                               ; preds = %60, %57
  %64 = getelementptr inbounds i8, ptr %20, i64 16
  %65 = load i64, ptr %64, align 8
  %66 = icmp slt i64 %58, %65
  br i1 %66, label %228, label %67

67:                                               ; preds = %63
  %68 = getelementptr inbounds i8, ptr %20, i64 24
  %69 = load i64, ptr %68, align 8
  %70 = icmp sgt i64 %58, %69
  br i1 %70, label %228, label %71

71:                                               ; preds = %67
  store i64 %58, ptr %25, align 8
  br label %129

72:                                               ; preds = %18
  %73 = icmp eq ptr %22, @_Py_TrueStruct
  %74 = zext i1 %73 to i64
  store i64 %74, ptr %25, align 8
  %75 = load i64, ptr @host.2, align 8
  %76 = getelementptr inbounds i8, ptr %22, i64 %75
  %77 = getelementptr inbounds i8, ptr %76, i64 -8
  %78 = load ptr, ptr %77, align 8
  %79 = icmp eq ptr %78, @PyBool_Type
  br label %129

80:                                               ; preds = %18
  %81 = getelementptr inbounds i8, ptr %20, i64 16
  %82 = getelementptr inbounds i8, ptr %20, i64 40
  %83 = load ptr, ptr %82, align 8
  %84 = load i64, ptr @host.2, align 8
  %85 = getelementptr inbounds i8, ptr %22, i64 %84
  %86 = getelementptr inbounds i8, ptr %85, i64 -8
  %87 = load ptr, ptr %86, align 8
  %88 = icmp eq ptr %87, %83
  br i1 %88, label %89, label %228

89:                                               ; preds = %80
  %90 = getelementptr inbounds i8, ptr %85, i64 40
  %91 = load ptr, ptr %90, align 8
  %92 = getelementptr inbounds i8, ptr %20, i64 32
  %93 = load ptr, ptr %92, align 8
  %94 = icmp eq ptr %91, %93
  br i1 %94, label %95, label %228

95:                                               ; preds = %89
  %96 = getelementptr inbounds i8, ptr %85, i64 8
  %97 = load i32, ptr %96, align 8
  %98 = load i32, ptr %81, align 8
  %99 = icmp eq i32 %97, %98
  br i1 %99, label %100, label %228

100:                                              ; preds = %95
  %101 = getelementptr inbounds i8, ptr %20, i64 24
  %102 = load i64, ptr %101, align 8
  %103 = getelementptr inbounds i8, ptr %85, i64 48
  %104 = load i32, ptr %103, align 8
  %105 = xor i32 %104, -1
  %106 = sext i32 %105 to i64
  %107 = and i64 %102, %106
  %108 = icmp eq i64 %107, 0
  br i1 %108, label %109, label %228

109:                                              ; preds = %100
  %110 = load ptr, ptr %85, align 8
  store ptr %110, ptr %25, align 8
  %111 = getelementptr inbounds i8, ptr %20, i64 48
  %112 = load i64, ptr %111, align 8
  %113 = getelementptr inbounds i8, ptr %8, i64 %112
  %114 = getelementptr inbounds i8, ptr %85, i64 16
  %115 = load i32, ptr %81, align 8
  %116 = icmp sgt i32 %115, 0
  br i1 %116, label %117, label %129

117:                                              ; preds = %109, %123
  %118 = phi i64 [ %125, %123 ], [ 0, %109 ]
  %119 = load ptr, ptr %114, align 8
  %120 = getelementptr inbounds i64, ptr %119, i64 %118
  %121 = load i64, ptr %120, align 8
  %122 = icmp ult i64 %121, 2147483648
  br i1 %122, label %123, label %228

123:                                              ; preds = %117
  %124 = getelementptr inbounds i64, ptr %113, i64 %118
  store i64 %121, ptr %124, align 8
  %125 = add nuw nsw i64 %118, 1
  %126 = load i32, ptr %81, align 8
  %127 = sext i32 %126 to i64
  %128 = icmp slt i64 %125, %127
  br i1 %128, label %117, label %129

129:                                              ; preds = %123, %18, %48, %50, %71, %72, %109
  %130 = phi i1 [ %79, %72 ], [ true, %18 ], [ true, %50 ], [ true, %48 ], [ true, %71 ], [ true, %109 ], [ true, %123 ]
  %131 = add nuw nsw i64 %19, 1
  %132 = icmp slt i64 %131, %2
  %133 = select i1 %130, i1 %132, i1 false
  br i1 %133, label %18, label %16

134:                                              ; preds = %16
  %135 = getelementptr inbounds i8, ptr %7, i64 16
  %136 = load i64, ptr %135, align 8
  %137 = icmp sgt i64 %136, 1
  br i1 %137, label %138, label %229

138:                                              ; preds = %134
  %139 = getelementptr inbounds i8, ptr %7, i64 40
  %140 = getelementptr inbounds [0 x %struct.Param], ptr %139, i64 0, i64 %2
  call void @llvm.lifetime.start.p0(i64 8, ptr %4)
  store ptr null, ptr %4, align 8
  call void @llvm.lifetime.start.p0(i64 8, ptr %5)
  store ptr null, ptr %5, align 8
  br label %144

141:                                              ; preds = %167
  %142 = icmp sgt i64 %171, 0
  br i1 %142, label %173, label %143

143:                                              ; preds = %141
  call void @llvm.lifetime.end.p0(i64 8, ptr %5)
  call void @llvm.lifetime.end.p0(i64 8, ptr %4)
  br label %229

144:                                              ; preds = %167, %138
  %145 = phi i64 [ 0, %138 ], [ %170, %167 ]
  %146 = getelementptr inbounds i64, ptr %140, i64 %145
  %147 = load i64, ptr %146, align 8
  %148 = icmp eq i64 %145, 0
  br i1 %148, label %167, label %149

149:                                              ; preds = %144
  %150 = getelementptr inbounds [0 x %struct.Param], ptr %139, i64 0, i64 %147, i32 1
  br label %151

151:                                              ; preds = %164, %149
  %152 = phi i64 [ %145, %149 ], [ %165, %164 ]
  %153 = getelementptr i64, ptr %140, i64 %152
  %154 = getelementptr i8, ptr %153, i64 -8
  %155 = load i64, ptr %154, align 8
  %156 = getelementptr inbounds [0 x %struct.Param], ptr %139, i64 0, i64 %155, i32 1
  %157 = load i64, ptr %156, align 8
  %158 = getelementptr inbounds i8, ptr %8, i64 %157
  %159 = load ptr, ptr %158, align 8
  %160 = load i64, ptr %150, align 8
  %161 = getelementptr inbounds i8, ptr %8, i64 %160
  %162 = load ptr, ptr %161, align 8
  %163 = icmp ugt ptr %159, %162
  br i1 %163, label %164, label %167

164:                                              ; preds = %151
  store i64 %155, ptr %153, align 8
  %165 = add nsw i64 %152, -1
  %166 = icmp sgt i64 %152, 1
  br i1 %166, label %151, label %167

167:                                              ; preds = %164, %151, %144
  %168 = phi i64 [ 0, %144 ], [ %152, %151 ], [ 0, %164 ]
  %169 = getelementptr inbounds i64, ptr %140, i64 %168
  store i64 %147, ptr %169, align 8
  %170 = add nuw nsw i64 %145, 1
  %171 = load i64, ptr %135, align 8
  %172 = icmp slt i64 %170, %171
  br i1 %172, label %144, label %141

173:                                              ; preds = %141, %221
  %174 = phi i1 [ %223, %221 ], [ true, %141 ]
  %175 = phi i64 [ %222, %221 ], [ 0, %141 ]
  %176 = getelementptr inbounds i64, ptr %140, i64 %175
  %177 = load i64, ptr %176, align 8
  %178 = getelementptr inbounds [0 x %struct.Param], ptr %139, i64 0, i64 %177, i32 2
  %179 = getelementptr inbounds i8, ptr %178, i64 32
  %180 = load i64, ptr %179, align 8
  %181 = getelementptr inbounds i8, ptr %8, i64 %180
  %182 = getelementptr inbounds [0 x %struct.Param], ptr %139, i64 0, i64 %177, i32 1
  %183 = load i64, ptr %182, align 8
  %184 = getelementptr inbounds i8, ptr %8, i64 %183
  %185 = load ptr, ptr %184, align 8
  %186 = getelementptr inbounds i8, ptr %178, i64 4
  %187 = load i32, ptr %186, align 4
  %188 = sext i32 %187 to i64
  %189 = load i32, ptr %178, align 8
  %190 = icmp sgt i32 %189, 0
  br i1 %190, label %191, label %193

191:                                              ; preds = %173
  %192 = zext nneg i32 %189 to i64
  br label %196

193:                                              ; preds = %196, %173
  %194 = phi i64 [ %188, %173 ], [ %201, %196 ]
  %195 = icmp eq i64 %194, 0
  br i1 %195, label %221, label %204

196:                                              ; preds = %196, %191
  %197 = phi i64 [ 0, %191 ], [ %202, %196 ]
  %198 = phi i64 [ %188, %191 ], [ %201, %196 ]
  %199 = getelementptr inbounds i64, ptr %181, i64 %197
  %200 = load i64, ptr %199, align 8
  %201 = mul nsw i64 %200, %198
  %202 = add nuw nsw i64 %197, 1
  %203 = icmp eq i64 %202, %192
  br i1 %203, label %193, label %196

204:                                              ; preds = %193
  %205 = load ptr, ptr %5, align 8
  %206 = icmp ult ptr %185, %205
  br i1 %206, label %225, label %207

207:                                              ; preds = %204
  %208 = getelementptr inbounds i8, ptr %178, i64 8
  %209 = load i64, ptr %208, align 8
  %210 = and i64 %209, 1024
  %211 = icmp eq i64 %210, 0
  br i1 %211, label %215, label %212

212:                                              ; preds = %207
  %213 = load ptr, ptr %4, align 8
  %214 = icmp ult ptr %185, %213
  br i1 %214, label %225, label %215

215:                                              ; preds = %212, %207
  %216 = phi ptr [ %5, %212 ], [ %4, %207 ]
  %217 = getelementptr inbounds i8, ptr %185, i64 %194
  %218 = load ptr, ptr %216, align 8
  %219 = icmp ugt ptr %217, %218
  br i1 %219, label %220, label %221

220:                                              ; preds = %215
  store ptr %217, ptr %216, align 8
  br label %221

221:                                              ; preds = %220, %215, %193
  %222 = add nuw nsw i64 %175, 1
  %223 = icmp slt i64 %222, %171
  %224 = icmp eq i64 %222, %171
  br i1 %224, label %225, label %173

225:                                              ; preds = %221, %212, %204
  %226 = phi i1 [ %174, %204 ], [ %174, %212 ], [ %223, %221 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr %5)
  call void @llvm.lifetime.end.p0(i64 8, ptr %4)
  br i1 %226, label %228, label %229

227:                                              ; preds = %60, %40
  tail call void @PyErr_Clear()
  br label %228

228:                                              ; preds = %35, %51, %67, %63, %80, %100, %95, %89, %18, %117, %227, %16, %225
  tail call void @Py_IncRef(ptr @_Py_NotImplementedStruct)
  br label %275

229:                                              ; preds = %134, %143, %225
  %230 = tail call i64 @qd_launch(ptr %8)
  %231 = icmp eq i64 %230, 0
  br i1 %231, label %232, label %268

232:                                              ; preds = %229
  %233 = getelementptr inbounds i8, ptr %7, i64 24
  %234 = load i64, ptr %233, align 8
  %235 = getelementptr inbounds i8, ptr %7, i64 32
  %236 = load i64, ptr %235, align 8
  %237 = getelementptr inbounds i8, ptr %8, i64 %236
  switch i64 %234, label %267 [
    i64 1, label %238
    i64 2, label %242
    i64 3, label %245
    i64 4, label %249
    i64 5, label %253
    i64 6, label %257
    i64 7, label %260
    i64 8, label %263
  ]

238:                                              ; preds = %232
  %239 = load float, ptr %237, align 4
  %240 = fpext float %239 to double
  %241 = tail call ptr @PyFloat_FromDouble(double %240)
  br label %275

242:                                              ; preds = %232
  %243 = load double, ptr %237, align 8
  %244 = tail call ptr @PyFloat_FromDouble(double %243)
  br label %275

245:                                              ; preds = %232
  %246 = load i8, ptr %237, align 1
  %247 = sext i8 %246 to i64
  %248 = tail call ptr @PyLong_FromLongLong(i64 %247)
  br label %275

249:                                              ; preds = %232
  %250 = load i16, ptr %237, align 2
  %251 = sext i16 %250 to i64
  %252 = tail call ptr @PyLong_FromLongLong(i64 %251)
  br label %275

253:                                              ; preds = %232
  %254 = load i32, ptr %237, align 4
  %255 = sext i32 %254 to i64
  %256 = tail call ptr @PyLong_FromLongLong(i64 %255)
  br label %275

257:                                              ; preds = %232
  %258 = load i64, ptr %237, align 8
  %259 = tail call ptr @PyLong_FromLongLong(i64 %258)
  br label %275

260:                                              ; preds = %232
  %261 = load i64, ptr %237, align 8
  %262 = tail call ptr @PyLong_FromUnsignedLongLong(i64 %261)
  br label %275

263:                                              ; preds = %232
  %264 = load i8, ptr %237, align 1
  %265 = zext i8 %264 to i64
  %266 = tail call ptr @PyBool_FromLong(i64 %265)
  br label %275

267:                                              ; preds = %232
  tail call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %275

268:                                              ; preds = %229
  %269 = and i64 %230, 4
  %270 = icmp eq i64 %269, 0
  br i1 %270, label %274, label %271

271:                                              ; preds = %268
  %272 = tail call ptr @PyErr_Occurred()
  %273 = icmp eq ptr %272, null
  br i1 %273, label %274, label %275

274:                                              ; preds = %271, %268
  tail call void @Py_IncRef(ptr @_Py_EllipsisObject)
  br label %275

275:                                              ; preds = %267, %263, %260, %257, %253, %249, %245, %242, %238, %274, %271, %228
  %276 = phi ptr [ @_Py_NotImplementedStruct, %228 ], [ @_Py_EllipsisObject, %274 ], [ null, %271 ], [ @_Py_NoneStruct, %267 ], [ %266, %263 ], [ %262, %260 ], [ %259, %257 ], [ %256, %253 ], [ %252, %249 ], [ %248, %245 ], [ %244, %242 ], [ %241, %238 ]
  ret ptr %276
}
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_CheckSignals()
declare ptr @realloc(ptr, i64)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_cond_signal(ptr)

define internal fastcc void @take_chunks(i64 %0) unnamed_addr nounwind {
  %2 = load ptr, ptr @job.0, align 8
  %3 = load ptr, ptr @job.1, align 8
  %4 = load i64, ptr @job.2, align 8
  %5 = load i64, ptr @job.3, align 8
  %6 = load i64, ptr @job.4, align 8
  %7 = getelementptr inbounds i8, ptr %3, i64 16
  %8 = atomicrmw add ptr @next, i64 %5 monotonic, align 128
  %9 = icmp ult i64 %8, %4
  br i1 %9, label %10, label %54

10:                                               ; preds = %1
  %11 = icmp eq i64 %0, -1
  %12 = select i1 %11, i64 0, i64 %0
  %13 = icmp eq i64 %6, 0
  br label %14

14:                                               ; preds = %10, %51
  %15 = phi i64 [ %8, %10 ], [ %52, %51 ]
  %16 = load atomic i64, ptr %7 monotonic, align 8
  %17 = and i64 %16, 6
  %18 = icmp eq i64 %17, 0
  br i1 %18, label %19, label %54

19:                                               ; preds = %14
  %20 = load ptr, ptr %3, align 8
  %21 = load atomic i32, ptr %20 monotonic, align 8
  %22 = icmp eq i32 %21, 0
  br i1 %22, label %25, label %23

23:                                               ; preds = %19
  %24 = tail call zeroext i1 @qd_poll(ptr %3, i64 %0)
  br i1 %24, label %54, label %25

25:                                               ; preds = %19, %23
  %26 = add i64 %15, %5
  %27 = tail call i64 @llvm.umin.i64(i64 %26, i64 %4)
  br label %28

28:                                               ; preds = %50, %25
  %29 = phi i64 [ %15, %25 ], [ %38, %50 ]
  %30 = add i64 %29, 1048576
  %31 = tail call i64 @llvm.umin.i64(i64 %30, i64 %27)
  br i1 %13, label %36, label %32

32:                                               ; preds = %28
  %33 = urem i64 %29, %6
  %34 = add i64 %29, %6
  %35 = sub i64 %34, %33
  br label %36

36:                                               ; preds = %32, %28
  %37 = phi i64 [ %35, %32 ], [ %27, %28 ]
  %38 = tail call i64 @llvm.umin.i64(i64 %31, i64 %37)
  tail call void %2(ptr %3, i64 %29, i64 %38, i64 %0)
  %39 = icmp eq i64 %38, %27
  br i1 %39, label %51, label %40

40:                                               ; preds = %36
  %41 = load atomic i64, ptr %7 monotonic, align 8
  %42 = and i64 %41, 6
  %43 = icmp eq i64 %42, 0
  br i1 %43, label %44, label %51

44:                                               ; preds = %40
  %45 = load ptr, ptr %3, align 8
  %46 = load atomic i32, ptr %45 monotonic, align 8
  %47 = icmp eq i32 %46, 0
  br i1 %47, label %50, label %48

48:                                               ; preds = %44
  %49 = tail call zeroext i1 @qd_poll(ptr %3, i64 %12)
  br i1 %49, label %51, label %50

50:                                               ; preds = %48, %44
  br label %28

51:                                               ; preds = %36, %40, %48
  %52 = atomicrmw add ptr @next, i64 %5 monotonic, align 128
  %53 = icmp ult i64 %52, %4
  br i1 %53, label %14, label %54

54:                                               ; preds = %23, %51, %14, %1
  ret void
}
declare i32 @sched_yield()
declare ptr @memmove(ptr, ptr, i64)
declare i64 @pread(i32, ptr, i64, i64)
declare i32 @usleep(i32)
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)
declare double @PyLong_AsDouble(ptr)
declare void @PyErr_Clear()
declare i64 @PyLong_AsLongLong(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
