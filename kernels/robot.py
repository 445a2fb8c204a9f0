"""A robot of masses and springs learns to walk: a small network moves its springs, and the simulation trains it.

The inputs of the network are sines of time and the velocities of the masses; its outputs are the relative extensions
of the springs:

    h_k = sum_j P_kj sin(pace t + 2 pi j / 4) + sum_i Q_ki . v_i + b_k,        m_s = sway sum_k R_sk tanh h_k,

and spring ``s`` from mass ``a`` to mass ``b`` pulls with ``stiffness (|d| / (l_s (1 + tanh m_s / 4)) - 1) d / |d|``,
``d = x_b - x_a``. Steps are symplectic, ``v <- decay v + dt (f - g)``, ``x <- x + dt v``; a mass that would go below
the floor stops where it is. Every step has elements of its own, in all fields. The loss is ``L = -mean (x[T] -
x[0])_x``: a lower loss is a longer way.

Shapes: ``x``, ``v`` (T + 1, masses) and ``f`` (T, masses) of 2-vectors, ``h`` (T, hidden), ``m`` (T, springs), ``ends``
(springs,) of two i32, ``rest`` (springs,), ``P`` (hidden, 4), ``Q`` (hidden, masses) of 2-vectors, ``R`` (springs,
hidden), ``b`` (hidden,), ``loss`` (); default_fp. Unit masses.
"""

import math

import numpy as np

import quadrants_lab as qd

BODY = """
#####
#...#
"""


@qd.data_oriented
class Robot:
    """Masses (n, 2) joined by springs (s, 2), for ``steps`` steps; the network has ``hidden`` hidden units."""

    stiffness, gravity, decay, pace, sway, dt = 40.0, 2.0, 0.95, 8.0, 1.0, 0.02

    def __init__(self, places: np.ndarray, springs: np.ndarray, hidden: int, steps: int) -> None:
        n, s = len(places), len(springs)
        self.n, self.s, self.hidden, self.steps = n, s, hidden, steps
        self.x, self.v = (qd.Vector.field(2, float, shape=(steps + 1, n), needs_grad=True) for _ in range(2))
        self.f = qd.Vector.field(2, float, shape=(steps, n), needs_grad=True)
        self.h = qd.field(float, shape=(steps, hidden), needs_grad=True)
        self.m = qd.field(float, shape=(steps, s), needs_grad=True)
        self.ends = qd.Vector.field(2, qd.i32, shape=s)
        self.places = qd.Vector.field(2, float, shape=n)
        self.rest = qd.field(float, shape=s)
        self.P = qd.field(float, shape=(hidden, 4), needs_grad=True)
        self.Q = qd.Vector.field(2, float, shape=(hidden, n), needs_grad=True)
        self.R = qd.field(float, shape=(s, hidden), needs_grad=True)
        self.b = qd.field(float, shape=hidden, needs_grad=True)
        self.weights = self.P, self.Q, self.R, self.b
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.places.from_numpy(places)
        self.ends.from_numpy(springs.astype(np.int32))
        self.rest.from_numpy(np.linalg.norm(places[springs[:, 1]] - places[springs[:, 0]], axis=1))

    @qd.kernel
    def begin(self):
        for i in self.places:
            self.x[0, i] = self.places[i]
            self.v[0, i] = [0.0, 0.0]
        for t, i in self.f:
            self.f[t, i] = [0.0, 0.0]
        for t, k in self.h:
            self.h[t, k] = 0.0
        for t, s in self.m:
            self.m[t, s] = 0.0

    @qd.kernel
    def sense(self, t: qd.i32):
        """The hidden units, from time and velocities."""
        for k in self.b:
            self.h[t, k] += self.b[k]
        for k, j in self.P:
            self.h[t, k] += self.P[k, j] * qd.sin(self.pace * self.dt * t + 0.5 * math.pi * j)
        for k, i in self.Q:
            self.h[t, k] += self.Q[k, i].dot(self.v[t, i])

    @qd.kernel
    def act(self, t: qd.i32):
        for s, k in self.R:
            self.m[t, s] += self.sway * self.R[s, k] * qd.tanh(self.h[t, k])

    @qd.kernel
    def pull(self, t: qd.i32):
        """The springs' forces."""
        for s in self.ends:
            a, b = self.ends[s][0], self.ends[s][1]
            d = self.x[t, b] - self.x[t, a]
            length = d.norm()
            wanted = self.rest[s] * (1.0 + 0.25 * qd.tanh(self.m[t, s]))
            force = self.stiffness * (length / wanted - 1.0) / length * d
            self.f[t, a] += force
            self.f[t, b] += -force

    @qd.kernel
    def move(self, t: qd.i32):
        for i in range(self.n):
            v = self.decay * self.v[t, i] + self.dt * (self.f[t, i] - qd.Vector([0.0, self.gravity]))
            if self.x[t, i][1] + self.dt * v[1] < 0.0:
                v = qd.Vector([0.0, 0.0])
            self.v[t + 1, i] = v
            self.x[t + 1, i] = self.x[t, i] + self.dt * v

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for i in range(self.n):
            self.loss[None] += (self.x[0, i][0] - self.x[self.steps, i][0]) / self.n

    def run(self) -> None:
        self.begin()
        for t in range(self.steps):
            self.sense(t)
            self.act(t)
            self.pull(t)
            self.move(t)
        self.measure()

    def gradient(self, weights: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """L for the network with the ``weights`` P, Q, R, b, and its derivatives by each of them."""
        for field, values in zip(self.weights, weights, strict=True):
            field.from_numpy(values)
        with qd.ad.Tape(self.loss):
            self.run()
        return float(self.loss[None]), [field.grad.to_numpy() for field in self.weights]


def built(picture: str, size: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """Masses at the corners of the squares # of a picture, and springs along their edges and diagonals."""
    rows = picture.split()
    corners: dict[tuple[int, int], int] = {}
    springs: set[tuple[int, int]] = set()
    for i, row in enumerate(reversed(rows)):
        for j, c in enumerate(row):
            if c == "#":
                square = [corners.setdefault((j + a, i + b), len(corners)) for a in (0, 1) for b in (0, 1)]
                springs |= {(min(p, q), max(p, q)) for p in square for q in square if p != q}
    return size * np.array(list(corners), np.float32), np.array(sorted(springs))


def main(hidden: int = 12, steps: int = 150, rounds: int = 15, rate: float = 0.2) -> list[float]:
    """Ascends by steps of one length; returns how far the robot walks before each round."""
    qd.init(arch=qd.cpu)
    robot = Robot(*built(BODY), hidden, steps)
    draw = np.random.default_rng(4)
    weights = [draw.normal(0.0, 0.1, field.to_numpy().shape).astype(np.float32) for field in robot.weights]
    ways = []
    for _ in range(rounds):
        loss, slopes = robot.gradient(weights)
        ways.append(-loss)
        size = math.sqrt(sum(float((slope**2).sum()) for slope in slopes))
        weights = [w - np.float32(rate / size) * slope for w, slope in zip(weights, slopes, strict=True)]
    return ways


if __name__ == "__main__":
    ways = main()
    print(f"walks {ways[0]:.3g} -> {ways[-1]:.3g} (body length 1.25)")
