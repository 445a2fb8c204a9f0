"""The sample programs that keep every step in elements of their own: values and gradients against the same mathematics
in numpy, in float64, differentiated by the complex step; and what their `main` promises."""

from __future__ import annotations

import complex_step
import numpy as np
import pytest
from sample_rig import close, everywhere, flat, runtime, split  # noqa: F401  # fixtures

from quadrants_lab.kernels import billiards, muscle, ripple, robot, smoke, sticks

RNG = np.random.default_rng(2027)

# --- waves


def rippled(height: np.ndarray, picture: np.ndarray, steps: int) -> complex:
    then = now = np.pad(height[1:-1, 1:-1], 1)
    for _ in range(1, steps):
        u = np.pad(now, 1)
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        new = now + (1 - ripple.Pond.d) * (now - then) + ripple.Pond.r * (around - 4 * now)
        then, now = now, np.pad(new[1:-1, 1:-1], 1)
    return ((now - picture) ** 2).sum()


@pytest.mark.usefixtures("everywhere")
def test_ripple() -> None:
    n, steps = 7, 20
    height, picture = RNG.normal(size=(n, n)), RNG.normal(size=(n, n))
    pond = ripple.Pond(n, steps)
    pond.picture.from_numpy(picture)
    for _ in range(2):
        loss, slope = pond.gradient(height)
        close(loss, rippled(height, picture, steps))
        close(slope, complex_step.gradient(lambda z: rippled(z, picture, steps), height))


def test_ripples_meet_in_the_picture() -> None:
    losses = ripple.main()
    assert losses[-1] < 0.05 * losses[0]


# --- billiards


def rolled(z: np.ndarray, n: int, steps: int, target: int, goal: np.ndarray) -> complex:
    (x, shot), c = split(z, (n, 2), (2,)), billiards.Table
    v = np.zeros_like(x)
    v[0] = shot
    for _ in range(steps):
        d = x[:, None] - x[None]
        distance = np.sqrt((d * d).sum(-1) + np.eye(n))
        near = (distance.real < 2 * c.r) & ~np.eye(n, dtype=bool)
        f = (np.where(near, c.k * (2 * c.r / distance - 1), 0)[..., None] * d).sum(1)
        v = (1 - c.dt * c.drag) * v + c.dt * f
        x = x + c.dt * v
    return ((x[target] - goal) ** 2).sum()


@pytest.mark.usefixtures("everywhere")
def test_billiards() -> None:
    places = np.array([[0.0, 0.0], [0.15, 0.01], [0.26, 0.05], [0.3, -0.1]])
    shot, goal, steps, target = np.array([1.0, 0.05]), np.array([0.3, 0.2]), 60, 2
    table = billiards.Table(places, steps, target)
    table.goal[None] = goal.tolist()
    loss, slope = table.gradient(shot)
    z = flat(places, shot)
    close(loss, rolled(z, len(places), steps, target, goal))
    right = complex_step.gradient(lambda z: rolled(z, len(places), steps, target, goal), z)
    close(flat(table.places.grad.to_numpy(), slope), right, 1e-11)
    assert np.abs(right[-2:]).min() > 1e-3  # the cue ball has moved the target


def test_the_shot_is_found() -> None:
    losses = billiards.main()
    assert losses[-1] < 1e-3 * losses[0]


# --- rigid bodies


def thrown(throw: np.ndarray, goal: np.ndarray, steps: int) -> complex:
    n, c = len(throw), sticks.Sticks
    x, a = np.tile([0.0, 1.0], (n, 1)).astype(throw.dtype), np.zeros(n, throw.dtype)
    v, w = throw[:, :2].copy(), throw[:, 2].copy()
    for _ in range(steps):
        force, torque = np.tile([0.0, -c.gravity], (n, 1)).astype(throw.dtype), np.zeros(n, throw.dtype)
        for sign in (-0.5, 0.5):
            s = sign * np.stack([np.cos(a), np.sin(a)], 1)
            q = v + w[:, None] * np.stack([-s[:, 1], s[:, 0]], 1)
            depth = np.where((x + s)[:, 1].real < 0, -(x + s)[:, 1], 0)
            f = depth[:, None] * np.stack([-c.grip * q[:, 0], c.floor - c.damp * q[:, 1]], 1)
            force += f
            torque += s[:, 0] * f[:, 1] - s[:, 1] * f[:, 0]
        v, w = v + c.dt * force, w + 12 * c.dt * torque
        x, a = x + c.dt * v, a + c.dt * w
    return ((x - goal) ** 2).sum() + (1 - np.sin(a)).sum()


