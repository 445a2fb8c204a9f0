"""Kernels written by hand, one or more for every feature of the language and every trap of reverse mode.

Each is a plain function over free names: a test binds them to fields (`running.bind`). `@program` puts it on the table
`PROGRAMS` with the fields it needs and the inputs to try.
"""

# ruff: noqa: F821
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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
        """What is in ``.grad`` before the gradient runs: something everywhere, so that accumulation shows."""
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
MANY = 3000  # iterations enough for several threads
X_N_Y = {"x": F((8,)), "n": I(), "y": F()}


# --- one loop


@program({"x": F((4,)), "y": F()})
def sum_of_constants():
    e = 0.2
    for i in x:
        e += 0.3
    for i in x:
        y[None] += e * x[i]


@program(X_N_Y, cases=(*N_CASES, {"n": 512}))
def linear():
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = v * 0.95 + 0.01
        y[None] += v


@program(X_N_Y, cases=N_CASES)
def sine():
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = qd.sin(v) * 0.95 + 0.01
        y[None] += v


@program({"x": F((8,)), "z": F((8,)), "n": I(), "L": F()}, cases=({"n": 0}, {"n": 1}, {"n": 2}, {"n": 7}))
def loop_invariant_operand():
    for i in x:
        a = x[i]
        v = z[i]
        for j in range(n[None]):
            v = v * 0.5 + qd.sin(a)
        L[None] += qd.sin(v)


@program({"x": F((6,)), "y": F()})
def constant_trip_count():
    for i in x:
        v = x[i]
        for j in range(5):
            v = v * v * 0.5 + 0.3
        y[None] += v


@program(X_N_Y, cases=N_CASES)
def loop_index_as_a_number():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = v * 0.9 + j * 0.01 * qd.cos(v)
        y[None] += v * i


@program(X_N_Y, cases=({"n": -3}, {"n": 0}, {"n": 2}))
def negative_trip_count():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = qd.cos(v)
        for j in range(3, n[None]):
            v = v * v
        y[None] += v


@program({"x": F((8,)), "m": I((8,), 0, 4), "n": I((), 2, 7), "y": F()})
def begin_and_end_from_fields():
    for i in x:
        v = x[i]
        for j in range(m[i] - 2, n[None] + 1):
            v = qd.sin(v + j * 0.1)
        y[None] += v


@program({"x": F((8,)), "m": I((8,), 0, 6), "y": F((8,))})
def trip_count_per_iteration():
    for i in x:
        v = x[i]
        for j in range(m[i]):
            v = qd.tanh(v) + 0.2
        y[i] = v * v


@program({"x": F((8,)), "n": I(), "y": F()}, cases=N_CASES)
def eight_carried_values():
    for i in x:
        a = x[i]
        b = a * 0.5
        c = a + 0.1
        d = a - 0.2
        for j in range(n[None]):
            t = qd.sin(a) * b
            b = qd.cos(c) * 0.7
            c = a * d
            d = t + 0.1 * b
            a = t - c * 0.3
        y[None] += a * b + c * d


@program({"x": F((8,)), "n": I(), "y": F()}, cases=N_CASES)
def swapped_carried_values():
    for i in x:
        a = x[i]
        b = 1.0 - a
        for j in range(n[None]):
            a, b = b, 0.5 * a * b
        y[None] += a * 2.0 + b


@program({"x": F((8,)), "n": I(), "y": F()}, cases=N_CASES)
def augmented_assignments():
    for i in x:
        v = x[i]
        w = 1.0
        for j in range(n[None]):
            v += 0.1 * w
            w -= v * 0.2
            v *= w
            w /= 1.5 + v * v
        y[None] += v - w


@program({"x": F((8,)), "n": I(), "y": F()}, cases=N_CASES)
def result_unused():
    for i in x:
        v = x[i]
        w = x[i]
        for j in range(n[None]):
            w = qd.exp(-w * w)
            v = v * 0.9
        y[None] += v


@program({"x": F((MANY,)), "m": I((MANY,), 0, 5), "y": F(), "z": F((7,))}, tol32=1e-3, large=True)
def many_iterations_of_varied_length():
    for i in x:
        v = x[i]
        for j in range(m[i]):
            v = qd.sin(v) + 0.1 * v * v
        y[None] += v
        z[i % 7] += v * v


@program({"x": F((MANY,)), "m": I((MANY,), 0, 3), "y": F((MANY,)), "s": F()}, tol32=1e-3, large=True)
def many_iterations_with_exits():
    for i in x:
        v = x[i]
        k = 0
        while v < 1.5 and k < 5:
            k += 1
            if k == m[i]:
                continue
            v = v * 1.3 + 0.2 * qd.cos(v)
        y[i] = v
    t = 0.0
    for i in x:
        t += y[i] * 0.01
    s[None] = t * t


# --- loops in loops


@program({"x": F((5,)), "m": I((5,), 0, 4), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 1}, {"n": 4}, {"n": 3, "m": 0}))
def nested_dynamic_loops():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            w = v * 0.5
            for k in range(m[i]):
                w = qd.sin(w) + 0.1 * v
            v = w * 0.8 + 0.05
        y[None] += v


