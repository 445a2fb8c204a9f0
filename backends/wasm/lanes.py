"""Decides which tasks run several iterations at once in vectors (lanes) of WebAssembly, and emits their code. A
vector of 128 bits holds values of 32 bits from four iterations, or of 64 bits from two.

All lanes run the same code: loops must have the same bounds in all lanes, and if an if's condition differs between
lanes, both arms are computed. Other tasks run their iterations one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Any

from quadrants_lab.analysis.divergence import counting, divergence
from quadrants_lab.backends.cost import fixed_total
from quadrants_lab.backends.lower.math import MATH, function
from quadrants_lab.backends.wasm.module import VECTORS
from quadrants_lab.backends.wasm.ops import LOADS, STORES, TYPES
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.prims import RENAMED
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f16, f64, i32, u1
from quadrants_lab.ir.walk import all_are, find, of_kind, rewrite_in, types_of, uses, walk

Body = Any  # stands for `emitter.Body`: the emitter imports this module
_SHAPES = {"f32": "f32x4", "f64": "f64x2", "i32": "i32x4", "i64": "i64x2"}
# `lower` expresses these by operations that vectors have
_FORMULAS = ("isnan", "isinf", "rsqrt", "round", *RENAMED)
_OF_FLOATS = ("floordiv", "mod", *_FORMULAS)
_COMPARISONS = ("lt", "le", "gt", "ge")
_BITS = {"and": "v128.and", "or": "v128.or", "xor": "v128.xor", "not": "v128.not"}
_SHORT = 80  # a task with more statements computes one vector of each value, not two
_SHIFTS = ("shl", "shr", "lshr")


class NoLanes(Exception):
    """Raised when the code to emit has no vector form."""


class Shape:
    """How the iterations of a task form groups. ``divergent``: ids of values that differ within a group; ``linear``:
    the divergent ids that grow by one from lane to lane; ``vectors``: the other divergent ids; ``per_lane``: see
    `Divergence`; ``lanes``: how many lanes a vector has, as many as the widest dtype allows."""

    def __init__(self, body: N.Block, params: Sequence[N.Param], locals: Container[str] = ()) -> None:
        index, types = params[-1].id, types_of(body) | {p.id: p.type for p in params}
        found = divergence(body, [index], locals)
        self.divergent, self.per_lane = found.divergent, found.per_lane
        self.linear = counting(body, index, self.divergent) | {s.id for s in find(body, N.Lane)}
        for s in find(body, N.Op):
            if s.prim == "cast" and s.type.bits == 64 and s.type.is_int and s.args[0] in self.linear:
                self.linear.add(s.id)
        self.vectors = self.divergent - self.linear
        stored = [s.value for s in find(body, N.Store) if self.moves(s)]
        stored += [s.value for s in walk(body) if isinstance(s, (N.Atomic, N.GroupReduce, N.AdStackPush))]
        wide = any(types[i].bits == 64 for i in (*self.vectors, *stored))
        self.lanes = 2 if wide else 4

    def moves(self, s: N.Access) -> bool:
        """Whether each lane accesses a different element."""
        return any(i in self.divergent for i in s.index)


def fits(t: DType, lanes: int) -> bool:
    """Whether a vector holds ``lanes`` values of the dtype."""
    return t is u1 or (t.bits * lanes == 128 and t is not f16)


def instructions(prim: str, out: DType, t: DType, lanes: int) -> list[str] | None:
    """The instructions for a primitive on vectors of dtype ``t`` that are on the stack; None if there are none for
    vectors. The count of a shift is a scalar."""
    if prim == "cast" and (t, out, lanes) == (i32, f64, 2):
        return ["f64x2.convert_low_i32x4_s"]
    if not (fits(t, lanes) and fits(out, lanes)):
        return None
    own = "v128" if t is u1 else _SHAPES[TYPES[t.name]]
    sign = "" if t.is_float else "_s" if t.kind == "i" else "_u"
    if prim in _BITS:
        return [_BITS[prim]]
    if t is u1 and prim in ("eq", "ne"):
        return ["v128.xor", *["v128.not"] * (prim == "eq")]
    if prim == "select":
        return ["v128.bitselect"]
    if prim in ("cast", "fptoint", "bitcast"):
        if u1 in (t, out):
            return None
        if prim == "bitcast" or t.is_float == out.is_float:
            return []
        to = "f32x4.convert_i32x4" + sign if out.is_float else "i32x4.trunc_sat_f32x4_" + "us"[out.kind == "i"]
        return [to] if lanes == 4 else None
    if prim in _SHIFTS:
        name = "shl" if prim == "shl" else "shr_s" if prim == "shr" and t.kind == "i" else "shr_u"
    else:
        name = {"raw_div": "div"}.get(prim, prim) + sign * (prim in _COMPARISONS)
    return [f"{own}.{name}"] if name in VECTORS.get(own, ()) else None


# --- emission -------------------------------------------------------------------------------------------------------


def _vector_of(b: Body, t: DType) -> str:
    if not fits(t, b.lanes):
        raise NoLanes
    return ("i32x4" if b.lanes == 4 else "i64x2") if t is u1 else _SHAPES[TYPES[t.name]]


def push_vector(b: Body, id: int) -> None:
    """Pushes a value as a vector."""
    value, t, first = b.value(id), b.types[id], b.part * b.lanes
    numbers = range(first, first + b.lanes)  # the indices of the lanes
    if id in b.vectors:
        b.get(id)
    elif t is i32 and b.lanes == 2:  # the value will be converted to an f64
        b.get(id)
        b.emit("i32x4.splat", ("v128.const", *(k * (id in b.linear) for k in numbers), 0, 0), "i32x4.add")
    elif value[0].endswith(".const"):
        own = _vector_of(b, t)
        form = {"f32x4": "<f", "f64x2": "<d", "i32x4": "<i", "i64x2": "<q"}[own]
        b.put("v128.const", *struct.unpack("<4i", struct.pack(form, -value[1] if t is u1 else value[1]) * b.lanes))
    else:
        own = _vector_of(b, t)
        if t is u1:
            b.put("i32.const", 0)
        b.get(id)
        b.emit(*["i32.sub"] * (t is u1), *["i64.extend_i32_s"] * (t is u1 and b.lanes == 2), f"{own}.splat")
        if id in b.linear:
            b.emit(("v128.const", *(numbers if b.lanes == 4 else (first, 0, first + 1, 0))), f"{own}.add")


def emit_vector(b: Body, prim: str, out: DType, t: DType, args: tuple[int, ...]) -> None:
    """Pushes the result of a primitive on the values ``args`` as a vector."""
    made = instructions(prim, out, t, b.lanes)
    if made is None:
        raise NoLanes
    if prim in _SHIFTS:
        push_vector(b, args[0])
        b.push(args[1], False)
        b.emit(*["i32.wrap_i64"] * (t.bits == 64), *made)
        return
    for id in (*args[1:], args[0]) if prim == "select" else args:
        push_vector(b, id)
    b.emit(*made)


def load_vector(b: Body, t: DType, offset: int, stride: int) -> None:
    """Loads a vector from the address on the stack; the lanes' elements are ``stride`` bytes apart."""
    own, load, offset = _vector_of(b, t), LOADS[t.name], offset + b.part * b.lanes * stride
    if t is u1 or not stride:
        raise NoLanes
    if stride == t.nbytes:
        b.put("v128.load", offset)
        return
    address = b.fn.local("i32")
    b.emit(("local.tee", address), (load, offset), f"{own}.splat")
    for k in range(1, b.lanes):
        b.emit(("local.get", address), (load, offset + k * stride), (f"{own}.replace_lane", k))