@pytest.mark.usefixtures("everywhere")
def test_sticks() -> None:
    n, steps = 3, 120
    throw, goal = np.array([[0.8, 0.5, 0.4], [1.0, -0.5, 1.0], [0.5, 0.0, -2.0]]), RNG.normal(size=(n, 2))
    some = sticks.Sticks(n, steps)
    some.goal.from_numpy(goal)
    loss, slope = some.gradient(throw)
    close(loss, thrown(throw, goal, steps))
    right = complex_step.gradient(lambda z: thrown(z, goal, steps), throw)
    close(slope, right, 1e-11)
    assert (some.f.to_numpy()[:, :, 1].max(0) > 0).all()  # each has met the floor


def test_sticks_come_down_upright() -> None:
    losses = sticks.main()
    assert losses[-1] < 0.03 < 0.5 < losses[0]


# --- masses and springs with a network


def walked(
    z: np.ndarray, shapes: list[tuple[int, ...]], places: np.ndarray, ends: np.ndarray, steps: int
) -> complex:
    (P, Q, R, b), c = split(z, *shapes), robot.Robot
    x, v = places.astype(z.dtype), np.zeros(places.shape, z.dtype)
    from_, to = ends.T
    rest = np.linalg.norm(places[to] - places[from_], axis=1)
    for t in range(steps):
        waves = np.sin(c.pace * c.dt * t + 0.5 * np.pi * np.arange(4))
        m = c.sway * R @ np.tanh(P @ waves + np.einsum("kic,ic->k", Q, v) + b)
        d = x[to] - x[from_]
        length = np.sqrt((d * d).sum(1))
        pull = (c.stiffness * (length / (rest * (1 + 0.25 * np.tanh(m))) - 1) / length)[:, None] * d
        f = np.zeros_like(x)
        np.add.at(f, from_, pull)
        np.add.at(f, to, -pull)
        f[:, 1] -= c.gravity
        v = c.decay * v + c.dt * f
        v[(x + c.dt * v)[:, 1].real < 0] = 0
        x = x + c.dt * v
    return -(x - places)[:, 0].mean()


@pytest.mark.usefixtures("everywhere")
def test_robot() -> None:
    steps = 40
    places, springs = robot.built("## #".replace(" ", "\n"))
    places = places.astype(np.float64) + [0.0, 0.02]
    walker = robot.Robot(places, springs, 3, steps)
    weights = [RNG.normal(0.0, 0.5, field.to_numpy().shape) for field in walker.weights]
    shapes = [w.shape for w in weights]
    loss, slopes = walker.gradient(weights)
    z = flat(*weights)
    close(loss, walked(z, shapes, places, springs, steps))
    right = complex_step.gradient(lambda z: walked(z, shapes, places, springs, steps), z)
    close(flat(*slopes), right, 1e-11)


def test_robot_walks() -> None:
    ways = robot.main()
    assert ways[-1] > 0.2 > 0.02 > ways[0]


# --- a fluid


