"""QL0406 and QL0407 do not speak of memory that constants have overwritten before it is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest
from programs.deep import define

import quadrants_lab as qd

f64, i32 = qd.f64, qd.i32


# the kernels that a row of launches names, and what Python does between them: t, s, c and v have no gradient
KERNELS = {
    "to_t": "for i in x: t[i] = x[i] * x[i]",
    "from_t": "for i in x: y[None] += t[i] * x[i]",
    "clear_t": "for i in t: t[i] = 1.0",
    "clear_seven": "for i in range(0, n[0]): t[i] = 1.0",
    "clear_if": """
for i in t:
    if n[1] > 0:
        t[i] = 1.0""",
    "clear_until": """
for _ in range(1):
    for i in range(8):
        if x[i] > 1.0:
            break
        t[i] = 1.0""",
    "clear_never": """
for _ in range(0, c[0]):
    for i in range(8): t[i] = 1.0""",
    "in_one": """
for i in x: t[i] = x[i] * x[i]
for i in t: t[i] = 1.0
for i in x: y[None] += t[i] * x[i]""",
    "in_one_before": """
for i in t: t[i] = 1.0
for i in x: t[i] = x[i] * x[i]
for i in x: y[None] += t[i] * x[i]""",
    "in_one_next_time": """
for i in x: y[None] += t[i] * x[i]
for i in t: t[i] = x[i]""",
    "vectors": """
for i in x: v[i] = qd.Vector([x[i], 2.0])
for i in v: v[i] = qd.Vector([1.0, 2.0])
for i in x: y[None] += v[i][0] * x[i]""",
    "half_of_vectors": """
for i in x: v[i] = qd.Vector([x[i], 2.0])
for i in v: v[i][1] = 1.0
for i in x: y[None] += v[i][0] * x[i]""",
    "to_s": "for i in x: s[None] += x[i]",
    "clear_s": "s[None] = 0.0",
    "from_s": "for i in x: y[None] += x[i] * s[None]",
    "to_c": "for i in x: c[i] = int(x[i] * 10.0)",
    "clear_c": "for i in c: c[i] = 1",
    "from_c": "for i in c: y[None] += 1.5 * c[i]",
}


@pytest.fixture
def launched() -> Callable[..., str]:
    """A function that launches steps by name under a Tape and returns what was warned of."""
    qd.init(arch=qd.cpu, default_fp=f64)
    x, y, n = qd.field(f64, 8, needs_grad=True), qd.field(f64, (), needs_grad=True), qd.field(i32, 2)
    t, s, c, v = qd.field(f64, 8), qd.field(f64, ()), qd.field(i32, 8), qd.Vector.field(2, f64, 8)
    x.fill(0.5)
    n[0] = 7
    steps: dict[str, Any] = {
        name: define(f"@qd.kernel\ndef k():\n{indent(text, '    ')}\n", x=x, y=y, t=t, s=s, c=c, v=v, n=n)["k"]
        for name, text in KERNELS.items()
    }
    steps |= {
        "fill_t": lambda: t.fill(1.0), "set_t": lambda: t.__setitem__(0, 1.0),
        "set_s": lambda: s.__setitem__(None, 1.0),
    }  # fmt: skip

    def launched(names: str) -> str:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            with qd.ad.Tape(y):
                for name in names.split():
                    steps[name]()
        return "\n".join(str(w.message) for w in given)

    return launched


@pytest.mark.parametrize("names", [
    "in_one", "vectors", "to_t clear_t from_t", "to_t fill_t from_t", "to_s clear_s from_s", "to_s set_s from_s",
    "to_c clear_c from_c",
])  # fmt: skip
def test_what_constants_overwrote_ends_no_derivative(launched: Callable[..., str], names: str) -> None:
    assert launched(names) == ""
    assert launched(names) == ""


@pytest.mark.parametrize("names", [
    "in_one_before", "in_one_next_time", "half_of_vectors", "to_t from_t", "to_t clear_seven from_t",
    "to_t clear_if from_t", "to_t clear_until from_t", "to_t clear_never from_t", "to_t clear_t to_t from_t",
    "to_t set_t from_t", "to_t fill_t to_t from_t", "to_s from_s",
])  # fmt: skip
def test_what_may_be_left_is_warned_of(launched: Callable[..., str], names: str) -> None:
    assert "QL0407" in launched(names)


def test_integers_that_are_left_are_warned_of(launched: Callable[..., str]) -> None:
    assert "QL0406" in launched("to_c from_c")
    assert "QL0406" in launched("to_c clear_c to_c from_c")
