"""From lowered IR to a WebAssembly module: a function for each task, and `run`, which calls them.

The argument of each is the address of the launch frame (`_gpu.layout`). Values are local variables, and control flow is
structured in both languages. One thread runs the kernel, the iterations of a parallel task in row-major order. An
integer of fewer than 32 bits is an i32 within its limits, a u1 is 0 or 1, an f16 is an f32 that f16 has, too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends.lower import devices, lower
from quadrants_lab.backends.stage import Stage
from quadrants_lab.backends.wasm import ops
from quadrants_lab.backends.wasm.module import Function, Instruction, Local, Module
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType, u1, u32, u64
from quadrants_lab.ir.walk import uses, walk

PRIVATE, FIRST = 64, 1 << 20  # where arrays of an iteration lie, and where all other memory begins


def lowering(options: CompileOptions) -> tuple[N.Pass, ...]:
    return devices.wasm(lower_failures, options)


@deeply_recursive
def module(kernel: N.Kernel, options: CompileOptions) -> Module:
    """The module of an offloaded kernel."""
    kernel = lower(kernel, lowering(options), options)
    unit, run = Unit(kernel), Function("run", ("i32",))
    for n, task in enumerate(kernel.tasks):
        body = Body(unit, Function(f"task{n}", ("i32",), ("i32",)), (task,))
        body.task(task)
        for instruction in (("local.get", run.locals[0]), ("call", unit.add(body.fn)), ("if",), ("return",), ("end",)):
            run.put(N.NO_ID, *instruction)  # a task returns whether an assert has failed
    unit.add(run)
    return Module(unit.functions)


def stages(kernel: N.Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    return {"wat": lambda: module(kernel, options).stage()}


class Unit:
    """What the functions of a module share. ``private``: the addresses of arrays of the iteration."""

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
            raise QuadrantsRuntimeError(
                f"local arrays of kernel '{kernel.name}' take {at - PRIVATE} bytes, which are more than "
                f"WebAssembly has for them here ({FIRST - PRIVATE})",
                code="QL3040",
                labels=(Label(kernel.span),),
                help="use smaller vectors and matrices, or fields",
            )

    def add(self, fn: Function) -> int:
        """The number of the function, which the module has once."""
        if fn.name not in self.numbers:
            self.numbers[fn.name] = len(self.functions)
            self.functions.append(fn)
        return self.numbers[fn.name]


class Body:
    """Emits blocks into ``fn``. ``values`` maps ids to locals, or to the instruction that makes a constant, ``types``
    to dtypes. ``known``: locals that are set at the start, by what they hold."""

    handlers: dict[type, Callable[[Any, Any], None]] = {}

    def __init__(self, unit: Unit, fn: Function, block: N.Block) -> None:
        self.unit = unit
        self.fn = fn
        self.stmt = N.NO_ID
        self.own = {s.id for s in walk(block)}  # the others are statements of functions
        self.values: dict[int, Local | Instruction] = {}
        self.types: dict[int, DType] = {}
        self.known: dict[str, Local] = {}
        self.uses = uses(block)
        self.fresh: tuple[int, Local | None] = 0, None  # a local that the last instruction set, and where

    # --- values -----------------------------------------------------------------------------------------------------

    def put(self, *instruction: Any) -> None:
        self.fn.put(self.stmt, *instruction)

    def get(self, *ids: int) -> None:
        """Pushes values. One that was defined right before, and is read once, has been pushed already."""
        for id in ids:
            value = self.values[id]
            if isinstance(value, Local):
                if self.uses.get(id) == 1 and self.fresh == (len(self.fn.code), value):
                    self.fn.drop()
                else:
                    self.put("local.get", value)
            else:
                self.put(*value)

    def variable(self, id: int, t: DType, name: str) -> Local:
        self.types[id] = t
        found = self.values[id] = self.fn.local(ops.TYPES[t.name], name)
        return found

    def define(self, s: N.Value) -> None:
        """The value of a statement is what was pushed."""
        v = self.variable(s.id, s.type, s.name)
        self.put("local.set", v)
        self.fresh = len(self.fn.code), v

    def set(self, params: tuple[N.Param, ...], ids: tuple[int, ...]) -> None:
        """Sets variables to values at the same time."""
        self.get(*ids)
        for p in reversed(params):
            self.put("local.set", self.values[p.id])

    def once(self, key: str, type: str, *instructions: Instruction) -> Local:
        """A local that is set at the start of the function."""
        if key not in self.known:
            self.known[key] = v = self.fn.local(type, ops.word(key))
            self.fn.start += [*instructions, ("local.set", v)] if instructions else []
        return self.known[key]

    def helper(self, name: str) -> None:
        """Calls a function that converts an f16."""
        if name not in self.unit.numbers:
            f = ops.half(name)
            (p,) = f.params
            inner = Body(self.unit, Function(name, (ops.TYPES[p.type.name],), (ops.TYPES[f.type.name],)), f.body)
            inner.values[p.id], inner.types[p.id], inner.own = inner.fn.locals[0], p.type, set()
            inner.get(*inner.block(f.body))
            self.unit.add(inner.fn)
        self.put("call", self.unit.numbers[name])

    # --- memory -----------------------------------------------------------------------------------------------------

    def word(self, at: int, t: str = "i32") -> Local:
        """A word of the launch frame."""
        return self.once(f"frame.{at}.{t}", t, ("local.get", self.fn.locals[0]), (f"{t}.load", at))

    def base(self, b: N.Buffer) -> Instruction:
        """The instruction that pushes the address of a buffer's first element, but for what `place` adds."""
        layout = self.unit.layout
        if b.kind == "private":
            return "i32.const", self.unit.private[b.name]
        if b.in_frame:
            return "local.get", self.fn.locals[0]
        own = self.word(layout.buffers[b.of or b.name])
        if b.kind != "heap":
            return "local.get", own
        heap = self.word(L.HEAP)
        total = ("local.get", heap), ("local.get", own), ("i32.add",)
        return "local.get", self.once(b.name, "i32", *total)

    def stride(self, b: N.Buffer, axis: int) -> Instruction:
        """The instruction that pushes the distance of neighbours along an axis, in bytes."""
        behind = [b.known_extent(k) for k in range(axis + 1, b.ndim)]
        size = prod(n for n in behind if n is not None) * b.dtype.nbytes
        free = [k for k, n in enumerate(behind, axis + 1) if n is None]
        if not free:
            return "i32.const", ops.constant(u32, size)
        product: list[Instruction] = [("i32.const", ops.constant(u32, size))]
        for k in free:
            product += [("local.get", self.extent(b, k)), ("i32.mul",)]
        return "local.get", self.once(f"{b.name}.stride{axis}", "i32", *product)

    def extent(self, b: N.Buffer, axis: int, t: str = "i32") -> Local:
        return self.word(self.unit.layout.extents[b.name] + 8 * axis, t)

    def place(self, s: N.Access) -> int:
        """Pushes the address of an element; what is left to be added to it is returned."""
        b = self.unit.kernel.buffers[s.buffer]
        rest = self.unit.layout.buffers[b.name] if b.in_frame else 0
        self.put(*self.base(b))
        for axis, id in enumerate(s.index):
            value, step = self.values[id], self.stride(b, axis)
            if not isinstance(value, Local) and step[0] == "i32.const" and 0 <= (more := value[1] * step[1]) < FIRST:
                rest += more
                continue
            self.get(id)
            if self.types[id].bits == 64:
                self.put("i32.wrap_i64")
            if step != ("i32.const", 1):
                self.put(*step)
                self.put("i32.mul")
            self.put("i32.add")
        return rest

    # --- blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: N.Block) -> tuple[int, ...]:
        """Emits a block; returns the ids of its Yield."""
        outer = self.stmt
        for s in block[:-1]:
            self.stmt = s.id if s.id in self.own else outer
            self.handlers[type(s)](self, s)
        self.stmt = outer
        last = block[-1]
        if type(last) is not N.Yield:
            raise TypeError(f"a block ends in {type(last).__name__}; exits must be structured before emission")
        return last.values

    def task(self, task: N.Offload) -> None:
        """A function that returns whether an assert has failed."""
        self.stmt = task.id
        ends, k = self.block(task.bounds), len(task.indices)
        bounds = [self.fn.local(ops.TYPES[self.types[i].name], "bound") for i in ends]
        for id, v in zip(ends, bounds, strict=True):
            self.get(id)
            self.put("local.set", v)
        count = self.once("iteration", "i64") if k and any(isinstance(s, N.Builtin) for s in walk(task.body)) else None

        def nest(axis: int) -> None:
            if axis < k:
                p = task.indices[axis]
                self.trips(p, ("local.get", bounds[axis]), ("local.get", bounds[k + axis]), lambda: nest(axis + 1))
                return
            self.block(task.body)
            if count:
                for i in (("local.get", count), ("i64.const", 1), ("i64.add",), ("local.set", count)):
                    self.put(*i)

        nest(0)
        self.put("i32.const", 0)

    def trips(
        self, p: N.Param, begin: Instruction, end: Instruction, body: Callable[[], None], down: bool = False
    ) -> None:
        """A loop over begin .. end, which have been computed; ``body`` emits its iterations."""
        t = ops.TYPES[p.type.name]
        signed = "_s" if p.type.kind == "i" else "_u"
        index = self.variable(p.id, p.type, p.name)
        self.put(*begin)
        self.put(*end)
        self.put(f"{t}.lt{signed}")
        self.put("if")
        self.put(*(end if down else begin))
        self.put("local.set", index)
        self.put("loop")
        if down:
            self.step(index, "sub")
        body()
        if not down:
            self.step(index, "add")
        self.put("local.get", index)
        self.put(*(begin if down else end))
        self.put(f"{t}.{'gt' if down else 'lt'}{signed}")
        self.put("br_if", 0)
        self.put("end")
        self.put("end")

    def step(self, index: Local, how: str) -> None:
        for i in (("local.get", index), (f"{index.type}.const", 1), (f"{index.type}.{how}",), ("local.set", index)):
            self.put(*i)


