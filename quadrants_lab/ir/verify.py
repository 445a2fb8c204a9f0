"""Verifies a kernel's types, scoping, structure, buffers and adstacks.

It accepts every kernel that `nodes` describes, and rejects every kernel that `nodes` rules out. Some rules cannot be
decided statically (indices are in bounds, pushes and pops balance along every path): the verifier rejects only kernels
that certainly break them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS, result_type
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.text import print_stmt
from quadrants_lab.ir.types import DType, f32, f64, i32, i64, u1, u32, u64
from quadrants_lab.ir.verify_stacks import check_stacks

BUFFER_KINDS = ("field", "ndarray", "temp", "ret", "scratch", "heap", "local", "private", "shared", "frame", "words")
ROLES = {
    "scratch": ("kept", "work", "marks", "block"), "heap": ("", "flags"), "local": ("", "share", "far"),
    "field": ("", "activity"), "frame": ("", "prints"),
}  # fmt: skip
OFFLOAD_KINDS = ("serial", "range_for", "struct_for", "threads")
REDUCTIONS = {"add", "mul", "min", "max", "and", "or", "xor"}
ATOMIC_OPS = REDUCTIONS | {"sub", "exchange", "cas", "slot"}
BUILTINS = {"seed": u64, "launch": u64, "iteration": u64, "lanes": u32, "place": u32, "elected": u1,
            "thread": i32, "number": i32, "threads": i32, "clock": i64}
MODES = ("forward", "reverse", "both", "count", "dual")


class VerifyError(Exception):
    """IR that breaks a rule: ``rule`` in words, the statement and its span (None if it is about the whole kernel)."""

    def __init__(self, rule: str, kernel: str, stmt: N.Stmt | None = None, when: str = "") -> None:
        self.rule, self.kernel, self.stmt, self.when = rule, kernel, stmt, when
        self.span: Span | None = stmt.span if stmt is not None else None
        lines = [f"invalid IR in kernel '{kernel}'" + (f" {when}" if when else "") + f": {rule}"]
        if stmt is not None:
            lines.append("    " + print_stmt(stmt).split("\n", 1)[0])
        if self.span is not None:
            lines.append(f"  --> {self.span.file}, line {self.span.line}")
        super().__init__("\n".join(lines))

    def at(self, when: str) -> VerifyError:
        """The same error, with a message that also says ``when`` it was found, for example after which pass."""
        return VerifyError(self.rule, self.kernel, self.stmt, when)


def verify(kernel: N.Kernel) -> None:
    """Raises `VerifyError` for the first rule that the kernel breaks."""
    _Verifier(kernel).kernel_()


@dataclass(slots=True)
class _Place:
    """Describes where a block stands. ``loop`` has the dtypes that Break and Continue carry, or None if neither is
    allowed. ``can_break`` is true in a loop and false in a task's body. ``top`` is true for the outermost block of
    a task."""

    loop: Sequence[DType] | None
    can_break: bool
    top: bool = False


class _Verifier:
    def __init__(self, kernel: N.Kernel) -> None:
        self.k = kernel
        self.args = {a.name: a.type for a in kernel.args}
        self.visible: dict[int, DType] = {}
        self.taken: set[int] = set()
        self.stacks: dict[int, DType] = {}  # of the current task
        self.callable: set[str] = set()
        # as `LowerTasks` leaves a kernel
        self.lowered = all(isinstance(t, N.Offload) and t.kind in ("serial", "threads") for t in kernel.body)

    def fail(self, rule: str, stmt: N.Stmt | None = None) -> VerifyError:
        return VerifyError(rule, self.k.name, stmt)

    def need(self, ok: bool, rule: str, stmt: N.Stmt | None = None) -> None:
        if not ok:
            raise self.fail(rule, stmt)

    # --- kernel and blocks --------------------------------------------------------------------------------

    def kernel_(self) -> None:
        k = self.k
        self.need(k.mode in MODES, f"'{k.mode}' is not a mode")
        self.need(len(self.args) == len(k.args), "two arguments have the same name")
        for name, b in k.buffers.items():
            self.buffer(name, b)
        for f in k.functions.values():
            self.function(f)
        outside = _Place(None, False)
        for s in k.body:
            if isinstance(s, N.Yield):
                raise self.fail("the body of a kernel has no terminator", s)
            if isinstance(s, N.Offload):
                self.offload(s)
            else:
                self.stmt(s, outside)

    def function(self, f: N.Function) -> None:
        """Checks a function. It may use its parameters and the functions in front of it, and its ids have nothing to do
        with the kernel's."""
        name = f"{self.k.name}' in function '{f.name}"
        inner = _Verifier(N.Kernel(name, (), {}, (), 1 << 62, functions=self.k.functions))
        inner.callable = self.callable
        inner.block(f.body, _Place(None, False), (f.type,), f.body[-1], f.params)
        self.callable = {*self.callable, f.name}

    def call(self, s: N.Call) -> None:
        self.need(s.function in self.callable, f"there is no function '{s.function}' in front of this", s)
        f = self.k.functions[s.function]
        self.types(s, s.args, [p.type for p in f.params], "the call")
        self.need(s.type is f.type, f"the result of {s.function} is {f.type}, not {s.type}", s)

    def buffer(self, name: str, b: N.Buffer) -> None:
        self.need(b.name == name, f"buffer '{b.name}' is listed as '{name}'")
        self.need(b.kind in BUFFER_KINDS, f"buffer '{name}' has the unknown kind '{b.kind}'")
        if b.kind in N.UNSHAPED:
            self.need(b.shape is None, f"{b.kind} '{name}' has a static shape")
        else:
            self.need(not b.wide, f"{b.kind} '{name}' is called wide, which its shape says")
            self.need(b.shape is not None and len(b.shape) == b.ndim, f"shape and ndim of buffer '{name}' differ")
        self.need(b.ndim == 0 or b.kind not in ("temp", "ret", "local"), f"{b.kind} buffer '{name}' is not 0-d")
        self.need(b.role in ROLES.get(b.kind, ("",)), f"buffer '{name}' has the unknown role '{b.role}'")
        extents = b.ndim if b.kind == "scratch" else 0
        self.need(len(b.extents) == extents, f"buffer '{name}' has {len(b.extents)} extents")
        words = b.of in self.k.buffers and b.ndim == 1
        self.need(words if b.kind == "words" else not b.of, f"buffer '{name}' is not made of words of a buffer")
        for what, other in (("adjoint", b.grad), ("tangent", b.dual)):
            if other in self.k.buffers:
                g = self.k.buffers[other]
                same = (g.dtype, g.ndim, g.shape) == (b.dtype, b.ndim, b.shape)
                self.need(same, f"buffer '{name}' and its {what} '{other}' differ in dtype or shape")

    def define(self, ident: int, type: DType, stmt: N.Stmt, mine: list[int]) -> None:
        self.claim(ident, stmt)
        self.visible[ident] = type
        mine.append(ident)

    def claim(self, ident: int, stmt: N.Stmt) -> None:
        self.need(ident not in self.taken, f"id {ident} is defined twice", stmt)
        self.need(0 <= ident < self.k.next_id, f"id {ident} is not below next_id {self.k.next_id}", stmt)
        self.taken.add(ident)

    def block(
        self, block: N.Block, place: _Place, yields: Sequence[DType], owner: N.Stmt, params: Sequence[N.Param] = ()
    ) -> None:
        """Checks a block. ``params`` are visible in it; its Yield must carry values of the dtypes ``yields``, and its
        Breaks and Continues those that ``place`` says."""
        mine: list[int] = []
        for p in params:
            self.define(p.id, p.type, owner, mine)
        self.need(bool(block), "a block is empty: it has no terminator", owner)
        for s in block[:-1]:
            self.need(not isinstance(s, N.Yield), "a terminator stands before the end of its block", s)
            self.stmt(s, place)
            mine.extend(i for i, _ in s.defs())
        last = block[-1]
        if not isinstance(last, N.Yield):
            raise self.fail("a block does not end in a terminator", last)
        self.claim(last.id, last)
        carried: Sequence[DType] = yields
        if isinstance(last, N.Exit):
            what = "break" if isinstance(last, N.Break) else "continue"
            inside = place.loop is not None and (place.can_break or what == "continue")
            self.need(inside, f"{what} outside of a loop", last)
            carried = place.loop or ()
        self.types(last, last.values, carried, "the terminator")
        for i in mine:
            del self.visible[i]

    def types(self, s: N.Stmt, ids: Sequence[int], types: Sequence[DType], who: str) -> None:
        self.need(len(ids) == len(types), f"{who} carries {len(ids)} values where {len(types)} are expected", s)
        for n, (i, t) in enumerate(zip(ids, types, strict=True)):
            self.need(self.type(i, s) is t, f"value {n} of {who} is {self.visible[i]} where {t} is expected", s)

    def type(self, ident: int, stmt: N.Stmt) -> DType:
        t = self.visible.get(ident)
        if t is None:
            raise self.fail(f"%{ident} is read where it is not visible", stmt)
        return t

    # --- statements ---------------------------------------------------------------------------------------

    def stmt(self, s: N.Stmt, place: _Place) -> None:
        for i in s.operands():
            if i not in self.visible:
                raise self.fail(f"%{i} is read where it is not visible", s)
        structured = _STRUCTURED.get(type(s))
        if structured is not None:
            self.claim(s.id, s)
            structured(self, s, place)
            for i, t in s.defs():
                self.claim(i, s)
                self.visible[i] = t
            return
        checks = _CHECKS.get(type(s))
        if checks is None:
            raise self.fail(f"{type(s).__name__} cannot stand here", s)
        if isinstance(s, N.AdStackAlloca):
            self.need(place.top, "an adstack_alloca does not stand at the top level of a task's body", s)
        for check in checks:
            check(self, s)
        self.claim(s.id, s)
        for i, t in s.defs():
            if i != s.id:
                self.claim(i, s)
            self.visible[i] = t

    def offload(self, s: N.Offload) -> None:
        self.claim(s.id, s)
        self.need(s.kind in OFFLOAD_KINDS, f"'{s.kind}' is not a kind of task", s)
        threads = s.kind == "threads"
        self.need(threads or (s.kind == "serial") == (not s.indices), "only a serial task has no indices", s)
        types = [p.type for p in s.indices]
        self.schedule(s)
        self.need(threads or all(t in (i32, i64) for t in types), "a task's index is neither i32 nor i64", s)
        self.block(s.bounds, _Place(None, False), types if threads else types * 2, s)
        self.stacks = {}
        self.in_guard = False
        self.blocks = s.block_dim > 0
        self.block(s.body, _Place((), False, top=True), (), s, s.indices)
        self.stacks = {}
        broken = check_stacks(s, self.k.mode)
        if broken is not None:
            raise self.fail(*broken)

    def schedule(self, s: N.Offload) -> None:
        """Checks a task's schedule: it names buffers of the kernel, and its fields are consistent with each other."""
        counts = (s.lanes, s.colours, s.wait, s.colour_rows, s.fission, s.aggregate, s.grain, s.in_step, s.long_sum)
        self.need(min(counts) >= 0, "a count of the schedule is negative", s)
        buffers = [self.k.buffers.get(name) for name in (*s.copies, *(name for name, _ in s.shares))]
        self.need(None not in buffers, "the schedule names a buffer that there is not", s)
        ops = {op for _, op in s.shares}
        self.need(ops <= REDUCTIONS, "the schedule reduces by no such operation", s)
        self.need(s.sums in ("", "serial", "versioned"), f"'{s.sums}' is no way in which sums run", s)
        self.need(not s.sums or bool(s.copies), "the schedule says how sums run, and names no buffer of them", s)
        self.need(not s.aggregate or bool(s.copies), "the schedule aggregates sums, and there are none", s)
        parallel = s.kind != "serial" or not any((*counts, s.shares, s.copies))
        self.need(parallel, "a serial task has the schedule of a parallel one", s)
        self.need(not s.lanes or not (s.fission or s.aggregate), "a task runs in lanes and in another way, too", s)
        self.need(not s.fission or s.colour_rows > 0, "the body of a task is split into loops without colours", s)

    def if_(self, s: N.If, place: _Place) -> None:
        self.need(self.visible[s.cond] is u1, "the condition is not u1", s)
        inner = _Place(place.loop, place.can_break)
        results = [r.type for r in s.results]
        self.block(s.then, inner, results, s)
        self.block(s.orelse, inner, results, s)

    def loop(self, s: N.Loop) -> list[DType]:
        carried = [p.type for p in s.carried]
        self.types(s, s.inits, carried, "the loop's inits")
        self.need([r.type for r in s.results] == carried, "carried values and results differ in dtype", s)
        return carried

    def for_(self, s: N.For, place: _Place) -> None:
        t = s.index.type
        self.need(t.is_int, "a loop index is not an integer", s)
        same = all(self.visible[i] is t for i in (s.begin, s.end, s.step) if i != N.NO_ID)
        self.need(same, "loop bounds and index differ in dtype", s)
        self.need(s.step == N.NO_ID or not s.reverse, "a loop with a step runs backwards", s)
        carried = self.loop(s)
        self.block(s.body, _Place(carried, True), carried, s, (s.index, *s.carried))

    def while_(self, s: N.While, place: _Place) -> None:
        carried = self.loop(s)
        mine: list[int] = []
        for p in s.carried:
            self.define(p.id, p.type, s, mine)
        self.block(s.cond, _Place(None, False), [u1], s)
        self.block(s.body, _Place(carried, True), carried, s)
        for i in mine:
            del self.visible[i]

    def guard(self, s: N.AdStackGuard, place: _Place) -> None:
        ok = place.top or (self.in_guard and len(s.body) == 1)
        self.need(ok, "an adstack_guard does not stand at the top level of a task's body", s)
        outer, self.in_guard = self.in_guard, True
        self.block(s.body, _Place(None, False), (), s)
        self.in_guard = outer

    def const(self, s: N.Const) -> None:
        v, t = s.value, s.type
        if t is u1:
            ok = type(v) is bool
        elif t.is_int:
            ok = type(v) is int and t.holds(v)
        else:
            ok = type(v) is float and _exact(v, t)
        self.need(ok, f"{v!r} is no constant of {t}", s)

    def op(self, s: N.Op) -> None:
        row = PRIMS.get(s.prim)
        if row is None:
            raise self.fail(f"there is no primitive '{s.prim}'", s)
        self.need(len(s.args) == row.arity, f"{s.prim} takes {row.arity} operands", s)
        ts = [self.visible[a] for a in s.args]
        self.need(_RULES[row.rule](ts, s), f"{s.prim} cannot be applied to {', '.join(map(str, ts))}", s)
        t = result_type(s.prim, ts[0], ts[1] if len(ts) > 1 else None, s.type)
        self.need(s.type is t, f"the result of {s.prim} is {t}, not {s.type}", s)

    def choice(self, s: N.Choice) -> None:
        self.need(len(s.index) == len(s.shape), f"an element of a box of {len(s.shape)} axes has as many indices", s)
        self.need(all(self.visible[i].is_int for i in s.index), "an index is not an integer", s)
        self.need(prod(s.shape) == len(s.values) > 0, f"{s.shape} is not the shape of {len(s.values)} elements", s)
        types = {t for _, t in s.defs()} | {self.visible[i] for i in s.operands()[len(s.index) :]}
        whole = s.clamped or isinstance(s, N.WithElement) or s.defs()[0][1].is_float
        self.need(whole, "an element that may be none is no float", s)
        self.need(len(types) == 1, "elements differ in dtype", s)
        self.need(len(s.defs()) in (1, len(s.values)), "there is not a result for each element", s)

    def arg(self, s: N.ArgLoad) -> None:
        self.need(s.arg in self.args, f"there is no argument '{s.arg}'", s)
        self.need(self.args[s.arg] is s.type, f"argument '{s.arg}' is {self.args[s.arg]}", s)

    def shape(self, s: N.ShapeOf) -> None:
        b = self.k.buffers.get(s.buffer)
        if b is None:
            raise self.fail(f"there is no buffer '{s.buffer}'", s)
        self.need(0 <= s.axis < b.ndim, f"'{s.buffer}' has {b.ndim} axes", s)
        self.need(b.shape is None, f"the extents of '{s.buffer}' are constants", s)
        self.need(s.type in (b.extent_type, i64), f"an extent of '{s.buffer}' is {b.extent_type}", s)

    def access(self, s: N.Access) -> None:
        b = self.k.buffers.get(s.buffer)
        if b is None:
            raise self.fail(f"there is no buffer '{s.buffer}'", s)
        number = self.lowered and b.ndim > 0 and len(s.index) == 1  # one number, see `LowerOffsets`
        self.need(number or len(s.index) == b.ndim, f"'{s.buffer}' takes {b.ndim} indices", s)
        self.need(all(self.visible[i].is_int for i in s.index), "an index is not an integer", s)
        types = [self.visible[s.value]] if isinstance(s, N.Write) else []
        types += [s.type] if isinstance(s, N.Value) else []
        self.need(all(t is b.dtype for t in types), f"'{s.buffer}' holds {b.dtype}", s)

    def atomic(self, s: N.Atomic) -> None:
        t = s.type
        self.need(s.op in ATOMIC_OPS, f"there is no atomic '{s.op}'", s)
        if s.op == "cas":
            ok = t.is_int and self.visible.get(s.expected) is t
            self.need(ok, f"there is no such compare-and-swap of {t}", s)
        elif s.op in ("and", "or", "xor"):
            self.need(not t.is_float, f"there is no atomic {s.op} of {t}", s)
        elif s.op != "exchange":
            self.need(t is not u1, f"there is no atomic {s.op} of {t}", s)

    def stack(self, s: N.StackUse) -> None:
        """Checks a use of a stack: the stack belongs to this task, and a value that is pushed or read has the stack's
        dtype."""
        t = self.stacks.get(s.stack)
        if t is None:
            raise self.fail(f"${s.stack} is no adstack of this task", s)
        self.need(all(self.visible[i] is t for i in s.operands()), f"${s.stack} holds {t}", s)
        if isinstance(s, N.AdStackDepth):
            self.need(s.type is i64, "a depth is i64", s)
        elif isinstance(s, N.Value):
            self.need(s.type is t, f"${s.stack} holds {t}", s)


