"""Compile time over the size of a program: `elif` chains, terms of a sum, funcs and loops in each other."""

from __future__ import annotations

import linecache
from time import perf_counter

KERNEL = "@qd.kernel\ndef k():\n    for i in x:\n        v = x[i]\n"
SIZES = {"elifs": (25, 50, 100, 200), "terms": (125, 250, 500, 1000), "funcs": (25, 50, 100, 200),
         "loops": (2, 4, 8, 14)}  # fmt: skip


def text(what: str, n: int) -> str:
    """A program that defines kernel k over the fields x, y and m."""
    body, before = "", ""
    if what == "elifs":
        arms = (f"        {'el' if j else ''}if m[i] == {j}:\n            v = v * {j + 1}.0\n" for j in range(n))
        body = "".join(arms)
    elif what == "terms":
        body = "        v = " + " + ".join(f"x[i] * {j % 7 + 1}.0" for j in range(n)) + "\n"
    elif what == "funcs":
        before = "".join(f"@qd.func\ndef f{j}(a):\n    return f{j + 1}(a * 1.001) + 0.001\n" for j in range(n - 1))
        before += f"@qd.func\ndef f{n - 1}(a):\n    return a * a\n"
        body = "        v = f0(v)\n"
    else:
        body = "".join("    " * (2 + j) + f"for j{j} in range(m[0]):\n" for j in range(n))
        body += "    " * (2 + n) + "v = qd.sin(v) * 1.1\n"
    return f"{before}{KERNEL}{body}        y[i] = v\n"


def measure(case: str) -> dict[str, float]:
    """In a worker: seconds of the first forward launch and of the first gradient, in a process that has compiled
    before; ``case`` is "elifs 25"."""
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
        kernel = space["k"]
        begin = perf_counter()
        kernel()
        qd.sync()
        middle = perf_counter()
        kernel.grad()
        qd.sync()
        return {"forward": middle - begin, "gradient": perf_counter() - middle}

    seconds(1)
    return seconds(int(n))
