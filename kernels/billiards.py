"""A shot at billiards: which way must the cue ball go for another ball to end up at a given place?

Balls of radius ``r`` and mass 1 touch like springs: while two are closer than ``2 r`` they push each other apart by
``k (2 r - |d|)`` along ``d = x_i - x_j``, so that where a ball ends is a smooth function of the shot. The cloth takes
the share ``drag`` of the velocity in a second. A step is symplectic,

    v[t+1, i] = (1 - dt drag) v[t, i] + dt sum_j f_ij,        x[t+1, i] = x[t, i] + dt v[t+1, i],

and every step has elements of its own. The misfit is ``L = |x[T, target] - goal|**2``.

Shapes: ``x``, ``v`` (T + 1, balls) and ``f`` (T, balls) of 2-vectors, ``begin`` (balls,), ``shot`` and ``goal`` () of
2-vectors, ``loss`` (); default_fp. Ball 0 is the cue ball.
"""

import numpy as np

import quadrants_lab as qd


@qd.data_oriented
class Table:
    """Balls at ``places`` (n, 2), for ``steps`` steps; ``target`` is the ball in the loss."""

    r, k, drag, dt = 0.05, 4000.0, 0.2, 0.005

    def __init__(self, places: np.ndarray, steps: int, target: int) -> None:
        n = len(places)
        self.steps, self.target, self.n = steps, target, n
        self.x, self.v = (qd.Vector.field(2, float, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
        self.f = qd.Vector.field(2, float, shape=(steps, n), needs_grad=True)
        self.places = qd.Vector.field(2, float, shape=n, needs_grad=True)
        self.shot = qd.Vector.field(2, float, shape=(), needs_grad=True)
        self.goal = qd.Vector.field(2, float, shape=())
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.places.from_numpy(places)

    @qd.kernel
    def begin(self):
        for i in self.places:
            self.x[0, i] = self.places[i]
            self.v[0, i] = [0.0, 0.0]
            if i == 0:
                self.v[0, i] = self.shot[None]
        for t, i in self.f:
            self.f[t, i] = [0.0, 0.0]

    @qd.kernel
    def touch(self, t: qd.i32):
        """The forces between the balls."""
        for i, j in qd.ndrange(self.n, self.n):
            if i != j:
                d = self.x[t, i] - self.x[t, j]
                distance = d.norm()
                if distance < 2.0 * self.r:
                    self.f[t, i] += self.k * (2.0 * self.r / distance - 1.0) * d

    @qd.kernel
    def move(self, t: qd.i32):
        for i in range(self.n):
            v = (1.0 - self.dt * self.drag) * self.v[t, i] + self.dt * self.f[t, i]
            self.v[t + 1, i] = v
            self.x[t + 1, i] = self.x[t, i] + self.dt * v

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for _ in range(1):
            self.loss[None] += (self.x[self.steps, self.target] - self.goal[None]).norm_sqr()

    def run(self) -> None:
        self.begin()
        for t in range(self.steps):
            self.touch(t)
            self.move(t)
        self.measure()

    def gradient(self, shot: np.ndarray) -> tuple[float, np.ndarray]:
        """L for the cue ball's velocity ``shot`` (2,), and dL/dshot; ``places.grad`` has that by the places."""
        self.shot.from_numpy(shot)
        with qd.ad.Tape(self.loss):
            self.run()
        return float(self.loss[None]), self.shot.grad.to_numpy()


def rack(rows: int, r: float = Table.r) -> np.ndarray:
    """Places (n, 2): the cue ball at the origin, and ahead of it a triangle of ``rows`` rows, without contacts."""
    balls = [(1.0 + 2.1 * r * i * 3**0.5 / 2, 2.1 * r * (j - i / 2)) for i in range(rows) for j in range(i + 1)]
    return np.array([(0.0, 0.0), *balls], np.float32)


def main(rows: int = 4, steps: int = 200, rounds: int = 40, rate: float = 0.1) -> list[float]:
    """Descends, by shorter and shorter steps, from a wrong shot; returns the misfit before each round."""
    qd.init(arch=qd.cpu)
    places = rack(rows)
    table = Table(places, steps, target=len(places) - 1)
    table.gradient(np.array([4.0, 0.1], np.float32))
    table.goal[None] = table.x[steps, table.target]  # the result of a shot that the optimiser does not know
    shot, losses = np.array([4.3, 0.0], np.float32), []
    for k in range(rounds):
        loss, slope = table.gradient(shot)
        losses.append(loss)
        shot = shot - np.float32(rate * 0.9**k) * slope / (float(np.linalg.norm(slope)) + 1e-9)
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"misfit {losses[0]:.3g} -> {losses[-1]:.3g}")
