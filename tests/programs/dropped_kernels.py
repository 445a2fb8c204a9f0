"""Defines classes, fields and kernels that stay; the functions of `dropped` pass them objects that must not stay."""

import dataclasses
from collections.abc import Callable
from typing import Any

import quadrants_lab as qd

N = 4


class Fields:
    """Fields that stay: kernels and tapes of the module use them in the current session."""

    loss: Any
    kept: Any


def begin() -> None:
    """Call this when a session has begun."""
    Fields.loss = qd.field(qd.f32, shape=(), needs_grad=True, needs_dual=True)
    Fields.kept = qd.field(qd.f32, shape=N, needs_grad=True)


def field(**options: Any) -> Any:
    return qd.field(qd.f32, shape=N, needs_grad=True, needs_dual=True, **options)


def ndarray() -> Any:
    return qd.ndarray(qd.f32, N, needs_grad=True)


@qd.data_oriented
class Part:
    def __init__(self) -> None:
        self.x = field()


@qd.data_oriented
class Sim:
    def __init__(self, gain: float = 2.0) -> None:
        self.gain = gain
        self.x = field()
        self.parts = [Part(), Part()]
        self.curve = lambda v: v * self.gain

    @qd.func
    def scaled(self, v):
        return v * self.gain

    @qd.kernel
    def step(self):
        for i in self.x:
            self.x[i] = qd.sin(self.x[i]) + self.scaled(1.0)

    @qd.kernel
    def inner(self):
        for i in self.x:
            for part in qd.static(self.parts):
                part.x[i] += self.curve(self.x[i])

    @qd.kernel
    def total(self, loss: qd.template()):
        for i in self.x:
            loss[None] += self.x[i] * self.x[i]


class Plain:
    def __init__(self) -> None:
        self.x = field()


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    gain: float


@dataclasses.dataclass
class Given:
    x: qd.template()
    a: qd.types.ndarray()


@qd.kernel
def grow(x: qd.template()):
    for i in range(N):
        x[i] = qd.sin(x[i]) * 2.0 + 1.0


@qd.kernel
def squares(x: qd.template(), loss: qd.template()):
    for i in range(N):
        loss[None] += x[i] * x[i]


@qd.kernel
def of_object(b: qd.template()):
    for i in range(N):
        b.x[i] = b.x[i] * 2.0


@qd.kernel
def of_list(b: qd.template()):
    for i in range(N):
        b[0][i] = b[0][i] * 2.0


@qd.kernel
def of_dict(b: qd.template()):
    for i in range(N):
        b["x"][i] = b["x"][i] * 2.0


@qd.kernel
def of_dataclass(g: Given):
    for i in range(N):
        g.x[i] = g.a[i] * 2.0


@qd.kernel
def array(a: qd.types.ndarray()):
    for i in range(N):
        a[i] = a[i] * 2.0 + 1.0


@qd.kernel
def array_squares(a: qd.types.ndarray(), loss: qd.template()):
    for i in range(N):
        loss[None] += a[i] * a[i]


@qd.kernel
def vectors(v: qd.types.NDArray[qd.types.vector(3, qd.f32), 1]):
    for i in range(N):
        v[i] = v[i] * 2.0


@qd.kernel
def view(v: qd.BufferView[qd.f32]):
    for i in range(v.size):
        v[i] = 1.0


@qd.kernel
def tensor(a: qd.Tensor):
    for i in range(N):
        a[i] = a[i] * 2.0


@qd.kernel
def tensor_squares(a: qd.Tensor, loss: qd.template()):
    for i in range(N):
        loss[None] += a[i] * a[i]


@qd.kernel
def apply(f: qd.template(), x: qd.template()):
    for i in range(N):
        x[i] = f(x[i])


@qd.kernel
def members(s: qd.template()):
    for i in range(N):
        s[i].a = s[i].b + 1.0


@qd.kernel
def elements(v: qd.template()):
    for i in range(N):
        v[i] = v[i] * 2.0


@qd.kernel
def fails(x: qd.template()):
    for i in range(N):
        assert x[i] > 0.0


@qd.kernel(graph=True)
def as_graph(a: qd.types.ndarray()):
    for i in range(N):
        a[i] = a[i] + 1.0
    for i in range(N):
        a[i] = a[i] * 2.0


STRUCT = qd.types.struct(a=qd.f32, b=qd.f32)


def tape(*, of: Callable[[], None], **options: Any) -> None:
    with qd.ad.Tape(Fields.loss, **options):
        of()


def kernel_over(x: Any) -> Any:
    """Makes a kernel inside a loop."""
    loss = Fields.loss

    @qd.kernel
    def made():
        for i in x:
            loss[None] += x[i] * x[i]

    return made
