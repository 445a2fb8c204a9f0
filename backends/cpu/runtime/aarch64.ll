; made by scripts/cpu_runtime.py from the sources 76fa652d47dafdb8

define i64 @qd_fp_flush() nounwind {
  %1 = tail call i64 @llvm.aarch64.get.fpcr()
  %2 = or i64 %1, 16777216
  tail call void @llvm.aarch64.set.fpcr(i64 %2)
  ret i64 %1
}
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define void @qd_fp_restore(i64 %0) nounwind {
  tail call void @llvm.aarch64.set.fpcr(i64 %0)
  ret void
}

define void @qd_relax() nounwind {
  tail call void @llvm.aarch64.hint(i32 1)
  ret void
}
declare void @llvm.aarch64.hint(i32)