def store_vector(b: Body, t: DType, offset: int, stride: int, id: int) -> None:
    """Stores the value ``id`` to the address on the stack; the lanes' elements are ``stride`` bytes apart."""
    own, offset = _vector_of(b, t), offset + b.part * b.lanes * stride
    if t is u1:
        raise NoLanes
    if stride == t.nbytes:
        push_vector(b, id)
        b.put("v128.store", offset)
        return
    address, vector = b.fn.local("i32"), b.fn.local("v128")
    b.put("local.set", address)
    push_vector(b, id)
    b.put("local.set", vector)
    for k in range(b.lanes):
        b.emit(("local.get", address), ("local.get", vector), (f"{own}.extract_lane", k))
        b.put(STORES[t.name], offset + k * stride)


def reduce(b: Body, s: N.GroupReduce) -> None:
    """Emits the reduction of a vector: the values of all lanes combined, in the order of the lanes."""
    if b.lanes == 1:
        b.get(s.value)
    else:
        own, vector = _vector_of(b, s.type), b.fn.local("v128")
        for _ in b.each(True):
            push_vector(b, s.value)
            b.put("local.set", vector)
            for k in range(b.lanes):
                b.emit(("local.get", vector), (f"{own}.extract_lane", k))
                if b.part or k:
                    b.put(f"{TYPES[s.type.name]}.{s.op}")
    b.define(s)


