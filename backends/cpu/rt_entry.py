"""The runtime's machine code, third part: the fast entry of `fast`, as LLVM IR text (see `rt_text`)."""

TEXT = r"""
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
  %k = phi i64 [0, %put_array], [%k1, %put_extent]
  %axes = icmp ult i64 %k, %w4
  br i1 %axes, label %copy_axis, label %taken
copy_axis:
  %psrc = getelementptr i64, ptr %dims, i64 %k
  %extent = load i64, ptr %psrc
  %narrow = icmp ult i64 %extent, 2147483648
  br i1 %narrow, label %put_extent, label %mismatch
put_extent:
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
