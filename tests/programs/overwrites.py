"""Kernels that overwrite what their gradient needs: in place, by swaps, by factorisation, one task after another."""

# ruff: noqa: F821
from __future__ import annotations

from programs import F, I, program


@program({"x": F((7,)), "y": F()})
def in_place_then_read():
    for i in x:
        x[i] = qd.sin(x[i]) * x[i]
    for i in x:
        y[None] += x[i] ** 3
    for i in x:
        x[i] = x[i] * y[None]
    for i in x:
        y[None] += qd.exp(0.3 * x[i])

@program({"x": F((5, 4)), "w": F((4,)), "y": F((5,))})
def in_place_within_one_iteration():
    """Written, read, written again by the same iteration, in a loop and in branches."""
    for i in range(5):
        for j in range(4):
            x[i, j] = qd.sin(x[i, j]) + w[j]
            if x[i, j] > 0.2:
                x[i, j] = x[i, j] * x[i, j]
            y[i] = y[i] * x[i, j] + qd.cos(y[i])

@program({"x": F((6, 6)), "b": F((6, 6), -0.3, 0.3)})
def relaxation_in_place():
    """Gauss and Seidel's, in one serial sweep: each point from new and old neighbours."""
    for _ in range(1):
        for sweep in range(3):
            for i in range(1, 5):
                for j in range(1, 5):
                    r = b[i, j] + 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
                    x[i, j] = r + 0.1 * qd.sin(x[i, j]) * r

@program({"x": F((6, 6)), "b": F((6, 6), -0.3, 0.3)}, scalars={"n": 6}, cases=({"n": 6}, {"n": 3}, {"n": 2}))
def red_and_black(n: int):
    """Two parallel sweeps in place, each over every other point."""
    for i, j in qd.ndrange(n, n):
        if (i + j) % 2 == 0 and 0 < i < n - 1 and 0 < j < n - 1:
            x[i, j] = qd.sin(b[i, j] + x[i - 1, j] * x[i + 1, j] + 0.3 * x[i, j] * x[i, j - 1] * x[i, j + 1])
    for i, j in qd.ndrange(n, n):
        if (i + j) % 2 == 1 and 0 < i < n - 1 and 0 < j < n - 1:
            x[i, j] = qd.sin(b[i, j] + x[i - 1, j] * x[i + 1, j] + 0.3 * x[i, j] * x[i, j - 1] * x[i, j + 1])

@program({"x": F((8,)), "y": F()}, cases=({}, {"x": (0.4, 0.3, 0.2, 0.1, 0.0, -0.1, -0.2, -0.3)}))
def sorting_by_swaps():
    for _ in range(1):
        for i in range(8):
            for j in range(7 - i):
                if x[j] > x[j + 1]:
                    t = x[j]
                    x[j] = x[j + 1]
                    x[j + 1] = t
    for i in x:
        y[None] += (i + 1) * x[i] * x[i]

@program({"x": F((6,), 0.5, 1.5), "k": I((6,), 0, 5)})
def swaps_at_places_from_data():
    for _ in range(1):
        for i in range(6):
            t = x[k[i]]
            x[k[i]] = x[i] * t
            x[i] = qd.sin(t) + x[i]

@program({"x": F((9,), 0.6, 1.4)}, scalars={"n": 9}, cases=({"n": 9}, {"n": 1}, {"n": 4}))
def prefix_product_in_place(n: int):
    qd.loop_config(serialize=True)
    for i in range(1, n):
        x[i] = x[i] * x[i - 1]

@program({"a": F((5, 5), -0.3, 0.3), "y": F()}, cases=({}, {"a": 0.25}))
def lu_in_place():
    for i in range(5):
        a[i, i] = a[i, i] + 2.0
    for _ in range(1):
        for k in range(5):
            for i in range(k + 1, 5):
                a[i, k] = a[i, k] / a[k, k]
                for j in range(k + 1, 5):
                    a[i, j] -= a[i, k] * a[k, j]
    for i in range(5):
        y[None] += qd.log(a[i, i]) + a[4, i] * a[i, 3]

@program({"a": F((3, 4, 4), -0.2, 0.2), "b": F((3, 4))}, cases=({},))
def factorised_and_solved_for_each():
    """A factorisation and a substitution in place, by each parallel iteration in its own matrix."""
    for e in range(3):
        for k in range(4):
            a[e, k, k] += 1.5
            for i in range(k + 1, 4):
                a[e, i, k] /= a[e, k, k]
                for j in range(k + 1, 4):
                    a[e, i, j] -= a[e, i, k] * a[e, k, j]
        for i in range(4):
            for j in range(i):
                b[e, i] -= a[e, i, j] * b[e, j]


