"""Gradients that need adstacks, for measuring the memory of these stacks: one parallel iteration, with a given number
of trips."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.cases.loops import Make, eight, one
from benchmarks.engine import qd


def flags(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                if v > 0.5:
                    v = v * 0.7
                else:
                    v = v * 1.2
            y[None] += v

    return k


def counters(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            at = 0
            for _ in range(n[None]):
                v = 0.5 * v + w[at]
                at = (at + 7) % 300
            y[None] += v

    return k


def triangular(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[None]):
                for _ in range(j):
                    v = qd.sin(v) + 0.1
            y[None] += v

    return k


def gated(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in w:
            if i % 20 == 0:
                v = w[i] + x[0]
                for _ in range(n[None]):
                    v = qd.sin(v) + 0.1
                y[None] += v

    return k


def particle(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            p = qd.Vector([x[i], 0.2 * x[i]])
            v = qd.Vector([0.1, x[i]])
            F = qd.Matrix([[1.0, 0.0], [0.0, 1.0]])
            for _ in range(n[None]):
                J = F[0, 0] * F[1, 1] - F[0, 1] * F[1, 0]
                stress = 0.1 * (F @ F.transpose()) + 0.2 * J * (J - 1.0) * qd.Matrix([[1.0, 0.0], [0.0, 1.0]])
                v = 0.99 * v - 0.001 * (stress @ p)
                C = 0.01 * v.outer_product(p)
                F = F + 0.001 * (C @ F)
                p = p + 0.001 * v
            y[None] += p.dot(p) + F[0, 0]

    return k


def until(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            j = 0
            while j < n[None]:
                v = qd.sin(v) + 0.1
                j += 1
            y[None] += v

    return k


def nines(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            m = qd.Matrix([[x[i], 0.1, 0.2], [0.3, x[i], 0.4], [0.5, 0.6, x[i]]])
            for _ in range(n[None]):
                m = qd.sin(m) + 0.1
            y[None] += m.sum()

    return k


def deep(x: Any, y: Any, n: Any, w: Any) -> Any:
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                u = v
                for _ in range(3):
                    w = u
                    for _ in range(2):
                        w = qd.sin(w) + 0.1
                    u = 0.5 * u + qd.cos(w)
                v = 0.5 * v + 0.2 * u * u
            y[None] += v

    return k


def many(x: Any, y: Any, n: Any, w: Any, count: int) -> Any:
    """A kernel whose loop carries ``count`` values that the gradient must keep."""

    @qd.kernel
    def k():
        for i in x:
            v = qd.Vector([x[i] * (0.5 + 0.001 * j) for j in range(count)])
            for _ in range(n[None]):
                v = qd.sin(v) + 0.1
            y[None] += v.sum()

    return k


# name: (kernel, dtype)
CASES: dict[str, tuple[Make, str]] = {
    "1 carried, f32": (one, "f32"),
    "8 carried, f32": (eight, "f32"),
    "1 carried, f64": (one, "f64"),
    "8 carried, f64": (eight, "f64"),
    "flags": (flags, "f32"),
    "integer counters": (counters, "f32"),
    "triangular": (triangular, "f32"),
    "gated at 5 %": (gated, "f32"),
    "MPM step": (particle, "f32"),
    "while loop": (until, "f32"),
    "vectors of 9": (nines, "f32"),
    "nested three deep": (deep, "f32"),
}
# gradients whose code is measured, in f32
GRADIENTS: dict[str, Make] = {
    **{name.removesuffix(", f32"): make for name, (make, dtype) in CASES.items() if dtype == "f32"},
    "100 carried": partial(many, count=100),
    "200 carried": partial(many, count=200),
}


def trips(name: str, most: int) -> int:
    """The value of ``n`` with which the outer loops of the kernel ``name`` make about ``most`` trips together."""
    return int((2 * most) ** 0.5) if name == "triangular" else most
