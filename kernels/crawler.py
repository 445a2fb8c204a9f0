"""A soft body of masses and springs learns to crawl: the derivative of its final place by its springs' contraction.

Spring ``s`` between the masses ``a`` and ``b`` has the natural length ``l_s(t) = rest_s (1 + sway_s . (sin wt, cos
wt))`` and pulls with

    f_a = -f_b = k (|d| / l_s(t) - 1) d / |d|,        d = x_b - x_a;

in addition gravity acts on every mass, and below the floor y = 0 there is an elastic force upwards and friction
against sliding: ``f += (-c v_x, -p) y`` for ``y < 0``. One step is symplectic: ``v <- decay v + dt f / m``,
``x <- x + dt v``. The state is updated in place by three launches a step; ``qd.ad.Tape`` saves what later
launches overwrite and goes back through all of them to the derivatives of ``L = -mean x`` (a lower loss is a longer
way) by ``sway``, ``rest`` and the initial positions.

Shapes: ``x``, ``v``, ``f`` (masses,) of 2-vectors, ``ends`` (springs,) of two i32, ``rest`` (springs,),
``sway`` (springs,) of 2-vectors, ``loss`` (); default_fp. Unit masses.
"""

import numpy as np

import quadrants_lab as qd


@qd.data_oriented
class Crawler:
    """Masses (n, 2) joined by springs (s, 2); ``dt`` in units in which gravity is 1."""

    stiffness, gravity, floor, grip, decay, pace = 30.0, 1.0, 200.0, 400.0, 0.99, 4.0

    def __init__(self, places: np.ndarray, springs: np.ndarray, dt: float = 0.02) -> None:
        n, s = len(places), len(springs)
        self.dt, self.places = dt, places
        self.x, self.v, self.f = (qd.Vector.field(2, float, shape=n, needs_grad=True) for _ in range(3))
        self.start = qd.Vector.field(2, float, shape=n, needs_grad=True)
        self.ends = qd.Vector.field(2, qd.i32, shape=s)
        self.rest = qd.field(float, shape=s, needs_grad=True)
        self.sway = qd.Vector.field(2, float, shape=s, needs_grad=True)
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.start.from_numpy(places)
        self.ends.from_numpy(springs.astype(np.int32))
        self.rest.from_numpy(np.linalg.norm(places[springs[:, 1]] - places[springs[:, 0]], axis=1))

    @qd.kernel
    def begin(self):
        for i in self.x:
            self.x[i] = self.start[i]
            self.v[i] = [0.0, 0.0]
            self.f[i] = [0.0, 0.0]

    @qd.kernel
    def pull(self, time: float):
        """The springs' forces."""
        beat = qd.Vector([qd.sin(self.pace * time), qd.cos(self.pace * time)])
        for s in self.ends:
            a, b = self.ends[s][0], self.ends[s][1]
            d = self.x[b] - self.x[a]
            length = d.norm()
            wanted = self.rest[s] * (1.0 + self.sway[s].dot(beat))
            force = self.stiffness * (length / wanted - 1.0) * d / length
            self.f[a] += force
            self.f[b] -= force

    @qd.kernel
    def stand(self):
        """Gravity and the floor."""
        for i in self.x:
            force = qd.Vector([0.0, -self.gravity])
            depth = -self.x[i].y
            if depth > 0.0:
                force += depth * qd.Vector([-self.grip * self.v[i].x, self.floor])
            self.f[i] += force

    @qd.kernel
    def move(self):
        """One step by the forces, which are then set to 0."""
        for i in self.x:
            self.v[i] = self.decay * self.v[i] + self.dt * self.f[i]
            self.x[i] += self.dt * self.v[i]
            self.f[i] = [0.0, 0.0]

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for i in self.x:
            self.loss[None] -= self.x[i].x / self.x.shape[0]

    def run(self, steps: int) -> None:
        self.begin()
        for t in range(steps):
            self.pull(t * self.dt)
            self.stand()
            self.move()
        self.measure()

    def gradient(self, sway: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
        """L after ``steps`` steps, and dL/dsway (springs, 2); ``rest.grad`` and ``start.grad`` have the others."""
        self.sway.from_numpy(sway)
        with qd.ad.Tape(self.loss):
            self.run(steps)
        return float(self.loss[None]), self.sway.grad.to_numpy()


def ladder(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """A row of ``cells`` squares with both diagonals: places (2 cells + 2, 2) and springs (5 cells + 1, 2)."""
    places = np.array([[0.5 * i, 0.05 + 0.5 * j] for i in range(cells + 1) for j in range(2)], np.float32)
    springs = [(0, 1)]
    for c in range(0, 2 * cells, 2):
        springs += [(c, c + 2), (c + 1, c + 3), (c, c + 3), (c + 1, c + 2), (c + 2, c + 3)]
    return places, np.array(springs)


def main(cells: int = 4, steps: int = 150, rounds: int = 20, rate: float = 0.05) -> list[float]:
    """Ascends by steps of one length from a small random sway; returns how far the body crawls before each round."""
    qd.init(arch=qd.cpu)
    body, ways = Crawler(*ladder(cells)), []
    sway = 0.02 * np.random.default_rng(1).normal(size=(5 * cells + 1, 2)).astype(np.float32)
    begin = float(body.places[:, 0].mean())
    for _ in range(rounds):
        loss, slope = body.gradient(sway, steps)
        ways.append(-loss - begin)
        sway = np.clip(sway - np.float32(rate) * slope / (np.linalg.norm(slope) + 1e-9), -0.2, 0.2)
    return ways


if __name__ == "__main__":
    ways = main()
    print(f"crawls {ways[0]:.3g} -> {ways[-1]:.3g} (body length {0.5 * 4})")
