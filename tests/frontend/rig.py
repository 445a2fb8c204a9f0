"""Makes stand-ins for fields, types and funcs, and reads kernels from the fixtures in `cases`."""

import linecache
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError, QuadrantsWarning
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import function_source
from quadrants_lab.frontend.specs import (
    Lowered,
    MatrixSpec,
    NdarraySpec,
    ScalarSpec,
    StructSpec,
    TemplateSpec,
)
from quadrants_lab.ir.deep_recursion import run_deep
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType, f32, f64, i8, i32, u1, u32
from quadrants_lab.ir.verify import verify
from quadrants_lab.lang.snode import FieldsBuilder


class FakeField:
    __qd_field__ = True
    name, snode, primal = "", None, None

    def __init__(
        self, dtype: DType, *shape: int, grad: bool = False, element: tuple[int, ...] = (), offset: tuple[int, ...] = ()
    ) -> None:
        self.dtype, self.shape, self.element_shape, self.offset = dtype, shape, element, offset
        self.grad = FakeField(dtype, *shape, element=element, offset=offset) if grad else None

    def array(self) -> np.ndarray:
        return np.zeros((*self.shape, *self.element_shape), self.dtype.numpy)


def sparse_nodes() -> dict[str, Any]:
    """Nodes without a session: of 4 x 8 bitmasked ``cells``, one of them of the field ``sparse``, and of 4 ``rows``."""
    cells = FieldsBuilder().bitmasked((0, 1), (4, 8))
    rows = FieldsBuilder().dense((0,), 4).dynamic((1,), 16)
    cells._activity, rows._activity = FakeField(i32, 4, 8), FakeField(i32, 4)
    sparse, listed = FakeField(f32, 4, 8), FakeField(f32, 4, 16)
    for node, field in ((cells, sparse), (rows, listed)):
        field.snode = node
        node._fields.append(field)
    return {"cells": cells, "rows": rows, "sparse": sparse}


def types() -> dict[str, Any]:
    """The types, and objects made of them, that every case may use."""
    vec3 = qd.types.vector(3, f32)
    ball = qd.types.struct(pos=vec3, mass=f32, hits=i32)
    balls = {"pos": FakeField(f32, 4, grad=True, element=(3,)), "mass": FakeField(f32, 4), "hits": FakeField(i32, 4)}
    return {
        "vec3": vec3, "loose": qd.types.vector(3), "gravity": qd.Vector([0.0, -9.8, 0.0]), "Ball": ball,
        "balls": SimpleNamespace(struct_type=ball, members=balls, __qd_struct_field__=True),
        "shifted": FakeField(f32, 5, offset=(-2,)), "f32": f32, "matrix": MatrixSpec, "struct": StructSpec,
    }  # fmt: skip


def fields() -> dict[str, Any]:
    """The fields that every case may use."""
    return {
        "x": FakeField(f32, 16, grad=True),
        "y": FakeField(f32, grad=True),
        "z": FakeField(f32, 16),
        "g": FakeField(f32, 3, 4),
        "d": FakeField(f64, 8),
        "n": FakeField(i32),
        "a": FakeField(i32, 8),
        "bytes8": FakeField(i8, 8),
        "u": FakeField(u32, 8),
        "b": FakeField(u1, 8),
        "deep": FakeField(f32, 2, 3, 4, 5),
        "p": FakeField(f32, 8, grad=True, element=(3,)),
        "m": FakeField(f32, 8, grad=True, element=(2, 2)),
    }


class Case:
    """A kernel of a fixture, with the arguments that it is described to have."""

    def __init__(self, fn: Callable[..., Any], specs: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.fn, self.specs, self.options = fn, specs, CompileOptions(**options)

    def lower(self) -> Lowered:
        lowered = run_deep(lambda: lower(function_source(self.fn), self.specs, self.options))
        verify(lowered.kernel)
        return lowered

    def diagnostics(self) -> str:
        """The warnings and the error that lowering makes, as text."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", QuadrantsWarning)
            try:
                self.lower()
                shown = []
            except QuadrantsError as e:
                shown = [f"{type(e).__name__}: {e}"]
        return "\n".join([str(w.message) for w in caught] + shown)


BETWEEN, BEFORE_OUTPUT = "\n===\n", "\n---"


def sources(path: Path) -> list[str]:
    """The programs of a fixture. Lines of === separate them, and a line --- separates each program from its output."""
    return [part.partition(BEFORE_OUTPUT)[0] for part in path.read_text().split(BETWEEN)]


def fixture(path: Path, output: Callable[[Case], str]) -> str:
    """The fixture's text with the output that its programs have now."""
    shown = [output(case) for case in load(path).values()]
    parts = zip(sources(path), shown, strict=True)
    return BETWEEN.join(f"{source}{BEFORE_OUTPUT}\n{text}".rstrip("\n") for source, text in parts) + "\n"


def load(path: Path, **extra: Any) -> dict[str, Case]:
    """The kernels of a fixture by name. A part has one, under what it calls: that is decorated, with ``@plain`` where
    it is a function of Python. A kernel with arguments or options is decorated with ``@kernel(specs..., options...)``.
    All parts have the same globals.

    linecache gets each part as a file that is named after its kernel, so that expected texts depend neither on
    other parts nor on the place of the fixture.
    """
    called: list[Callable[..., Any]] = []

    def kernel(*specs: Any, **options: Any) -> Callable[..., Case]:
        return lambda fn: Case(fn, specs, options)

    def plain(fn: Callable[..., Any]) -> Callable[..., Any]:
        called.append(fn)
        return fn

    names = {
        "qd": qd, "math": math, "np": np, "kernel": kernel, "plain": plain, "scalar": ScalarSpec, "array": NdarraySpec,
        "const": TemplateSpec, **fields(), **types(), **sparse_nodes(), **extra,
    }  # fmt: skip
    cases = {}
    for text in sources(path):
        name = re.findall(r"^def (\w+)", text, re.MULTILINE)[-1]
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), names)
        made = names[name]
        assert made not in called
        cases[name] = made if isinstance(made, Case) else Case(made, (), {})
    return cases