# --- statements -----------------------------------------------------------------------------------------------------


def _const(b: Body, s: N.Const) -> None:
    b.types[s.id], b.values[s.id] = s.type, (f"{ops.TYPES[s.type.name]}.const", ops.constant(s.type, s.value))


def _op(b: Body, s: N.Op) -> None:
    ops.emit(b, s.prim, s.type, b.types[s.args[-1]], s.args)
    b.define(s)


def _call(b: Body, s: N.Call) -> None:
    """The function becomes part of the caller."""
    f = b.unit.kernel.functions[s.function]
    outer, b.fresh = (b.values, b.types, b.uses), (0, None)
    args = [(b.values[i], b.types[i]) for i in s.args]
    b.values, b.types, b.uses = {}, {}, uses(f.body)
    for p, (value, t) in zip(f.params, args, strict=True):
        b.values[p.id], b.types[p.id] = value, t
    own, b.own = b.own, set()
    b.get(*b.block(f.body))
    (b.values, b.types, b.uses), b.own = outer, own
    b.define(s)


def _arg(b: Body, s: N.ArgLoad) -> None:
    _loaded(b, s.type, b.unit.layout.args[s.arg], ("local.get", b.fn.locals[0]))
    b.define(s)


def _shape(b: Body, s: N.ShapeOf) -> None:
    b.types[s.id] = s.type
    b.values[s.id] = b.extent(b.unit.kernel.buffers[s.buffer], s.axis, ops.TYPES[s.type.name])


