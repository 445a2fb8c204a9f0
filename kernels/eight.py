"""Three equal stars that follow each other on one curve, found by descending through the simulation.

    p_i'' = sum_{j != i} m_j (p_j - p_i) / |p_j - p_i|**3        (n bodies, in the plane, G = 1)

by the leapfrog: half a kick, a drift, half a kick, each in place and each a launch. After a third of the
period of such an orbit every star stands where its neighbour stood and moves as its neighbour moved, so the
misfit

    L = sum_i |p_i(T) - p_{i+1}(0)|**2 + |v_i(T) - v_{i+1}(0)|**2

is zero. The figure eight (Chenciner and Montgomery, 2000) starts in a line, the middle star with velocity
``w`` and the other two with ``-w / 2``. ``qd.ad.Tape`` goes back through hundreds of launches to ``dL/dw``
and the derivatives by all initial positions, velocities and masses.

Shapes: ``p``, ``v``, ``p0``, ``v0`` (n,) of 2-vectors, ``m`` (n,), ``w`` () of 2-vectors, ``loss`` ();
default_fp.
"""

import numpy as np

import quadrants_lab as qd

START = np.array([[0.97000436, -0.24308753], [0.0, 0.0], [-0.97000436, 0.24308753]])
VELOCITY = np.array([-0.93240737, -0.86473146])
PERIOD = 6.32591398


@qd.kernel
def choose(w: qd.template(), v0: qd.template()):
    """Initial velocities with no momentum: w for the body in the middle, -w / 2 for its neighbours."""
    for i in v0:
        v0[i] = -0.5 * w[None]
        if i == 1:
            v0[i] = w[None]


@qd.kernel
def begin(p0: qd.template(), v0: qd.template(), p: qd.template(), v: qd.template()):
    for i in p:
        p[i] = p0[i]
        v[i] = v0[i]


@qd.func
def pull(d):
    """The attraction by a unit mass that is ``d`` away."""
    return d / d.norm() ** 3


@qd.kernel
def kick(p: qd.template(), v: qd.template(), m: qd.template(), dt: float):
    """v += dt p''."""
    for i in p:
        a = qd.Vector([0.0, 0.0])
        for j in range(p.shape[0]):
            if i != j:
                a += m[j] * pull(p[j] - p[i])
        v[i] += dt * a


@qd.kernel
def drift(p: qd.template(), v: qd.template(), dt: float):
    """p += dt v."""
    for i in p:
        p[i] += dt * v[i]


@qd.kernel
def compare(p: qd.template(), v: qd.template(), p0: qd.template(), v0: qd.template(), loss: qd.template()):
    """loss[None] += L."""
    for i in p:
        k = (i + 1) % p.shape[0]
        loss[None] += (p[i] - p0[k]).norm_sqr() + (v[i] - v0[k]).norm_sqr()


class Stars:
    """``n`` bodies on the device, and the derivatives of what they did."""

    def __init__(self, masses: np.ndarray) -> None:
        n = len(masses)
        self.p0, self.v0, self.p, self.v = (
            qd.Vector.field(2, float, shape=n, needs_grad=True) for _ in range(4)
        )
        self.m = qd.field(float, shape=n, needs_grad=True)
        self.w = qd.Vector.field(2, float, shape=(), needs_grad=True)
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.m.from_numpy(masses)

    def run(self, steps: int, dt: float) -> None:
        begin(self.p0, self.v0, self.p, self.v)
        for _ in range(steps):
            kick(self.p, self.v, self.m, 0.5 * dt)
            drift(self.p, self.v, dt)
            kick(self.p, self.v, self.m, 0.5 * dt)
        compare(self.p, self.v, self.p0, self.v0, self.loss)

    def gradient(
        self, positions: np.ndarray, velocities: np.ndarray, steps: int, dt: float
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """L, and its derivatives by positions (n, 2), velocities (n, 2) and masses (n,)."""
        self.p0.from_numpy(positions)
        self.v0.from_numpy(velocities)
        with qd.ad.Tape(self.loss):
            self.run(steps, dt)
        return float(self.loss[None]), *(x.grad.to_numpy() for x in (self.p0, self.v0, self.m))

    def choreography(self, w: np.ndarray, steps: int, dt: float) -> tuple[float, np.ndarray]:
        """L for bodies that start at START, the middle one with the velocity ``w`` (2,); and dL/dw."""
        self.p0.from_numpy(START)
        self.w[None] = w.tolist()
        with qd.ad.Tape(self.loss):
            choose(self.w, self.v0)
            self.run(steps, dt)
        return float(self.loss[None]), self.w.grad.to_numpy()


def main(steps: int = 60, rounds: int = 30, rate: float = 0.004) -> tuple[list[float], float]:
    """Starts 5 % off; returns the misfit before each round, and the distance of the last w from the known one."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    stars, w, losses = Stars(np.ones(3)), 0.95 * VELOCITY, []
    for _ in range(rounds):
        loss, slope = stars.choreography(w, steps, PERIOD / 3.0 / steps)
        losses.append(loss)
        w = w - rate * slope
    return losses, float(np.abs(w - VELOCITY).max())


if __name__ == "__main__":
    losses, error = main()
    print(f"misfit {losses[0]:.3g} -> {losses[-1]:.3g}, velocity found to {error:.2g}")
