"""The programs for JAX. Each is one `jit`; if trip counts are data, all iterations run as long as the longest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import others
from benchmarks.others import GRID, LARGE, PARTICLES, STEPS, TRIPS, WAVE, Run


def _run(program: Callable[..., Any], value: Callable[[Any], Any], *args: Any) -> Run:
    """Runs the program, compiled, on the arguments."""
    import jax

    compiled, given = jax.jit(program), [jax.device_put(x) for x in args]

    def run() -> Callable[[], float]:
        found = jax.block_until_ready(compiled(*given))
        return lambda: float(value(found))

    return run


def wave(in_place: bool) -> Run:
    """The gradient of the loss with respect to the squared speeds. With ``in_place``, both initial fields are 0 except
    at one point."""
    import jax
    import jax.numpy as jnp

    n = WAVE
    start = jnp.zeros((n, n), jnp.float32).at[n // 2, n // 2].set(1.0)

    def step(c: Any, pair: Any, _: Any) -> Any:
        before, u = pair
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        made = 2.0 * inner - before[1:-1, 1:-1] + 0.1 * c[1:-1, 1:-1] * (around - 4.0 * inner)
        edge = before if in_place else jnp.zeros_like(u)
        return (u, edge.at[1:-1, 1:-1].set(made)), None

    def loss(c: Any) -> Any:
        (_, last), _ = jax.lax.scan(partial(step, c), (start, start), None, length=STEPS)
        return (last**2).sum()

    return _run(jax.value_and_grad(loss), lambda found: found[1].sum(), np.ones((n, n), np.float32))


def sin_exp() -> Run:
    import jax.numpy as jnp

    x = np.linspace(0, 1, LARGE).astype(np.float32)
    return _run(lambda x: jnp.sin(x) * jnp.exp(x), lambda y: y[LARGE // 3], x)


def to_grid() -> Run:
    import jax.numpy as jnp

    def program(px: Any, py: Any) -> Any:
        sx, sy = px * GRID, py * GRID
        bx, by = (sx - 0.5).astype(jnp.int32), (sy - 0.5).astype(jnp.int32)
        fx, fy = sx - bx, sy - by
        wx, wy = ([0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2] for f in (fx, fy))
        mass = jnp.zeros((GRID, GRID), jnp.float32)
        for a in range(3):
            for b in range(3):
                mass = mass.at[bx + a, by + b].add(wx[a] * wy[b])
        return mass

    return _run(program, lambda mass: mass[GRID // 2, GRID // 3], *others.particles())


def hot_cell() -> Run:
    import jax.numpy as jnp

    at, x = np.full(PARTICLES, 517, np.int32), np.full(PARTICLES, 2.0**-10, np.float32)
    return _run(lambda at, x: jnp.zeros(1024, jnp.float32).at[at].add(x), lambda cells: cells[517], at, x)


def _one(v: Any, trips: Any = TRIPS) -> Any:
    import jax
    import jax.numpy as jnp

    def step(v: Any, k: Any) -> Any:
        return jnp.where(k < trips, jnp.sin(v) + 0.1, v), None

    return jax.lax.scan(step, v, jnp.arange(TRIPS))[0].sum()


def _eight(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def step(v: Any, _: Any) -> Any:
        made = list(v)
        for j in range(8):
            made[j] = jnp.sin(made[j]) + 0.1 * made[(j + 1) % 8]
        return tuple(made), None

    start = tuple(x * (1.0 - 0.1 * j) for j in range(8))
    return sum(v.sum() for v in jax.lax.scan(step, start, None, length=TRIPS)[0])


def forward(loop: Callable[..., Any], dtype: str, *more: Any) -> Run:
    _widths(dtype)
    return _run(loop, lambda y: y, others.starts(dtype), *more)


def gradient(loop: Callable[..., Any], dtype: str, *more: Any) -> Run:
    import jax

    _widths(dtype)
    return _run(jax.grad(loop), lambda dx: dx[0], others.starts(dtype), *more)


def _widths(dtype: str) -> None:
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")


PROGRAMS = {
    "programs/wave, 256^2, 200 steps, under a Tape": partial(wave, in_place=False),
    "programs/wave, 256^2, 200 steps in place, under a Tape": partial(wave, in_place=True),
    **others.large(sin_exp, to_grid, hot_cell),
    **others.loops(forward, gradient, _one, _eight),
}

if __name__ == "__main__":
    others.serve(PROGRAMS)
