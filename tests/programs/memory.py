"""Loops that are left, indices, memory and tasks; see `programs`."""

# ruff: noqa: F821
from __future__ import annotations

from programs import F, I, program

# --- while, break, continue

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

# --- memory

@program({"u": F((9,)), "n": I((), 0, 8)}, cases=({"n": 0}, {"n": 8}))
def time_stepping_in_one_field():
    for s in range(1):
        for t in range(n[None]):
            u[t + 1] = u[t] + 0.1 * qd.sin(u[t])

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

@program({"x": F((8,)), "hidden": F((8,), grad=False), "y": F()})
def field_without_grad_stops_the_gradient():
    for i in x:
        hidden[i] = x[i] * x[i]
    for i in x:
        y[None] += hidden[i] * x[i]

# --- several tasks

@program({"x": F((8,)), "p": F(), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 5}))
def kernel_scope_values():
    a = p[None] * 2.0
    c = n[None] + 1
    for i in x:
        v = x[i]
        for j in range(c):
            v = qd.sin(a * v)
        y[None] += v * a
