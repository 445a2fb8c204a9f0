"""Algorithms as people write them: tables, sparse rows, solvers, filters, rays, selections; many constructs at once."""

# ruff: noqa: F821
from __future__ import annotations

from programs import F, I, program


@program({"a": F((5,)), "b": F((4,)), "d": F((6, 5)), "y": F()})
def soft_dynamic_time_warping():
    """A table, each entry from those above and to the left, in one serial sweep."""
    for _ in range(1):
        for i in range(6):
            for j in range(5):
                if i == 0 and j == 0:
                    d[i, j] = 0.0
                elif i == 0 or j == 0:
                    d[i, j] = 30.0 + i + 1.5 * j
                else:
                    p, q, r = d[i - 1, j], d[i, j - 1], d[i - 1, j - 1]
                    m = min(p, q, r)
                    s = qd.exp(m - p) + qd.exp(m - q) + qd.exp(m - r)
                    d[i, j] = (a[i - 1] - b[j - 1]) ** 2 + m - qd.log(s)
    y[None] += d[5, 4]

@program({"a": F((9,)), "d": F((5, 6))}, scalars={"k": 2}, cases=({"k": 2}, {"k": 5}, {"k": 9}))
def anti_diagonal_of_a_table(k: int):
    for i in range(max(1, k - 5), min(4, k - 1) + 1):
        j = k - i
        d[i, j] = a[k - 1] * min(d[i - 1, j], d[i, j - 1]) ** 2 + qd.sin(d[i - 1, j - 1])


ROWS = {"start": I((6,), 0, 9), "column": I((10,), 0, 5), "value": F((10,)), "x": F((6,)), "z": F((6,))}


@program({"x": F((6,), 0.3, 1.2), "rate": F((6,), 0.5, 1.5), "y": F((6,))}, tol32=2e-3)
def adaptive_steps_with_rejection():
    for i in x:
        t, v, h = 0.0, x[i], 0.23
        tries = 0
        while t < 1.0 and tries < 60:
            step = min(h, 1.0 - t)
            a = qd.sin(3.0 * t) - rate[i] * v * v
            w = v + step * a
            b = qd.sin(3.0 * (t + step)) - rate[i] * w * w
            tries += 1
            error = abs(b - a) * step * 0.5
            if error > 0.0113:
                h = step * 0.5
                continue
            v += 0.5 * step * (a + b)
            t += step
            if error < 0.0021:
                h = step * 1.7
            if t > 0.9999:
                break
        y[i] = v * v

@program({"x": F((3, 5)), "w": F((5,)), "y": F()})
def bubble_sort_until_nothing_moves():
    for i in range(3):
        v = qd.Vector([x[i, 0], x[i, 1], x[i, 2], x[i, 3], x[i, 4]])
        moved = True
        done = 0
        while moved:
            moved = False
            for j in range(4 - done):
                if v[j] > v[j + 1]:
                    v[j], v[j + 1] = v[j + 1], v[j]
                    moved = True
            done += 1
        for j in range(5):
            y[None] += v[j] * v[j] * w[j]

@program({"x": F((4,)), "b": F((4,), element=(3,)), "y": F()}, tol32=2e-3)
def cholesky_solve_in_local_matrices():
    for p in b:
        r = b[p]
        c = qd.Matrix([[0.0 for _ in range(3)] for _ in range(3)])
        for i in range(3):
            for j in range(i + 1):
                t = qd.exp(-((x[i] - x[j]) ** 2)) + (0.5 if i == j else 0.0)
                for k in range(j):
                    t -= c[i, k] * c[j, k]
                c[i, j] = qd.sqrt(t) if i == j else t / c[j, j]
        for i in range(3):
            for k in range(i):
                r[i] -= c[i, k] * r[k]
            r[i] /= c[i, i]
        for i in range(2, -1, -1):
            for k in range(i + 1, 3):
                r[i] -= c[k, i] * r[k]
            r[i] /= c[i, i]
        y[None] += r.x * r.y + r.z

def hit(o, d, center, radius):
    """The distance along the ray, or -1."""
    oc = o - center
    b = oc.dot(d)
    inside = b * b - oc.dot(oc) + radius * radius
    if inside < 0.0:
        return -1.0
    return -b - qd.sqrt(inside)


SCENE = {
    "center": F((2,), 0.0, 1.0, element=(2,)), "radius": F((2,), 0.6, 0.9), "albedo": F((2,), 0.3, 0.9),
    "light": F((9,)),
}  # fmt: skip


@program(SCENE, funcs=(hit,))
def bouncing_rays():
    for i in light:
        o = qd.Vector([-3.0, 0.21 * i - 0.5])
        d = qd.Vector([0.9987, 0.051])
        d = d / qd.sqrt(d.dot(d))
        weight, found = 1.0, 0.0
        for bounce in range(4):
            nearest, which = 100.0, -1
            for s in range(2):
                t = hit(o, d, qd.Vector([center[s].x, center[s].y + 1.9 * s - 0.8]), radius[s])
                if 0.001 < t and t < nearest:
                    nearest, which = t, s
            if which < 0:
                found += weight * (0.5 + 0.5 * d.y)
                break
            o += nearest * d
            n = (o - qd.Vector([center[which].x, center[which].y + 1.9 * which - 0.8])) / radius[which]
            d -= 2.0 * d.dot(n) * n
            weight *= albedo[which]
        light[i] += found

@program({"x": F((4, 6)), "w": F((3,)), "y": F()})
def greatest_three_by_marks():
    for i in range(4):
        used = 0
        for k in range(3):
            best, at = -9.0, -1
            for j in range(6):
                if (used >> j) & 1 == 0 and x[i, j] > best:
                    best, at = x[i, j], j
            used |= 1 << at
            y[None] += w[k] * best * x[i, (at + 1) % 6]

@program({"w": F((5,)), "x": F((7,)), "y": F()})
def integers_choose_the_weights():
    """Collatz and Euclid: integers carried through while loops, and every weight that they meet."""
    for i in x:
        n, v = i + 3, x[i]
        while n != 1:
            v = v * w[n % 5] + 0.1 * w[(n >> 1) % 5]
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            if n > 60:
                n = n >> 3 | 1
        a, b = 6 * i + 4, 10
        while b:
            a, b = b, a % b
            v += w[b % 5] * v * 0.1
        y[None] += v * a

@program({"x": F((7,)), "gain": F((7,)), "z": F((7,)), "y": F()})
def normalised_layer_and_softmax():
    mean = 0.0
    for i in x:
        mean += x[i] / 7.0
    var = 0.0
    for i in x:
        var += (x[i] - mean) ** 2 / 7.0
    scale = qd.rsqrt(var + 0.001)
    total = 0.0
    for i in x:
        z[i] = (x[i] - mean) * scale * gain[i]
        total += qd.exp(z[i])
    for i in x:
        y[None] += qd.exp(z[i]) / total * x[i] * (i + 1)

@program({"x": F((4, 3)), "y": F((12,))})
def energy_of_neighbours_in_a_flat_array():
    """Elements of `y` are those of one iteration each, but by a product of sizes: its adjoints are exchanged."""
    for i, j in qd.ndrange(4, 3):
        e = 0.0
        if j + 1 < 3:
            e += x[i, j] * x[i, j + 1]
        if i + 1 < 4:
            e += x[i, j] * x[i + 1, j]
        y[3 * i + j] = e
