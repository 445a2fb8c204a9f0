"""Random kernels as source text: well-typed, tame in value, legal to differentiate, and otherwise as wild as may be.

Every float expression stays small by construction, every index stays in bounds, every loop ends. A kernel reads
the input fields, writes the fields of its own task (``s0`` and ``p0`` by plain stores at the task's index, ``r0``
and ``q0`` by atomics anywhere), ``y`` and the counters ``o``, and may read what an earlier task wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

SIZE = 4  # extent of every axis
TASKS = 3
IN_FUNC = -1  # the "task" of code in a func, which does not know where it will stand

# name -> shape of the float fields, all with a gradient
FLOATS = {"x": (SIZE,), "z": (SIZE,), "A": (SIZE, SIZE), "c": (), "y": ()}
for _t in range(TASKS):
    FLOATS |= {f"s{_t}": (SIZE,), f"r{_t}": (SIZE,), f"q{_t}": (SIZE, SIZE), f"p{_t}": (SIZE, SIZE)}


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

    def integers(self, launch: int) -> dict[str, np.ndarray]:
        return {**self.ints[launch], "o": np.zeros(SIZE, np.int32)}

    def floats(self, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {name: np.asarray(rng.uniform(-1, 1, shape)) for name, shape in FLOATS.items()}


@dataclass
class Scope:
    """What the code at one place may use. ``floats``: readable; ``own``: assignable here; ``ints``: values 0..9;
    ``steps``: assignable integers; ``indices``: names with values 0..SIZE-1."""

    floats: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)  # of the task
    fields: list[str] = field(default_factory=list)  # 1-d float fields that may be read
    task: int | None = None
    depth: int = 0
    loop: bool = False  # in a serial loop, where break and continue are meant

    def inner(self, **changes) -> Scope:
        copy = Scope(*(list(v) for v in (self.floats, self.own, self.ints, self.steps, self.indices, self.fields)))
        copy.task, copy.depth, copy.loop = self.task, self.depth + 1, self.loop
        for name, value in changes.items():
            setattr(copy, name, value)
        return copy


class _Writer:
    def __init__(self, draw) -> None:
        self.draw = draw
        self.names = 0
        self.funcs: dict[str, int] = {}  # name -> number of float parameters
        self.budget = 28  # statements

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent  # shrinks towards no

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
        return self.pick(str(self.draw(st.integers(0, SIZE - 1))), *choices)

    def constant(self) -> str:
        return self.pick("0.517", "0.113", "-0.331", "0.829", "-0.713", "0.257")

    def leaf(self, s: Scope) -> str:
        how = self.draw(st.integers(0, 9))
        if s.floats and how < 6:
            return self.pick(*s.floats)
        if how < 8 and s.fields:
            return f"{self.pick(*s.fields)}[{self.index(s)}]"
        if how == 8:
            return f"A[{self.index(s)}, {self.index(s)}]" if s.fields and self.chance(60) else "c[None]"
        return self.constant()

    def value(self, s: Scope, depth: int = 2) -> str:
        """An expression of values that are small when its operands are."""
        if depth == 0 or self.chance(20):
            return self.leaf(s)
        a = self.value(s, depth - 1)
        how = self.draw(st.integers(0, 21))
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
            f"qd.sin({a})",
            f"qd.cos({a})",
            f"qd.tanh({a})",
            f"qd.exp(-({a}) * ({a}))",
            f"qd.sqrt(({a}) * ({a}) + 0.3) * 0.8",
            f"qd.log(({a}) * ({a}) + 0.5)",
            f"({a}) ** 2 * 0.4",
            f"-({a})",
            f"abs({a})",
        )
        if how < 20:
            return one[how - 11]
        if how == 20 and self.funcs:
            name = self.pick(*self.funcs)
            rest = "".join(f", {self.value(s, depth - 1)}" for _ in range(self.funcs[name] - 1))
            return f"{name}({a}{rest})"
        if s.ints:
            return f"{self.pick(*s.ints)} * 0.1"
        return a

    def condition(self, s: Scope, depth: int = 1) -> str:
        how = self.draw(st.integers(0, 9))
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
            choices += [f"{k} % 4", f"min({k}, 3)", f"({k} + n[None]) % 4", f"m[{k} % {SIZE}]"]
        return self.pick(*choices)

    # --- statements

    def block(self, s: Scope, pad: str, most: int = 4) -> list[str]:
        out: list[str] = []
        for _ in range(self.draw(st.integers(1, most))):
            if self.budget <= 0:
                break
            self.budget -= 1
            out += self.statement(s, pad)
        return out or [f"{pad}pass"]

    def statement(self, s: Scope, pad: str) -> list[str]:
        how = self.draw(st.integers(0, 19))
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
            form = self.draw(st.integers(0, 6))
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
            forms = (f"{k} = ({k} + {self.bound(s)}) % 5", f"{k} = ({k} * 3 + 1) % 7", f"{k} = max({k} - 1, 0)")
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
        if s.ints and self.chance(15):
            return [f"{pad}o[{self.index(s)}] += {self.pick(*s.ints)}"]
        forms = [
            f"y[None] += {value}",
            f"y[None] -= {value}",
            f"r{t}[{self.index(s)}] += {value}",
            f"qd.atomic_sub(r{t}[{self.index(s)}], {value})",
            f"qd.atomic_add(q{t}[{self.index(s)}, {self.index(s)}], {value})",
        ]
        if s.indices == ["i"]:
            forms += [f"s{t}[i] = {value}", f"s{t}[i] += {value}", f"s{t}[i] = {value}"]
        if s.indices[:2] == ["i", "j"]:
            forms += [f"p{t}[i, j] = {value}", f"p{t}[i, j] -= {value}"]
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
        j = self.fresh("j")
        low = f"{self.pick('1', 'n[None] - 2', self.bound(s))}, " if self.chance(25) else ""
        head = f"{pad}for {j} in range({low}{self.bound(s)}):"
        inner = s.inner(loop=True)
        if not low.startswith("n"):  # else it might be negative
            inner.ints = [*inner.ints, j]
        return [head, *self.block(inner, pad + "    ")]

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
        arity = self.pick(1, 2)
        params = [f"a{i}" for i in range(arity)]
        result = "res"
        s = Scope(floats=[*params, result], own=[result], fields=["x"] if self.chance(30) else [])
        s.task = IN_FUNC if self.chance(30) else None
        self.budget, kept = 5, self.budget
        body = self.block(s, "    ", 3)
        self.budget = kept
        lines = [f"def {name}({', '.join(params)}):", f"    {result} = {self.value(Scope(floats=params))}", *body]
        if self.chance(25):
            lines += [f"    if {self.condition(s)}:", f"        return {self.value(s, 1)}"]
        lines += [f"    return {self.pick(result, f'{result} + 0.2 * ({self.value(s, 1)})', self.value(s, 1))}", ""]
        self.funcs[name] = arity
        return lines

    def task(self, t: int, shared: Scope) -> list[str]:
        """One outermost loop; ``shared`` holds the kernel's own locals, which it reads."""
        s = shared.inner(own=[], steps=[], task=t)
        how = self.draw(st.integers(0, 5))
        if how < 4:
            head = ("for i in x:", f"for i in range({SIZE}):", "for i in range(n[None]):", "for i in z:")[how]
            s.indices, s.ints = ["i"], [*s.ints, "i"]
        else:
            head = ("for i, j in A:", f"for i, j in qd.ndrange({SIZE}, n[None]):")[how - 4]
            s.indices, s.ints = ["i", "j"], [*s.ints, "i", "j"]
        s.floats = [*s.floats, "v"]
        s.own = ["v"]
        start = self.pick("x[i]", "z[i] * 0.9", "A[i, i]", "0.3")
        lines = [f"    {head}", f"        v = {start}", *self.block(s, "        ", 6)]
        if self.chance(80):
            self_index = "i" if s.indices == ["i"] else None
            target = f"s{t}[i]" if self_index and self.chance(30) else "y[None]"
            lines.append(f"        {target} += {self.pick('v', 'qd.sin(v)', self.value(s, 1))}")
        return lines

    def kernel(self) -> str:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(0, 2))):
            lines += self.func()
        lines.append("def k():")
        shared = Scope(fields=["x", "z"])
        if self.chance(25):
            lines.append(f"    g = {self.value(shared)}")
            shared.floats.append("g")
            if self.chance(30):
                w = self.fresh("w")
                lines += [f"    {w} = 0", f"    while {w} < {self.bound(shared)}:", f"        {w} += 1"]
                lines.append(f"        g = {self.value(shared)}")
        if self.chance(15):
            lines.append("    h = n[None] + 1")
            shared.ints.append("h")
        for t in range(self.draw(st.integers(1, TASKS))):
            if self.chance(15):
                e = self.fresh("e")
                loop = shared.inner(indices=["i"], ints=[*shared.ints, "i"], task=None)
                lines += [f"    {e} = {self.constant()}", "    for i in x:", f"        {e} += {self.value(loop)}"]
                shared.floats.append(e)
                lines.append(f"    y[None] += 0.1 * {e} * {e}")
            self.budget = max(self.budget, 6)
            lines += self.task(t, shared)
            shared.fields += [f"s{t}", f"r{t}"]
        if not any("y[None]" in line for line in lines):  # a kernel without a field that has a gradient is an error
            lines.append("    y[None] += 0.1 * c[None]")
        return "\n".join(lines) + "\n"


@st.composite
def kernels(draw) -> Source:
    writer = _Writer(draw)
    text = writer.kernel()
    ints = tuple(draw(_launches) for _ in range(2))
    return Source(text, tuple(writer.funcs), ints)


_small = st.sampled_from((3, 2, 4, 1, 0))
_launches = st.builds(
    lambda n, m, at: {name: np.array(v, np.int32) for name, v in (("n", n), ("m", m), ("at", at))},
    _small,
    st.lists(_small, min_size=SIZE, max_size=SIZE),
    st.lists(st.integers(0, SIZE - 1), min_size=SIZE, max_size=SIZE),
)
