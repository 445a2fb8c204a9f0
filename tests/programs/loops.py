"""Loops and branches; see `programs`."""

# ruff: noqa: F821
from __future__ import annotations

from programs import MANY, N_CASES, X_N_Y, F, I, program

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

@program({"x": F((5,)), "p": F((5,)), "y": F()})
def one_iteration_around_what_runs_in_order():
    total = 0.3
    for _ in range(1):
        for i in range(5):
            p[i] = total * total
            total += x[i] * qd.sin(total + x[i])
    y[None] += total

@program({"x": F((8,)), "z": F((8,)), "n": I(), "L": F()}, cases=({"n": 0}, {"n": 1}, {"n": 2}, {"n": 7}))
def loop_invariant_operand():
    for i in x:
        a = x[i]
        v = z[i]
        for j in range(n[None]):
            v = v * 0.5 + qd.sin(a)
        L[None] += qd.sin(v)

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

# --- branches

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
