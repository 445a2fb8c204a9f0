"""Emits lowered IR as a WebAssembly module: a function for each task, and `run`, which calls them.

The argument of each function is the address of the launch frame (`_gpu.layout`). Values are local variables; the IR's
structured control flow becomes WebAssembly's. One thread runs the kernel, the iterations of a parallel task in
row-major order. An integer of fewer than 32 bits is an i32 within its limits, a u1 is 0 or 1, and an f16 is an f32 that
f16 can represent.

In a task with lanes (`lanes`), iterations along the last axis run in groups, and those left over one by one. In a
group, a value that differs between iterations is a list of vectors, in which a u1 is -1 or 0. For a value that grows by
one from lane to lane, only the first lane's value is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from quadrants_lab.analysis.divergence import divergence
from quadrants_lab.backends import Stage
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends.lower import devices, lower
from quadrants_lab.backends.wasm import lanes, ops
from quadrants_lab.backends.wasm.lanes import LaneSchedule, NoLanes
from quadrants_lab.backends.wasm.module import Function, Instruction, Local, Module
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType, u1, u32, u64
from quadrants_lab.ir.walk import all_are, end_of, find, uses, walk

PRIVATE, FIRST = 64, 1 << 20  # where the private arrays of an iteration begin, and where all other memory begins


def lowering(options: CompileOptions) -> tuple[N.Pass, ...]:
    return devices.wasm(LaneSchedule(options.fast_math, options.reproducible), lower_failures, options)


def stages(kernel: N.Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    return {"wat": lambda: module(kernel, options).stage()}


@deeply_recursive
def module(kernel: N.Kernel, options: CompileOptions) -> Module:
    """The module of a kernel that is split into tasks."""
    kernel = lower(kernel, lowering(options), options)
    unit, run = Unit(kernel), Function("run", ("i32",))
    for n, task in enumerate(kernel.tasks):
        body = Body(unit, Function(f"task{n}", ("i32",), ("i32",)), (task,))
        body.task(task)
        for i in (("local.get", run.locals[0]), ("call", unit.add(body.fn)), ("if",), ("return",), ("end",)):
            run.put(N.NO_ID, *i)  # a task returns whether an assert has failed
    unit.add(run)
    return Module(unit.functions)


class Unit:
    """What the functions of a module share. ``private``: name of an array that each iteration has for itself -> its
    address."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.layout = L.gpu_layout(kernel).frame
        self.functions: list[Function] = []
        self.numbers: dict[str, int] = {}
        self.private: dict[str, int] = {}
        at = PRIVATE
        for b in kernel.buffers.values():
            if b.kind == "private":
                self.private[b.name] = at
                at += -(-prod(b.shape or ()) * b.dtype.nbytes // 8) * 8
        if at > FIRST:
            what = f"local arrays of kernel '{kernel.name}' take {at - PRIVATE} bytes, {FIRST - PRIVATE} is the most"
            help = "use smaller vectors and matrices, or fields"
            raise QuadrantsRuntimeError(what, code="QL3040", labels=(Label(kernel.span),), help=help)

    def add(self, fn: Function) -> int:
        """Adds the function to the module, unless it is there; returns its index."""
        if fn.name not in self.numbers:
            self.numbers[fn.name] = len(self.functions)
            self.functions.append(fn)
        return self.numbers[fn.name]


class Body:
    """Emits blocks into the function ``fn``. ``values``: id -> a local, several locals if the value is a list of
    vectors, or the instruction of a constant; ``types``: id -> dtype. ``known``: what a local holds -> the local, for
    locals that are set at the function's start.

    ``lanes``: how many lanes a vector has, 1 outside of groups; ``parts``: how many vectors make a value, ``part``: the
    index of the current one; ``vectors``: ids of values that are lists of vectors; ``linear``: ids of values that grow
    by one from lane to lane.
    """

    handlers: dict[type, Callable[[Any, Any], None]] = {}

    def __init__(self, unit: Unit, fn: Function, block: N.Block) -> None:
        self.unit = unit
        self.fn = fn
        self.stmt = N.NO_ID
        # ids of the block's own statements; others belong to functions that were inlined
        self.own = {s.id for s in walk(block)}
        self.values: dict[int, Local | list[Local] | Instruction] = {}
        self.types: dict[int, DType] = {}
        self.known: dict[str, Local] = {}
        self.uses = uses(block)
        self.fresh: tuple[int, Local | None] = 0, None  # where in the code the last instruction set a local, and which
        self.lanes = self.parts = 1
        self.part = 0
        self.vectors: set[int] = set()
        self.linear: set[int] = set()

    # --- values -----------------------------------------------------------------------------------------------------

    def put(self, *instruction: Any) -> None:
        self.fn.put(self.stmt, *instruction)

    def emit(self, *instructions: Instruction | str) -> None:
        """Emits instructions. A text stands for an instruction without immediates."""
        for i in instructions:
            self.put(*((i,) if isinstance(i, str) else i))

    def value(self, id: int) -> Instruction:
        """The instruction that pushes a value; for a list of vectors, the current one."""
        value = self.values[id]
        value = value[self.part] if isinstance(value, list) else value
        return ("local.get", value) if isinstance(value, Local) else value

    def get(self, *ids: int) -> None:
        """Pushes values. A value that was defined just before, and is read once, is on the stack already."""
        for id in ids:
            value = self.value(id)
            once = self.uses.get(id) == 1 and self.parts == 1  # with several parts, each part would read the value
            if once and self.fresh == (len(self.fn.code), value[-1]):
                self.fn.drop()
                self.fresh = 0, None
            else:
                self.put(*value)

    def push(self, id: int, vector: bool) -> None:
        """Pushes a value; if ``vector``, as a vector."""
        if vector:
            lanes.push_vector(self, id)
        elif id in self.vectors:
            raise NoLanes
        else:
            self.get(id)

    def variables(self, id: int, t: DType, name: str) -> list[Local]:
        """Declares the local of a value, or one for each of its parts."""
        self.types[id] = t
        if id in self.vectors:
            made = self.values[id] = [self.fn.local("v128", name) for _ in range(self.parts)]
            return made
        self.values[id] = v = self.fn.local(ops.TYPES[t.name], name)
        return [v]

    def define(self, s: N.Value | N.Param, emit: Callable[[], object] = lambda: None) -> None:
        """Sets the value of a statement to what is on the stack, or to what ``emit`` pushes, once for each part."""
        for part, v in enumerate(self.variables(s.id, s.type, s.name)):
            self.part = part
            emit()
            self.put("local.set", v)
            self.fresh = len(self.fn.code), v
        self.part = 0

    def each(self, vector: bool) -> Iterator[None]:
        """Iterates over the parts of a vector; each step sets ``part``."""
        for part in range(self.parts if vector else 1):
            self.part = part
            yield
        self.part = 0

    def set(self, params: tuple[N.Param, ...], ids: tuple[int, ...], declare: bool = False) -> None:
        """Sets the variables of ``params`` to the values ``ids``, as if all at once."""
        for p, id in zip(params, ids, strict=True):
            for _ in self.each(p.id in self.vectors):
                self.push(id, p.id in self.vectors)
        for p in params if declare else ():
            self.variables(p.id, p.type, p.name)
        for p in reversed(params):
            found = self.values[p.id]
            for v in reversed(found) if isinstance(found, list) else [found]:
                self.put("local.set", v)

    def once(self, key: str, type: str, *instructions: Instruction) -> Local:
        """A local that is set at the start of the function."""
        if key not in self.known:
            self.known[key] = v = self.fn.local(type, ops.word(key))
            self.fn.start += [*instructions, ("local.set", v)] if instructions else []
        return self.known[key]

    def helper(self, name: str) -> None:
        """Emits a call of a function that converts an f16."""
        if name not in self.unit.numbers:
            f = ops.half(name)
            (p,) = f.params
            fn = Function(name, (ops.TYPES[p.type.name],), (ops.TYPES[f.type.name],))
            inner = Body(self.unit, fn, f.body)
            inner.values[p.id], inner.types[p.id], inner.own = fn.locals[0], p.type, set()
            inner.get(*inner.block(f.body))
            self.unit.add(fn)
        self.put("call", self.unit.numbers[name])

    # --- memory -----------------------------------------------------------------------------------------------------

    def word(self, at: int, t: str = "i32") -> Local:
        """A local that holds a word of the launch frame."""
        return self.once(f"frame.{at}.{t}", t, ("local.get", self.fn.locals[0]), (f"{t}.load", at))

    def base(self, b: N.Buffer) -> Instruction:
        """The instruction that pushes the address of a buffer's first element, without the offset that `place`
        returns."""
        if b.kind == "private":
            return "i32.const", self.unit.private[b.name]
        if b.in_frame:
            return "local.get", self.fn.locals[0]
        own = self.word(self.unit.layout.buffers[b.of or b.name])
        if b.kind != "heap":
            return "local.get", own
        heap = self.word(L.HEAP)
        return "local.get", self.once(b.name, "i32", ("local.get", heap), ("local.get", own), ("i32.add",))

    def stride(self, b: N.Buffer, axis: int) -> Instruction:
        """The instruction that pushes how many bytes lie between neighbours along an axis."""
        size, product = b.dtype.nbytes, list[Instruction]()
        for k in range(axis + 1, b.ndim):
            n = self.slot_lanes if b.kind == "heap" else b.known_extent(k)
            size *= 1 if n is None else n
            product += [("local.get", self.extent(b, k)), ("i32.mul",)] if n is None else []
        first = "i32.const", ops.constant(u32, size)
        return ("local.get", self.once(f"{b.name}.stride{axis}", "i32", first, *product)) if product else first

    def extent(self, b: N.Buffer, axis: int, t: str = "i32") -> Local:
        return self.word(self.unit.layout.extents[b.name] + 8 * axis, t)

    def place(self, s: N.Access) -> tuple[int, int]:
        """Pushes the address of an element; in a group, of the first lane's element. Returns a constant offset to be
        added to it, and how many bytes lie between the elements of neighbouring lanes."""
        b = self.unit.kernel.buffers[s.buffer]
        rest, stride = self.unit.layout.buffers[b.name] if b.in_frame else 0, 0
        self.put(*self.base(b))
        for axis, id in enumerate(s.index):
            value, step = self.value(id), self.stride(b, axis)
            if self.lanes > 1 and id in self.linear:
                if step[0] != "i32.const" or stride:
                    raise NoLanes
                stride = step[1]
            if value[0] != "local.get" and step[0] == "i32.const" and 0 <= (more := value[1] * step[1]) < FIRST:
                rest += more
                continue
            self.push(id, False)
            self.emit(*["i32.wrap_i64"] * (self.types[id].bits == 64))
            if step != ("i32.const", 1):
                self.emit(step, "i32.mul")
            self.put("i32.add")
        return rest, stride

    # --- blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: N.Block) -> tuple[int, ...]:
        """Emits a block; returns the ids of its Yield."""
        outer = self.stmt
        for s in block[:-1]:
            self.stmt = s.id if s.id in self.own else outer
            self.handlers[type(s)](self, s)
        self.stmt = outer
        return end_of(block).values

    def task(self, task: N.Offload) -> None:
        """Emits a task's function, which returns whether an assert has failed."""
        self.stmt, self.slot_lanes = task.id, max(1, task.lanes)
        ends, k = self.block(task.bounds), len(task.indices)
        bounds = [("local.get", self.fn.local(ops.TYPES[self.types[i].name], "bound")) for i in ends]
        for id, (_, v) in zip(ends, bounds, strict=True):
            self.get(id)
            self.put("local.set", v)
        counts = k and any(s.what == "iteration" for s in find(task.body, N.Builtin))
        count = self.once("iteration", "i64") if counts else None

        def iteration() -> None:
            self.block(task.body)
            if count:
                self.emit(("local.get", count), ("i64.const", 1), "i64.add", ("local.set", count))

        def nest(axis: int) -> None:
            if axis == k:
                iteration()
                return
            p, begin, end = task.indices[axis], bounds[axis], bounds[k + axis]
            if axis == k - 1 and task.lanes > 1:
                begin = self.groups(task, p, begin, end)
            self.trips(p, begin, end, lambda: nest(axis + 1))

        nest(0)
        self.put("i32.const", 0)

    def groups(self, task: N.Offload, p: N.Param, begin: Instruction, end: Instruction) -> Instruction:
        """Emits the loop over all whole groups of iterations; returns the instruction that pushes the index of the
        first iteration that remains. If the body cannot run in groups, all iterations remain."""
        buffers = self.unit.kernel.buffers.values()
        shape = lanes.Shape(task.body, task.indices, [b.name for b in buffers if b.kind == "local"])
        if shape.per_lane:
            return begin
        t, last = ops.TYPES[p.type.name], self.fn.local(ops.TYPES[p.type.name], "last")
        here = len(self.fn.code)
        self.emit(begin, end, begin, f"{t}.sub", (f"{t}.const", -task.lanes), f"{t}.and", f"{t}.add")
        self.put("local.set", last)
        self.vectors, self.linear, self.lanes = shape.vectors, shape.linear, shape.lanes
        self.parts = max(1, task.lanes // self.lanes)
        try:
            self.trips(p, begin, ("local.get", last), lambda: self.block(task.body))
        except NoLanes:
            del self.fn.code[here:], self.fn.ids[here:]
            return begin
        finally:
            self.lanes, self.parts, self.part, self.vectors = 1, 1, 0, set()
        self.emit(("local.get", last), begin, begin, ("local.get", last), f"{t}.lt_s", "select", ("local.set", last))
        return "local.get", last

    def trips(
        self, p: N.Param, begin: Instruction, end: Instruction, body: Callable[[], object], down: bool = False
    ) -> None:
        """Emits a loop over begin .. end, which were computed before; ``body`` emits an iteration."""
        t, signed = ops.TYPES[p.type.name], "_s" if p.type.kind == "i" else "_u"
        (index,) = self.variables(p.id, p.type, p.name)
        step = self.lanes * self.parts if p.id in self.linear else 1
        move = ("local.get", index), (f"{t}.const", -1 if down else step), f"{t}.add", ("local.set", index)
        self.emit(begin, end, f"{t}.lt{signed}", "if", end if down else begin, ("local.set", index), "loop")
        self.emit(*move if down else ())
        body()
        self.emit(*() if down else move, ("local.get", index), begin if down else end)
        self.emit(f"{t}.{'gt' if down else 'lt'}{signed}", ("br_if", 0), "end", "end")


# --- statements -----------------------------------------------------------------------------------------------------


def _const(b: Body, s: N.Const) -> None:
    b.types[s.id], b.values[s.id] = s.type, (f"{ops.TYPES[s.type.name]}.const", ops.constant(s.type, s.value))


def _op(b: Body, s: N.Op) -> None:
    emit = lanes.emit_vector if s.id in b.vectors else ops.emit
    b.define(s, lambda: emit(b, s.prim, s.type, b.types[s.args[-1]], s.args))


def _call(b: Body, s: N.Call) -> None:
    """Inlines the function into the caller."""
    f = b.unit.kernel.functions[s.function]
    args = [(b.values[i], b.types[i], i in b.vectors, i in b.linear) for i in s.args]
    outer, b.fresh = (b.values, b.types, b.uses, b.own, b.vectors, b.linear), (0, None)
    b.values, b.types, b.uses, b.own, b.vectors, b.linear = {}, {}, uses(f.body), set(), set(), set()
    for p, (value, t, vector, linear) in zip(f.params, args, strict=True):
        b.values[p.id], b.types[p.id] = value, t
        b.vectors |= {p.id} if vector else set()
        b.linear |= {p.id} if linear and b.lanes > 1 else set()
    if b.lanes > 1:
        b.vectors |= divergence(f.body, b.vectors | b.linear).divergent - b.linear
    (result,) = b.block(f.body)
    for _ in b.each(s.id in outer[4]):
        b.push(result, s.id in outer[4])
    b.values, b.types, b.uses, b.own, b.vectors, b.linear = outer
    for v in reversed(b.variables(s.id, s.type, s.name)):
        b.put("local.set", v)


def _arg(b: Body, s: N.ArgLoad) -> None:
    b.put("local.get", b.fn.locals[0])
    _loaded(b, s.type, b.unit.layout.args[s.arg])
    b.define(s)


def _shape(b: Body, s: N.ShapeOf) -> None:
    b.types[s.id] = s.type
    b.values[s.id] = b.extent(b.unit.kernel.buffers[s.buffer], s.axis, ops.TYPES[s.type.name])


def _builtin(b: Body, s: N.Builtin) -> None:
    at = {"seed": L.SEED, "launch": L.LAUNCH}
    b.types[s.id] = u64
    b.values[s.id] = b.word(at[s.what], "i64") if s.what in at else b.once("iteration", "i64")


def _loaded(b: Body, t: DType, offset: int) -> None:
    b.put(ops.LOADS[t.name], offset)
    if t is u1:
        b.emit(("i32.const", 0), "i32.ne")
    elif t.name == "f16":
        b.helper("half_value")


def _load(b: Body, s: N.Load) -> None:
    buffer = b.unit.kernel.buffers[s.buffer]
    if buffer.kind == "local":
        b.put("local.get", b.once(buffer.name, ops.TYPES[buffer.dtype.name]))
    elif s.id in b.vectors:
        b.define(s, lambda: lanes.load_vector(b, s.type, *b.place(s)))
        return
    else:
        _loaded(b, s.type, b.place(s)[0])
    b.define(s)


def _store(b: Body, s: N.Store) -> None:
    buffer = b.unit.kernel.buffers[s.buffer]
    if buffer.kind == "local":
        b.push(s.value, False)
        b.put("local.set", b.once(buffer.name, ops.TYPES[buffer.dtype.name]))
        return
    offset, stride = b.place(s)
    if stride:
        for _ in b.each(True):
            if b.part:
                b.place(s)
            lanes.store_vector(b, buffer.dtype, offset, stride, s.value)
        return
    if b.lanes > 1 and s.value in b.linear and buffer.kind != "frame":
        raise NoLanes
    b.push(s.value, False)
    if buffer.dtype.name == "f16":
        b.helper("half_bits")
    b.put(ops.STORES[buffer.dtype.name], offset)


def _if(b: Body, s: N.If) -> None:
    if s.cond in b.vectors:
        _both(b, s)
        return
    b.push(s.cond, False)
    for r in s.results:
        b.variables(r.id, r.type, r.name)
    b.put("if")
    b.set(s.results, b.block(s.then))
    b.put("else")
    b.set(s.results, b.block(s.orelse))
    if b.fn.code[-1] == ("else",):
        b.fn.drop()
    b.put("end")


def _both(b: Body, s: N.If) -> None:
    """Emits an if whose condition differs between lanes: both arms run, and each lane chooses its results."""
    if not all_are(walk((*s.then, *s.orelse)), (N.Op, N.Uniform, N.Call, N.If, N.Yield)):
        raise NoLanes

    def choose(x: int, y: int) -> None:
        for id in (x, y, s.cond):
            b.push(id, True)
        b.put("v128.bitselect")

    for r, x, y in zip(s.results, b.block(s.then), b.block(s.orelse), strict=True):
        b.define(r, lambda: choose(x, y))


def _for(b: Body, s: N.For) -> None:
    if not b.vectors.isdisjoint((s.begin, s.end)) or (b.lanes > 1 and not b.linear.isdisjoint((s.begin, s.end))):
        raise NoLanes
    b.set(s.carried, s.inits, declare=True)
    b.trips(s.index, b.value(s.begin), b.value(s.end), lambda: b.set(s.carried, b.block(s.body)), s.reverse)
    _results(b, s)


def _while(b: Body, s: N.While) -> None:
    b.set(s.carried, s.inits, declare=True)
    b.emit("block", "loop")
    (more,) = b.block(s.cond)
    b.push(more, False)
    b.emit("i32.eqz", ("br_if", 1))
    b.set(s.carried, b.block(s.body))
    b.emit(("br", 0), "end", "end")
    _results(b, s)


def _results(b: Body, s: N.For | N.While) -> None:
    """Makes the variables of the carried values also the variables of the loop's results."""
    for r, p in zip(s.results, s.carried, strict=True):
        if (r.id in b.vectors) != (p.id in b.vectors):
            raise NoLanes
        b.types[r.id], b.values[r.id] = r.type, b.values[p.id]


Body.handlers = {
    N.Const: _const, N.Op: _op, N.Call: _call, N.ArgLoad: _arg, N.ShapeOf: _shape, N.Builtin: _builtin, N.Load: _load,
    N.Store: _store, N.If: _if, N.For: _for, N.While: _while,
    N.ThreadExit: lambda b, s: b.emit(("i32.const", 1), "return"),
    N.Lane: lambda b, s: b.emit(("i32.const", 0)) or b.define(s),
    N.GroupReduce: lanes.reduce,
}  # fmt: skip
