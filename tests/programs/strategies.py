"""Random kernels as source text: well-typed, tame in value, legal to differentiate, and otherwise as wild as may be.

Every float expression stays small by construction, every index stays in bounds, every loop ends. A kernel reads
the input fields, writes the fields of its own task (``s0``, ``p0`` and the vectors ``U0`` by plain stores at the task's
index, ``r0``, ``q0`` and the vectors ``W0`` by atomics anywhere), ``y`` and the counters ``o``, and may read what an
earlier task wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count

import numpy as np
from hypothesis import strategies as st

from programs.strategies_vectors import IN_FUNC, SIZES, Vectors

SIZE = 4  # extent of every axis
TASKS = 3
Number = Callable[[int, int], int]

# shapes of the elements of the fields of vectors and matrices
ELEMENTS: dict[str, tuple[int, ...]] = {"P": (3,), "B": (2, 2)}
# name -> shape of the float fields, all with a gradient; the element's axes last
FLOATS = {"x": (SIZE,), "z": (SIZE,), "A": (SIZE, SIZE), "c": (), "y": (), "P": (SIZE, 3), "B": (SIZE, 2, 2)}
for _t in range(TASKS):
    FLOATS |= {f"s{_t}": (SIZE,), f"r{_t}": (SIZE,), f"q{_t}": (SIZE, SIZE), f"p{_t}": (SIZE, SIZE)}
    FLOATS |= {f"U{_t}": (SIZE, 3), f"W{_t}": (SIZE, 3)}
    ELEMENTS |= {f"U{_t}": (3,), f"W{_t}": (3,)}


@dataclass
class Source:
    """``text`` defines the functions ``funcs`` and then the kernel ``k``. ``ints``: the integer inputs of its
    launches, one dict a launch."""

    text: str
    funcs: tuple[str, ...]
    ints: tuple[dict[str, np.ndarray], ...]

    def __repr__(self) -> str:
        launches = [", ".join(f"{k} = {v.tolist()}" for k, v in ints.items()) for ints in self.ints]
        return "".join(f"# launched with {ints}\n" for ints in launches) + self.text


@dataclass
class Scope:
    """What the code at one place may use. ``floats``: readable; ``own``: assignable here; ``ints``: values 0..9;
    ``steps``: assignable integers; ``indices``: of the task, with values 0..SIZE-1; ``here``: the task's own index as
    it is written between brackets."""

    floats: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)  # 1-d float fields that may be read
    vectors: list[str] = field(default_factory=list)
    matrices: list[str] = field(default_factory=list)
    own_vectors: list[str] = field(default_factory=list)  # vectors and matrices that are assignable here
    vector_fields: list[str] = field(default_factory=list)  # of shape (SIZE,) and elements of 3, readable
    here: str = ""
    task: int | None = None
    depth: int = 0
    loop: bool = False  # in a serial loop, where break and continue are meant

    def inner(self, **changes) -> Scope:
        lists = {name: list(v) for name, v in vars(self).items() if isinstance(v, list)}
        return replace(self, depth=self.depth + 1, **{**lists, **changes})


class _Writer(Vectors):
    """Writes a random kernel. ``number(low, high)`` draws a number, both ends included."""

    def __init__(self, number: Number) -> None:
        self.number = number
        self.names = 0
        # name -> (what its parameters are, what it returns): 1 for a number, else the size of a vector
        self.funcs: dict[str, tuple[tuple[int, ...], int]] = {}
        self.budget = 28  # statements

    def pick(self, *choices):
        return choices[self.number(0, len(choices) - 1)]

    def draw_below(self, n: int) -> int:
        return self.number(0, n - 1)

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent  # shrinks towards no

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # --- expressions

    def index(self, s: Scope) -> str:
        choices = list(s.indices)
        if s.ints:
            name = self.pick(*s.ints)
            choices += [f"{name} % {SIZE}", f"({name} + {self.pick(1, 2, 3)}) % {SIZE}"]
        if s.indices:
            choices += [f"at[{s.indices[-1]}]", f"{SIZE - 1} - {s.indices[0]}"]
        return self.pick(str(self.number(0, SIZE - 1)), *choices)

    def constant(self) -> str:
        return self.pick("0.517", "0.113", "-0.331", "0.829", "-0.713", "0.257")

    def leaf(self, s: Scope) -> str:
        how = self.number(0, 9)
        if s.floats and how < 6:
            return self.pick(*s.floats)
        if how < 8 and s.fields:
            return f"{self.pick(*s.fields)}[{self.index(s)}]"
        if how == 8:
            return f"A[{self.index(s)}, {self.index(s)}]" if s.fields and self.chance(60) else "c[None]"
        if s.vectors and self.chance(60):
            v = self.pick(*s.vectors)
            return f"{v}[{self.component(s, int(v[1]))}]"
        return self.constant()

    def value(self, s: Scope, depth: int = 2) -> str:
        """An expression of values that are small when its operands are."""
        if depth == 0 or self.chance(20):
            return self.leaf(s)
        a = self.value(s, depth - 1)
        how = self.number(0, 23)
        if how > 21:
            return self.number_of_a_vector(s)
        if how < 11:
            b = self.value(s, depth - 1)
            two = (
                f"({a} + {b}) * 0.5",
                f"{a} * {b} * 0.6" if "+" not in a + b and "-" not in a + b else f"({a}) * ({b}) * 0.6",
                f"({a}) * 0.7 - ({b}) * 0.4",
                f"({a}) / (1.0 + ({b}) * ({b}))",
                f"qd.max({a}, {b} - 0.013)",
                f"min({a}, {b} + 0.017)",
                f"qd.atan2({a}, 1.6 + ({b}) * ({b}))",
                f"({a} if {self.condition(s)} else {b})",
                f"qd.select({self.condition(s)}, {a}, {b})",
                f"(({b}) * ({b}) + 0.2) ** ({a}) * 0.3",
                f"({a}) % (1.1 + ({b}) * ({b}))",
            )
            return two[how]
        one = (
            f"qd.sin({a})", f"qd.cos({a})", f"qd.tanh({a})", f"qd.exp(-({a}) * ({a}))",
            f"qd.sqrt(({a}) * ({a}) + 0.3) * 0.8", f"qd.log(({a}) * ({a}) + 0.5)", f"({a}) ** 2 * 0.4", f"-({a})",
            f"abs({a})",
        )
        if how < 20:
            return one[how - 11]
        if how == 20 and (scalar := [f for f, (_, result) in self.funcs.items() if result == 1]):
            return self.call(s, self.pick(*scalar), depth)
        if s.ints:
            return f"{self.pick(*s.ints)} * 0.1"
        return a

    def condition(self, s: Scope, depth: int = 1) -> str:
        how = self.number(0, 9)
        if how >= 7 and depth:
            a, b = self.condition(s, depth - 1), self.condition(s, depth - 1)
            return (f"({a} and {b})", f"({a} or {b})", f"not ({a})")[how - 7]
        if how >= 4 and s.ints:
            k = self.pick(*s.ints)
            other = self.pick("1", "2", *s.ints)
            return (f"{k} % 2 == 0", f"{k} < {other}", f"({k} + {other}) % 3 != 1")[how % 3]
        a = self.leaf(s)
        return (f"{a} > {self.constant()}", f"{a} < {self.leaf(s)} + 0.011", f"-0.6 < {a} <= 0.4")[how % 3]

    def bound(self, s: Scope) -> str:
        """An integer that is at most about SIZE + 1."""
        choices = ["1", "2", "3", "n[None]"]
        if s.indices:
            k = self.pick(*s.indices)
            choices += [f"m[{k}]", k, f"{k} + 1", f"n[None] - {k}", f"m[at[{k}]]", f"({k} * 2 + 1) // 2"]
        if s.ints:
            k = self.pick(*s.ints)
            choices += [f"{k} % 4", f"min({k}, 3)", f"({k} + n[None]) % 4", f"m[{k} % {SIZE}]", f"m[at[{k} % {SIZE}]]"]
        return self.pick(*choices)

    # --- statements

    def block(self, s: Scope, pad: str, most: int = 4) -> list[str]:
        out: list[str] = []
        for _ in range(self.number(1, most)):
            if self.budget <= 0:
                break
            self.budget -= 1
            out += self.statement(s, pad)
        return out or [f"{pad}pass"]

    def statement(self, s: Scope, pad: str) -> list[str]:
        how = self.number(0, 23)
        if how > 19:
            return self.vector_statement(s, pad)
        if how < 6 or (how > 13 and s.depth > 3):
            return self.assign(s, pad)
        if how < 8:
            return self.step(s, pad)
        if how < 11 or (how < 13 and not s.loop):
            return self.write(s, pad)
        if how < 13:
            leave = self.pick("break", "continue")
            before = self.assign(s.inner(), pad + "    ") if self.chance(40) else []
            return [f"{pad}if {self.condition(s)}:", *before, f"{pad}    {leave}"]
        if how < 15:
            return self.branch(s, pad)
        return self.while_(s, pad) if how > 17 else self.for_(s, pad)

    def assign(self, s: Scope, pad: str) -> list[str]:
        value = self.value(s)
        if s.own and self.chance(70):
            name = self.pick(*s.own)
            form = self.number(0, 6)
            if form == 1 and len(s.own) > 1:
                other = self.pick(*s.own)
                if other != name:
                    return [f"{pad}{name}, {other} = {other}, {value}"]
            forms = (f"{name} = {value}", f"{name} += 0.2 * ({value})", f"{name} -= {value}", f"{name} *= {value}")
            return [f"{pad}{forms[form if form < 4 else 0]}"]
        name = self.fresh("v")
        s.floats.append(name)
        s.own.append(name)
        return [f"{pad}{name} = {value}"]

    def step(self, s: Scope, pad: str) -> list[str]:
        if s.steps and self.chance(70):
            k = self.pick(*s.steps)
            forms = (
                f"{k} = ({k} + {self.bound(s)}) % 5", f"{k} = ({k} * 3 + 1) % 7", f"{k} = max({k} - 1, 0)",
                f"{k} = at[{k} % {SIZE}]", f"{k} = min(int(abs({self.leaf(s)}) * 2.7), 4)",
            )
            return [f"{pad}{self.pick(*forms)}"]
        name = self.fresh("k")
        line = f"{pad}{name} = max({self.bound(s)}, 0)" if self.chance(50) else f"{pad}{name} = {self.pick(0, 1, 2)}"
        s.ints.append(name)
        s.steps.append(name)
        return [line]

    def write(self, s: Scope, pad: str) -> list[str]:
        if s.task is None:
            return self.assign(s, pad)
        t, value = s.task, self.value(s)
        if t == IN_FUNC:
            return [f"{pad}y[None] += {value}"]
        if self.chance(20):
            return self.vector_write(s, pad)
        if s.ints and self.chance(15):
            return [f"{pad}o[{self.index(s)}] += {self.pick(*s.ints)}"]
        forms = [
            f"y[None] += {value}",
            f"y[None] -= {value}",
            f"r{t}[{self.index(s)}] += {value}",
            f"qd.atomic_sub(r{t}[{self.index(s)}], {value})",
            f"qd.atomic_add(q{t}[{self.index(s)}, {self.index(s)}], {value})",
        ]
        if len(s.indices) == 1 and s.here:
            forms += [f"s{t}[{s.here}] = {value}", f"s{t}[{s.here}] += {value}", f"s{t}[{s.here}] = {value}"]
        if len(s.indices) == 2 and s.here:
            forms += [f"p{t}[{s.here}] = {value}", f"p{t}[{s.here}] -= {value}"]
        return [pad + self.pick(*forms)]

    def branch(self, s: Scope, pad: str) -> list[str]:
        out = [f"{pad}if {self.condition(s)}:", *self.block(s.inner(), pad + "    ", 3)]
        if self.chance(25):
            out += [f"{pad}elif {self.condition(s)}:", *self.block(s.inner(), pad + "    ", 2)]
        if self.chance(50):
            out += [f"{pad}else:", *self.block(s.inner(), pad + "    ", 3)]
        return out

    def for_(self, s: Scope, pad: str) -> list[str]:
        if self.chance(10):
            count = self.pick(2, 3)
            return [f"{pad}for {(j := self.fresh('u'))} in qd.static(range({count})):", *self.static_body(s, j, pad)]
        if self.chance(12):
            return self.box(s, pad)
        j = self.fresh("j")
        low = f"{self.pick('1', 'n[None] - 2', self.bound(s))}, " if self.chance(25) else ""
        head = f"{pad}for {j} in range({low}{self.bound(s)}):"
        inner = s.inner(loop=True)
        if not low.startswith("n"):  # else it might be negative
            inner.ints = [*inner.ints, j]
        return [head, *self.block(inner, pad + "    ")]

    def box(self, s: Scope, pad: str) -> list[str]:
        """A loop over two axes at once, unrolled or not, by a vector of indices or by two of them."""
        inner = s.inner(loop=True)
        if self.chance(30):
            name, inner.loop = self.fresh("J"), False
            head = f"for {name} in qd.static(qd.grouped(qd.ndrange(2, {self.pick(1, 2)})))"
        elif self.chance(50):
            name = self.fresh("J")
            head = f"for {name} in qd.grouped(qd.ndrange({self.pick('2', '(1, 3)')}, {self.bound(s)}))"
        else:
            name, other = self.fresh("j"), self.fresh("j")
            inner.ints = [*inner.ints, name, other]
            return [
                f"{pad}for {name}, {other} in qd.ndrange({self.bound(s)}, {self.pick(1, 2)}):",
                *self.block(inner, pad + "    ", 3),
            ]
        inner.ints = [*inner.ints, f"{name}.x", f"{name}[1]"]
        return [f"{pad}{head}:", *self.block(inner, pad + "    ", 2)]

    def static_body(self, s: Scope, j: str, pad: str) -> list[str]:
        inner = s.inner(loop=False)
        inner.ints = [*inner.ints, j]
        return self.block(inner, pad + "    ", 2)

    def while_(self, s: Scope, pad: str) -> list[str]:
        w = self.fresh("w")
        more = f" and {self.condition(s)}" if self.chance(60) else ""
        more = f" and {self.leaf(s)} < {self.constant()}" if not more and self.chance(30) else more
        body = s.inner(loop=True)
        body.ints = [*body.ints, w]
        last = self.pick("2", "3", "4") if self.chance(70) else self.bound(s)
        lines = [f"{pad}{w} = 0", f"{pad}while {w} < {last}{more}:", f"{pad}    {w} += 1"]
        if self.chance(20):  # the same loop, left from inside
            lines[1] = f"{pad}while True:"
            lines.append(f"{pad}    if {w} > {last}{more.replace(' and ', ' or ', 1)}:")
            lines.append(f"{pad}        break")
        return [*lines, *self.block(body, pad + "    ")]

    # --- functions and kernels

    def func(self) -> list[str]:
        name = f"f{len(self.funcs)}"
        kinds = tuple(self.pick(1, 1, *SIZES) for _ in range(self.pick(1, 2)))
        params = [f"a{i}" if k == 1 else f"V{k}_a{i}" for i, k in enumerate(kinds)]
        floats, vectors = ([p for p in params if (p[0] == "a") == scalar] for scalar in (True, False))
        size = self.pick(1, 1, *SIZES)
        result = "res" if size == 1 else f"V{size}_res"
        given = Scope(floats=floats, vectors=vectors)
        s = given.inner(fields=["x"] if self.chance(30) else [])
        s.task = IN_FUNC if self.chance(30) else None
        if size == 1:
            s.floats, s.own = [*floats, result], [result]
        else:
            s.vectors, s.own_vectors = [*vectors, result], [result]

        def made(scope: Scope, depth: int = 2) -> str:
            return self.value(scope, depth) if size == 1 else self.vector(scope, size, depth)

        first = f"    {result} = {made(given)}"
        self.budget, kept = 5, self.budget
        body = self.block(s, "    ", 3)
        self.budget = kept
        lines = [f"def {name}({', '.join(params)}):", first, *body]
        if self.chance(25):
            lines += [f"    if {self.condition(s)}:", f"        return {made(s, 1)}"]
        lines += [f"    return {self.pick(result, f'{result} + 0.2 * ({made(s, 1)})', made(s, 1))}", ""]
        self.funcs[name] = kinds, size
        return lines

    def task(self, t: int, shared: Scope) -> list[str]:
        """One outermost loop; ``shared`` holds the kernel's own locals, which it reads."""
        s = shared.inner(own=[], own_vectors=[], steps=[], task=t)
        head, s.here, s.indices = self.pick(
            ("for i in x:", "i", ["i"]),
            (f"for i in range({SIZE}):", "i", ["i"]),
            ("for i in range(n[None]):", "i", ["i"]),
            ("for i in P:", "i", ["i"]),
            ("for i, j in A:", "i, j", ["i", "j"]),
            (f"for i, j in qd.ndrange({SIZE}, n[None]):", "i, j", ["i", "j"]),
            ("for I in qd.grouped(x):", "I", ["I.x"]),
            ("for I in qd.grouped(A):", "I", ["I[0]", "I.y"]),
        )
        s.ints = [*s.ints, *s.indices]
        s.floats = [*s.floats, "v"]
        s.own = ["v"]
        k = s.indices[0]
        start = self.pick(f"x[{k}]", f"z[{k}] * 0.9", f"A[{k}, {k}]", "0.3")
        lines = [f"    {head}", f"        v = {start}"]
        if self.chance(40):
            n = self.pick(*SIZES)
            name = self.fresh(f"V{n}_")
            lines.append(f"        {name} = {self.vector(s, n, 1)}")
            s.vectors, s.own_vectors = [*s.vectors, name], [name]
        lines += self.block(s, "        ", 6)
        if self.chance(80):
            target = f"s{t}[{s.here}]" if len(s.indices) == 1 and self.chance(30) else "y[None]"
            last = s.own_vectors and f"{s.own_vectors[0]}{'.sum()' if s.own_vectors[0][0] == 'V' else '[0, 1]'}"
            lines.append(f"        {target} += {self.pick(last or 'v', 'v', 'qd.sin(v)', self.value(s, 1))}")
        return lines

    def kernel(self) -> str:
        lines: list[str] = []
        for _ in range(self.number(0, 2)):
            lines += self.func()
        lines.append("def k():")
        shared = Scope(fields=["x", "z"], vector_fields=["P"])
        if self.chance(25):
            lines.append(f"    g = {self.value(shared)}")
            shared.floats.append("g")
            if self.chance(30):
                w = self.fresh("w")
                lines += [f"    {w} = 0", f"    while {w} < {self.bound(shared)}:", f"        {w} += 1"]
                lines.append(f"        g = {self.value(shared)}")
        if self.chance(15):
            lines.append(f"    V3_g = {self.vector(shared, 3)}")
            shared.vectors.append("V3_g")
        if self.chance(15):
            lines.append("    h = n[None] + 1")
            shared.ints.append("h")
        for t in range(self.number(1, TASKS)):
            if self.chance(15):
                lines += self.reduction(shared)
            self.budget = max(self.budget, 6)
            lines += self.task(t, shared)
            shared.fields += [f"s{t}", f"r{t}"]
            shared.vector_fields += [f"U{t}", f"W{t}"]
        if not any("y[None]" in line for line in lines):  # a kernel without a field that has a gradient is an error
            lines.append("    y[None] += 0.1 * c[None]")
        return "\n".join(lines) + "\n"

    def reduction(self, shared: Scope) -> list[str]:
        """A sum over a parallel loop in a local of the kernel: of numbers, or of vectors."""
        loop = shared.inner(indices=["i"], ints=[*shared.ints, "i"], task=None)
        if self.chance(30):
            e = self.fresh("V3_")
            line = f"        {e} += {self.vector(loop, 3, 1)}"
            shared.vectors.append(e)
            return [
                f"    {e} = qd.Vector([0.2, 0.5, -0.3])", "    for i in x:", line, f"    y[None] += 0.1 * {e}.dot({e})"
            ]  # fmt: skip
        e = self.fresh("e")
        lines = [f"    {e} = {self.constant()}", "    for i in x:", f"        {e} += {self.value(loop)}"]
        shared.floats.append(e)
        return [*lines, f"    y[None] += 0.1 * {e} * {e}"]


def kernel_of(number: Number) -> Source:
    """The kernel, and what it is launched with, that the numbers say."""
    writer = _Writer(number)
    text = writer.kernel()
    launches = []
    for _ in range(2):
        n, *m = (writer.pick(3, 2, 4, 1, 0) for _ in range(1 + SIZE))
        ints = {"n": n, "m": m, "at": [number(0, SIZE - 1) for _ in range(SIZE)]}
        launches.append({name: np.array(v, np.int32) for name, v in ints.items()})
    return Source(text, tuple(writer.funcs), tuple(launches))


@st.composite
def kernels(draw) -> Source:
    return kernel_of(lambda low, high: draw(st.integers(low, high)))


def seeded_kernel(seed: int) -> Source:
    """The same kernel in every run and on every machine: its random numbers are hashes."""
    drawn = count()

    def number(low: int, high: int) -> int:
        digest = blake2b(f"{seed} {next(drawn)}".encode(), digest_size=8).digest()
        return low + int.from_bytes(digest, "little") % (high - low + 1)

    return kernel_of(number)
