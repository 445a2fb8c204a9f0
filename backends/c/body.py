"""Statements to lines of C: the table of handlers, names, memory, and what a kernel reports.

One thread runs a kernel, so an atomic is what it says without more ado.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from quadrants_lab.backends._clike import body, control
from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends.c import ops
from quadrants_lab.backends.c.ops import FUNCTIONS, TYPES
from quadrants_lab.backends.layout import VALUES
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, f64, i64, u1
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends.c.kernel import Unit

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false
asm typeof linux unix isnan isinf frame entry Frame Device
"""
RESERVED = {*_KEYWORDS.split(), *TYPES.values(), *FUNCTIONS.values(), *(f"{name}f" for name in FUNCTIONS.values())}
_MACRO = re.compile(r"U?INT\w*|\w+_(MIN|MAX|C)|FP_\w*|HUGE\w*|M_\w+|MATH_\w+|NAN|INFINITY|qd_.*")
_UPDATES = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}  # have an assignment of their own
_ON_TRUTH = {"mul": "and", "min": "and", "max": "or"}


class Names:
    """Identifiers, none of them twice: as close to the program's as C allows. None ends in an underscore, as
    `_clike.control` has them."""

    def __init__(self) -> None:
        self._taken: set[str] = set(RESERVED)

    def fresh(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "t"
        if base[0].isdigit() or _MACRO.fullmatch(base):
            base = f"v_{base}"
        name, n = base, 2
        while name in self._taken:
            name, n = f"{base}_{n}", n + 1
        self._taken.add(name)
        return name


def memory_type(t: DType) -> str:
    """Of an element in memory: a u1 is a byte, 0 or not."""
    return "uint8_t" if t is u1 else TYPES[t.name]


class Body(body.Body):
    """Emits one function of a ``unit``. ``task``: the function is one, and has a frame. ``iteration``: the number of
    the parallel iteration within its task."""

    def __init__(self, block: N.Block, unit: Unit, out: Source, task: bool) -> None:
        super().__init__(block, out)
        self.unit = unit
        self.task = task
        self.iteration = ops.literal(i64, 0)
        self.names = Names()
        self._handed_on = {i for s in walk(block) for i in getattr(s, "values", ()) + getattr(s, "inits", ())}
        self._variables: dict[int, str] = {}
        self._started: dict[str, str] = {}

    def type_name(self, t: DType) -> str:
        return TYPES[t.name]

    def variable(self, name: str, id: int) -> str:
        if id not in self._variables:
            self._variables[id] = self.names.fresh(name)
        return self._variables[id]

    def typed(self, id: int) -> Expr:
        return self.values[id]

    def inner(self, block: N.Block, out: Source) -> Body:
        return Body(block, self.unit, out, task=False)

    def define(self, s: N.Value, e: Expr, at_once: bool = False) -> None:
        """What the program has a name for has it here, too; a value that a carried one takes over has its variable."""
        super().define(s, e, at_once or (bool(s.name) and self.read(s.id) and s.id not in self._handed_on))

    def poll(self) -> None:
        if self.task:
            stop = "return *(volatile int32_t *)frame->device && qd_poll(frame, 0);"
            self.unit.declare("bool qd_poll(Frame *frame, uint64_t worker);")
            name = self.unit.helper("qd_stopped", f"static inline bool qd_stopped(Frame *frame) {{ {stop} }}")
            self.out.put(f"if ({name}(frame)) return;")

    def changed(self, s: N.Stmt) -> str | None:
        b = self.unit.kernel.buffers[s.buffer] if isinstance(s, N.Store) else None
        return self.base(b) if b and b.kind == "local" else None

    # --- what a function begins with --------------------------------------------------------------------------------

    def once(self, key: str, declaration: str) -> str:
        """A variable that is set when the function starts; ``{}`` in its declaration stands for its name."""
        if key not in self._started:
            self._started[key] = self.names.fresh(key)
            self.start.append(declaration.replace("{}", self._started[key]) + ";")
        return self._started[key]

    def base(self, b: N.Buffer) -> str:
        """The variable with the memory of a buffer: a pointer to its elements, or to rows of them."""
        member, t = self.unit.members.get(b.name, ""), memory_type(b.dtype)
        if b.kind == "local":
            return self.once(b.name, f"{t} {{}} = 0")
        if b.kind == "heap":
            return self.once(b.name, f"{t} *{{}} = ({t} *)(frame->device->heap + frame->{member})")
        extents = [str(n) for n in b.shape] if b.shape is not None else self.unit.extents(b)
        rows = "".join(f"[{n}]" for n in extents[1:])
        return self.once(b.name, f"{t} {f'(*{{}}){rows}' if rows else '*{}'} = frame->{member}")

    def element(self, b: N.Buffer, index: tuple[int, ...]) -> Expr:
        """An element, of its `memory_type`. Indices are taken to be in range."""
        if b.kind in ("temp", "ret"):
            return X.variable(f"frame->{self.unit.members[b.name]}", "")
        base = self.base(b)
        if b.kind == "local":
            return X.variable(base, "", assigned=True)
        if not index:
            return Expr(f"*{base}", X.UNARY, "")
        places = [self.values[i] for i in index]
        return X.made(base + "".join(f"[{e.text}]" for e in places), X.PRIMARY, "", *places)

    def loaded(self, b: N.Buffer, index: tuple[int, ...]) -> Expr:
        e = self.element(b, index)
        if b.dtype is u1:
            e = X.binary("!=", "bool", e, Expr("0", X.PRIMARY, "int"))
        return Expr(e.text, e.level, TYPES[b.dtype.name], None, e.reads, True)

    def raw(self, ids: tuple[int, ...]) -> str:
        """The values as 64-bit words: integers extended, floats as f64; behind them how many there are."""
        words = []
        for i in ids:
            e, t = self.values[i], self.types[i]
            words.append((ops.bitcast(self, i64, f64, (ops.convert(f64, e),)) if t.is_float else e).text)
        return f"{len(words)}, " + (f"(int64_t[]){{{', '.join(words)}}}" if words else "0")


def _op(b: Body, s: N.Op) -> None:
    args = tuple(b.values[i] for i in s.args)
    b.define(s, ops.emit(b, s.prim, s.type, b.types[s.args[-1]], args))


def _call(b: Body, s: N.Call) -> None:
    unit, name = b.unit, "qd_" + s.function.replace(".", "_")
    if name not in unit.helpers:
        unit.helper(name, "static " + body.function(b, name, unit.kernel.functions[s.function]))
    b.define(s, X.call(name, TYPES[s.type.name], *(b.values[i] for i in s.args)))


def _arg(b: Body, s: N.ArgLoad) -> None:
    member, t = b.unit.members[f"{s.arg}()"], TYPES[s.type.name]
    b.set(s.id, s.type, X.variable(b.once(f"{s.arg}()", f"const {t} {{}} = frame->{member}"), t))


def _shape(b: Body, s: N.ShapeOf) -> None:
    buffer, t = b.unit.kernel.buffers[s.buffer], TYPES[s.type.name]
    if buffer.shape is not None:
        b.set(s.id, s.type, ops.literal(s.type, buffer.shape[s.axis]))
        return
    extent = b.unit.extents(buffer)[s.axis]
    b.set(s.id, s.type, X.variable(b.once(f"{s.buffer}_shape{s.axis}", f"const {t} {{}} = {extent}"), t))


def _builtin(b: Body, s: N.Builtin) -> None:
    at = {"seed": "frame->device->seed", "launch": "frame->launch"}
    b.set(s.id, s.type, ops.convert(s.type, X.variable(at[s.what], "") if s.what in at else b.iteration))


def _load(b: Body, s: N.Load) -> None:
    b.define(s, b.loaded(b.unit.kernel.buffers[s.buffer], s.index))


def _store(b: Body, s: N.Store) -> None:
    b.out.put(f"{b.element(b.unit.kernel.buffers[s.buffer], s.index).text} = {b.values[s.value].text};")


def _atomic(b: Body, s: N.Atomic) -> None:
    buffer, t = b.unit.kernel.buffers[s.buffer], s.type
    target, old, value = b.element(buffer, s.index), b.loaded(buffer, s.index), b.values[s.value]
    if value.memory and b.read(s.id):
        value = b.fix(value, b.names.fresh("value"), TYPES[t.name])
    if b.read(s.id):
        b.define(s, old, at_once=True)
    if s.op == "cas":
        b.out.put(f"if ({X.binary('==', 'bool', old, b.values[s.expected]).text}) {target.text} = {value.text};")
    elif s.op in _UPDATES and t is not u1:
        b.out.put(f"{target.text} {_UPDATES[s.op]}= {value.text};")
    else:
        op = _ON_TRUTH.get(s.op, s.op) if t is u1 else s.op
        b.out.put(f"{target.text} = {(value if op == 'exchange' else ops.emit(b, op, t, t, (old, value))).text};")


def _assert(b: Body, s: N.Assert) -> None:
    """A failed assert ends the task."""
    if s.kind == "assert" and not b.unit.asserts:
        return
    b.unit.declare("void qd_assert(Frame *frame, int64_t number, int64_t count, const int64_t *values);")
    number = next(n for n, a in enumerate(b.unit.layout.asserts) if a.id == s.id)
    b.out.put(f"if ({X.prefix('!', 'bool', b.values[s.cond]).text}) {{  // {json.dumps(s.message)}")
    with b.out.nest():
        b.out.put(f"qd_assert(frame, {number}, {b.raw(s.args[:VALUES])});")
        b.out.put("return;")
    b.out.put("}")


def _print(b: Body, s: N.Print) -> None:
    b.unit.declare("void qd_print(Frame *frame, int64_t number, uint64_t count, const int64_t *values);")
    number = next(n for n, p in enumerate(b.unit.layout.prints) if p.id == s.id)
    b.out.put(f"qd_print(frame, {number}, {b.raw(s.operands())});")


def _overflow(b: Body, s: N.Overflow) -> None:
    b.unit.declare("void qd_overflow(Frame *frame, int64_t stack, int64_t depth);")
    which, depth = (b.values[i].text for i in s.operands())
    b.out.put(f"qd_overflow(frame, {which}, {depth});")


Body.handlers = {
    N.Const: lambda b, s: b.set(s.id, s.type, ops.literal(s.type, s.value)),
    N.Op: _op,
    N.Call: _call,
    N.ArgLoad: _arg,
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: _load,
    N.Store: _store,
    N.Atomic: _atomic,
    N.Assert: _assert,
    N.Print: _print,
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Overflow: _overflow,
}
