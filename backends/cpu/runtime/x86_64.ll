; made by scripts/cpu_runtime.py from the sources 76fa652d47dafdb8

define i64 @qd_fp_flush() nounwind {
  %1 = alloca i32, align 4
  %2 = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %1)
  %3 = load i32, ptr %1, align 4
  %4 = or i32 %3, 32832
  store i32 %4, ptr %2, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %2)
  %5 = zext i32 %3 to i64
  ret i64 %5
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define void @qd_fp_restore(i64 %0) nounwind {
  %2 = alloca i32, align 4
  %3 = trunc i64 %0 to i32
  store i32 %3, ptr %2, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %2)
  ret void
}

define void @qd_relax() nounwind {
  tail call void @llvm.x86.sse2.pause()
  ret void
}
declare void @llvm.x86.sse2.pause()
