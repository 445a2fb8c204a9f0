"""The whole programs among the sample kernels: values and gradients against the same mathematics in numpy, in float64,
differentiated by the complex step; and what their `main` promises."""

from __future__ import annotations

import complex_step
import numpy as np
import pytest
from sample_rig import close, everywhere, flat, runtime, split  # noqa: F401  # fixtures

from quadrants_lab.kernels import arm, crawler, diffusivity, eight, lorenz, mpm, raymarch, words

RNG = np.random.default_rng(2026)


# --- heat: a rod of unknown diffusivity


def rod_misfit(k: np.ndarray, measured: np.ndarray) -> complex:
    u, total = measured[0].astype(k.dtype), 0.0
    for row in measured:
        total += ((u - row) ** 2).sum()
        flow = k * np.diff(u)
        u = u + np.append(flow, 0.0) - np.append(0.0, flow)
    return total


def check_diffusivity(way: str, rows: int) -> None:
    measured, k = RNG.normal(size=(rows, 7)), RNG.uniform(0.1, 0.4, 6)
    rod = diffusivity.Rod(measured)
    for _ in range(2):
        loss, slope = getattr(rod, way)(k)
        close(loss, rod_misfit(k, measured))
        close(slope, complex_step.gradient(lambda k: rod_misfit(k, measured), k))


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("way", ["remembered", "in_place"])
def test_diffusivity(way: str) -> None:
    check_diffusivity(way, 15)


def test_diffusivity_is_recovered() -> None:
    losses, error = diffusivity.main()
    assert losses[-1] < 1e-4 * losses[0]
    assert error < 5e-3


# --- n-body


def stars_misfit(z: np.ndarray, n: int, steps: int, dt: float) -> complex:
    p0, v0, m = split(z, (n, 2), (n, 2), (n,))

    def pull(p: np.ndarray) -> np.ndarray:
        d = p[None] - p[:, None]
        r2 = (d * d).sum(-1) + np.eye(n)
        return (m[None, :, None] * d * r2[..., None] ** -1.5).sum(1)

    p, v = p0, v0
    for _ in range(steps):
        v = v + 0.5 * dt * pull(p)
        p = p + dt * v
        v = v + 0.5 * dt * pull(p)
    return ((p - np.roll(p0, -1, 0)) ** 2).sum() + ((v - np.roll(v0, -1, 0)) ** 2).sum()


def check_stars(n: int, steps: int) -> None:
    z = flat(RNG.normal(size=(n, 2)), RNG.normal(size=(n, 2)), RNG.uniform(0.5, 1.0, n))
    p0, v0, m = split(z, (n, 2), (n, 2), (n,))
    loss, *slopes = eight.Stars(m).gradient(p0, v0, steps, 0.02)
    close(loss, stars_misfit(z, n, steps, 0.02))
    close(flat(*slopes), complex_step.gradient(lambda z: stars_misfit(z, n, steps, 0.02), z))


@pytest.mark.usefixtures("everywhere")
def test_stars() -> None:
    check_stars(4, 12)


def test_figure_eight_is_found() -> None:
    losses, error = eight.main()
    assert losses[-1] < 1e-6 * losses[0]
    assert error < 2e-3


# --- a recurrent network


def words_loss(
    z: np.ndarray, shapes: list[tuple[int, ...]], letters: np.ndarray, length: np.ndarray
) -> complex:
    (W, U, b, V, c), total = split(z, *shapes), 0.0
    for row, n in zip(letters, length, strict=True):
        h = np.zeros(words.H)
        for t in range(n):
            h = np.tanh(W @ h + U[row[t]] + b)
            y = V @ h + c
            total += np.log(np.exp(y).sum()) - y[row[t + 1]]
    return total


@pytest.mark.usefixtures("everywhere")
def test_words() -> None:
    speller = words.Speller(["abba", "a", "cab"], seed=3)
    weights = [x.to_numpy() for x in speller.weights]
    shapes = [w.shape for w in weights]
    letters, length = speller.letters.to_numpy(), speller.length.to_numpy()
    z = flat(*weights)
    close(speller.gradient(), words_loss(z, shapes, letters, length))
    right = complex_step.gradient(lambda z: words_loss(z, shapes, letters, length), z)
    close(flat(*(x.grad.to_numpy() for x in speller.weights)), right)


