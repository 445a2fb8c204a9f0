"""Programs whose gradients a reverse mode easily gets wrong; see `programs`."""

# ruff: noqa: F821
from __future__ import annotations

from programs import F, I, program

# --- traps

@program({"A": F((4, 4)), "x": F((4,)), "y": F()})
def augmented_by_a_choice():
    for i, j in A:
        v = x[i]
        v -= A[j, 2] if j == 0 else v * 0.5
        v *= 2.0 if i > 1 and j > 1 else 1.0
        y[None] += v * v

@program({"x": F((8,)), "s": F((8,)), "t": F((8,), grad=False), "n": I((8,)), "y": F()})
def reads_back_what_it_added():
    for i in x:
        y[None] += s[i]
        before = qd.atomic_add(s[i], x[i] * x[i])
        t[i] = before
        y[None] += qd.sin(s[i]) * s[i]
        for j in range(n[i]):
            y[None] += s[i] * s[i] * j

@program({"x": F((8,)), "y": F((8,))}, cases=({"x": [0.0, 0.5, 0.0, -1.0, 2.0, 0.0, 0.25, -0.5]},), exact=True)
def root_in_an_arm_that_is_not_taken():
    for i in x:
        r = x[i] * x[i]
        v = 0.0
        if r > 0.0:
            v = qd.sqrt(r)
        w = qd.log(r) if r > 0.0 else r
        y[i] = v + w

@program({"x": F((8,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 2}, {"n": 5}))
def tasks_under_a_branch_and_in_a_loop():
    if n[None] > 1:
        for i in x:
            y[None] += x[i] * x[i]
    for t in range(1):
        for i in range(8):
            y[None] += qd.sin(x[i]) * n[None]

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