_FORMATS = {16: "e", 32: "f", 64: "d"}


def _exact(v: float, t: DType) -> bool:
    """Whether the dtype has exactly this float (or it is a NaN)."""
    try:
        back: float = struct.unpack(_FORMATS[t.bits], struct.pack(_FORMATS[t.bits], v))[0]
    except OverflowError:
        return False
    return back == v or v != v


def _same(ts: Sequence[DType]) -> bool:
    return all(t is ts[0] for t in ts)


# typing rule of a primitive (`Prim.rule`) -> whether operands of these dtypes satisfy it
_RULES: dict[str, Callable[[Sequence[DType], N.Op], bool]] = {
    "num": lambda ts, s: _same(ts) and ts[0] is not u1,
    "float": lambda ts, s: _same(ts) and ts[0].is_float,
    "int": lambda ts, s: _same(ts) and (ts[0].is_int or (ts[0] is u1 and s.prim in ("and", "or", "xor", "not"))),
    "cmp": lambda ts, s: _same(ts),
    "select": lambda ts, s: ts[0] is u1 and ts[1] is ts[2],
    "cast": lambda ts, s: True,
    "bitcast": lambda ts, s: ts[0].bits == s.type.bits,
    "test": lambda ts, s: ts[0].is_float,
    "count": lambda ts, s: ts[0].is_int,
    "machine": lambda ts, s: _same(ts) and ts[0].is_int,
    "unit": lambda ts, s: ts[0] is f32,
    "fptoint": lambda ts, s: ts[0].is_float and s.type.is_int,
    "isqrt": lambda ts, s: ts[0] in (i32, i64),
}

