"""Deep programs as text, with what they compute: chains of `elif`, sums of many terms, funcs in each other."""

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

import quadrants_lab as qd

X = np.array([0.125, 0.25, 0.375, 0.5], np.float32)
KERNEL = "@qd.kernel\ndef k():\n    for i in x:\n"
_numbers = count()


@dataclass(frozen=True, slots=True)
class Program:
    """A program: ``text`` defines kernel k, which computes the field y from x; ``value`` and ``slope`` are y and
    dy/dx at `X`. The i32 field m holds ones."""

    text: str
    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]


def elifs(n: int) -> Program:
    """Each element takes another of n arms, near the end of the chain."""
    arms = "".join(f"        {'el' if j else ''}if at == {j}:\n            v = v * {j + 1}.0\n" for j in range(n))
    text = f"{KERNEL}        v = x[i]\n        at = i + {n - 4}\n{arms}        else:\n            v = 0.0\n"
    factor = np.arange(n - 3, n + 1)
    return Program(f"{text}        y[i] = v * v\n", lambda x: (factor * x) ** 2, lambda x: 2 * factor**2 * x)


def terms(n: int) -> Program:
    """A sum in one expression."""
    total = sum(j % 7 + 1 for j in range(n))
    text = " + ".join(f"x[i] * {j % 7 + 1}.0" for j in range(n))
    return Program(f"{KERNEL}        y[i] = {text}\n", lambda x: total * x, lambda x: total + 0 * x)


def conditions(n: int) -> Program:
    """A chain of `and`, and one of `or`."""
    both = " and ".join(f"x[i] > {-j}.0" for j in range(n)), " or ".join(f"x[i] > {j + 1}.0" for j in range(n))
    text = f"        if {both[0]}:\n            v = v * 2.0\n        if {both[1]}:\n            v = 0.0\n"
    return Program(f"{KERNEL}        v = x[i]\n{text}        y[i] = v * v\n", lambda x: 4 * x * x, lambda x: 8 * x)


def brackets(n: int) -> Program:
    """As many nested brackets as Python's parser allows."""
    text = "(" * n + "x[i]" + " + 0.5)" * n
    return Program(f"{KERNEL}        y[i] = {text}\n", lambda x: x + 0.5 * n, lambda x: 1 + 0 * x)


def methods(n: int) -> Program:
    """Calls of methods of what a method returned."""
    text = f"        v = qd.Matrix([[x[i], 1.0], [2.0, 3.0]]){'.transpose()' * n}\n        y[i] = v[0, 0] * v[1, 0]\n"
    other = 1 if n % 2 else 2
    return Program(KERNEL + text, lambda x: other * x, lambda x: other + 0 * x)


def funcs(n: int) -> Program:
    """Funcs that call each other, each under a condition."""
    text = "".join(
        f"@qd.func\ndef f{j}(a):\n    b = a\n    if a < 99.0:\n        b = f{j + 1}(a + 0.0625)\n    return b\n"
        for j in range(n - 1)
    )
    text += f"@qd.func\ndef f{n - 1}(a):\n    return a * a\n"
    end = 0.0625 * (n - 1)
    return Program(f"{text}{KERNEL}        y[i] = f0(x[i])\n", lambda x: (x + end) ** 2, lambda x: 2 * (x + end))


def loops(n: int) -> Program:
    """Loops in each other whose trips are read when they run: two of the outermost one, one of each other."""
    heads = "".join("    " * (2 + j) + f"for j{j} in range({2 if j == 0 else 1} * m[i]):\n" for j in range(n))
    text = f"{KERNEL}        v = x[i]\n{heads}{'    ' * (2 + n)}v = v * v\n        y[i] = v\n"
    return Program(text, lambda x: x**4, lambda x: 4 * x**3)


def ifs(n: int) -> Program:
    """Ifs in each other by funcs, with a loop, a store and a test in each, before and behind the next one."""
    text = "".join(
        f"@qd.func\ndef f{j}(a, i):\n    b = a\n    if a < {j + 1}.0:\n"
        + ("        for _ in range(m[i]):\n            b += 0.5\n" if j % 10 == 9 else "        b += 0.5\n") +
        f"        if b > 99.0:\n            y[i] = -1.0\n        b = f{j + 1}(a + 0.5, i) + b * 0.0078125\n"
        "    else:\n        b *= 2.0\n    return b\n"
        for j in range(n)
    )
    text += f"@qd.func\ndef f{n}(a, i):\n    return a * a\n{KERNEL}        y[i] = f0(x[i], i)\n"

    def value(x: np.ndarray) -> np.ndarray:
        return (x + 0.5 * n) ** 2 + sum((x + 0.5 * (j + 1)) * 0.0078125 for j in range(n))

    return Program(text, value, lambda x: 2 * (x + 0.5 * n) + 0.0078125 * n + 0 * x)


PROGRAMS: dict[str, tuple[Callable[[int], Program], int]] = {
    "elifs": (elifs, 200),
    "terms": (terms, 1000),
    "conditions": (conditions, 200),
    "brackets": (brackets, 190),
    "methods": (methods, 300),
    "funcs": (funcs, 200),
    "ifs": (ifs, 52),
    "loops": (loops, 14),
}


def define(text: str, **names: Any) -> dict[str, Any]:
    """The objects that the text defines over ``qd`` and the names; `inspect` finds the source of its functions."""
    file = f"<text {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"qd": qd, **names}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space


def made(program: Program) -> tuple[Any, Any, Any]:
    """The kernel and its fields x, which holds `X`, and y, in the current session."""
    x, y = (qd.field(qd.f32, shape=len(X), needs_grad=True) for _ in range(2))
    m = qd.field(qd.i32, shape=len(X))
    x.from_numpy(X)
    m.fill(1)
    return define(program.text, x=x, y=y, m=m)["k"], x, y