# --- the schedule ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LaneSchedule(Parametrised):
    """Decides how many iterations of each parallel task run side by side. Sums into one element become sums over the
    lanes. ``near``: see `LowerMath`. ``reproducible``: all kernels that compute a value must get the same bits."""

    near: bool = True
    reproducible: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        b = Builder(kernel.next_id, types_of(kernel.body))
        body = tuple(self._scheduled(kernel, t, b) for t in kernel.tasks)
        return replace(kernel, body=body, next_id=b.next_id)

    def _scheduled(self, kernel: N.Kernel, task: N.Offload, b: Builder) -> N.Offload:
        if task.kind not in ("range_for", "struct_for") or task.why:  # it has its schedule already
            return task
        look = _Look(kernel, task, self)
        why = look.hindrance()
        if task.lanes == 1:
            return replace(task, lanes=0, why="no lanes, as qd.loop_config says")
        if why:
            asked = f"qd.loop_config(lanes={task.lanes}) has no effect: " if task.lanes else "no lanes: "
            return replace(task, lanes=0, why=asked + why)

        def summed(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
            if not isinstance(s, N.Atomic) or look.moves(s):
                return s
            b.span, b.adjoint_of = s.span, s.adjoint_of
            return b.made(lambda: b.add(replace(s, value=b.add(N.GroupReduce(b.fresh(), s.type, "add", s.value)))))

        group = look.group(task.lanes)
        why = f"{group} lanes: {group // look.lanes} x 128 bits, as qd.loop_config says"
        why = why if task.lanes else why.partition(",")[0]
        return replace(rewrite_in(task, summed), lanes=group, why=why)


class _Look(Shape):
    """The decision for one task."""

    def __init__(self, kernel: N.Kernel, task: N.Offload, how: LaneSchedule) -> None:
        super().__init__(task.body, task.indices)
        self.kernel = kernel
        self.task = task
        self.how = how
        self.types = types_of((task,))
        self.uses = uses(task.body)

    def group(self, asked: int) -> int:
        """How many iterations run side by side: as many as a vector has lanes; in a long loop with little code twice as
        many, because the processor computes one vector while the results of the other are on their way. Two vectors do
        not pay if the code needs more registers than there are. ``asked``: the number that the user asks for, or 0."""
        body = [*walk(self.task.body)]
        two = 2 * self.lanes
        if asked:
            return min(max(asked, self.lanes), two)
        total = fixed_total(self.task)
        long = any(of_kind(body, N.Loop)) and (total is None or total >= 4 * two)
        return two if long and len(body) <= _SHORT else self.lanes

    def varies(self, id: int) -> bool:
        return id in self.divergent

    def hindrance(self) -> str:
        """Why the task cannot have lanes, or ""."""
        total = fixed_total(self.task)
        if total is not None and total < self.lanes:
            return "there are too few iterations"
        if self.types[self.task.indices[-1].id].kind != "i":
            return "its index is unsigned"
        return next((why for s in walk(self.task.body) if (why := self._why(s))), "")

    def _why(self, s: N.Stmt) -> str:
        if rule := _RULES.get(type(s)):
            return rule(self, s)
        known = isinstance(s, (N.Uniform, N.Yield, N.StackUse, N.GroupReduce))
        return "" if known else f"{type(s).__name__} runs one by one"

    def op(self, s: N.Op) -> str:
        if not self.varies(s.id) or s.id in self.linear:
            return ""
        if s.prim in _SHIFTS and self.varies(s.args[1]):
            return "a shift by another count in each iteration"
        t = self.types[s.args[-1]]
        if t is i32 and s.type is f64 and s.args[0] not in self.linear:
            return "an i32 and an f64"
        if not self.has(s.prim, s.type, t):
            return f"vectors have no {s.prim} of {t}"
        return ""

    def has(self, prim: str, out: DType, t: DType) -> bool:
        if t.is_float and prim in MATH and fits(t, self.lanes):
            f = function(prim, t, not self.how.near)
            types, varies = types_of(f.body), divergence(f.body, [p.id for p in f.params]).divergent
            shifts = any(s.prim in _SHIFTS and s.args[1] in varies for s in find(f.body, N.Op))
            alone = shifts or any(find(f.body, N.Loop))
            return not alone and all(self.has(s.prim, s.type, types.get(s.args[-1], t)) for s in find(f.body, N.Op))
        if prim in ("min", "max"):
            return self.has("lt", u1, t)
        if prim in _OF_FLOATS:
            return t.is_float and fits(t, self.lanes)
        if prim == "cast" and out is u1:
            return fits(t, self.lanes)
        if prim == "cast" and t is u1:
            return fits(out, self.lanes)
        return instructions(prim, out, t, self.lanes) is not None

    def access(self, s: N.Load | N.Store | N.Atomic) -> str:
        buffer = self.kernel.buffers[s.buffer]
        value = s.id if isinstance(s, N.Load) else s.value
        moving = [n for n, i in enumerate(s.index) if self.varies(i)]
        if buffer.kind not in ("field", "ndarray", "scratch", "temp", "ret"):
            return f"{s.buffer} is the iteration's own"
        if not moving:
            if isinstance(s, N.Atomic):
                return self._sum(s)
            one = s.stores and self.varies(value)
            return f"iterations write one element of {s.buffer}" if one else ""
        if len(moving) > 1 or s.index[moving[0]] not in self.linear:
            return f"places in {s.buffer} do not follow each other"
        if any(buffer.known_extent(n) is None for n in range(moving[0] + 1, buffer.ndim)):
            return f"the distance of elements of {s.buffer} is not known"
        known = buffer.dtype is not u1 and fits(buffer.dtype, self.lanes)
        return "" if known else f"vectors do not have {buffer.dtype} in memory"

    def _sum(self, s: N.Atomic) -> str:
        if self.how.reproducible and s.type.is_float:
            return "sums must be reproducible"
        sums = s.op in ("add", "sub") and not self.uses.get(s.id) and fits(s.type, self.lanes)
        return "" if sums and s.type is not u1 else f"iterations change one element of {s.buffer}"

    def branch(self, s: N.If) -> str:
        plain = all_are(walk((*s.then, *s.orelse)), (N.Op, N.Uniform, N.If, N.Yield))
        kinds = all(r.type is u1 or fits(r.type, self.lanes) for r in s.results)
        return "" if not self.varies(s.cond) or (plain and kinds) else "iterations part"

    def told(self, s: N.Assert) -> str:
        """Why an assert forbids lanes; "" if it fails in all lanes at the same time, so that the first lane can be
        reported."""
        return "iterations part" if any(self.varies(i) and i not in self.linear for i in (s.cond, *s.args)) else ""

    def push(self, s: N.AdStackPush) -> str:
        t = self.types[s.value]
        return "" if t is not u1 and fits(t, self.lanes) else f"a stack of {t}"


def _together(*fields: str) -> Callable[[_Look, N.Stmt], str]:
    def rule(look: _Look, s: N.Stmt) -> str:
        return "iterations part" if any(look.varies(getattr(s, name)) for name in fields) else ""

    return rule


_RULES: dict[type, Callable[[_Look, Any], str]] = {
    N.Op: _Look.op, N.Load: _Look.access, N.Store: _Look.access, N.Atomic: _Look.access, N.If: _Look.branch,
    N.For: _together("begin", "end"), N.Assert: _Look.told, N.AdStackPush: _Look.push,
    N.While: lambda look, s: "iterations part" if look.varies(s.cond[-1].operands()[0]) else "",
    N.AdStackAlloca: lambda look, s: "", N.AdStackGuard: lambda look, s: "",
}  # fmt: skip
