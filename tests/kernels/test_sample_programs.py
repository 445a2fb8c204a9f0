"""The programs of `kernels/` with many steps: losses and gradients on every backend, and what their `main` promises.

`sample_programs.json` holds the right numbers: the complex step found them, in float64, of the same programs written in
numpy. With --update-golden the CPU writes them anew; differences of the loss judge its gradients in any case.
"""

import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import WAYS
from sessions import NIGHT

import quadrants_lab as qd
from quadrants_lab.kernels import (
    arm,
    billiards,
    crawler,
    diffusivity,
    eight,
    lorenz,
    mpm,
    muscle,
    raymarch,
    ripple,
    robot,
    smoke,
    sticks,
    words,
)  # fmt: skip

GOLDEN = Path(__file__).with_name("sample_programs.json")
BY_NIGHT = {"cpu-f32", "c-f64"}  # of backends that run these programs in their other dtype by day
SINGLE = 1e-3  # the tolerance where default_fp is f32
Run = Callable[[np.ndarray], tuple[float, np.ndarray]]  # from parameters to the loss and its gradient
RNG = np.random.default_rng(2026)


def flat(*arrays: Any) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in arrays])


def split(z: np.ndarray, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """The arrays of these shapes that are laid out in ``z`` one after another."""
    ends = [0, *np.cumsum([int(np.prod(s)) for s in shapes])]
    assert ends[-1] == z.size
    return [z[a:b].reshape(s) for (a, b), s in zip(pairwise(ends), shapes, strict=True)]


def rod(way: str, rows: int) -> tuple[np.ndarray, Run]:
    """A rod of unknown diffusivity."""
    program = diffusivity.Rod(np.random.default_rng(1).normal(size=(rows, 7)))
    return np.random.default_rng(2).uniform(0.1, 0.4, 6), getattr(program, way)


def stars(n: int, steps: int) -> tuple[np.ndarray, Run]:
    rng = np.random.default_rng(3)

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        p, v, m = split(z, (n, 2), (n, 2), (n,))
        loss, *slopes = eight.Stars(m).gradient(p, v, steps, 0.02)
        return loss, flat(*slopes)

    return flat(rng.normal(size=(2, n, 2)), rng.uniform(0.5, 1.0, n)), run


def speller() -> tuple[np.ndarray, Run]:
    """A recurrent network."""
    program = words.Speller(["abba", "a", "cab"], seed=3)
    start = [x.to_numpy() for x in program.weights]

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        for x, part in zip(program.weights, split(z, *(w.shape for w in start)), strict=True):
            x.from_numpy(part)
        return program.gradient(), flat(*(x.grad.to_numpy() for x in program.weights))

    return flat(*(np.round(w, 3) for w in start)), run


COUNT = np.array([0, 1, 5, 3])


def arms() -> tuple[np.ndarray, Run]:
    """Forward kinematics; joints beyond an arm's count do not matter."""
    rng = np.random.default_rng(4)
    goal, shapes = rng.normal(size=(4, 3)), ((4, 5, 3), (4, 5), (4, 5))

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        axis, length, angle = split(z, *shapes)
        loss, slope = arm.Arms(axis, length, COUNT, goal).gradient(angle)
        return loss, flat(slope["axis"], slope["length"], slope["angle"])

    return flat(rng.normal(size=(4, 5, 3)), rng.uniform(0.5, 1.0, (4, 5)), rng.normal(size=(4, 5))), run


def scene() -> tuple[np.ndarray, Run]:
    """Three balls, marched to by rays."""
    picture = raymarch.Picture(3, 6, 5)
    picture.target.from_numpy(np.random.default_rng(5).uniform(size=(6, 5)))

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        picture.set(*split(z, (3, 3), (3,), (3,)))
        loss, *slopes = picture.gradient()
        return loss, flat(*slopes)

    return flat(raymarch.CENTER, raymarch.RADIUS, raymarch.LIGHT).astype(np.float64) + 0.01, run


def crawling(cells: int, steps: int) -> tuple[np.ndarray, Run]:
    """Masses and springs."""
    places, springs = crawler.ladder(cells)
    body = crawler.Crawler(places.astype(np.float64), springs)
    start = [np.round(f.to_numpy().astype(np.float64), 4) for f in (body.start, body.rest)]
    start.append(0.1 * np.random.default_rng(6).normal(size=(len(springs), 2)))

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        at, rest, sway = split(z, *(a.shape for a in start))
        body.start.from_numpy(at)
        body.rest.from_numpy(rest)
        loss, by_sway = body.gradient(sway, steps)
        return loss, flat(body.start.grad.to_numpy(), body.rest.grad.to_numpy(), by_sway)

    return flat(*start), run


def jelly(steps: int) -> tuple[np.ndarray, Run]:
    """The material point method, in place."""
    places, volume = mpm.block(3, 0.3, 0.5)
    places = np.round(places, 4) + 0.01 * np.random.default_rng(7).normal(size=places.shape)
    body = mpm.Jelly(places, volume, 12, 0.004)
    body.target[None] = [0.7, 0.4]

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        at, throw, material = split(z, places.shape, (2,), (2,))
        body.start.from_numpy(at)
        body.material[None] = material.tolist()
        loss, by_throw = body.gradient(throw, steps)
        return loss, flat(body.start.grad.to_numpy(), by_throw, body.material.grad.to_numpy())

    return flat(places, [-3.0, -4.0], [10.0, 20.0]), run


def pond() -> tuple[np.ndarray, Run]:
    """Waves that are to meet in a picture."""
    height, picture = np.random.default_rng(8).normal(size=(2, 7, 7))
    program = ripple.Pond(7, 20)
    program.picture.from_numpy(picture)
    return height, program.gradient


def table() -> tuple[np.ndarray, Run]:
    """Billiards."""

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        places, shot = split(z, (4, 2), (2,))
        program = billiards.Table(places, 60, 2)
        program.goal[None] = [0.3, 0.2]
        loss, slope = program.gradient(shot)
        return loss, flat(program.places.grad.to_numpy(), slope)

    return np.array([0.0, 0.0, 0.15, 0.01, 0.26, 0.05, 0.3, -0.1, 1.0, 0.05]), run


def thrown() -> tuple[np.ndarray, Run]:
    """Sticks that meet the floor."""
    program = sticks.Sticks(3, 120)
    program.goal.from_numpy(np.random.default_rng(9).normal(size=(3, 2)))
    return np.array([[0.8, 0.5, 0.4], [1.0, -0.5, 1.0], [0.5, 0.0, -2.0]]), program.gradient


def walking() -> tuple[np.ndarray, Run]:
    """Masses and springs with a network."""
    places, springs = robot.built("##\n#")
    walker = robot.Robot(places.astype(np.float64) + [0.0, 0.02], springs, 3, 40)
    shapes = [field.to_numpy().shape for field in walker.weights]

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slopes = walker.gradient(split(z, *shapes))
        return loss, flat(*slopes)

    return np.random.default_rng(10).normal(0.0, 0.5, sum(int(np.prod(s)) for s in shapes)), run


def blown() -> tuple[np.ndarray, Run]:
    """Smoke in a wind."""
    q, target = np.random.default_rng(12).normal(size=(2, 6, 6))
    flow, start = smoke.Flow(6, 5, 3), np.zeros((6, 6, 6))
    start[0] = q
    flow.q.from_numpy(start)
    flow.target.from_numpy(target)
    return np.random.default_rng(11).normal(size=(6, 6, 2)), flow.gradient


def muscles() -> tuple[np.ndarray, Run]:
    """The material point method with every step in elements of its own."""
    places, kind, volume = muscle.built("##\n01", 12)
    places, kind = np.round(places[1:], 4), kind[1:]
    rng = np.random.default_rng(13)

    def run(z: np.ndarray) -> tuple[float, np.ndarray]:
        at, W = split(z, places.shape, (2, 4))
        body = muscle.Body(at, kind, volume, 12, 30, 0.005)
        loss, slope = body.gradient(W)
        return loss, flat(body.places.grad.to_numpy(), slope)

    return flat(places + 0.003 * rng.normal(size=places.shape), rng.normal(0.0, 0.3, (2, 4))), run


PROGRAMS: dict[str, Callable[[], tuple[np.ndarray, Run]]] = {
    "rod": partial(rod, "remembered", 15), "rod in place": partial(rod, "in_place", 15), "stars": partial(stars, 4, 12),
    "speller": speller, "arms": arms, "scene": scene, "crawler": partial(crawling, 2, 60), "jelly": partial(jelly, 40),
    "pond": pond, "table": table, "sticks": thrown, "robot": walking, "smoke": blown, "muscles": muscles,
}  # fmt: skip
# with nothing or hardly anything to do
SMALL: dict[str, Callable[[], tuple[np.ndarray, Run]]] = {
    "one row": partial(rod, "remembered", 1), "one row in place": partial(rod, "in_place", 1),
    "one star": partial(stars, 1, 3), "no crawl": partial(crawling, 1, 0), "no throw": partial(jelly, 0),
    "a short throw": partial(jelly, 1),
}  # fmt: skip


def save(right: dict[str, Any]) -> None:
    """Writes a line for each program."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in right.items())
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")


def check(
    name: str, made: Callable[[], tuple[np.ndarray, Run]], tol: float, update: bool = False
) -> tuple[np.ndarray, Run]:
    """The loss and each entry of the gradient are right to ``tol`` of 1 and of the greatest; twice in a row. Returns
    what was ``made``."""
    start, run = made()
    right = json.loads(GOLDEN.read_text())
    if update:
        loss, slope = run(start)
        right[name] = {"loss": float(loss), "gradient": np.ravel(slope).tolist()}
        save(right)
    loss, slope = right[name]["loss"], np.array(right[name]["gradient"])
    for _ in range(2):
        found, ours = run(start)
        assert abs(found - loss) <= tol * max(1.0, abs(loss))
        assert ours.size == slope.size
        assert np.abs(np.ravel(ours) - slope).max() <= tol * max(1.0, np.abs(slope).max())
    return start, run


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "way", [pytest.param(w.values, marks=[*w.marks, *[pytest.mark.slow] * (w.id in BY_NIGHT)], id=w.id) for w in WAYS]
)
def test_losses_and_gradients(name: str, way: Any, pytestconfig: pytest.Config) -> None:
    arch, fp = way
    qd.init(arch=getattr(qd, arch), default_fp=fp, enable_fallback=False, simulate=True)
    update = pytestconfig.getoption("--update-golden") and (arch, fp) == ("cpu", qd.f64)
    made = check(name, PROGRAMS[name], SINGLE if fp is qd.f32 else 1e-11, update)
    if (arch, fp) == ("cpu", qd.f64):
        check_slope(name, *made)


@pytest.mark.parametrize("name", SMALL)
def test_next_to_nothing_to_do(name: str, pytestconfig: pytest.Config) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    check(name, SMALL[name], 1e-11, pytestconfig.getoption("--update-golden"))


def check_slope(name: str, start: np.ndarray, run: Run) -> None:
    """Checks that the gradient is the slope along a direction, and not 0 where a parameter can matter."""
    way = np.random.default_rng(14).uniform(-1, 1, start.shape)
    slope = np.ravel(run(start)[1])
    ends = [run(start + h * way)[0] for h in (1e-6, -1e-6)]
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope @ np.ravel(way), rel=1e-5, abs=1e-7)
    if name == "arms":
        for part, axes in zip(split(slope, (4, 5, 3), (4, 5), (4, 5)), (3, 1, 1), strict=True):
            for row, n in zip(part.reshape(4, 5, axes), COUNT, strict=True):
                assert not row[n:].any()
    elif name not in ("pond", "table"):
        assert np.abs(slope).min() > 1e-6


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
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    states = np.array([1.0, 1.0, 20.0]) + RNG.normal(size=(4, 3))
    last, by_start, by_rates = lorenz.gradient(states, steps)
    along_start, along_rates = lorenz.tangents(states, steps)
    for i, state in enumerate(states):
        right_start, right_rates = np.eye(3), np.zeros((3, 3))
        for _ in range(steps):
            state, j, k = midpoint(state, np.array(lorenz.RATES), 0.005)
            right_start, right_rates = j @ right_start, j @ right_rates + k
        # rounding grows with the trajectory's own sensitivity
        tol = 1e-12 * max(1.0, np.abs(right_start).max(), np.abs(right_rates).max())
        for ours, right in (
            (last[i], state[0]), (by_start[i], right_start[0]), (by_rates[i], right_rates[0]),
            (along_start[i], right_start), (along_rates[i], right_rates),
        ):  # fmt: skip
            np.testing.assert_allclose(ours, right, rtol=0, atol=tol * max(1.0, np.abs(right).max()))


# --- what `main` promises

MAINS: dict[Any, Callable[[Any], bool]] = {
    diffusivity: lambda r: r[0][-1] < 1e-4 * r[0][0] and r[1] < 5e-3,
    eight: lambda r: r[0][-1] < 1e-6 * r[0][0] and r[1] < 2e-3,
    words: lambda r: r[0][-1] < 0.3 * r[0][0] and r[1] == ["banana", "cocoa", "noodle", "tomato", "radish"],
    lorenz: lambda norms: norms[0] == 1.0 and norms == sorted(norms) and norms[-1] > 1e4,
    arm: lambda losses: losses[-1] < 1e-2 * losses[0],
    raymarch: lambda r: r[0][-1] < 0.2 * r[0][0] and len(r[1].splitlines()) == 18,
    crawler: lambda ways: ways[-1] > 0.5 > 0.05 > ways[0],
    mpm: lambda missed: missed[-1] < 1e-3 < 0.1 < missed[0],
    ripple: lambda losses: losses[-1] < 0.05 * losses[0],
    billiards: lambda losses: losses[-1] < 1e-3 * losses[0],
    sticks: lambda losses: losses[-1] < 0.03 < 0.5 < losses[0],
    robot: lambda ways: ways[-1] > 0.2 > 0.02 > ways[0],
    smoke: lambda losses: losses[-1] < 0.2 * losses[0],
    muscle: lambda ways: ways[-1] > 0.08 > 0.02 > ways[0],
}


@pytest.mark.parametrize("module", list(MAINS)[:: 1 if NIGHT else 2], ids=lambda m: m.__name__.rpartition(".")[2])
def test_main_reaches_its_goal(module: Any) -> None:
    found = module.main()
    assert MAINS[module](found), found
