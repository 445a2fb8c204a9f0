"""The MSL of three kernels of the conformance suite; sizes, #line directives, caching."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conformance.stage_kernels import BRANCHES, LOOP
from conformance.tasks import AXPY, CHECKED, seven
from rigs.metal_rig import EXACT, FAST, load

from quadrants_lab.backends import metal
from quadrants_lab.backends._msl.kernel import module
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk

HERE = Path(__file__).resolve().parent

KERNELS = {"loop": LOOP, "branches": BRANCHES, "failures": CHECKED}  # the last has asserts and a serial task


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name: str, golden: Callable[[Path, str], None]) -> None:
    exe = load(KERNELS[name], FAST, asserts=True)
    golden(HERE / f"{name}.msl", exe.source + "\n")


@pytest.mark.parametrize("name", KERNELS)
def test_the_stage_is_the_source(name: str) -> None:
    kernel = parse_kernel(KERNELS[name])
    text = metal.stages(kernel, EXACT)["msl"]().text
    assert text == metal.load(kernel, EXACT).source
    for s in walk(kernel.body):
        if isinstance(s, N.Op) and s.prim in ("sin", "cos", "sqrt"):
            assert f"precise::{s.prim}" in text


def test_the_object_is_the_source() -> None:
    kernel = parse_kernel(LOOP)
    first = metal.load(kernel, EXACT)
    assert metal.load(kernel, EXACT, first.object).source == first.source
    assert first.object == metal.load(kernel, EXACT).object
    assert metal.target_key() == metal.target_key()


def test_debug_names_source_lines() -> None:
    kernel = parse_kernel(AXPY)
    (task,) = kernel.body
    assert isinstance(task, N.Offload)
    body = tuple(replace(s, span=Span("user.py", 43, n, 43, n + 1)) for n, s in enumerate(task.body))
    kernel = replace(kernel, body=(replace(task, body=body),))
    text = load(kernel, EXACT, debug=True).source
    store = text.split("\n").index("    y[i] = a * x[i] + y[i];")
    assert text.split("\n")[store - 1] == '#line 43 "user.py"'
    assert "#line" not in load(kernel).source


def test_pushes_side_by_side_are_short() -> None:
    """Adjacent pushes share a counter and a store."""
    made = module(parse_kernel(seven("f32", 64)), FAST)
    assert len(made.text) <= 2600
    assert made.lines <= 85
