"""Many rods of one material, measured one by one: their diffusivity, found by three optimisers from the same program.

The misfit of `diffusivity` is summed over rods, each of which is a shard of `map_gradients`. The program is a function
from the diffusivity (n - 1,) to that sum and its derivative. scipy, torch and optax each take it through a few lines:
scipy wants a function of one vector of f64, torch a parameter whose ``grad`` was set, optax the gradient alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants_lab as qd
from quadrants_lab.distributed import kept, map_gradients
from quadrants_lab.kernels.diffusivity import Rod

Program = Callable[[np.ndarray], tuple[float, np.ndarray]]


def empty(rows: int, n: int) -> Rod:
    return Rod(np.zeros((rows, n)))


def misfit(k, measured):
    """The misfit of one rod with the temperatures ``measured`` (T + 1, n), and its derivative by ``k`` (n - 1,)."""
    rod = kept(empty, *measured.shape)
    rod.measured.from_numpy(measured)
    rod.initial = measured[0]
    return rod.in_place(k.to_numpy())


def program(rods: list[np.ndarray], client: Any = None) -> Program:
    """The mean misfit of the rods and its derivative, on the workers of ``client``."""

    def value_and_gradient(k: np.ndarray) -> tuple[float, np.ndarray]:
        found = map_gradients(misfit, np.asarray(k), rods, client, summed=True)
        return found.losses.mean(), found.gradients / len(rods)

    return value_and_gradient


def by_scipy(value_and_gradient: Program, start: np.ndarray, rounds: int) -> np.ndarray:
    from scipy.optimize import minimize

    found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": rounds})
    return found.x


def by_torch(value_and_gradient: Program, start: np.ndarray, rounds: int, rate: float = 0.01) -> np.ndarray:
    import torch

    x = torch.tensor(start, requires_grad=True)
    adam = torch.optim.Adam([x], lr=rate)
    for _ in range(rounds):
        _, slope = value_and_gradient(x.detach().numpy())
        x.grad = torch.from_numpy(slope)
        adam.step()
    return x.detach().numpy()


def by_optax(value_and_gradient: Program, start: np.ndarray, rounds: int, rate: float = 0.01) -> np.ndarray:
    import optax

    adam = optax.adam(rate)
    x, state = start, adam.init(start)
    for _ in range(rounds):
        _, slope = value_and_gradient(np.asarray(x))
        updates, state = adam.update(slope, state)
        x = optax.apply_updates(x, updates)
    return np.asarray(x)


def measured(count: int = 6, n: int = 10, steps: int = 30) -> tuple[np.ndarray, list[np.ndarray]]:
    """The true diffusivity, and the temperatures of ``count`` rods that begin with different temperatures."""
    x = np.linspace(0.0, 1.0, n)
    truth = 0.25 + 0.15 * np.sin(3.0 * np.pi * x[:-1])
    rods = []
    for start in np.random.default_rng(0).standard_normal((count, n)):
        rod = kept(empty, steps + 1, n)
        rod.initial = start
        rods.append(rod.simulate(truth))
    return truth, rods


def main(rounds: int = 100, client: Any = False) -> dict[str, float]:
    """The last error of the diffusivity for each installed optimiser, after ``rounds`` rounds from an even guess."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, cpu_max_num_threads=1)
    truth, rods = measured()
    errors = {}
    for optimiser in (by_scipy, by_torch, by_optax):
        try:
            found = optimiser(program(rods, client), np.full(truth.shape, 0.25), rounds)
        except ImportError:
            continue
        errors[optimiser.__name__] = float(np.abs(found - truth).max())
    return errors


if __name__ == "__main__":
    for name, error in main(client=None).items():
        print(f"{name}: diffusivity known to {error:.2g}")