def blown(wind: np.ndarray, q: np.ndarray, target: np.ndarray, steps: int, iterations: int) -> complex:
    n, v = len(q), wind
    i, j = np.mgrid[:n, :n]

    def both(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Right, left, up and down of each cell."""
        return np.roll(p, -1, 0), np.roll(p, 1, 0), np.roll(p, -1, 1), np.roll(p, 1, 1)

    for _ in range(steps):
        x, y = i - v[..., 0], j - v[..., 1]
        a, b = np.floor(x.real).astype(int), np.floor(y.real).astype(int)
        fx, fy = x - a, y - b

        def carried(p: np.ndarray) -> np.ndarray:
            weights = [(1 - fx) * (1 - fy), (1 - fx) * fy, fx * (1 - fy), fx * fy]
            corners = [p[(a + k) % n, (b + m) % n] for k in (0, 1) for m in (0, 1)]
            return sum(w * c for w, c in zip(weights, corners, strict=True))

        w, q = np.stack([carried(v[..., 0]), carried(v[..., 1])], -1), carried(q)
        (right, left, *_), (*_, up, down) = both(w[..., 0]), both(w[..., 1])
        source, p = 0.5 * (right - left + up - down), np.zeros((n, n), w.dtype)
        for _ in range(iterations):
            p = 0.25 * (sum(both(p)) - source)
        right, left, up, down = both(p)
        v = w - 0.5 * np.stack([right - left, up - down], -1)
    return ((q - target) ** 2).sum()


@pytest.mark.usefixtures("everywhere")
def test_smoke() -> None:
    n, steps, iterations = 6, 5, 3
    wind, q, target = RNG.normal(size=(n, n, 2)), RNG.normal(size=(n, n)), RNG.normal(size=(n, n))
    flow = smoke.Flow(n, steps, iterations)
    start = np.zeros((steps + 1, n, n))
    start[0] = q
    flow.q.from_numpy(start)
    flow.target.from_numpy(target)
    loss, slope = flow.gradient(wind)
    close(loss, blown(wind, q, target, steps, iterations))
    right = complex_step.gradient(lambda z: blown(z, q, target, steps, iterations), wind)
    close(slope, right, 1e-11)


def test_smoke_is_blown_into_a_ring() -> None:
    losses = smoke.main()
    assert losses[-1] < 0.2 * losses[0]


# --- the material point method


def moved(
    z: np.ndarray, n: int, kind: np.ndarray, volume: float, cells: int, steps: int, dt: float
) -> complex:
    muscles, c, h, one = kind.max() + 1, muscle.Body, 1.0 / cells, np.eye(2)
    places, W = split(z, (n, 2), (muscles, 4))
    x, v, C, F = places, np.zeros((n, 2)), np.zeros((n, 2, 2)), np.tile(one, (n, 1, 1))
    rows, columns = np.mgrid[:cells, :cells]
    for t in range(steps):
        waves = np.sin(c.pace * dt * t + 0.5 * np.pi * np.arange(4))
        a = np.append(c.strength * np.tanh(W @ waves), 0.0)[kind]
        F = (one + dt * C) @ F
        base = np.floor(x.real / h - 0.5).astype(int)
        at = x / h - base
        w = [0.5 * (1.5 - at) ** 2, 0.75 - (at - 1) ** 2, 0.5 * (at - 0.5) ** 2]
        J = F[:, 0, 0] * F[:, 1, 1] - F[:, 0, 1] * F[:, 1, 0]
        stress = c.mu * (F @ F.transpose(0, 2, 1) - one) + c.lam * (J * (J - 1))[:, None, None] * one
        stress = stress + a[:, None, None] * F[:, :, None, 1] * F[:, None, :, 1]
        A = volume * C - 4 * dt * volume / h**2 * stress
        momentum, mass = np.zeros((cells, cells, 2), z.dtype), np.zeros((cells, cells), z.dtype)
        nodes = [
            (w[i][:, 0] * w[j][:, 1], (i, j) - at, tuple((base + (i, j)).T))
            for i in range(3)
            for j in range(3)
        ]
        for weight, off, node in nodes:
            np.add.at(momentum, node, weight[:, None] * (volume * v + h * np.einsum("pij,pj->pi", A, off)))
            np.add.at(mass, node, weight * volume)
        there = mass.real > 0
        u = momentum / np.where(there, mass, 1)[..., None] - dt * np.array([0, c.gravity]) * there[..., None]
        u[(rows < c.wall) & (u[..., 0].real < 0), 0] = 0
        u[(rows > cells - c.wall) & (u[..., 0].real > 0), 0] = 0
        u[(columns > cells - c.wall) & (u[..., 1].real > 0), 1] = 0
        u[(columns < c.wall) & (u[..., 1].real < 0)] = 0
        v = sum(weight[:, None] * u[node] for weight, _, node in nodes)
        outer = (weight[:, None, None] * u[node][:, :, None] * off[:, None, :] for weight, off, node in nodes)
        C = 4 / h * sum(outer)
        x = x + dt * v
    return -(x - places)[:, 0].mean()


@pytest.mark.usefixtures("everywhere")
def test_muscle() -> None:
    cells, steps, dt = 12, 30, 0.005
    places, kind, volume = muscle.built("## 01".replace(" ", "\n"), cells)
    places, kind = places[1:] + 0.003 * RNG.normal(size=places[1:].shape), kind[1:]
    body = muscle.Body(places, kind, volume, cells, steps, dt)
    W = RNG.normal(0.0, 0.3, (2, 4))
    loss, slope = body.gradient(W)
    z = flat(places, W)

    def right(z: np.ndarray) -> complex:
        return moved(z, len(places), kind, volume, cells, steps, dt)

    close(loss, right(z))
    close(flat(body.places.grad.to_numpy(), slope), complex_step.gradient(right, z), 1e-11)


def test_muscles_move_the_body() -> None:
    ways = muscle.main()
    assert ways[-1] > 0.08 > 0.02 > ways[0]