LINKS = {"f": F((2, 5, 3)), "ty": I((5,), 0, 2), "out": F((3,))}


@program(LINKS, cases=({"ty": (0, 1, 2, 0, 1)}, {"ty": 1}, {}))
def links_of_a_tree():
    """The way a rigid solver goes over links: arms that each write an element from a carried value and read it back."""
    for b in range(3):
        q = f[0, 0, b]
        for link in range(5):
            if ty[link] == 0:
                f[1, link, b] = q * q
                q = f[1, link, b]
            elif ty[link] == 1:
                f[1, link, b] = qd.sin(q) + f[0, link, b]
                q = f[1, link, b]
            else:
                q = q * f[0, link, b]
        out[b] = q * q

@program({"pos": F((4, 3)), "v": F((4, 3)), "at": I((5,), 0, 3), "y": F((5,))})
def moved_after_it_was_read():
    for p in range(4):
        for k in range(5):
            y[k] += qd.sin(pos[p, 0]) * pos[p, 1]
        for d in range(3):
            v[p, d] = v[p, d] * 0.9 - qd.sin(pos[p, d])
            pos[p, d] += 0.1 * v[p, d]

@program({"x": F((6,), 0.5, 1.5), "y": F((6,), 0.5, 1.5), "z": F()})
def atomics_of_ones_own_element():
    """Products, minima and old values: what each iteration does to its own element has an order."""
    for i in x:
        x[i] *= y[i]
        old = qd.atomic_add(y[i], x[i] * x[i])
        x[i] += old * old
        qd.atomic_max(x[i], 1.1 * y[i])
        z[None] += x[i] * y[i]

@program({"x": F((6,), 0.5, 1.5), "y": F((6,))}, scalars={"shift": 2}, cases=({"shift": 2}, {"shift": 0}, {"shift": 5}))
def a_part_in_place(shift: int):
    """Only the box that is written is kept: its ends depend on an argument."""
    for i in range(shift, 6):
        x[i] = x[i] ** 3 + y[i]
    for i in range(6 - shift):
        y[i + shift] = y[i + shift] * x[i]

@program({"u": F((3, 5)), "y": F()}, scalars={"t": 0}, cases=({"t": 0}, {"t": 1}, {"t": 4}))
def ping_pong_of_two_planes(t: int):
    """Nothing that is read is overwritten: the planes change with t, and never are the same."""
    for i in range(1, 4):
        u[(t + 1) % 2, i] = qd.sin(u[t % 2, i - 1]) * u[t % 2, i + 1]
    for i in range(5):
        y[None] += u[(t + 1) % 2, i] ** 2

@program({"x": F((4,)), "n": I((4,), 0, 4), "y": F((4,))}, cases=({}, {"n": 0}, {"n": 4}))
def a_trip_count_in_place():
    for i in x:
        v = x[i]
        for _ in range(n[i]):
            v = qd.sin(v) * x[i]
        y[i] = v
        n[i] = n[i] + 2
        x[i] = v * v

@program({"x": F((5,), 0.4, 1.4), "y": F()})
def a_while_over_memory_in_place():
    for i in x:
        k = 0
        while x[i] < 2.0 and k < 20:
            x[i] = x[i] * x[i] * 0.3 + x[i] * 1.2
            k += 1
        y[None] += x[i] * k

@program({"x": F((5,)), "y": F()})
def a_local_of_the_kernel_from_what_is_overwritten():
    s = 0.0
    for i in x:
        s += x[i] * x[i]
    for i in x:
        x[i] = x[i] * s
    for i in x:
        y[None] += qd.sin(x[i] * s)

@program({"x": F((5,), arg=True), "y": F((5,), arg=True)}, scalars={"k": 2}, cases=({"k": 2}, {"k": 3}))
def arguments_in_place(k: int, x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        for _ in range(k):
            x[i] = qd.sin(x[i]) * y[i]
            y[i] = y[i] + x[i] * x[i]

@program({"p": F((4,), element=(2,)), "m": F((), element=(2, 2)), "y": F()})
def vectors_and_a_matrix_in_place():
    for i in p:
        v = p[i]
        p[i] = qd.Vector([v[1] * v[0], qd.sin(v[0])])
        p[i][0] += p[i][1] * p[i][1]
    for _ in range(1):
        m[None] = m[None] @ m[None]
        m[None][0, 1] *= m[None][1, 0]
    for i in p:
        q = m[None] @ p[i]
        y[None] += q.dot(q)
