"""What a kernel computes is what the same text computes in Python, where the two languages agree."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frontend.rig import fields, load

from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f64, i64
from quadrants_lab.runtime.interpret.interpreter import interpret

PATH = Path(__file__).parent / "meaning.py"
OPTIONS = CompileOptions(default_ip=i64, default_fp=f64)


class Array:
    """A field as Python sees it: iteration runs over indices, None is the index of a scalar."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def __getitem__(self, index: Any) -> Any:
        return self.values[() if index is None else index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[() if index is None else index] = value

    def __iter__(self) -> Iterator[Any]:
        if self.values.ndim == 1:
            return iter(range(self.shape[0]))
        return itertools.product(*map(range, self.shape))


def ndrange(*axes: Any) -> Iterator[Any]:
    return itertools.product(*(range(*a) if isinstance(a, tuple) else range(a) for a in axes))


PYTHON = SimpleNamespace(
    func=lambda fn: fn, static=lambda v: v, ndrange=ndrange, sin=math.sin, sqrt=math.sqrt, template=lambda: None,
    select=lambda c, a, b: a if c else b, loop_config=lambda **_: None, cast=lambda v, t: t(v),
)  # fmt: skip


def start() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    arrays = {}
    for name, field in fields().items():
        a = field.array()
        if a.dtype.kind == "f":
            a[...] = rng.normal(size=a.shape).round(3)
        elif a.dtype.kind in "iu":
            a[...] = rng.integers(0 if a.dtype.kind == "u" else -5, 9, size=a.shape)
        arrays[name] = a
    arrays["n"][...] = 4
    return arrays


def in_python(name: str, arrays: dict[str, np.ndarray]) -> None:
    names: dict[str, Any] = {"qd": PYTHON, "kernel": lambda: lambda fn: fn, "math": math}
    names.update({k: Array(v) for k, v in arrays.items()})
    exec(compile(PATH.read_text(), str(PATH), "exec"), names)
    names[name]()


CASES = load(PATH)


@pytest.mark.parametrize("name", CASES)
def test_as_in_python(name: str) -> None:
    case = CASES[name]
    case.options = OPTIONS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = case.lower()
    ours, theirs = start(), start()
    arrays = {b: ours[b] if b in ours else np.zeros_like(ours[b[:-5]]) for b in lowered.bindings}
    interpret(lowered.kernel, {}, arrays)
    in_python(name, theirs)
    for field, values in theirs.items():
        np.testing.assert_allclose(ours[field], values, rtol=1e-5, err_msg=field)
