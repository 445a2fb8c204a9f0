"""Sums into neighbours' elements: which of them run in two colours, and that none is lost."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_rig import EXACT, bind, load

from quadrants_lab.backends.cpu.colours import coloured
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.passes.reach import mark_reach

BOX = """
kernel sums(n: i32, m: i32) forward next %{next} {{
  buffer @y: field f64[{size}x{size}]
  buffer @at: field i32[{size}]
  offload range_for bounds {{ #90
    %0: i32 = const {margin}
    %1: i32 = arg n
    %2: i32 = arg m
    yield %0, %0, %1, %2
  }} do (%3: i32 'i', %4: i32 'j') {{
    %5: f64 = const 1.0
    %80: i32 = load @at[%3]
{body}
    yield
  }}
}}
"""


def kernel(places: list[tuple[str, str]], size: int = 40, margin: int = 4):
    """A kernel that adds 1 at each place: expressions like "i+2", "j", "at", "0"."""
    lines, n = [], 10

    def index(text: str) -> str:
        nonlocal n
        name, _, by = text.replace("-", "+-").partition("+")
        base = {"i": "%3", "j": "%4", "at": "%80"}.get(name)
        if base is not None and not by:
            return base
        lines.append(f"    %{n}: i32 = const {by or name}")
        n += 1
        if base is not None:
            lines.append(f"    %{n}: i32 = add {base}, %{n - 1}")
            n += 1
        return f"%{n - 1}"

    for a, b in places:
        at = f"{index(a)}, {index(b)}"
        lines.append(f"    %{n}: f64 = atomic add @y[{at}], %5")
        n += 1
    return parse_kernel(BOX.format(next=100, size=size, margin=margin, body="\n".join(lines)))


STENCIL = [("i-1", "j"), ("i+1", "j"), ("i", "j-1"), ("i", "j+1"), ("i", "j")]


@pytest.mark.parametrize(
    ("places", "rows"),
    [
        (STENCIL, 2), ([("i", "j+3")], 0), ([("i-4", "j"), ("i+3", "j")], 7), ([("j", "i+1"), ("j", "i")], 1),
        ([("i", "0")], 0), ([("i+1", "at"), ("i", "at")], None), ([("at", "j")], None), ([("0", "j")], None),
        ([("i", "j"), ("j", "i")], None), ([("i", "j"), ("0", "0")], None),
    ],
)  # fmt: skip
def test_what_runs_in_two_colours(places, rows) -> None:
    found = coloured(mark_reach(kernel(places)))
    assert found.rows == ({} if rows is None else {0: rows})


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("places", [STENCIL, [("i-4", "j"), ("i+3", "j-1")], [("j", "i+1"), ("j", "i")], [("i", "0")]])
def test_no_sum_is_lost(places, threads: int) -> None:
    exe = load(mark_reach(kernel(places, size=300)), EXACT)
    for n, m in ((296, 296), (5, 296), (4, 9), (296, 5), (7, 7), (60, 4)):
        y, at = np.zeros((300, 300)), np.zeros(300, np.int32)
        frame = bind(exe, {"y": y, "at": at}, {"n": n, "m": m}, threads=threads)
        want = np.zeros_like(y)
        i, j = (a.ravel() for a in np.meshgrid(np.arange(4, n), np.arange(4, m), indexing="ij"))
        space = {"i": i, "j": j, "0": np.zeros_like(i)}
        for a, b in places:
            where = [eval(text, {}, {"i": i, "j": j}) + 0 * space["0"] for text in (a, b)]
            np.add.at(want, tuple(where), 1.0)
        for _ in range(20):
            y[...] = 0.0
            frame.launch()
            assert (y == want).all()


def test_the_sum_does_not_depend_on_the_number_of_threads() -> None:
    """Sums of numbers that round: the order of the additions would show."""
    text = BOX.format(next=100, size=300, margin=4, body="""\
    %6: i32 = const 1
    %7: i32 = add %3, %6
    %8: i32 = sub %3, %6
    %9: f64 = cast %3
    %10: f64 = cast %4
    %11: f64 = mul %9, %10
    %12: f64 = sqrt %11
    %13: f64 = sin %12
    %14: f64 = atomic add @y[%7, %4], %13
    %15: f64 = atomic add @y[%8, %4], %12
    %16: f64 = atomic add @y[%3, %4], %9""")  # fmt: skip
    exe, found = load(mark_reach(parse_kernel(text)), EXACT), set()
    for threads in (1, 2, 3, 5):
        y, at = np.zeros((300, 300)), np.zeros(300, np.int32)
        bind(exe, {"y": y, "at": at}, {"n": 290, "m": 290}, threads=threads).launch()
        found.add(y.tobytes())
    assert len(found) == 1
