"""The runtime's machine code, fourth part: the workers' copies of what a task adds to (`copies`), as LLVM IR text."""

TEXT = r"""
declare ptr @calloc(i64, i64)
declare void @free(ptr)

; Room for zeroed copies of %bytes each for all workers but the first; null where there are none, they take more than
; %most bytes together, or there is no memory.
define ptr @qd_copies(ptr %frame, i64 %bytes, i64 %most) {
entry:
  %device = load ptr, ptr %frame
  %pt = getelementptr i8, ptr %device, i64 ${THREADS}
  %threads = load i64, ptr %pt
  %others = sub i64 %threads, 1
  %need = mul i64 %others, %bytes
  %some = icmp ne i64 %need, 0
  %fits = icmp ule i64 %need, %most
  %worth = and i1 %some, %fits
  %pr = getelementptr i8, ptr %device, i64 ${COPIES_ROOM}
  %pb = getelementptr i8, ptr %device, i64 ${COPIES_BYTES}
  br i1 %worth, label %look, label %no
look:
  %old = load ptr, ptr %pr
  %had = load i64, ptr %pb
  %enough = icmp uge i64 %had, %need
  br i1 %enough, label %have, label %grow
grow:
  call void @free(ptr %old)
  %raw = add i64 %need, 64
  %fresh = call ptr @calloc(i64 %raw, i64 1)
  store ptr %fresh, ptr %pr
  %failed = icmp eq ptr %fresh, null
  %now = select i1 %failed, i64 0, i64 %need
  store i64 %now, ptr %pb
  br i1 %failed, label %no, label %have
have:
  %room = load ptr, ptr %pr
  %word = ptrtoint ptr %room to i64
  %up = add i64 %word, 63
  %line = and i64 %up, -64
  %at = inttoptr i64 %line to ptr
  ret ptr %at
no:
  ret ptr null
}

; Gives the room back.
define void @qd_drop_copies(ptr %device) {
  %pr = getelementptr i8, ptr %device, i64 ${COPIES_ROOM}
  %pb = getelementptr i8, ptr %device, i64 ${COPIES_BYTES}
  %old = load ptr, ptr %pr
  call void @free(ptr %old)
  store ptr null, ptr %pr
  store i64 0, ptr %pb
  ret void
}

; Adds the first %count elements of %copies copies, which begin at %from, to those at %to, and zeroes them. Of a launch
; that was stopped they are zeroed only.
define void @qd_add_copies(ptr %frame, i64 %kind, ptr %to, ptr %from, i64 %count, i64 %copies) {
entry:
  %device = load ptr, ptr %frame
  %pto = getelementptr i8, ptr %device, i64 ${ADD_TO}
  store ptr %to, ptr %pto
  %pfrom = getelementptr i8, ptr %device, i64 ${ADD_FROM}
  store ptr %from, ptr %pfrom
  %pcopies = getelementptr i8, ptr %device, i64 ${ADD_COPIES}
  store i64 %copies, ptr %pcopies
  %ps = getelementptr i8, ptr %frame, i64 ${COPIES_STRIDE}
  %stride = load i64, ptr %ps
  %pstride = getelementptr i8, ptr %device, i64 ${ADD_STRIDE}
  store i64 %stride, ptr %pstride
  %is1 = icmp eq i64 %kind, 1
  %is2 = icmp eq i64 %kind, 2
  %is3 = icmp eq i64 %kind, 3
  %f1 = select i1 %is1, ptr @add_f64, ptr @add_f32
  %f2 = select i1 %is2, ptr @add_i32, ptr %f1
  %f3 = select i1 %is3, ptr @add_i64, ptr %f2
  call i64 @qd_parallel(ptr %frame, ptr %f3, i64 %count, i64 16384, i64 0)
  %pst = getelementptr i8, ptr %frame, i64 ${STATUS}
  %status = load atomic i64, ptr %pst monotonic, align 8
  %bits = and i64 %status, ${STOP_STATUS}
  %stopped = icmp ne i64 %bits, 0
  br i1 %stopped, label %next, label %out
next:
  %w = phi i64 [0, %entry], [%w1, %clear]
  %more = icmp ult i64 %w, %copies
  br i1 %more, label %clear, label %out
clear:
  %skip = mul i64 %w, %stride
  %copy = getelementptr i8, ptr %from, i64 %skip
  %odd = and i64 %kind, 1
  %shift = add i64 %odd, 2
  %bytes = shl i64 %count, %shift
  call void @llvm.memset.p0.i64(ptr %copy, i8 0, i64 %bytes, i1 false)
  %w1 = add i64 %w, 1
  br label %next
out:
  ret void
}
"""

ADD = r"""
define internal void @add_$NAME(ptr %frame, i64 %begin, i64 %end, i64 %worker) {
entry:
  %device = load ptr, ptr %frame
  %pto = getelementptr i8, ptr %device, i64 ${ADD_TO}
  %to = load ptr, ptr %pto
  %pfrom = getelementptr i8, ptr %device, i64 ${ADD_FROM}
  %from = load ptr, ptr %pfrom
  %pcopies = getelementptr i8, ptr %device, i64 ${ADD_COPIES}
  %copies = load i64, ptr %pcopies
  %pstride = getelementptr i8, ptr %device, i64 ${ADD_STRIDE}
  %stride = load i64, ptr %pstride
  %last = sub i64 %end, 7
  br label %copy
copy:
  %w = phi i64 [0, %entry], [%w1, %copied]
  %more = icmp ult i64 %w, %copies
  br i1 %more, label %one, label %out
one:
  %skip = mul i64 %w, %stride
  %source = getelementptr i8, ptr %from, i64 %skip
  br label %wide
wide:
  %i = phi i64 [%begin, %one], [%i8, %eight]
  %whole = icmp slt i64 %i, %last
  br i1 %whole, label %eight, label %narrow
eight:
  %pa = getelementptr $TYPE, ptr %to, i64 %i
  %pb = getelementptr $TYPE, ptr %source, i64 %i
  %a = load <8 x $TYPE>, ptr %pa, align $BYTES
  %b = load <8 x $TYPE>, ptr %pb, align $BYTES
  %c = $ADD <8 x $TYPE> %a, %b
  store <8 x $TYPE> %c, ptr %pa, align $BYTES
  store <8 x $TYPE> zeroinitializer, ptr %pb, align $BYTES
  %i8 = add i64 %i, 8
  br label %wide
narrow:
  %j = phi i64 [%i, %wide], [%j1, %single]
  %rest = icmp slt i64 %j, %end
  br i1 %rest, label %single, label %copied
single:
  %pc = getelementptr $TYPE, ptr %to, i64 %j
  %pd = getelementptr $TYPE, ptr %source, i64 %j
  %x = load $TYPE, ptr %pc
  %y = load $TYPE, ptr %pd
  %z = $ADD $TYPE %x, %y
  store $TYPE %z, ptr %pc
  store $TYPE zeroinitializer, ptr %pd
  %j1 = add i64 %j, 1
  br label %narrow
copied:
  %w1 = add i64 %w, 1
  br label %copy
out:
  ret void
}
"""

for _name, _type, _bytes, _add in (
    ("f32", "float", 4, "fadd"), ("f64", "double", 8, "fadd"), ("i32", "i32", 4, "add"), ("i64", "i64", 8, "add"),
):  # fmt: skip
    TEXT += (
        ADD.replace("$NAME", _name)
        .replace("$TYPE", _type)
        .replace("$BYTES", str(_bytes))
        .replace("$ADD", _add)
    )
