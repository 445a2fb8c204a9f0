"""Measures compile time over the size of a program. The programs are `elif` chains, terms of a sum, funcs and loops in
each other, pairs of `if` and `else`, unrolled `if`s, early returns, a long chain of `normalized`, layers of neurons in
local vectors, array arguments, and array arguments of which half are overwritten."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from time import perf_counter
from typing import Any

KERNEL = "@qd.kernel\ndef k({}):\n    for i in x:\n        v = x[i]\n"
Text = tuple[str, ...]  # source in front of the kernel, the rest of its loop, and its parameters


def _elifs(n: int) -> Text:
    arms = (f"        {'el' if j else ''}if m[i] == {j}:\n            v = v * {j + 1}.0\n" for j in range(n))
    return "", "".join(arms)


def _terms(n: int) -> Text:
    return "", "        v = " + " + ".join(f"x[i] * {j % 7 + 1}.0" for j in range(n)) + "\n"


def _funcs(n: int) -> Text:
    before = "".join(f"@qd.func\ndef f{j}(a):\n    return f{j + 1}(a * 1.001) + 0.001\n" for j in range(n - 1))
    return f"{before}@qd.func\ndef f{n - 1}(a):\n    return a * a\n", "        v = f0(v)\n"


def _loops(n: int) -> Text:
    loops = "".join("    " * (2 + j) + f"for j{j} in range(m[0]):\n" for j in range(n))
    return "", loops + "    " * (2 + n) + "v = qd.sin(v) * 1.1\n"


def _pairs(n: int) -> Text:
    arms = ((f"        if v > {j}e-2:\n            v = v * 1.01 + {j}.5\n", f"            v = qd.sin(v) + {j}.25\n")
            for j in range(n))  # fmt: skip
    return "", "".join(f"{then}        else:\n{orelse}" for then, orelse in arms)


def _ifs(n: int) -> Text:
    head = f"        for j in qd.static(range({n})):\n"
    return "", f"{head}            if v > j * 0.01:\n                v = v * 1.01 + j\n"


def _returns(n: int) -> Text:
    steps = (f"    if a < {j}e-2:\n        return a * {j}.5\n    a = a * 1.01 - 0.002\n" for j in range(n))
    return f"@qd.func\ndef f(a):\n{''.join(steps)}    return a\n", "        v = f(v)\n"


def _normalized(n: int) -> Text:
    chain = "        w = (w + 1.0).normalized()\n" * n
    return "", f"        w = qd.Vector([v, 1.0, 2.0])\n{chain}        v = w[0]\n"


def _mlp(n: int) -> Text:
    """Source of two layers of n neurons, in local vectors that loops index."""
    before = f"w, u = (qd.field(qd.f32, shape=s, needs_grad=True) for s in (({n}, {n}), {n}))\n"
    return before, f"""        g = qd.Vector([0.0 for _ in range({n})])
        h = qd.Vector([0.0 for _ in range({n})])
        for j in range({n}):
            g[j] = qd.tanh(u[j] * v)
        for j in range({n}):
            for k in range({n}):
                h[j] += w[j, k] * g[k]
            h[j] = qd.tanh(h[j])
        for j in range({n}):
            v += u[j] * h[j]
"""


def _arguments(n: int) -> tuple[str, str, str]:
    parameters = ", ".join(f"a{j}: qd.types.ndarray(qd.f32, 1)" for j in range(n))
    body = "".join(f"        a{j}[i] = a{j + 1}[i] * 2.0 + v\n" for j in range(0, n - 1, 2))
    return f"given = [qd.ndarray(qd.f32, 4, needs_grad=True) for _ in range({n})]\n", body, parameters


def _overwritten(n: int) -> Text:
    """Source of a kernel with n array arguments, of which it overwrites every second one: old values must be kept for
    the gradient."""
    before, _, parameters = _arguments(n)
    return before, "".join(f"        a{j}[i] = qd.sin(a{j}[i]) * a{j + 1}[i]\n" for j in range(0, n - 1, 2)), parameters


PROGRAMS: dict[str, tuple[Callable[[int], Text], tuple[int, ...]]] = {
    "elifs": (_elifs, (25, 50, 100, 200)), "terms": (_terms, (125, 250, 500, 1000)),
    "funcs": (_funcs, (25, 50, 100, 200)), "loops": (_loops, (2, 4, 8, 14)), "pairs": (_pairs, (300, 600)),
    "ifs": (_ifs, (250, 500)), "returns": (_returns, (100, 200)), "normalized": (_normalized, (200, 400)),
    "mlp": (_mlp, (25, 50, 100)), "arguments": (_arguments, (64, 128, 256, 512)),
    "overwritten": (_overwritten, (64, 128, 256, 512)),
}  # fmt: skip


def text(what: str, n: int) -> str:
    """The source of a program of the kind ``what`` and size ``n``, which defines the kernel k over the fields x, y and
    m."""
    before, body, *parameters = PROGRAMS[what][0](n)
    return f"{before}{KERNEL.format(*parameters or [''])}{body}        y[i] = v\n"


def measure(case: str) -> dict[str, float]:
    """Runs in a worker process that has compiled another kernel before. Returns the seconds of the first launch and of
    the first gradient of a program; ``case`` is its kind and size, such as "elifs 25"."""
    from benchmarks import engine

    qd, (what, n) = engine.qd, case.split()
    engine.init()
    x, y = (qd.field(qd.f32, shape=4, needs_grad=True) for _ in range(2))
    m = qd.field(qd.i32, shape=4)
    m.fill(1)

    def seconds(size: int) -> dict[str, float]:
        source = text(what, size)
        file = f"<{what} {size}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        space = {"qd": qd, "x": x, "y": y, "m": m}
        exec(compile(source, file, "exec"), space)
        kernel: Any = space["k"]
        given: Any = space.get("given", ())
        y.grad.fill(1.0)
        begin = perf_counter()
        kernel(*given)
        qd.sync()
        middle = perf_counter()
        kernel.grad(*given)
        qd.sync()
        return {"forward": middle - begin, "gradient": perf_counter() - middle}

    seconds(1)
    return seconds(int(n))
