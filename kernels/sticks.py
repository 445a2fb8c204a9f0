"""Rigid bodies: sticks are thrown so that each comes down upright at its place, after a bounce.

A stick of length 1 and mass 1 has a middle ``x``, an angle ``a``, a velocity ``v`` and a spin ``w``; its moment of
inertia is 1/12. Its ends are at ``p = x + s`` with ``s = +-(cos a, sin a) / 2`` and move with ``q = v + w s'``, where
``(x, y)' = (-y, x)``. On an end below the floor y = 0 act an elastic force and friction:

    f = -p_y (-grip q_x, floor - damp q_y),      dv/dt = sum f - (0, g),      dw/dt = 12 sum (s_x f_y - s_y f_x),

with symplectic steps. The misfit of a stick is ``|x[T] - goal|**2 + 1 - sin a[T]``. The sticks do not interact, so
that one descent optimises all throws.

Shapes: ``x``, ``v`` (T + 1, sticks) of 2-vectors, ``a``, ``w`` (T + 1, sticks), ``f`` (T, sticks) of 3-vectors (force
and torque), ``throw`` (sticks,) of (v_x, v_y, w), ``goal`` (sticks,) of 2-vectors, ``loss`` (); default_fp.
"""

import numpy as np

import quadrants_lab as qd


@qd.data_oriented
class Sticks:
    """``n`` sticks for ``steps`` steps; they begin horizontal, at the height 1."""

    gravity, floor, damp, grip, dt = 2.0, 400.0, 10.0, 20.0, 0.01

    def __init__(self, n: int, steps: int) -> None:
        self.steps, self.n = steps, n
        self.x, self.v = (qd.Vector.field(2, float, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
        self.a, self.w = (qd.field(float, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
        self.f = qd.Vector.field(3, float, shape=(steps, n), needs_grad=True)
        self.throw = qd.Vector.field(3, float, shape=n, needs_grad=True)
        self.goal = qd.Vector.field(2, float, shape=n)
        self.loss = qd.field(float, shape=(), needs_grad=True)

    @qd.kernel
    def begin(self):
        for i in self.throw:
            self.x[0, i] = [0.0, 1.0]
            self.a[0, i] = 0.0
            self.v[0, i] = [self.throw[i][0], self.throw[i][1]]
            self.w[0, i] = self.throw[i][2]
        for t, i in self.f:
            self.f[t, i] = [0.0, 0.0, 0.0]

    @qd.kernel
    def touch(self, t: qd.i32):
        """The forces of the floor on both ends of each stick."""
        for i, end in qd.ndrange(self.n, 2):
            s = (end - 0.5) * qd.Vector([qd.cos(self.a[t, i]), qd.sin(self.a[t, i])])
            depth = -(self.x[t, i][1] + s[1])
            if depth > 0.0:
                qx = self.v[t, i][0] - self.w[t, i] * s[1]
                qy = self.v[t, i][1] + self.w[t, i] * s[0]
                fx = -depth * self.grip * qx
                fy = depth * (self.floor - self.damp * qy)
                self.f[t, i] += qd.Vector([fx, fy, s[0] * fy - s[1] * fx])

    @qd.kernel
    def move(self, t: qd.i32):
        for i in range(self.n):
            f = self.f[t, i]
            v = self.v[t, i] + self.dt * qd.Vector([f[0], f[1] - self.gravity])
            w = self.w[t, i] + self.dt * 12.0 * f[2]
            self.v[t + 1, i] = v
            self.w[t + 1, i] = w
            self.x[t + 1, i] = self.x[t, i] + self.dt * v
            self.a[t + 1, i] = self.a[t, i] + self.dt * w

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for i in self.goal:
            miss = self.x[self.steps, i] - self.goal[i]
            self.loss[None] += miss.norm_sqr() + 1.0 - qd.sin(self.a[self.steps, i])

    def run(self) -> None:
        self.begin()
        for t in range(self.steps):
            self.touch(t)
            self.move(t)
        self.measure()

    def gradient(self, throw: np.ndarray) -> tuple[float, np.ndarray]:
        """L of the throws (sticks, 3), and dL/dthrow."""
        self.throw.from_numpy(throw)
        with qd.ad.Tape(self.loss):
            self.run()
        return float(self.loss[None]), self.throw.grad.to_numpy()


def main(n: int = 8, steps: int = 200, rounds: int = 30, rate: float = 0.2) -> list[float]:
    """Descends by shorter and shorter steps; returns the mean misfit before each round."""
    qd.init(arch=qd.cpu)
    sticks = Sticks(n, steps)
    sticks.goal.from_numpy(np.stack([np.linspace(1.0, 3.0, n), np.full(n, 0.8)], 1).astype(np.float32))
    throw, losses = np.tile(np.array([0.8, 1.0, 0.5], np.float32), (n, 1)), []
    for k in range(rounds):
        loss, slope = sticks.gradient(throw)
        losses.append(loss / n)
        throw = throw - np.float32(rate * 0.92**k) * slope / (np.linalg.norm(slope, axis=1, keepdims=True) + 0.1)
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"misfit {losses[0]:.3g} -> {losses[-1]:.3g}")
