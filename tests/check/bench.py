"""What planted defects are made of: fields, and the table of defects.

A defect is a function of a `Bench`, its fields, that returns what to check, or a kernel over them. The line that is to
blame has a comment ``# HERE``; ``kind`` is the cause's, ``verdict`` that on the input. ``says`` has to be in the
report.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

import quadrants_lab as qd


class Bench:
    """x: four numbers; y: the loss; w, v: like x; h: like x, without a gradient; k: integers."""

    def __init__(self, dtype: Any) -> None:
        self.x, self.w, self.v = (qd.field(dtype, 4, needs_grad=True) for _ in range(3))
        self.y = qd.field(dtype, (), needs_grad=True)
        self.h = qd.field(dtype, 4)
        self.k = qd.field(qd.i32, 4)
        self.n = qd.field(qd.i32, ())
        self.m = qd.field(dtype, (), needs_grad=True)
        self.x.from_numpy(np.array([0.0, 0.5, 1.0, 2.0], dtype.numpy))


@dataclass(frozen=True)
class Defect:
    """``line``: whether a line is to be named. ``where``: another function in which it is."""

    make: Callable[[Bench], Any]
    kind: str
    verdict: str
    says: str = ""
    f32: bool = False
    line: bool = True
    where: Callable[..., Any] | None = None

    @property
    def here(self) -> int:
        """The number of the line that is to blame."""
        lines, first = inspect.getsourcelines(self.where or self.make)
        return first + next((n for n, line in enumerate(lines) if "# HERE" in line), -first)


DEFECTS: dict[str, Defect] = {}


def defect(kind: str, verdict: str, says: str = "", **more: Any) -> Callable[[Any], Any]:
    """Puts on the table a function of a bench; or one without parameters, a kernel over the names of its fields that is
    itself what is checked."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        if fn.__code__.co_argcount:
            DEFECTS[fn.__name__] = Defect(fn, kind, verdict, says, **more)
            return fn

        def make(b: Bench) -> Any:
            return qd.kernel(FunctionType(fn.__code__, {**fn.__globals__, **vars(b)}, fn.__name__))

        DEFECTS[fn.__name__] = Defect(make, kind, verdict, says, where=fn, **more)
        return fn

    return add


def in_order(*launches: Callable[[], Any]) -> Callable[[], None]:
    """Makes a function that makes some launches, one after another."""

    def run() -> None:
        for launch in launches:
            launch()

    return run


def sines_in_python(x: Any, v: Any, y: Any, high: float = 0.0, factor: float = 1.0) -> tuple[Callable[[], None], Any]:
    """A program, and the gradient that it gives for its first part, which is ``factor`` times the right one: Python
    computes v = sin(x), and a kernel adds v and ``high``, for each element, to y."""

    @qd.kernel
    def total():
        for i in x:
            y[None] += v[i] + high

    @qd.ad.grad_replaced
    def sines():
        v.from_numpy(np.sin(x.to_numpy()))

    @qd.ad.grad_for(sines)
    def slopes():
        x.grad.from_numpy(x.grad.to_numpy() + factor * np.cos(x.to_numpy()) * v.grad.to_numpy())

    return in_order(sines, total), slopes