# The checks by class: of structured statements, which also get the `_Place`, and of other classes and traits.
_STRUCTURED: dict[type, Callable[..., None]] = {
    N.If: _Verifier.if_, N.For: _Verifier.for_, N.While: _Verifier.while_, N.AdStackGuard: _Verifier.guard,
}  # fmt: skip
_RULE_OF: dict[type, Callable[..., None]] = {
    N.Const: _Verifier.const,
    N.Op: _Verifier.op,
    N.Call: _Verifier.call,
    N.Choice: _Verifier.choice,
    N.ArgLoad: _Verifier.arg,
    N.ShapeOf: _Verifier.shape,
    N.Random: lambda v, s: v.need(s.type.is_int or s.type in (f32, f64), f"there is no random {s.type}", s),
    N.Builtin: lambda v, s: v.need(
        BUILTINS.get(s.what) is s.type, f"there is no builtin '{s.what}' of {s.type}", s
    ),
    N.Access: _Verifier.access,
    N.Atomic: _Verifier.atomic,
    N.Assert: lambda v, s: v.need(v.visible[s.cond] is u1, "the condition is not u1", s),
    N.Barrier: lambda v, s: v.need(v.blocks, "a barrier stands in a task without blocks", s),
    N.Lane: lambda v, s: v.need(s.type is u32, "a lane's number is u32", s),
    N.GroupReduce: lambda v, s: v.need(v.visible[s.value] is s.type, "a sum has the dtype of what is added", s),
    N.GroupSame: lambda v, s: v.need(s.type is u1, "whether values are the same is a u1", s),
    N.Overflow: lambda v, s: v.need(v.visible[s.stack] is u32, "a stack's number is u32", s),
    N.AdStackAlloca: lambda v, s: v.stacks.update({s.id: s.type}),
    N.StackUse: _Verifier.stack,
}
_CHECKS: dict[type, list[Callable[..., None]]] = {
    cls: [_RULE_OF[base] for base in reversed(cls.__mro__) if base in _RULE_OF]
    for cls in N.STATEMENTS
    if not issubclass(cls, (N.Yield, N.Offload))
}
