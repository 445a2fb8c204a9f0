"""Finds where a kernel's loads, stores and atomics go: each index as an affine form, with the loops and ifs around the
access.

The symbols of a form are texts. ``!...`` is a uniform symbol: an argument, a shape, or a value computed only from
these, so it has one value in a whole launch. ``%id`` is any other integer value. The arithmetic of forms is exact, so
only integers of at least 32 bits have forms; narrower integers wrap around. With the forms, `overwritten` finds the
tasks that store every element of a buffer, and `certain_stores` the stores that fill a box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from itertools import chain
from math import prod
from typing import Any, TypeVar

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import by_class, find, of_kind

T = TypeVar("T")
_RECENT = 4  # for so many kernels `for_recent` caches results


@dataclass(frozen=True, slots=True, eq=True)
class Form:
    """An affine form: ``const`` plus a sum of terms, each a coefficient times a symbol. No coefficient is 0."""

    terms: Mapping[str, int]
    const: int = 0

    def plus(self, other: Form, times: int = 1) -> Form:
        terms = dict(self.terms)
        for s, c in other.terms.items():
            terms[s] = terms.get(s, 0) + times * c
        return Form({s: c for s, c in terms.items() if c}, self.const + times * other.const)

    def times(self, k: int) -> Form:
        return Form({s: c * k for s, c in self.terms.items()} if k else {}, self.const * k)

    def replaced(self, symbol: str, by: Form) -> Form:
        rest = Form({s: c for s, c in self.terms.items() if s != symbol}, self.const)
        return rest.plus(by, self.terms[symbol])

    @property
    def uniform(self) -> bool:
        return all(s[0] == "!" for s in self.terms)

    def __str__(self) -> str:
        return "+".join([*(f"{c}*{s}" for s, c in sorted(self.terms.items())), str(self.const)])


def symbol(value: int) -> str:
    return f"%{value}"


@dataclass(slots=True)
class Access:
    """One load, store or atomic.

    ``number``: the index of its task; ``order``: its place in program order. ``loops``: the loops around it, outermost
    first; ``arms``: id of each if around it -> the arm (0 or 1) in which it is. ``at``: a form for each axis.
    ``in_body``: false if it is in the bounds of a task.
    """

    stmt: N.Access
    task: N.Offload
    number: int
    order: int
    loops: tuple[N.Loop, ...]
    arms: Mapping[int, int]
    at: tuple[Form, ...]
    in_body: bool


def for_recent(analyse: Callable[[N.Kernel], T]) -> Callable[[N.Kernel], T]:
    """A decorator that caches a function's results for the last kernels, because analyses ask about the same kernels in
    turn: the tasks of a kernel, its launch and its gradient."""
    kept: tuple[tuple[N.Kernel, T], ...] = ()

    @wraps(analyse)
    def call(kernel: N.Kernel) -> T:
        nonlocal kept
        for known, found in kept:
            if known is kernel:
                return found
        found = analyse(kernel)
        # a new tuple, since another thread may replace it at the same time
        kept = ((kernel, found), *kept[: _RECENT - 1])
        return found

    return call


@for_recent
def accesses_of(kernel: N.Kernel) -> Accesses:
    """The `Accesses` of a kernel."""
    return Accesses(kernel)


class Accesses:
    """All accesses of a kernel that is split into tasks.

    ``of``: id of a statement -> its access. ``writes``: name of a buffer -> its stores and atomics. ``defs``: id of
    a value -> the statement that defines it. ``home``: symbol of a value -> the loops around its definition (for an
    index, including its own loop). ``index``: symbol of a loop or task index -> the forms of its begin and end.
    """

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.of: dict[int, Access] = {}
        self.defs: dict[int, N.Value] = {}
        self.home: dict[str, tuple[N.Loop, ...]] = {}
        self.index: dict[str, tuple[Form, Form]] = {}
        self.uniform: dict[str, tuple[str, Form, Form]] = {}  # symbol of an operation -> primitive and operands
        self.writes: dict[str, list[Access]] = {}
        # symbol -> index of its definition; the bounds of a value read only values with lower indices
        self.order: dict[str, int] = {}
        self._forms: dict[int, Form] = {}
        self._moduli: dict[str, tuple[Form, int]] = {}  # symbol of a remainder -> (dividend, divisor)
        self._asserted: set[int] = set()  # ids of the conditions of index checks: if one is false, the launch fails
        for self._number, self._task in enumerate(kernel.tasks):
            self._in_body = False
            self._visit(self._task.bounds, (), {})
            self._in_body = True
            for p, begin, end in self._task.box():
                self._define(p.id, ())
                self.index[symbol(p.id)] = self.form(begin), self.form(end)
            self._visit(self._task.body, (), {})

    @cached_property
    def ranges(self) -> Ranges:
        return Ranges(self.kernel)

    @cached_property
    def written(self) -> tuple[set[str], ...]:
        """For each task, the buffers that its body writes."""
        found: tuple[set[str], ...] = tuple(set() for _ in self.kernel.tasks)
        for access in chain.from_iterable(self.writes.values()):
            if access.in_body:
                found[access.number].add(access.stmt.buffer)
        return found

    def form(self, value: int) -> Form:
        return self._forms.get(value) or Form({symbol(value): 1})

    def _define(self, value: int, loops: tuple[N.Loop, ...]) -> None:
        name = symbol(value)
        if name not in self.home:
            self.home[name] = loops
            self.order[name] = len(self.order)

    def _visit(self, block: N.Block, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        for s in block:
            if rule := _RULES.get(type(s)):
                rule(self, s, loops, arms)
            for i, _ in s.defs():
                self._define(i, loops)

    def _access(self, s: N.Access, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        at = tuple(self.form(i) for i in s.index)
        access = Access(s, self._task, self._number, len(self.of), loops, arms, at, self._in_body)
        self.of[s.id] = access
        if not s.loads:
            self.writes.setdefault(s.buffer, []).append(access)

    def _value(self, s: N.Value, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        self.defs[s.id] = s
        found = None if s.type.is_float else self._form(s)
        if found is not None:
            self._forms[s.id] = found

    def _read(self, s: Any, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        self._access(s, loops, arms)
        self._value(s, loops, arms)

    def _assert(self, s: N.Assert, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        if s.kind == "bounds":
            self._asserted.add(s.cond)

    def _if(self, s: N.If, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        certain = s.cond in self._asserted
        for arm, b in enumerate(s.blocks()):
            self._visit(b, loops, arms if certain else {**arms, s.id: arm})

    def _for(self, s: N.For, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        self.index[symbol(s.index.id)] = self.form(s.begin), self.form(s.end)
        self._loop(s, loops, arms)

    def _loop(self, s: N.Loop, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        for p in s.params():
            self._define(p.id, (*loops, s))
        for b in s.blocks():
            self._visit(b, (*loops, s), arms)

    def _guard(self, s: N.AdStackGuard, loops: tuple[N.Loop, ...], arms: Mapping[int, int]) -> None:
        self._visit(s.body, loops, arms)  # the body runs, or the launch fails

    def _form(self, s: N.Value) -> Form | None:
        """The affine form of an integer value, or None if the value is a symbol itself."""
        match s:
            case N.Op(prim="and", args=args) if all(a in self._asserted for a in args):
                self._asserted.add(s.id)
                return None
            case N.Value(type=t) if not t.is_int or t.bits < 32:
                return None
            case N.Const(value=value):
                return Form({}, int(value))
            case N.ArgLoad(arg=arg):
                return Form({f"!arg {arg}": 1})
            case N.ShapeOf(buffer=buffer, axis=axis):
                return Form({f"!shape {buffer} {axis}": 1})
            case N.Op(prim="select", args=(cond, x, _)) if cond in self._asserted:  # an index that was checked
                return self.form(x)
            case N.Op(prim="cast", args=(x,)):
                return self._forms.get(x) or (Form({symbol(x): 1}) if symbol(x) in self.index else None)
            case N.Op(prim="neg", args=(x,)):
                return self.form(x).times(-1)
            case N.Op(prim="add" | "sub" as prim, args=(x, y)):
                return self.form(x).plus(self.form(y), 1 if prim == "add" else -1)
            case N.Op(prim="mul", args=(x, y)):
                a, b = self.form(x), self.form(y)
                if not a.terms or not b.terms:
                    return b.times(a.const) if not a.terms else a.times(b.const)
                return self._uniform(s.prim, a, b)
            case N.Op(prim="mod" | "floordiv" | "min" | "max" as prim, args=(x, y)):
                return self._uniform(prim, self.form(x), self.form(y))
        return None

    def _uniform(self, prim: str, a: Form, b: Form) -> Form | None:
        """A uniform symbol, as a form, for an operation on two uniform forms; None if one of them is not uniform."""
        if not (a.uniform and b.uniform):
            return None
        name = f"!{prim}({a},{b})"
        if prim == "mod" and not b.terms and b.const > 0:
            a = Form({s: c % b.const for s, c in a.terms.items() if c % b.const}, a.const % b.const)
            name = f"!{prim}({a},{b})"
            self._moduli[name] = a, b.const
        self.uniform[name] = prim, a, b
        return Form({name: 1})

    # --- least and greatest values ---------------------------------------------------------------------------------

    def bound(self, form: Form, low: bool) -> Form | None:
        """A lower bound of ``form`` (an upper bound unless ``low``), as a form of uniform symbols; None if all bounds
        depend on data. A symbol with primes at its end stands for another instance of the same value."""
        while not form.uniform:
            s = max((s for s in form.terms if s[0] != "!"), key=lambda s: self.order.get(s.rstrip("'"), -1))
            base = s.rstrip("'")
            least = (form.terms[s] > 0) == low
            if base in self.index:
                begin, end = self.index[base]
                by = begin if least else end.plus(Form({}, -1))
                form = form.replaced(s, primed(by, s[len(base) :]))
                continue
            r = self.ranges.range(int(base[1:])) if base[0] == "%" else None
            if r is None:
                return None
            form = form.replaced(s, Form({}, r[0] if least else r[1]))
        return form

    def value_range(self, uniform: Form) -> tuple[int | None, int | None]:
        """The least and the greatest value of a form of uniform symbols; None for one that is unknown."""
        low: int | None = uniform.const
        high: int | None = uniform.const
        for s, c in uniform.terms.items():
            first, last = self._range_of(s)
            ends = (first, last) if c > 0 else (last, first)
            low = None if low is None or ends[0] is None else low + c * ends[0]
            high = None if high is None or ends[1] is None else high + c * ends[1]
        return low, high

    def _range_of(self, s: str) -> tuple[int | None, int | None]:
        if s.startswith("!shape "):
            return 0, None
        if s in self._moduli:
            return 0, self._moduli[s][1] - 1
        if s.startswith("!wrap "):
            return 0, 1
        return None, None

    def congruent(self, form: Form) -> Form:
        """Replaces x % m - y % m in the form, if x - y is constant modulo m: by (x - y) - m * w with a symbol w in
        0..1."""
        for s in sorted(form.terms):
            for t in sorted(form.terms):
                if s in self._moduli and t in self._moduli and form.terms[s] == -form.terms[t] > 0:
                    (a, m), (b, n) = self._moduli[s], self._moduli[t]
                    if m == n and a.terms == b.terms:
                        k, offset = form.terms[s], (a.const - b.const) % m
                        rest = Form({x: c for x, c in form.terms.items() if x not in (s, t)}, form.const + k * offset)
                        return rest.plus(Form({f"!wrap {s} {t}": 1}), -k * m)
        return form


_RULES: dict[type[N.Stmt], Callable[[Accesses, Any, tuple[N.Loop, ...], Mapping[int, int]], None]] = by_class({
    N.Value: Accesses._value, N.Access: Accesses._access, N.Read: Accesses._read, N.Assert: Accesses._assert,
    N.If: Accesses._if, N.Loop: Accesses._loop, N.For: Accesses._for, N.AdStackGuard: Accesses._guard,
})  # fmt: skip


def primed(form: Form, primes: str) -> Form:
    """The form with primes at all symbols that are not uniform: they stand for another instance of the same values."""
    return Form({s if s[0] == "!" else s + primes: c for s, c in form.terms.items()}, form.const)


def overwritten(info: Accesses) -> dict[str, list[int]]:
    """Maps each buffer to the indices of the tasks that store each of its elements, whatever the data."""
    found: dict[str, list[int]] = {}
    for name, writes in info.writes.items():
        # (task, axes that have a loop index) -> the constant indices along the other axes
        entries: dict[tuple[int, tuple[int, ...]], set[tuple[int, ...]]] = {}
        buffer = info.kernel.buffers[name]
        for a in writes:
            if a.stmt.stores and not a.arms:
                fixed = [axis for axis, form in enumerate(a.at) if not form.terms]
                if _loops_cover(info, a, [axis for axis in range(buffer.ndim) if axis not in fixed]):
                    constants = tuple(a.at[axis].const for axis in fixed)
                    entries.setdefault((a.number, tuple(fixed)), set()).add(constants)
        for (number, axes), entry in entries.items():
            extents = [buffer.known_extent(axis) for axis in axes]
            if len(entry) == prod(n or 0 for n in extents) and number not in found.setdefault(name, []):
                found[name].append(number)
    return {name: tasks for name, tasks in found.items() if tasks}


def certain_stores(info: Accesses) -> list[tuple[Access, list[Access]]]:
    """The stores that a launch makes to every element of their box (`boxes.box_of`), whatever the data. With each: the
    loads and atomics of its buffer that may come before it."""
    stores = [a for a in info.of.values() if a.stmt.stores and a.in_body and not a.arms and _fills_box(info, a)]
    if not stores:
        return []
    reads: dict[str, list[Access]] = {}
    for a in info.of.values():
        if not a.stmt.stores:
            reads.setdefault(a.stmt.buffer, []).append(a)
    return [(a, [r for r in reads.get(a.stmt.buffer, ()) if not _comes_after(r, a)]) for a in stores]


def _comes_after(read: Access, store: Access) -> bool:
    """Whether a read of an element that ``store`` stores comes after the store: it is in a later task, or it reads the
    same element in the same iteration."""
    if read.number != store.number:
        return read.number > store.number
    inside = read.loops[: len(store.loops)] == store.loops
    return inside and read.order > store.order and read.at == store.at


def _fills_box(info: Accesses, a: Access) -> bool:
    """Whether each loop around the access moves along one axis of its own, element by element, between ends that are
    the same in a whole launch; a loop that certainly has an iteration may also move along none."""
    inner = [x for x in of_kind(a.loops, N.For) if not any(find(x.body, N.Exit))]
    loops = {symbol(p.id) for p in (*a.task.indices, *(loop.index for loop in inner))}
    moving = [[s for s in form.terms if s[0] != "!"] for form in a.at]
    used = [s for symbols in moving for s in symbols]
    steps = all(abs(form.terms[s]) == 1 for form, symbols in zip(a.at, moving, strict=True) for s in symbols)
    if len(inner) < len(a.loops) or not steps or any(len(symbols) > 1 for symbols in moving):
        return False
    if len({*used}) < len(used) or not loops.issuperset(used):
        return False
    runs = {s: info.index[s][1].plus(info.index[s][0], -1) for s in loops}
    known = all(end.uniform for s in loops for end in info.index[s])
    return known and all(s in used or (not runs[s].terms and runs[s].const > 0) for s in loops)


def _loops_cover(info: Accesses, a: Access, axes: list[int]) -> bool:
    """Whether each of these axes has a loop around the access that covers the whole extent of the axis, and there are
    no other loops."""
    inner = [x for x in of_kind(a.loops, N.For) if not any(find(x.body, N.Exit))]
    loops = {symbol(p.id) for p in (*a.task.indices, *(loop.index for loop in inner))}
    if len(inner) < len(a.loops) or len(loops) != len(axes):
        return False
    buffer = info.kernel.buffers[a.stmt.buffer]
    for axis in axes:
        index = next(iter(a.at[axis].terms))
        extent = buffer.known_extent(axis)
        whole = Form({f"!shape {buffer.name} {axis}": 1}) if extent is None else Form({}, extent)
        if a.at[axis] != Form({index: 1}) or index not in loops or info.index[index] != (Form({}), whole):
            return False
        loops.remove(index)
    return True
