"""Loops that are left, indices, memory and tasks; see `programs`."""

# ruff: noqa: F821
from __future__ import annotations

from programs import F, I, program

# --- while, break, continue

@program({"x": F((6,)), "m": I((6,), 0, 7), "y": F()})
def while_with_a_counter():
    for i in x:
        v = x[i]
        k = m[i]
        while k > 0:
            v = qd.sin(v) + 0.1 * k
            k -= 2
        y[None] += v * (k + 3)

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

@program({"x": F(), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 6}))
def top_level_branch():
    v = x[None]
    if n[None] > 3:
        v = qd.sin(v)
    else:
        v = v * v
    y[None] += v
