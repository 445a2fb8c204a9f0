"""The wave program in JAX, in an environment of its own: `lax.scan` over the steps, value and gradient compiled as one.

The answers are those of `benchmarks.worker`, and so are the sizes (`benchmarks.cases.programs`).
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

SIZE, STEPS = 256, 200


def program(in_place: bool) -> Any:
    """What gives (loss, its gradient by the squared speeds). In place both start fields are at rest but for a point."""
    import jax
    import jax.numpy as jnp

    n = SIZE
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

    run = jax.jit(jax.value_and_grad(loss))
    c = jnp.ones((n, n), jnp.float32)
    return lambda: jax.block_until_ready(run(c))


def main() -> None:
    made: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["case"]
        try:
            if key not in made:
                made = {key: program("in place" in key)}
                made[key]()
            start, times = time.perf_counter(), 0
            while times == 0 or time.perf_counter() - start < request["seconds"]:
                value = made[key]()
                times += 1
            took = (time.perf_counter() - start) / times
            answer: dict[str, Any] = {"seconds": took, "value": float(value[1].sum())}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