def test_words_are_learned() -> None:
    losses, found = words.main()
    assert losses[-1] < 0.3 * losses[0]
    assert found == ["banana", "cocoa", "noodle", "tomato", "radish"]


# --- Lorenz, by both modes


def midpoint(state: np.ndarray, rates: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One midpoint step, and its Jacobians by the state and by (s, r, b)."""
    s, r, b = rates

    def slope(v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, y, z = v
        return (
            np.array([s * (y - x), x * (r - z) - y, x * y - b * z]),
            np.array([[-s, s, 0.0], [r - z, -1.0, -x], [y, x, -b]]),
            np.diag([y - x, x, -z]),
        )

    f, jf, kf = slope(state)
    g, jg, kg = slope(state + 0.5 * dt * f)
    return state + dt * g, np.eye(3) + dt * jg @ (np.eye(3) + 0.5 * dt * jf), dt * (kg + 0.5 * dt * jg @ kf)


@pytest.mark.parametrize("steps", [0, 1, 100, 1000])
def test_lorenz_by_both_modes_is_the_product_of_jacobians(steps: int) -> None:
    states = np.array([1.0, 1.0, 20.0]) + RNG.normal(size=(4, 3))
    last, by_start, by_rates = lorenz.gradient(states, steps)
    along_start, along_rates = lorenz.tangents(states, steps)
    for i, state in enumerate(states):
        right_start, right_rates = np.eye(3), np.zeros((3, 3))
        for _ in range(steps):
            state, j, k = midpoint(state, np.array(lorenz.RATES), 0.005)
            right_start, right_rates = j @ right_start, j @ right_rates + k
        # Rounding grows with the trajectory's own sensitivity, which `close` measures by the greatest entry.
        tol = max(1e-12, 1e-13 * np.abs(right_start).max(), 1e-13 * np.abs(right_rates).max())
        close(last[i], state[0], tol)
        close(by_start[i], right_start[0], tol)
        close(by_rates[i], right_rates[0], tol)
        close(along_start[i], right_start, tol)
        close(along_rates[i], right_rates, tol)


def test_lorenz_sensitivity_grows() -> None:
    norms = lorenz.main()
    assert norms[0] == 1.0
    assert norms == sorted(norms)
    assert norms[-1] > 1e4


# --- forward kinematics


def arms_loss(joints: np.ndarray, count: np.ndarray, goal: np.ndarray) -> complex:
    """``joints`` (arms, most, 5): axis, length, angle."""
    total = 0.0
    for row, n, to in zip(joints, count, goal, strict=True):
        turned, at = np.eye(3), np.zeros(3)
        for *k, length, angle in row[:n]:
            cross = np.array([[0, -k[2], k[1]], [k[2], 0, -k[0]], [-k[1], k[0], 0]])
            c, s = np.cos(angle), np.sin(angle)
            turned = turned @ (c * np.eye(3) + s * cross + (1 - c) * np.outer(k, k))
            at = at + length * turned[:, 2]
        total += ((at - to) ** 2).sum()
    return total


@pytest.mark.usefixtures("everywhere")
def test_arms() -> None:
    count, goal = np.array([0, 1, 5, 3]), RNG.normal(size=(4, 3))
    axis, length, angle = RNG.normal(size=(4, 5, 3)), RNG.uniform(0.5, 1.0, (4, 5)), RNG.normal(size=(4, 5))
    joints = np.concatenate([axis, length[..., None], angle[..., None]], -1)
    loss, slope = arm.Arms(axis, length, count, goal).gradient(angle)
    close(loss, arms_loss(joints, count, goal))
    right = complex_step.gradient(lambda z: arms_loss(z, count, goal), joints)
    close(slope["axis"], right[..., :3])
    close(slope["length"], right[..., 3])
    close(slope["angle"], right[..., 4])
    for i, n in enumerate(count):
        assert not slope["angle"][i, n:].any()


def test_arms_reach_their_goals() -> None:
    losses = arm.main()
    assert losses[-1] < 1e-2 * losses[0]


# --- a ray-marched scene


def brightness(z: np.ndarray, width: int, height: int) -> np.ndarray:
    """The picture of three balls, pixel by pixel."""
    centers, radii, light = split(z, (3, 3), (3,), (3,))
    melt = raymarch.MELT

    def norm(v: np.ndarray) -> complex:
        return np.sqrt((v * v).sum())

    def distance(p: np.ndarray) -> complex:
        d = p[1]
        for c, r in zip(centers, radii, strict=True):
            b = norm(p - c) - r
            gap = d - b if np.real(d) > np.real(b) else b - d
            h = (melt - gap) / melt if np.real(gap) < melt else 0.0
            d = (d if np.real(d) < np.real(b) else b) - 0.25 * melt * h * h
        return d

    out = np.full((width, height), 0.1, z.dtype)
    for i, j in np.ndindex(width, height):
        way = np.array([(2 * (i + 0.5) - width) / height, (2 * (j + 0.5) - height) / height - 0.3, 2.5])
        way, t, at = way / norm(way), 0.0, np.array([0.0, 1.5, -5.0])
        while np.real(d := distance(at + t * way)) > raymarch.TOLERANCE and np.real(t) < raymarch.FAR:
            t = t + d
        if np.real(t) < raymarch.FAR:
            corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
            n = sum(s * distance(at + t * way + raymarch.SPREAD * s) for s in corners)
            lit = (n / norm(n)) @ (light / norm(light))
            out[i, j] = lit if np.real(lit) > 0 else 0.0
    return out


@pytest.mark.usefixtures("everywhere")
def test_ray_marched_scene() -> None:
    width, height = 6, 5
    z = flat(raymarch.CENTER, raymarch.RADIUS, raymarch.LIGHT).astype(np.float64) + 0.01
    target = RNG.uniform(size=(width, height))
    picture = raymarch.Picture(3, width, height)
    picture.set(*split(z, (3, 3), (3,), (3,)))
    picture.target.from_numpy(target)
    loss, *slopes = picture.gradient()
    close(picture.drawn(), brightness(z, width, height))
    close(loss, ((picture.drawn() - target) ** 2).sum())
    right = complex_step.gradient(lambda z: ((brightness(z, width, height) - target) ** 2).sum(), z)
    close(flat(*slopes), right, 1e-11)
    assert np.abs(right).min() > 1e-5  # every parameter is seen


def test_scene_is_recovered() -> None:
    losses, shown = raymarch.main()
    assert losses[-1] < 0.2 * losses[0]
    assert len(shown.splitlines()) == 18


# --- masses and springs


def crawled(z: np.ndarray, shapes: list[tuple[int, ...]], ends: np.ndarray, steps: int) -> complex:
    (start, rest, sway), c = split(z, *shapes), crawler.Crawler
    x, v, dt = start.copy(), np.zeros_like(start), 0.02
    a, b = ends.T
    for t in range(steps):
        beat = np.array([np.sin(c.pace * t * dt), np.cos(c.pace * t * dt)])
        d = x[b] - x[a]
        length = np.sqrt((d * d).sum(1))
        pull = (c.stiffness * (length / (rest * (1 + sway @ beat)) - 1) / length)[:, None] * d
        f = np.zeros_like(x)
        np.add.at(f, a, pull)
        np.add.at(f, b, -pull)
        depth = np.where(x[:, 1].real < 0, -x[:, 1], 0)
        f[:, 0] -= depth * c.grip * v[:, 0]
        f[:, 1] += depth * c.floor - c.gravity
        v = c.decay * v + dt * f
        x = x + dt * v
    return -x[:, 0].mean()


def check_crawler(cells: int, steps: int) -> None:
    places, springs = crawler.ladder(cells)
    body = crawler.Crawler(places.astype(np.float64), springs)
    sway = 0.1 * RNG.normal(size=(len(springs), 2))
    parameters = [body.start.to_numpy(), body.rest.to_numpy(), sway]
    z, shapes = flat(*parameters), [p.shape for p in parameters]
    loss, by_sway = body.gradient(sway, steps)
    close(loss, crawled(z, shapes, springs, steps))
    right = complex_step.gradient(lambda z: crawled(z, shapes, springs, steps), z)
    close(flat(body.start.grad.to_numpy(), body.rest.grad.to_numpy(), by_sway), right, 1e-11)


@pytest.mark.usefixtures("everywhere")
def test_crawler() -> None:
    check_crawler(2, 60)


def test_crawler_crawls() -> None:
    ways = crawler.main()
    assert ways[-1] > 0.5 > 0.05 > ways[0]


# --- the material point method


def thrown(
    z: np.ndarray, n: int, volume: float, cells: int, dt: float, target: np.ndarray, steps: int
) -> complex:
    (x, throw, (mu, lam)), h, one = split(z, (n, 2), (2,), (2,)), 1.0 / cells, np.eye(2)
    v, C, F = np.tile(throw, (n, 1)), np.zeros((n, 2, 2)), np.tile(one, (n, 1, 1))
    rows, columns = np.mgrid[:cells, :cells]
    for _ in range(steps):
        F = (one + dt * C) @ F
        base = np.floor(x.real / h - 0.5).astype(int)
        at = x / h - base
        w = [0.5 * (1.5 - at) ** 2, 0.75 - (at - 1) ** 2, 0.5 * (at - 0.5) ** 2]
        J = F[:, 0, 0] * F[:, 1, 1] - F[:, 0, 1] * F[:, 1, 0]
        stress = mu * (F @ F.transpose(0, 2, 1) - one) + lam * np.log(J)[:, None, None] * one
        A = volume * C - 4 * dt * volume / h**2 * stress
        momentum, mass = np.zeros((cells, cells, 2), z.dtype), np.zeros((cells, cells), z.dtype)
        nodes = [
            (w[i][:, 0] * w[j][:, 1], (i, j) - at, tuple((base + (i, j)).T))
            for i in range(3)
            for j in range(3)
        ]
        for weight, off, node in nodes:
            to = volume * v + h * np.einsum("pij,pj->pi", A, off)
            np.add.at(momentum, node, weight[:, None] * to)
            np.add.at(mass, node, weight * volume)
        there = mass.real > 0
        u = (
            momentum / np.where(there, mass, 1)[..., None]
            - dt * np.array([0, mpm.Jelly.gravity]) * there[..., None]
        )
        for axis, k in enumerate((rows, columns)):
            out = (k < mpm.Jelly.wall) & (u[..., axis].real < 0)
            out |= (k > cells - mpm.Jelly.wall) & (u[..., axis].real > 0)
            u[out, axis] = 0
        v = sum(weight[:, None] * u[node] for weight, _, node in nodes)
        C = (
            4
            / h
            * sum(
                weight[:, None, None] * u[node][:, :, None] * off[:, None, :] for weight, off, node in nodes
            )
        )
        x = x + dt * v
    return ((x.mean(0) - target) ** 2).sum()


def check_jelly(steps: int) -> None:
    throw = np.array([-3.0, -4.0])
    places, volume = mpm.block(3, 0.3, 0.5)
    places = places + 0.01 * RNG.normal(size=places.shape)
    jelly = mpm.Jelly(places, volume, 12, 0.004)
    jelly.material[None], jelly.target[None] = [10.0, 20.0], [0.7, 0.4]
    loss, by_throw = jelly.gradient(throw, steps)
    z = flat(places, throw, np.array([10.0, 20.0]))

    def right(z: np.ndarray) -> complex:
        return thrown(z, len(places), volume, 12, 0.004, np.array([0.7, 0.4]), steps)

    close(loss, right(z))
    slope = complex_step.gradient(right, z)
    close(flat(jelly.start.grad.to_numpy(), by_throw, jelly.material.grad.to_numpy()), slope, 1e-11)
    assert steps < 2 or np.abs(slope).min() > 1e-6  # it has met floor and wall, everything matters


@pytest.mark.usefixtures("everywhere")
def test_jelly() -> None:
    check_jelly(40)


def test_jelly_is_thrown_at_its_target() -> None:
    missed = mpm.main()
    assert missed[-1] < 1e-3 < 0.1 < missed[0]


# --- nothing or hardly anything to do


def test_one_row_one_star_and_no_steps() -> None:
    check_diffusivity("remembered", 1)
    check_diffusivity("in_place", 1)
    check_stars(1, 3)
    check_crawler(1, 0)
    check_jelly(0)
    check_jelly(1)
