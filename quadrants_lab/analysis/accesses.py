"""Where a kernel's loads, stores and atomics go: every index as an affine form, with the loops and ifs around it.

Symbols of a form are texts: ``!...`` for what is the same over a whole launch (arguments, shapes, and what is computed
from them alone), ``%id`` for any other integer value. Arithmetic is taken to be exact, so only integers of 32 bits and
more have forms: narrower ones wrap around.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from quadrants_lab.analysis.ranges import Range, Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass

Loop = N.Loop


@dataclass(frozen=True, slots=True, eq=True)
class Form:
    """``const`` plus, for each symbol, its coefficient (never 0) times it."""

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
    """One load, store or atomic. ``number``: of its task; ``order``: its place in program order; ``loops``: those
    around it, outer ones first; ``arms``: the ifs around it, by id, and which arm; ``at``: a form an axis; ``in_body``:
    it is not in the task's bounds."""

    stmt: N.Access
    task: N.Offload
    number: int
    order: int
    loops: tuple[Loop, ...]
    arms: Mapping[int, int]
    at: tuple[Form, ...]
    in_body: bool


_last: tuple[N.Kernel, Accesses] | None = None


def accesses_of(kernel: N.Kernel) -> Accesses:
    """`Accesses` of a kernel; those of the last one are kept, for several analyses ask."""
    global _last
    last = _last  # another thread may ask for another kernel meanwhile
    if last is None or last[0] is not kernel:
        _last = last = kernel, Accesses(kernel)
    return last[1]


class Accesses:
    """All accesses of an offloaded kernel. ``of``: by statement id; ``writes``: by buffer; ``defs``: what defines
    each value; ``home``: the loops around each integer value's definition (an index belongs to its own loop);
    ``index``: loop or task index -> forms of its begin and end."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.of: dict[int, Access] = {}
        self.defs: dict[int, N.Value] = {}
        self.home: dict[str, tuple[Loop, ...]] = {}
        self.index: dict[str, tuple[Form, Form]] = {}
        self.uniform: dict[str, tuple[str, Form, Form]] = {}  # what a symbol stands for that is an operation on forms
        self.writes: dict[str, list[Access]] = {}  # the stores and atomics of each buffer
        self.order: dict[str, int] = {}  # of definitions: what a bound reads comes before what it bounds
        self._forms: dict[int, Form] = {}
        self._moduli: dict[str, tuple[Form, int]] = {}  # of a uniform remainder: the dividend and the divisor
        self._asserted: set[int] = set()
        for number, task in enumerate(kernel.tasks):
            self._in_body = False
            self._visit(task.bounds, task, number, (), {})
            self._in_body = True
            for p, begin, end in task.box():
                self._define(p.id, ())
                self.index[symbol(p.id)] = self.form(begin), self.form(end)
            self._visit(task.body, task, number, (), {})

    @cached_property
    def ranges(self) -> Ranges:
        return Ranges(self.kernel)

    def form(self, value: int) -> Form:
        return self._forms.get(value) or Form({symbol(value): 1})

    def _define(self, value: int, loops: tuple[Loop, ...]) -> None:
        self.home[symbol(value)] = loops
        self.order[symbol(value)] = len(self.order)

    def _visit(
        self, block: N.Block, task: N.Offload, number: int, loops: tuple[Loop, ...], arms: Mapping[int, int]
    ) -> None:
        for s in block:
            if isinstance(s, N.Access):
                at = tuple(self.form(i) for i in s.index)
                access = self.of[s.id] = Access(s, task, number, len(self.of), loops, arms, at, self._in_body)
                if not isinstance(s, N.Load):
                    self.writes.setdefault(s.buffer, []).append(access)
            if isinstance(s, N.Value):
                self.defs[s.id] = s
                self._define(s.id, loops)
                found = self._form(s)
                if found is not None:
                    self._forms[s.id] = found
            elif isinstance(s, N.Assert) and s.kind == "bounds":
                self._asserted.add(s.cond)
            elif isinstance(s, N.If):
                certain = s.cond in self._asserted
                for arm, b in enumerate(s.blocks()):
                    self._visit(b, task, number, loops, arms if certain else {**arms, s.id: arm})
            elif isinstance(s, N.Loop):
                for p in s.params():
                    self._define(p.id, (*loops, s))
                if isinstance(s, N.For):
                    self.index[symbol(s.index.id)] = self.form(s.begin), self.form(s.end)
                for b in s.blocks():
                    self._visit(b, task, number, (*loops, s), arms)
            elif isinstance(s, N.AdStackGuard):  # what is behind it runs, or the launch fails
                for b in s.blocks():
                    self._visit(b, task, number, loops, arms)
            for i, _ in s.defs():
                self.order.setdefault(symbol(i), len(self.order))
                self.home.setdefault(symbol(i), loops)

    def _form(self, s: N.Value) -> Form | None:
        """The affine form of an integer value; None where it is a symbol of its own."""
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
            case N.Op(prim="select", args=(cond, x, _)) if cond in self._asserted:  # a checked index
                return self.form(x)
            case N.Op(prim="cast", args=(x,)):
                return self._forms.get(x) or (Form({symbol(x): 1}) if self._whole(x) else None)
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

    def _whole(self, value: int) -> bool:
        """Whether a value without a form is an index, which a cast keeps as it is."""
        return symbol(value) in self.index

    def _uniform(self, prim: str, a: Form, b: Form) -> Form | None:
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
        """A form of uniform symbols that no value of ``form`` is less than (greater than, without ``low``); None where
        data decides. A symbol may end in primes: it stands for another instance of the value."""
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
        """Least and greatest value of a form of uniform symbols (None: not known)."""
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
        """The form with a difference of two remainders of one divisor written as what it can be: x % m - y % m is
        (x - y) - m * w, w in 0..1, where x - y is a constant modulo m."""
        for s in sorted(form.terms):
            for t in sorted(form.terms):
                if s in self._moduli and t in self._moduli and form.terms[s] == -form.terms[t] > 0:
                    (a, m), (b, n) = self._moduli[s], self._moduli[t]
                    if m == n and a.terms == b.terms:
                        k, apart = form.terms[s], (a.const - b.const) % m
                        rest = Form({x: c for x, c in form.terms.items() if x not in (s, t)}, form.const + k * apart)
                        return rest.plus(Form({f"!wrap {s} {t}": 1}), -k * m)
        return form


def primed(form: Form, primes: str) -> Form:
    """Another instance of the form's values: all but the uniform ones get the primes."""
    if not primes:
        return form
    return Form({s if s[0] == "!" else s + primes: c for s, c in form.terms.items()}, form.const)


__all__ = ["Access", "Accesses", "Form", "Range", "primed", "symbol"]
