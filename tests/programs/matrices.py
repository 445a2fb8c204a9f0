"""Programs over vectors and matrices: as values, in fields and ndarrays, carried through loops, subscripted."""

# ruff: noqa: F821
from __future__ import annotations

from programs import F, I, program

P = F((8,), element=(3,))
M = F((6,), element=(2, 2))


@program({"p": P, "q": P, "r": P})
def elementwise_functions():
    for i in p:
        a = qd.sin(p[i]) + qd.exp(-q[i]) * qd.cos(p[i].zxy)
        b = max(a, 0.1) + min(a, q[i], 0.5) + abs(p[i]) + qd.sqrt(a * a + 1.0)
        r[i] = b + qd.select(a > b, a, b * b) + qd.atan2(a, b + 3.0)

@program({"m": M, "p": F((6,), element=(2,)), "y": F()})
def matrices_by_element():
    for i in m:
        a = m[i]
        v = qd.Vector([a[0, 0] * p[i][0] + a[0, 1] * p[i][1], a[1, 0] * p[i][0] + a[1, 1] * p[i][1]])
        a[1, 0] = v.x * 2.0
        b = qd.Matrix([[v.y, a[1, 0]], [p[i].x, 1.0]])
        c = a * b - b
        y[None] += c[0, 0] * c[1, 1] - c[0, 1] * c[1, 0]

@program({"p": P, "q": P, "y": F()})
def one_component_of_memory():
    for i in p:
        p[i][1] = q[i].x * q[i][2]
        p[i].z += qd.sin(q[i].y)
        p[i].xy *= 2.0
        p[i].zx += [p[i].y, 1.0]
        y[None] += p[i][0] * q[i][1] + p[i][2]

@program({"x": F((8,)), "y": F((8,)), "n": I()}, cases=({"n": 0}, {"n": 4}, {"n": 7}))
def carried_vector_at_constant_subscripts():
    for i in x:
        v = qd.Vector([x[i], 0.3, 1.0, 0.2])
        for j in range(n[None]):
            v[1] = v[0] * v[3] + 0.1
            v[0] = qd.cos(v[1]) * v[2]
            if j % 2 == 0:
                v[2] *= v[1]
            v[3] += v[0] * v[2]
        y[i] += v[0] * v[1] + v[2] * v[3]

@program({"x": F((8,)), "y": F((8,)), "n": I(), "k": I((8,), 0, 3)}, cases=({"n": 0}, {"n": 3}, {"n": 6}))
def carried_vector_at_run_time_subscripts():
    for i in x:
        v = qd.Vector([x[i], 0.3, 1.0, 0.2])
        for j in range(n[None]):
            a = (j + k[i]) % 4
            v[a] = v[a] * v[(a + 1) % 4] + x[i]
            v[k[i]] += qd.sin(v[j % 4])
            v[j % 4] *= 0.9
        y[i] += v[k[i]] * v[0] + v[3]

@program({"x": F((8,)), "y": F((8,)), "k": I((8,), 0, 1)})
def matrix_at_run_time_subscripts():
    for i in x:
        m = qd.Matrix([[x[i], 2.0], [0.5, x[i] * x[i]]])
        for j in range(4):
            m[k[i], j % 2] = m[j % 2, k[i]] * m[0, j // 2] + 0.1
            m[1, k[i]] += qd.sin(m[k[i], 0])
        y[i] += m[0, 0] * m[1, 1] - m[0, 1] * m[k[i], k[i]]

@program({"x": F((8,)), "y": F((8,)), "n": I()}, cases=({"n": 1}, {"n": 6}))
def local_array_written_then_read():
    for i in x:
        v = qd.Vector([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        for j in range(n[None]):
            v[j] = qd.sin(x[i] * (j + 1))
            if j > 0:
                v[j] += v[j - 1] * 0.5
        t = 0.0
        for j in range(n[None]):
            t += v[j] * v[n[None] - 1 - j]
        y[i] += t

@program({"p": P, "x": F((8,)), "y": F()})
def vectors_accumulated_by_a_parallel_loop():
    t = qd.Vector([0.0, 0.0, 0.0])
    for i in p:
        t += p[i] * x[i]
        t[1] -= x[i]
        t[i % 3] += p[i].x * x[i]
    for i in x:
        y[None] += t.x * x[i] + t.y * t.z

@program({"p": P, "y": F()})
def unrolled_over_elements():
    for i in p:
        v = p[i]
        t = 0.0
        for k in qd.static(range(3)):
            v[k] = v[k] * v[(k + 1) % 3]
            t += v[k] * (k + 1)
        for a, b in qd.static(qd.ndrange(3, 2)):
            t += v[a] * v[b]
        y[None] += t

@program({"x": F((8,)), "g": F((8,), element=(2,)), "v": F((8,), element=(2,)), "c": F((8,), element=(2, 2))})
def particle_to_grid():
    for i in x:
        base = qd.cast(x[i] * 2.0 + 3.0, qd.i32)
        fx = x[i] * 2.0 + 3.0 - float(base)
        w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
        for k in qd.static(range(3)):
            d = qd.Vector([k - fx, 1.0])
            a = qd.Vector([c[i][0, 0] * d.x + c[i][0, 1] * d.y, c[i][1, 0] * d.x + c[i][1, 1] * d.y])
            g[base + k] += w[k] * (v[i] + a)

def quadratic_weights(x):
    base = int(x.x * 4.0)
    at = x * 4.0 - base
    return base, [0.5 * (1.5 - at) ** 2, 0.75 - (at - 1.0) ** 2, 0.5 * (at - 0.5) ** 2]

@program({"p": P, "y": F((16,))}, funcs=(quadratic_weights,))
def func_that_returns_a_list_of_vectors():
    for i in p:
        base, w = quadratic_weights(p[i])
        for k in qd.static(range(3)):
            y[base + k + 8] += w[k].x * w[2 - k].y
