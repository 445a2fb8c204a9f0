"""Kernels written by hand, one or more for every feature of the language and every trap of reverse mode.

Each is a plain function over free names: a test binds them to fields (`running.bind`). `@program` puts it on the table
`PROGRAMS` with the fields it needs and the inputs to try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np


@dataclass(frozen=True)
class F:
    """A float field of the session's default float type; ``arg``: it is an ndarray argument of that name instead.
    ``element``: the shape of its elements where they are vectors or matrices."""

    shape: tuple[int, ...] = ()
    low: float = -1.0
    high: float = 1.0
    grad: bool = True
    arg: bool = False
    element: tuple[int, ...] = ()

    @property
    def whole(self) -> tuple[int, ...]:
        return (*self.shape, *self.element)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.uniform(self.low, self.high, self.whole))


@dataclass(frozen=True)
class I:  # noqa: E742
    """An i32 field with values in low..high, both included."""

    shape: tuple[int, ...] = ()
    low: int = 0
    high: int = 6
    arg: bool = False
    grad = False
    element = ()

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.integers(self.low, self.high + 1, self.shape), np.int32)


@dataclass(frozen=True)
class Program:
    """``fields``: by name. ``funcs``: functions of the language that it calls. ``cases``: what replaces drawn inputs,
    one launch each. ``grad``: its gradient is defined. ``exact``: decisions may lie on their boundary on purpose.
    ``scalars``: scalar arguments by name. ``tol32``: relative tolerance in f32. ``large``: too long to interpret
    after every pass. A field "b.r" is member r of the field b of structs. ``definitions``: statements over ``qd`` and
    ``real``, the float dtype, that define types; ``structs``: which of those a field has."""

    fn: Callable
    fields: dict[str, F | I]
    funcs: tuple[Callable, ...] = ()
    cases: tuple[dict, ...] = ({},)
    grad: bool = True
    exact: bool = False
    scalars: dict[str, object] = field(default_factory=dict)
    tol32: float = 2e-4
    large: bool = False
    definitions: str = ""
    structs: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.fn.__name__

    def inputs(self, case: dict, seed: int = 0) -> dict[str, np.ndarray]:
        """Field values of one case, floats as float64."""
        rng = np.random.default_rng(seed)
        out = {name: spec.draw(rng) for name, spec in self.fields.items()}
        for name, value in case.items():
            if name in out:
                shape, dtype = out[name].shape, out[name].dtype
                out[name] = np.array(np.broadcast_to(np.asarray(value, dtype), shape))
        return out

    def arguments(self, case: dict) -> dict[str, object]:
        return {name: case.get(name, value) for name, value in self.scalars.items()}

    def seeds(self, seed: int = 1) -> dict[str, np.ndarray]:
        """Contents of ``.grad`` before the gradient runs: not zero, so that accumulation shows."""
        rng = np.random.default_rng(seed)
        return {n: np.asarray(rng.uniform(0.5, 1.5, s.whole)) for n, s in self.fields.items() if s.grad}


PROGRAMS: dict[str, Program] = {}


def program(fields: dict[str, F | I], **more):
    def add(fn: Callable) -> Callable:
        assert fn.__name__ not in PROGRAMS
        PROGRAMS[fn.__name__] = Program(fn, fields, **more)
        return fn

    return add


N_CASES = ({"n": 0}, {"n": 1}, {"n": 5}, {"n": 20})
MANY = 3000  # enough iterations for several threads
X_N_Y = {"x": F((8,)), "n": I(), "y": F()}

# The table goes on in these modules.
for part in "loops memory functions traps matrices language seeds structs algorithms overwrites".split():
    import_module(f"programs.{part}")
