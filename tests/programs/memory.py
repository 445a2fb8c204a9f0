"""Loops that are left, indices, memory and tasks; see `programs`."""

# ruff: noqa: F821
from __future__ import annotations

from programs import N_CASES, F, I, program

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

@program({"x": F(), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 6}))
def top_level_branch():
    v = x[None]
    if n[None] > 3:
        v = qd.sin(v)
    else:
        v = v * v
    y[None] += v
