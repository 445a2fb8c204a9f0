"""A population looks for the least of Rastrigin's function: local arrays, a template for the function, ping-pong."""

import numpy as np


def make(qd):
    people, dim = 24, 3
    genes = qd.field(float, shape=(2, people, dim))
    cost = qd.field(float, shape=(2, people))
    state = qd.field(qd.u32, shape=people)

    @qd.func
    def rastrigin(x: qd.template()):
        total = 10.0 * dim
        for k in qd.static(range(dim)):
            total += x[k] ** 2 - 10.0 * qd.cos(2.0 * qd.math.pi * x[k])
        return total

    @qd.func
    def bowl(x: qd.template()):
        return (x - 0.5).norm_sqr()

    @qd.func
    def draw(i, most):
        """An integer below ``most``, from the upper bits."""
        state[i] = state[i] * qd.u32(1664525) + qd.u32(1013904223)
        bits = state[i] >> 8
        return qd.cast(bits % qd.cast(most, qd.u32), qd.i32)

    @qd.kernel
    def begin(f: qd.template()):
        for i in range(people):
            state[i] = qd.cast(i * 7919 + 17, qd.u32)
            x = qd.Vector.zero(float, dim)
            for k in range(dim):
                x[k] = draw(i, 1000) / 100.0 - 5.0
                genes[0, i, k] = x[k]
            cost[0, i] = f(x)

    @qd.kernel
    def evolve(old: qd.template(), f: qd.template()):
        for i in range(people):
            a, b, c, sure = draw(i, people), draw(i, people), draw(i, people), draw(i, dim)
            x = qd.Vector([genes[old, i, k] for k in range(dim)])
            for k in range(dim):
                if draw(i, 100) < 80 or k == sure:
                    x[k] = genes[old, a, k] + 0.5 * (genes[old, b, k] - genes[old, c, k])
            now = f(x)
            better = now < cost[old, i]
            cost[1 - old, i] = now if better else cost[old, i]
            for k in qd.static(range(dim)):
                genes[1 - old, i, k] = x[k] if better else genes[old, i, k]

    def run():
        out = {}
        for f in (rastrigin, bowl):
            begin(f)
            for generation in range(40):
                evolve(generation % 2, f)
            last = cost.to_numpy()[0]
            out |= {f"{f.__name__}_cost": last, f"{f.__name__}_found": last.min() < 4}
        return out

    return run


def expected():
    return {"rastrigin_found": np.array(True), "bowl_found": np.array(True)}