@program(X_N_Y, cases=N_CASES[:3])
def triangular():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            for k in range(j):
                v = qd.sin(v) * 0.9 + 0.02
        y[None] += v


@program({"x": F((6,)), "n": I((), 0, 8), "y": F()}, cases=({"n": 0}, {"n": 3}, {"n": 8}))
def bound_falls_with_the_task_index():
    for i in x:
        v = x[i]
        for j in range(n[None] - i):
            v = qd.cos(v) * v
        y[None] += v


@program({"x": F((4,)), "y": F()})
def bound_is_an_expression_of_indices():
    for i in x:
        v = x[i]
        for j in range(i + 1):
            for k in range((i * (j + 1)) // 2, 2 * j + 2):
                v = qd.sin(v + 0.1 * k)
        y[None] += v


@program({"x": F((4,)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def three_deep_with_ifs():
    for i in x:
        v = x[i]
        for a in range(n[None]):
            w = v
            for b in range(a + 1):
                if b % 2 == 0:
                    for c in range(b + 1):
                        w = qd.sin(w) + 0.1
                else:
                    w = w * v
            v = 0.5 * (v + w)
        y[None] += v


@program({"x": F((6,)), "m": I((6,), 0, 5), "y": F((6,))})
def bound_is_carried():
    for i in x:
        v = x[i]
        c = 1
        for j in range(m[i]):
            for k in range(c):
                v = qd.sin(v) + 0.05
            c = c + j % 2
        y[i] = v


@program({"x": F((6,)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 3}))
def sibling_loops_with_values_between():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = qd.sin(v)
        w = v * v
        c = i % 3
        for j in range(n[None] + c):
            v = v * 0.5 + w
            for k in range(c):
                w = w * qd.cos(v)
        y[None] += v * w


@program({"x": F((6,)), "n": I((), 0, 5), "y": F()}, cases=({"n": 0}, {"n": 4}))
def sibling_loops_in_a_loop():
    for i in x:
        v = x[i]
        for t in range(n[None]):
            u = 0.0
            for j in range(t + 1):
                u = u * 0.5 + qd.sin(v + j)
            c = t - 1
            w = u * v
            for j in range(c):
                w = qd.cos(w) + u
            v = 0.3 * w
        y[None] += v


@program({"x": F((5,)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def carried_through_and_reset():
    for i in x:
        total = 0.0
        for j in range(n[None]):
            acc = x[i]
            for k in range(j + 1):
                acc = acc * qd.sin(acc + 1.0)
            total += acc * acc
        y[None] += total


# --- branches


@program(X_N_Y, cases=N_CASES)
def branch_on_the_value_in_a_loop():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            if v > 0.2:
                v = v * v
            else:
                v = qd.cos(v) * 0.9
        y[None] += v


@program(X_N_Y, cases=N_CASES)
def branch_on_parity():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            if (i + j) % 2 == 0:
                v = qd.sin(v)
        y[None] += v


@program({"x": F((8,)), "n": I(), "gate": I((), 0, 1), "y": F()}, cases=({"gate": 0, "n": 4}, {"gate": 1, "n": 4}))
def loop_guarded_by_a_branch():
    for i in x:
        v = x[i]
        w = 0.5
        if gate[None] == 1:
            for j in range(n[None]):
                v = qd.sin(v) * w
                w = w + v * 0.1
        y[None] += v * w


@program({"x": F((4, 5)), "n": I((), 0, 4), "y": F((4, 5))}, cases=({"n": 0}, {"n": 4}))
def branches_before_and_after_the_loop():
    for i, j in x:
        v = x[i, j]
        if i > j:
            v = v * v
        for k in range(n[None]):
            v = qd.sin(v) + 0.1
        if j % 2 == 0:
            y[i, j] = v * 2.0
        else:
            y[i, j] = qd.exp(v)


@program({"x": F((9,)), "y": F((9,))})
def elif_chain():
    for i in x:
        v = x[i]
        if v < -0.5:
            v = -v
        elif v < 0.0:
            v = v * v
        elif i % 2 == 0:
            v = qd.sin(v)
        else:
            pass
        y[i] = v * 3.0


@program({"x": F((9,)), "a": F(), "y": F()})
def ternaries():
    for i in x:
        v = x[i] if x[i] > 0.0 else -x[i] * 0.5
        w = (v * v if i % 3 == 0 else qd.sin(v)) if v > 0.4 else a[None]
        y[None] += v * w


@program({"x": F((9,)), "y": F((9,))})
def comparison_chains():
    for i in x:
        v = x[i]
        if -0.4 < v <= 0.5:
            v = v * v
        if not (0 <= i < 3 <= 8):
            v = v + 1.0
        y[i] = v * v


@program({"x": F((8,)), "p": F((4,), 0.1, 1.0), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 9}))
def short_circuit_protects_an_index():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            if j < 4 and p[j] > 0.3:
                v = v * p[j]
            if j >= 4 or p[j] < 0.2:
                v = qd.sin(v)
        y[None] += v


@program({"x": F((8,), 0.1, 1.0), "y": F()})
def short_circuit_condition_changes_in_the_body():
    for i in x:
        v = x[i]
        k = 0
        while k < 8 and v < 2.0:
            v = v * 1.3 + 0.1 * qd.sin(v)
            k += 1
        y[None] += v * v


@program({"x": F((9,)), "y": F((9,))})
def truth_values_in_locals():
    for i in x:
        v = x[i]
        big = v > 0.3
        odd = i % 2 == 1
        both = big and odd
        if both or not big:
            v = v * v
        if big:
            v = qd.cos(v)
        y[i] = v


@program({"x": F((9,)), "y": F((9,))})
def select_takes_one_side():
    for i in x:
        v = x[i]
        y[i] = qd.select(v > 0.1, v * v, qd.sin(v)) + qd.select(i < 4, 1.0, v)


# --- while, break, continue


@program({"x": F((6,), 0.1, 1.0), "y": F()})
def while_on_the_value():
    for i in x:
        v = x[i]
        while v < 3.0:
            v = v * 1.5 + 0.1
        y[None] += v * v


@program({"x": F((6,)), "m": I((6,), 0, 7), "y": F()})
def while_with_a_counter():
    for i in x:
        v = x[i]
        k = m[i]
        while k > 0:
            v = qd.sin(v) + 0.1 * k
            k -= 2
        y[None] += v * (k + 3)


@program({"x": F((6,), 0.2, 2.0), "y": F((6,))}, tol32=1e-3)
def newton_square_root():
    for i in x:
        a = x[i]
        r = a
        while qd.abs(r * r - a) > 1e-2:
            r = 0.5 * (r + a / r)
        y[i] = r


@program({"x": F((6,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 3}, {"n": 20}))
def break_on_the_value():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = v * 1.2 + 0.1
            if v > 1.5:
                break
            v = v + 0.05 * qd.sin(v)
        y[None] += v * v


@program({"x": F((6,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 7}))
def continue_on_parity():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = v * 0.9
            if (i + j) % 3 == 0:
                continue
            v = qd.sin(v) + 0.2
        y[None] += v


@program({"x": F((6,)), "n": I((), 0, 5), "y": F()}, cases=({"n": 0}, {"n": 5}))
def break_out_of_the_inner_loop():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            w = v
            for k in range(6):
                if w > 1.0:
                    break
                w = w + 0.3 * qd.cos(w)
                if k > j:
                    continue
                w = w * 0.95
            v = 0.6 * w
        y[None] += v


@program({"x": F((6,)), "m": I((6,), 0, 9), "y": F()})
def while_true_with_exits():
    for i in x:
        v = x[i]
        k = 0
        while True:
            k += 1
            if k > m[i]:
                break
            if k % 3 == 0:
                continue
            v = qd.sin(v) + 0.1 * k
            if v > 0.95:
                v = v * 0.5
                break
        y[None] += v * k


@program({"x": F((5,)), "n": I((), 0, 3), "y": F()}, cases=({"n": 0}, {"n": 3}))
def while_in_a_loop_and_loop_in_a_while():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            k = j
            while k >= 0:
                for q in range(k):
                    v = qd.sin(v) + 0.1
                k -= 1
        y[None] += v


@program({"x": F((4, 4), -1.5, 1.5), "count": I((4, 4)), "y": F((4, 4))}, tol32=2e-2)
def escape_time():
    for i, j in x:
        re = x[i, j]
        im = 0.3 * i - 0.2 * j
        a = 0.0
        b = 0.0
        steps = 0
        while a * a + b * b < 4.0 and steps < 8:
            a, b = a * a - b * b + re, 2.0 * a * b + im
            steps += 1
        count[i, j] = steps
        y[i, j] = qd.sqrt(a * a + b * b + 0.01)


@program({"x": F((8,)), "limit": F(grad=False), "y": F((8,))})
def search_then_use_the_index():
    for i in y:
        found = 0
        for j in range(8):
            if x[j] > x[i] * 0.5:
                found = j
                break
        y[i] = x[found] * x[i]


# --- indices


@program({"x": F((8,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 9}))
def carried_integer_as_index():
    for i in x:
        v = x[i]
        p = i
        for j in range(n[None]):
            p = (p * 3 + 1) % 8
            v = qd.sin(v) + x[p] * v
        y[None] += v * x[p]


@program({"x": F((8,)), "next": I((8,), 0, 7), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 6}))
def index_chased_through_a_field():
    for i in x:
        p = i
        v = 1.0
        for j in range(n[None]):
            v = v * 0.8 + x[p] * x[p]
            p = next[p]
        y[None] += v * x[p]


@program({"x": F((8,)), "at": I((8,), 0, 7), "y": F((8,))})
def gather_and_scatter():
    for i in x:
        y[at[i]] += x[i] * x[at[(i + 1) % 8]]


@program({"x": F((30,)), "hist": F((5,)), "count": I((5,))})
def histogram():
    for i in x:
        bin = qd.cast(qd.floor((x[i] + 1.0) * 2.5), qd.i32)
        hist[bin] += x[i] * x[i]
        count[bin] += 1


@program({"x": F((8,)), "y": F((8,))})
def cast_to_an_index():
    for i in x:
        k = int(x[i] * 3.9 + 4.0)
        y[i] = x[k] * float(i) + qd.cast(k, float) * 0.5


# --- memory


@program({"A": F((5, 6)), "x": F((6,)), "y": F((5,))})
def matrix_times_vector():
    for i in y:
        acc = 0.0
        for j in range(6):
            acc += A[i, j] * x[j]
        y[i] = acc


@program({"A": F((3, 4)), "B": F((4, 3)), "C": F((3, 3))})
def matrix_product():
    for i, j in C:
        for k in range(4):
            C[i, j] += A[i, k] * B[k, j]


@program({"a": F((5, 6)), "b": F((5, 6))})
def stencil():
    for i, j in a:
        if 0 < i < 4 and 0 < j < 5:
            b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) + a[i, j] * a[i, j]


@program({"a": F((5, 6)), "y": F()})
def ndrange_of_a_box():
    for i, j in qd.ndrange((1, 5), 6):
        y[None] += a[i, j] * a[i - 1, j]


@program({"a": F((3, 2, 2)), "n": I((), 0, 3), "y": F((3, 2, 2))}, cases=({"n": 0}, {"n": 3}))
def ndrange_of_run_time_extents():
    for i, j, k in qd.ndrange(n[None], 2, (0, 2)):
        y[i, j, k] = qd.sin(a[i, j, k]) * (i + 1)


@program({"a": F((2, 3, 2, 2)), "y": F((2, 2))})
def four_axes():
    for i, j, k, m in a:
        y[i, m] += a[i, j, k, m] * a[i, j, k, m] * (j + 1)


@program({"x": F((8,)), "y": F((8,))})
def in_place_updates():
    for i in x:
        y[i] = y[i] * 0.5 + qd.sin(x[i])
        y[i] += x[i] * x[i]
        y[i] *= 3.0
        y[i] -= 1.0


@program({"u": F((9,)), "n": I((), 0, 8)}, cases=({"n": 0}, {"n": 8}))
def time_stepping_in_one_field():
    for s in range(1):
        for t in range(n[None]):
            u[t + 1] = u[t] + 0.1 * qd.sin(u[t])


@program({"u": F((5, 7)), "n": I((), 0, 4)}, cases=({"n": 0}, {"n": 4}))
def time_stepping_of_rows():
    for i in range(7):
        for t in range(n[None]):
            u[t + 1, i] = u[t, i] * (1.0 - 0.1 * u[t, i])


@program({"x": F((8,)), "y": F((8, 5))})
def prefix_products():
    for i in x:
        acc = 1.0
        for j in range(5):
            acc = acc * (1.0 + 0.3 * x[(i + j) % 8])
            y[i, j] = acc


@program({"x": F((8,)), "y": F()})
def atomics():
    for i in x:
        qd.atomic_add(y[None], x[i] * x[i])
        qd.atomic_sub(y[None], qd.sin(x[i]))


@program({"x": F((8,)), "low": F((), 5.0, 6.0), "high": F((), -6.0, -5.0)})
def atomic_extremes():
    for i in x:
        qd.atomic_min(low[None], x[i] * 2.0)
        qd.atomic_max(high[None], x[i] * 3.0)


@program({"k": I((8,), 0, 100), "low": I((), 50, 60), "high": I((), 0, 9), "bits": I((3,), 0, 100)}, grad=False)
def integer_atomics():
    for i in k:
        qd.atomic_min(low[None], k[i])
        qd.atomic_max(high[None], k[i] * 2)
        qd.atomic_or(bits[0], k[i])
        qd.atomic_and(bits[1], k[i] | 64)
        qd.atomic_xor(bits[2], k[i])


@program({"x": F((8,)), "y": F((8,)), "next": I((), 0, 0), "seen": I((8,), 0, 0)}, grad=False)
def old_value_of_an_atomic():
    for i in x:
        slot = qd.atomic_add(next[None], 1)
        seen[slot] += 1


@program({"x": F((8,)), "hidden": F((8,), grad=False), "y": F()})
def field_without_grad_stops_the_gradient():
    for i in x:
        hidden[i] = x[i] * x[i]
    for i in x:
        y[None] += hidden[i] * x[i]


# --- several tasks


@program({"x": F((8,)), "z": F((8,)), "w": F((8,)), "y": F()})
def tasks_in_a_row():
    for i in x:
        z[i] = qd.sin(x[i])
    for i in z:
        w[i] = z[i] * z[7 - i]
    for i in w:
        y[None] += w[i] * x[i]


@program({"x": F((8,)), "n": I(), "z": F((8,)), "y": F()}, cases=N_CASES[:3])
def tasks_with_loops():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = qd.sin(v) + 0.1
        z[i] = v
    for i in range(8):
        v = z[i]
        for j in range(i):
            v = v * qd.cos(z[j])
        y[None] += v


@program({"x": F((8,)), "y": F()})
def kernel_scope_reduction():
    s = 0.0
    for i in x:
        s += x[i] * x[i]
    y[None] = qd.sqrt(s + 1.0)


@program({"x": F((8,)), "z": F((8,)), "y": F()})
def normalise_by_a_reduction():
    s = 0.1
    for i in x:
        s += qd.exp(x[i])
    for i in x:
        z[i] = qd.exp(x[i]) / s
    t = 0.0
    for i in x:
        t += x[i] * s
    y[None] += t * t


@program({"x": F((8,)), "p": F(), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 5}))
def kernel_scope_values():
    a = p[None] * 2.0
    c = n[None] + 1
    for i in x:
        v = x[i]
        for j in range(c):
            v = qd.sin(a * v)
        y[None] += v * a


@program({"x": F((8,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 5}))
def serial_task():
    v = x[0]
    k = 0
    while k < n[None]:
        v = qd.sin(v) + x[k % 8]
        k += 1
    y[None] = v * v


@program({"x": F(), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 6}))
def top_level_branch():
    v = x[None]
    if n[None] > 3:
        v = qd.sin(v)
    else:
        v = v * v
    y[None] += v


# --- functions of the language


def sigmoid(t):
    return 1.0 / (1.0 + qd.exp(-t))


def leaky(t, slope):
    r = t
    if t < 0.0:
        r = t * slope
    return r


def iterate(t, count):
    r = t
    for q in range(count):
        r = leaky(qd.sin(r) - 0.3, 0.1) + sigmoid(r)
    return r


def accumulate(i, t):
    y[None] += t * x[i]


@program({"x": F((8,)), "y": F((8,))}, funcs=(sigmoid,))
def calls_a_func():
    for i in x:
        y[i] = sigmoid(x[i] * 2.0) * sigmoid(-x[i])


@program(X_N_Y, funcs=(leaky, sigmoid, iterate, accumulate), cases=N_CASES[:3])
def funcs_with_branches_and_loops():
    for i in x:
        v = iterate(x[i], n[None])
        accumulate(i, v)
        accumulate(7 - i, iterate(v, 2))


def adds_and_returns(i, t):
    y[None] += t * t
    z[i] += qd.sin(t)
    return t + 0.5


@program({"x": F((8,)), "z": F((8,)), "y": F()}, funcs=(adds_and_returns,))
def augmented_by_a_func_that_changes_the_target():
    for i in x:
        y[None] += adds_and_returns(i, x[i]) * 2.0
        z[i] -= adds_and_returns(i, x[7 - i]) * adds_and_returns(i, 0.3)


# --- the table of operations


@program({"x": F((8,)), "y": F()})
def min_max():
    for i in x:
        y[None] += min(x[i], 0.3) * max(x[i], -0.2) + qd.max(x[i], x[7 - i] + 0.01) * qd.min(0.0, x[i])


@program({"x": F((4,)), "z": F((4,)), "y": F()}, cases=({"x": 0.5, "z": 0.5},), exact=True)
def min_max_ties():
    for i in x:
        y[None] += qd.max(x[i], z[i]) * 2.0 + qd.min(x[i], z[i]) * 3.0 + qd.max(qd.min(x[i], 0.5), z[i])


@program({"x": F((4,)), "y": F((4,))}, cases=({"x": [-1.0, 0.0, 0.0, 2.0]},), exact=True)
def absolute_value_at_zero():
    for i in x:
        y[i] = qd.abs(x[i]) * 2.0 + abs(x[i] * 3.0)


@program(X_N_Y, cases=N_CASES[:3])
def tanh_of_itself():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = qd.tanh(v * 1.5)
        y[None] += v
        v = qd.exp(v)
        v = v + 1.0
        y[None] += v


@program(X_N_Y, cases=N_CASES[:3])
def exp_overwritten():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = qd.exp(-v)
            v = v - 0.5
        y[None] += v


@program({"x": F((8,), 0.3, 2.0), "e": F((8,), -2.0, 2.0), "y": F()})
def powers():
    for i in x:
        y[None] += x[i] ** e[i] + x[i] ** 3 + qd.pow(x[i], 0.5) + 2.0 ** e[i] + (x[i] - 1.1) ** 2


@program({"x": F((4,)), "y": F((4,))}, cases=({"x": [0.0, -2.0, 0.0, 3.0]},), exact=True)
def powers_at_the_edge():
    for i in x:
        y[i] = x[i] ** 2 + x[i] ** 1 + x[i] ** 0 + x[i] ** 2.0


@program({"x": F((8,)), "z": F((8,)), "y": F()})
def atan2_of_both():
    for i in x:
        y[None] += qd.atan2(x[i], z[i] + 1.5) + qd.atan2(x[i] - 2.0, z[i])


@program({"x": F((8,), 0.2, 3.0), "y": F((8,))})
def roots_and_logs():
    for i in x:
        y[i] = qd.sqrt(x[i]) + qd.rsqrt(x[i]) * 2.0 + qd.log(x[i]) * x[i]


@program({"x": F((8,), -0.8, 0.8), "y": F((8,))})
def trigonometry():
    for i in x:
        v = x[i]
        y[i] = qd.sin(v) + qd.cos(v) * 2.0 + qd.tan(v) * 3.0 + qd.asin(v) + qd.acos(v) * 0.5 + qd.tanh(v)


@program({"x": F((8,), -4.0, 4.0), "z": F((8,), 0.5, 2.0), "y": F((8,)), "w": F((8,))})
def rounding():
    for i in x:
        y[i] = qd.floor(x[i]) + qd.ceil(x[i]) * 2.0 + qd.round(x[i]) * 3.0 + x[i]
        w[i] = x[i] % z[i] + x[i] // z[i]


@program({"a": I((8,), -20, 20), "b": I((8,), -4, -1), "r": I((8, 12), 0, 0)}, grad=False)
def integer_arithmetic():
    for i in a:
        p = a[i]
        q = b[i] if i % 2 == 0 else -b[i]
        r[i, 0] = p // q
        r[i, 1] = p % q
        r[i, 2] = p * q - p
        r[i, 3] = (p & q) | (p ^ 21)
        r[i, 4] = ~p
        r[i, 5] = p << 3
        r[i, 6] = p >> 2
        r[i, 7] = -p
        r[i, 8] = abs(p) + min(p, q) * max(p, q)
        r[i, 9] = q**3
        r[i, 10] = p > q
        r[i, 11] = int(p / q) + qd.cast(p * 0.5, qd.i32)


@program({"x": F((8,)), "k": I((8,), -9, 9), "y": F((8,))})
def integers_meet_floats():
    for i in x:
        y[i] = k[i] / 4 + x[i] * k[i] + (k[i] // 2) * x[i] * x[i] - i


# --- static, arguments, returns

TERMS = 3
USE_SINE = True


@program({"x": F((8,)), "y": F((8,))})
def static_unrolling():
    for i in x:
        v = x[i]
        for k in qd.static(range(TERMS)):
            v = v * x[(i + k) % 8] + k
        if qd.static(USE_SINE):
            v = qd.sin(v)
        else:
            v = v.no_such_thing
        y[i] = v


@program({"x": F((8,)), "y": F()}, scalars={"a": 0.7, "m": 3}, cases=({}, {"m": 0}, {"a": -1.5, "m": 6}))
def scalar_arguments(a: float, m: int):
    for i in x:
        v = x[i]
        for j in range(m):
            v = qd.sin(a * v)
        y[None] += v * a


@program({"a": F((7,), arg=True), "b": F((7,), arg=True), "y": F((), arg=False)})
def ndarray_arguments(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in range(a.shape[0]):
        b[i] = qd.sin(a[i])
        for j in range(i):
            y[None] += a[j] * a[i]


@program({"a": F((3, 5), arg=True), "n": I((5,), 0, 4, arg=True), "y": F()})
def trip_counts_from_an_ndarray(a: qd.types.ndarray(), n: qd.types.ndarray()):
    for i, j in a:
        v = a[i, j]
        for k in range(n[j]):
            v = qd.cos(v) * 0.9
        y[None] += v * v


@program({"x": F((8,))}, grad=False)
def returns_a_value() -> float:
    s = 0.0
    for i in x:
        s += x[i]
    return s * 2.0


@program({n: F(s, grad=False) for n, s in (("x", (8,)), ("loss", ()), ("x.grad", (8,)), ("loss.grad", ()))}, grad=False)
def writes_a_gradient_by_hand():
    for i in x:
        x.grad[i] += loss.grad[None] * 2.0 * x[i]


# --- small applications


@program({"px": F((5,)), "py": F((5,)), "m": F((5,), 0.5, 1.0), "energy": F()})
def gravitational_energy():
    for i in px:
        for j in range(5):
            if i != j:
                dx = px[i] - px[j]
                dy = py[i] - py[j]
                energy[None] -= 0.5 * m[i] * m[j] * qd.rsqrt(dx * dx + dy * dy + 0.05)


@program({"start": F((3,)), "n": I((), 0, 20), "y": F()}, cases=({"n": 0}, {"n": 15}), tol32=1e-3)
def lorenz():
    for s in range(1):
        a = start[0]
        b = start[1]
        c = start[2]
        for t in range(n[None]):
            da = 10.0 * (b - a)
            db = a * (28.0 - c) - b
            dc = a * b - 2.6 * c
            a += 0.01 * da
            b += 0.01 * db
            c += 0.01 * dc
        y[None] += a * a + b * b + c * c


@program({"x": F((3, 6)), "w": F((2, 2)), "v": F((2,)), "n": I((3,), 0, 6), "loss": F()})
def recurrent_network():
    for s in range(3):
        h0 = 0.0
        h1 = 0.1
        for t in range(n[s]):
            g0 = qd.tanh(w[0, 0] * h0 + w[0, 1] * h1 + x[s, t])
            g1 = qd.tanh(w[1, 0] * h0 + w[1, 1] * h1 - x[s, t])
            h0 = g0
            h1 = g1
        loss[None] += (h0 * v[0] + h1 * v[1]) ** 2


@program({"q": F((4,)), "p": F((4,)), "k": F((), 0.5, 1.5), "n": I((), 0, 12), "y": F()}, cases=({"n": 0}, {"n": 12}))
def leapfrog():
    for i in q:
        a = q[i]
        b = p[i]
        for t in range(n[None]):
            b -= 0.05 * k[None] * qd.sin(a)
            a += 0.1 * b
            b -= 0.05 * k[None] * qd.sin(a)
        y[None] += 0.5 * b * b - k[None] * qd.cos(a)


@program({"x": F((6,), 0.0, 1.0), "r": F((), 1.5, 2.5), "n": I((), 0, 8), "y": F()}, cases=({"n": 0}, {"n": 8}))
def logistic_map_with_parameter_loaded_inside():
    for i in x:
        v = x[i]
        for t in range(n[None]):
            v = r[None] * v * (1.0 - v)
        y[None] += v


@program({"c": F((6,)), "x": F((4,)), "y": F((4,))})
def horner():
    for i in x:
        acc = 0.0
        for j in range(6):
            acc = acc * x[i] + c[5 - j]
        y[i] = acc


@program({"x": F((5,), 0.2, 1.0), "y": F((5,))})
def bisection():
    for i in x:
        low = 0.0
        high = 1.5
        steps = 0
        while high - low > 0.05 and steps < 20:
            mid = 0.5 * (low + high)
            if mid * mid > x[i]:
                high = mid
            else:
                low = mid
            steps += 1
        y[i] = (low + x[i] / (low + 0.1)) * 0.5


@program({"k": I((6,), 1, 30), "steps": I((6,), 0, 0), "x": F((6,)), "y": F()})
def collatz():
    for i in k:
        c = k[i]
        s = 0
        v = x[i]
        while c != 1:
            if c % 2 == 0:
                c = c // 2
                v = v * 0.9
            else:
                c = 3 * c + 1
                v = qd.sin(v)
            s += 1
        steps[i] = s
        y[None] += v


# --- traps


@program({"A": F((4, 4)), "x": F((4,)), "y": F()})
def augmented_by_a_choice():
    for i, j in A:
        v = x[i]
        v -= A[j, 2] if j == 0 else v * 0.5
        v *= 2.0 if i > 1 and j > 1 else 1.0
        y[None] += v * v


@program({"x": F((8,)), "s": F((8,)), "y": F()})
def reads_back_what_it_stored():
    for i in x:
        s[i] = x[i] * x[i]
        y[None] += qd.sin(s[i]) * s[i]


@program({"x": F((8,)), "s": F((8,)), "t": F((8,), grad=False), "n": I((8,)), "y": F()})
def reads_back_what_it_added():
    for i in x:
        y[None] += s[i]
        before = qd.atomic_add(s[i], x[i] * x[i])
        t[i] = before
        y[None] += qd.sin(s[i]) * s[i]
        for j in range(n[i]):
            y[None] += s[i] * s[i] * j


@program({"x": F((8,)), "s": F((8,)), "n": I()}, cases=N_CASES[:3])
def linear_update_by_load_and_store():
    for i in s:
        for j in range(n[None]):
            s[i] = s[i] * 0.5 + qd.sin(x[j % 8])


@program({"x": F((8,)), "y": F((8,))}, cases=({"x": [0.0, 0.5, 0.0, -1.0, 2.0, 0.0, 0.25, -0.5]},), exact=True)
def root_in_an_arm_that_is_not_taken():
    for i in x:
        r = x[i] * x[i]
        v = 0.0
        if r > 0.0:
            v = qd.sqrt(r)
        w = qd.log(r) if r > 0.0 else r
        y[i] = v + w


def early(t):
    if t > 0.3:
        return t * t
    if t < -0.3:
        return qd.sin(t)
    return t * 0.5


def either(t, flag):
    if flag:
        return qd.exp(t)
    else:
        return t


def pair(t):
    return t * t, qd.cos(t)


@program({"x": F((8,)), "y": F((8,))}, funcs=(early, either))
def early_returns():
    for i in x:
        v = early(x[i])
        for j in range(3):
            v = early(either(v, j == i) - 0.4)
        y[i] = v


@program({"x": F((8,)), "y": F((8,))}, funcs=(pair,))
def func_with_two_results():
    for i in x:
        a, b = pair(x[i])
        c, d = pair(a * b)
        y[i] = c * b + d


@program({"x": F((8,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 2}, {"n": 5}))
def tasks_under_a_branch_and_in_a_loop():
    if n[None] > 1:
        for i in x:
            y[None] += x[i] * x[i]
    for t in range(1):
        for i in range(8):
            y[None] += qd.sin(x[i]) * n[None]


@program({"x": F((8,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 3}))
def serial_while_with_a_loop_inside():
    v = x[0]
    k = 0
    while k < n[None]:
        for j in range(k + 1):
            v = qd.sin(v) + x[j] * 0.3
        if v > 0.6:
            v = v * 0.5
        k += 1
    y[None] += v


@program({"x": F((9,)), "lo": I((), 1, 3), "hi": I((), 5, 8), "y": F((9,))}, cases=({}, {"lo": 6, "hi": 2}))
def task_with_a_dynamic_begin():
    for i in range(lo[None] - 1, hi[None]):
        y[i] = x[i] * x[i + 1] * i


ALPHA = 0.37
COUNT = 3


@program({"x": F((8,)), "y": F((8,))})
def numbers_of_the_module():
    for i in x:
        v = x[i]
        for j in range(COUNT):
            v = qd.sin(ALPHA * v) - v**COUNT * ALPHA
        y[i] = v


@program({"x": F((8,)), "y": F((8,))})
def operators_bind_as_in_python():
    for i in x:
        v = x[i]
        y[i] = -(v**2) + -(v**2) * 2.0 - (-v) ** 3 + 2.0**-1 + v * -v - +v + (v - v / 2.0 * 3.0)


@program({"k": I((8,), 1, 40), "r": I((8, 8), 0, 0), "x": F((8,)), "y": F((8,))})
def augmented_integers():
    for i in k:
        p = k[i]
        p |= 8
        p <<= 1
        r[i, 0] = p
        p //= 3
        r[i, 1] = p
        p %= 5
        r[i, 2] += p
        p ^= 7
        p &= 13
        r[i, 3] = p
        p >>= 1
        p **= 2
        r[i, 4] -= p
        r[i, 5] |= p
        v = x[i]
        v **= 2
        v %= 0.3
        v += p
        y[i] = v


@program({"x": F((8,)), "y": F((8,))})
def choices_inside_an_index():
    for i in x:
        y[i if i > 3 else 7 - i] += x[(i + 1) % 8 if x[i] > 0.0 else 0] * x[i]


@program({"x": F((8,)), "z": F((8,)), "y": F((8,))})
def extremes_of_many():
    for i in x:
        y[i] = max(x[i], z[i], 0.1) * min(x[i] * 2.0, z[i], x[7 - i], 0.9)


@program({"x": F((6,)), "n": I((), 0, 5), "y": F()}, cases=({"n": 0}, {"n": 1}, {"n": 5}))
def exits_at_every_level():
    for i in x:
        if x[i] < -0.9:
            continue
        v = x[i]
        for a in range(n[None]):
            if a == 3:
                continue
            b = 0
            while b < 4:
                b += 1
                if v > 0.9:
                    break
                for c in range(b):
                    v = v + 0.1 * qd.cos(v)
                    if c == 2 or v > 1.2:
                        break
                if b == 2:
                    continue
                v = v * 0.9
            else_value = v * 0.5
            if else_value > 0.7:
                break
            v = else_value
        y[None] += v * v


@program({"x": F((6,)), "n": I((), 0, 5), "y": F()}, cases=({"n": 0}, {"n": 4}))
def values_that_only_one_arm_changes():
    for i in x:
        a = x[i]
        b = x[i] * 2.0
        k = 0
        for j in range(n[None]):
            if j % 2 == 0:
                a = qd.sin(b)
                k = k + 1
            elif a > 0.0:
                b = a * a
            if k > 1:
                a = a * b
                if b < 0.5:
                    b = b + 0.3
        y[None] += a + b * k


@program({"x": F((6,)), "n": I((), 0, 5), "y": F()}, cases=({"n": 0}, {"n": 4}))
def same_names_in_sibling_blocks():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            t = v * v
            v = t * 0.5 + 0.1
        for j in range(2):
            t = qd.sin(v)
            for k in range(j):
                t = t * v
            v = t
        if v > 0.1:
            t = v * 3.0
            v = t * t
        y[None] += v


@program({"x": F((5,)), "w": F((5, 5)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 3}))
def element_products_carried():
    for i in x:
        v = 1.0
        for t in range(n[None]):
            s = 0.0
            for j in range(5):
                s += w[i, j] * qd.tanh(x[j] * v)
            v = v * 0.5 + s
        y[None] += v * v


@program({"x": F((5,)), "y": F((5,))})
def nested_static_loops():
    for i in x:
        v = x[i]
        for a in qd.static(range(2)):
            for b in qd.static(range(a + 1)):
                if qd.static(a == 1 and b == 0):
                    continue
                v = qd.sin(v) + x[(i + a + b) % 5]
                if qd.static(b == 1):
                    break
        y[i] = v


@program({"x": F((8,)), "n": I(), "y": F((8,))}, cases=({"n": 0}, {"n": 3}))
def accumulates_into_the_target_in_a_loop():
    for i in x:
        for j in range(n[None]):
            y[i] += qd.sin(x[i] * (j + 1))
            y[j] -= x[i] * x[j]


@program({"x": F((8,)), "a": F((8,)), "b": F((8,)), "y": F()})
def stores_that_are_overwritten():
    for i in x:
        a[i] = x[i] * 2.0
        a[i] = x[i] * x[i]
        if i % 2 == 0:
            b[i] = a[i]
        b[i] += x[i]
    for i in x:
        y[None] += a[i] * b[i]
    for i in x:
        y[None] += a[7 - i]


@program({"x": F((8,)), "n": I((), 1, 4), "y": F()}, exact=True)
def loop_after_the_loop_it_feeds():
    for i in x:
        c = 0
        v = x[i]
        for j in range(8):
            if x[j] > v:
                c += 1
        for j in range(c):
            v = v * v + 0.1 * j
            for k in range(c - j):
                v = qd.sin(v)
        y[None] += v * (c + n[None])


import programs_matrices  # noqa: E402, F401, I001
import programs_language  # noqa: E402, F401  the table goes on there
import programs_seeds  # noqa: E402, F401
import programs_structs  # noqa: E402, F401
import programs_lifted  # noqa: E402, F401
import programs_algorithms  # noqa: E402, F401
import programs_overwrites  # noqa: E402, F401