def _builtin(b: Body, s: N.Builtin) -> None:
    at = {"seed": L.SEED, "launch": L.LAUNCH}
    b.types[s.id] = u64
    b.values[s.id] = b.word(at[s.what], "i64") if s.what in at else b.once("iteration", "i64")


def _loaded(b: Body, t: DType, offset: int, *address: Instruction) -> None:
    for instruction in address:
        b.put(*instruction)
    b.put(ops.LOADS[t.name], offset)
    if t is u1:
        b.put("i32.const", 0)
        b.put("i32.ne")
    elif t.name == "f16":
        b.helper("half_value")


def _load(b: Body, s: N.Load) -> None:
    buffer = b.unit.kernel.buffers[s.buffer]
    if buffer.kind == "local":
        b.put("local.get", b.once(buffer.name, ops.TYPES[buffer.dtype.name]))
    else:
        _loaded(b, s.type, b.place(s))
    b.define(s)


def _store(b: Body, s: N.Store) -> None:
    buffer = b.unit.kernel.buffers[s.buffer]
    if buffer.kind == "local":
        b.get(s.value)
        b.put("local.set", b.once(buffer.name, ops.TYPES[buffer.dtype.name]))
        return
    offset = b.place(s)
    b.get(s.value)
    if buffer.dtype.name == "f16":
        b.helper("half_bits")
    b.put(ops.STORES[buffer.dtype.name], offset)


def _if(b: Body, s: N.If) -> None:
    b.get(s.cond)
    for r in s.results:
        b.variable(r.id, r.type, r.name)
    b.put("if")
    b.set(s.results, b.block(s.then))
    b.put("else")
    b.set(s.results, b.block(s.orelse))
    if b.fn.code[-1] == ("else",):
        b.fn.drop()
    b.put("end")


def _for(b: Body, s: N.For) -> None:
    ends = [b.values[i] for i in (s.begin, s.end)]
    begin, end = (("local.get", v) if isinstance(v, Local) else v for v in ends)
    _carry(b, s)
    b.trips(s.index, begin, end, lambda: b.set(s.carried, b.block(s.body)), s.reverse)
    _results(b, s)


def _while(b: Body, s: N.While) -> None:
    _carry(b, s)
    b.put("block")
    b.put("loop")
    b.get(*b.block(s.cond))
    b.put("i32.eqz")
    b.put("br_if", 1)
    b.set(s.carried, b.block(s.body))
    b.put("br", 0)
    b.put("end")
    b.put("end")
    _results(b, s)


def _carry(b: Body, s: N.For | N.While) -> None:
    b.get(*s.inits)
    for p in s.carried:
        b.variable(p.id, p.type, p.name)
    for p in reversed(s.carried):
        b.put("local.set", b.values[p.id])


def _results(b: Body, s: N.For | N.While) -> None:
    """The results are the variables of the carried values."""
    for r, p in zip(s.results, s.carried, strict=True):
        b.types[r.id], b.values[r.id] = r.type, b.values[p.id]


def _exit(b: Body, s: N.ThreadExit) -> None:
    b.put("i32.const", 1)
    b.put("return")


Body.handlers = {
    N.Const: _const, N.Op: _op, N.Call: _call, N.ArgLoad: _arg, N.ShapeOf: _shape, N.Builtin: _builtin, N.Load: _load,
    N.Store: _store, N.If: _if, N.For: _for, N.While: _while, N.ThreadExit: _exit,
}  # fmt: skip
