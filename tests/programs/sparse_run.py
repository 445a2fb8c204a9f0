"""Programs over sparse layouts, for quadrants_lab and for its peer alike; as a script, the peer's answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def pointers_of_bitmasks(qd: Any) -> list[Any]:
    x = qd.field(qd.i32)
    top = qd.root.pointer(qd.ij, (4, 2))
    masked = top.bitmasked(qd.ij, (2, 4))
    masked.dense(qd.ij, (3, 2)).place(x)
    found = qd.field(qd.i32, shape=(3, 24, 16))

    @qd.kernel
    def write():
        for n in range(40):
            x[(n * 7) % 24, (n * n) % 16 // 5 * 5] += n + 1

    @qd.kernel
    def look():
        for i, j in x:
            found[0, i, j] += x[i, j] + 100
        for i, j in masked:
            found[1, i, j] += 1
        for at in qd.grouped(top):
            found[2, at[0], at[1]] += 1

    @qd.kernel
    def drop():
        for i in range(2):
            qd.deactivate(top, [2 * i, 0])
        qd.deactivate(masked, [2, 0])

    @qd.kernel
    def ask(i: int, j: int) -> int:
        return qd.is_active(masked, [i, j]) * 2 + qd.is_active(top, qd.rescale_index(masked, top, [i, j]))

    write()
    look()
    first = found.to_numpy().tolist()
    asked = [ask(i, j) for i in range(8) for j in range(8)]
    drop()
    found.fill(0)
    look()
    second = found.to_numpy().tolist()
    x[1, 1] = 7
    found.fill(0)
    look()
    x.fill(5)
    return [first, asked, second, found.to_numpy().tolist(), x.to_numpy().tolist(), str(masked)]


def growth(qd: Any) -> list[Any]:
    x = qd.field(qd.f32)
    node = qd.root.pointer(qd.ij, (8, 6))
    node.dense(qd.ij, 2).place(x)
    y = qd.field(qd.f32)
    node.dense(qd.ij, 2).place(y)
    x[3, 4] = 1.0
    seen = []

    @qd.kernel
    def grow():
        for i, j in x:
            y[i + 2, j] += 0.5 * x[i, j] + 1.0
            y[i, (j + 4) % 12] += 2.0

    @qd.kernel
    def count() -> int:
        n = 0
        for _i, _j in x:
            n += 1
        return n

    for _ in range(2):
        if len(seen) == 1:
            x[9, 9] = 4.0
        grow()
        seen.append(count())
    node.deactivate_all()
    return [seen, count(), x[3, 4], y.to_numpy().tolist()]


def lists(qd: Any) -> list[Any]:
    x = qd.field(qd.i32)
    rows = qd.root.dense(qd.i, 5).dynamic(qd.j, 32, chunk_size=8)
    rows.place(x)
    v = qd.Vector.field(2, qd.f32)
    qd.root.dynamic(qd.i, 64).place(v)
    sums = qd.field(qd.i32, shape=(3, 5))

    @qd.kernel
    def fill():
        for i in range(5):
            for j in range(i * 2):
                qd.append(rows, i, j + 1)
            x[i].append(100)
        for i in range(9):
            v.append(qd.Vector([1.0, 2.0]))

    @qd.kernel
    def look(k: int):
        for i, j in x:
            sums[k, i] += x[i, j] * 10 + j
        for i in range(5):
            sums[k, i] += 10000 * x[i].length()

    @qd.kernel
    def change():
        x[1].deactivate()
        qd.deactivate(rows, 3)
        x[0, 7] = 3

    @qd.kernel
    def count() -> int:
        return v.length()

    fill()
    look(0)
    change()
    look(1)
    x[1, 2] = 9
    look(2)
    return [sums.to_numpy().tolist(), count(), v.to_numpy()[:10].tolist(), x.to_numpy().tolist()]


def _nested(qd: Any, top: int, inner: int, block: int) -> list[Any]:
    """Cells of pointers in cells of pointers: growth, and cells of both that are dropped."""
    n = top * inner * block
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    wide = qd.root.pointer(qd.ij, top)
    narrow = wide.pointer(qd.ij, inner)
    narrow.dense(qd.ij, block).place(x, y)

    @qd.kernel
    def grow():
        for i, j in x:
            y[(i + block) % n, j] += x[i, j] + 1.0

    @qd.kernel
    def count() -> int:
        found = 0
        for i, j in y:
            found += 1
            if y[i, j] > 1.5:
                found += 1000
        return found

    @qd.kernel
    def cells() -> int:
        found = 0
        for _i, _j in narrow:
            found += 1
        for _i, _j in wide:
            found += 1000
        return found

    @qd.kernel
    def drop_narrow(i: int, j: int):
        qd.deactivate(narrow, [i // block, j // block])

    @qd.kernel
    def drop_wide(i: int, j: int):
        qd.deactivate(wide, [i // (block * inner), j // (block * inner)])

    def seen() -> list[Any]:
        return [count(), cells(), x[n - 1, 2], y[block - 1, 2], y[3 + block, n // 2]]

    x[n - 1, 2] = 2.0
    x[3, n // 2] = 3.0
    found = [seen()]
    grow()
    found.append(seen())
    drop_narrow(n - 1, 2)
    found.append(seen())
    drop_wide(3, n // 2)
    found.append(seen())
    x[4, n // 2] = 1.0
    found.append(seen())
    wide.deactivate_all()
    return [*found, seen()]


def nested(qd: Any) -> list[Any]:
    return _nested(qd, 4, 3, 2)


def far_apart(qd: Any) -> list[Any]:
    """The same program over 65536^2 elements, more than memory can hold."""
    return _nested(qd, 64, 64, 16)


PROGRAMS: tuple[Callable[[Any], list[Any]], ...] = (pointers_of_bitmasks, growth, lists, nested)
ON_DEMAND = (far_apart,)  # for backends with memory on demand


def main() -> None:
    import quadrants as qd  # only the peer's environment has it

    answers = {}
    for program in (*PROGRAMS, *ON_DEMAND):
        qd.init(arch=qd.cpu, log_level=qd.ERROR)
        answers[program.__name__] = program(qd)
    print("answers", json.dumps(answers), sep="\n")


if __name__ == "__main__":
    main()
