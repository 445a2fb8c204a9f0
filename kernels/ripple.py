"""Waves that meet in a picture: the initial height of a pond, found by descending through the wave equation.

``u_tt = c**2 (u_xx + u_yy) - d u_t`` on n by n points whose edge is held at 0, by the leapfrog: with ``r = (c dt /
h)**2`` (stable for ``r <= 1/2``) and the loss ``d`` of a step,

    u[t+1] = u[t] + (1 - d) (u[t] - u[t-1]) + r (the four neighbours of u[t] - 4 u[t]),    u[1] = u[0] = height,

and the misfit ``L = sum (u[T] - picture)**2``. Every step is a launch that writes a layer of its own, so nothing is
overwritten, and each gradient reads the layers that it needs where they are.

Shapes: ``height``, ``picture`` (n, n), ``u`` (T + 1, n, n), ``loss`` (); default_fp.
"""

import numpy as np

import quadrants_lab as qd

PICTURE = """
.......##.......
.....##..##.....
....#......#....
...#........#...
..#..........#..
..#..........#..
..#.......#..#..
...#.......##...
....#......##...
.....##..##..#..
.......##.....#.
"""


@qd.data_oriented
class Pond:
    """``n`` by ``n`` points and ``steps`` steps."""

    r, d = 0.25, 0.002

    def __init__(self, n: int, steps: int) -> None:
        self.n, self.steps = n, steps
        self.height = qd.field(float, shape=(n, n), needs_grad=True)
        self.u = qd.field(float, shape=(steps + 1, n, n), needs_grad=True)
        self.picture = qd.field(float, shape=(n, n))
        self.loss = qd.field(float, shape=(), needs_grad=True)

    @qd.kernel
    def begin(self):
        for i, j in qd.ndrange((1, self.n - 1), (1, self.n - 1)):
            self.u[0, i, j] = self.height[i, j]
            self.u[1, i, j] = self.height[i, j]

    @qd.kernel
    def step(self, t: qd.i32):
        """Layer t + 1 from the layers t and t - 1."""
        for i, j in qd.ndrange((1, self.n - 1), (1, self.n - 1)):
            u = self.u[t, i, j]
            around = self.u[t, i - 1, j] + self.u[t, i + 1, j] + self.u[t, i, j - 1] + self.u[t, i, j + 1]
            self.u[t + 1, i, j] = u + (1.0 - self.d) * (u - self.u[t - 1, i, j]) + self.r * (around - 4.0 * u)

    @qd.kernel
    def measure(self):
        """loss[None] += L."""
        for i, j in self.picture:
            self.loss[None] += (self.u[self.steps, i, j] - self.picture[i, j]) ** 2

    def run(self) -> None:
        self.begin()
        for t in range(1, self.steps):
            self.step(t)
        self.measure()

    def gradient(self, height: np.ndarray) -> tuple[float, np.ndarray]:
        """L from the initial ``height`` (n, n), and dL/dheight."""
        self.height.from_numpy(height)
        with qd.ad.Tape(self.loss):
            self.run()
        return float(self.loss[None]), self.height.grad.to_numpy()


def drawn(text: str, n: int) -> np.ndarray:
    """The picture in the middle of n by n points, 1 where the text has #."""
    rows = text.split()
    out = np.zeros((n, n), np.float32)
    for i, row in enumerate(rows):
        for j, c in enumerate(row):
            out[(n - len(rows)) // 2 + i, (n - len(row)) // 2 + j] = c == "#"
    return out


def main(n: int = 32, steps: int = 100, rounds: int = 30, rate: float = 0.15) -> list[float]:
    """Descends with momentum from a flat pond; returns the misfit before each round."""
    qd.init(arch=qd.cpu)
    pond = Pond(n, steps)
    pond.picture.from_numpy(drawn(PICTURE, n))
    height, speed, losses = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32), []
    for _ in range(rounds):
        loss, slope = pond.gradient(height)
        losses.append(loss)
        speed = 0.8 * speed - rate * slope
        height = height + speed
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"misfit {losses[0]:.3g} -> {losses[-1]:.3g}")
