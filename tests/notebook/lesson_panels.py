"""What the panels of the course's pages compute in Chromium, beside formulas in numpy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from notebook.browser import offline
from playwright.sync_api import Browser

Numbers = np.ndarray[Any, Any]
STEP = 1e-30  # of the complex step, whose derivative has no rounding but that of the function
COMPUTED = "[...document.querySelectorAll('.qdl')].every((x) => x.panel?.found)"
READ = """() => [...document.querySelectorAll(".qdl")].map(({ panel: { program, found, starts } }) => ({
  title: program.title, loss: found.loss ?? null,
  given: program.arrays.flatMap((a, n) => a.input ? [[a.name, a.dtype, [...starts[n]]]] : []),
  gradients: Object.entries(found.gradients).map(([n, g]) => [program.arrays[n].name, [...g]]),
  values: Object.entries(found.values).map(([n, v]) => [program.arrays[n].name, [...v]]) }))"""


def repeated(x: Numbers, times: Any, step: Callable[..., Numbers]) -> Numbers:
    """Each element after so many steps, which also get their number."""
    v = x.copy()
    for i, most in enumerate(np.broadcast_to(np.real(np.asarray(times)).astype(int), x.shape)):
        for j in range(most):
            v[i] = step(v[i], j)
    return v


def sines(x: Numbers, n: Any) -> Any:
    return repeated(x, n, lambda v, j: np.sin(v)).sum()


def early(x: Numbers, n: Numbers) -> Any:
    return repeated(x, n, lambda v, j: v if v.real < 0.3 else v * v).sum()


def driven(p: Numbers, z: Numbers, n: Numbers) -> Any:
    return np.sin(repeated(z, n, lambda v, j: v * 0.5 + np.sin(p[0]))).sum()


def interpolated(x: Numbers, table: Numbers) -> Any:
    left = np.floor(64 * x.real).astype(int)
    part = 64 * x - left
    return ((1 - part) * table[left] + part * table[left + 1]).sum()


def summed_up(x: Numbers) -> Any:
    v, loss = x.copy(), 0.0
    for _ in range(3):
        v = np.cumsum(v)
        loss = loss + (v * v).sum()
    return loss


# the title of a panel -> its loss, or the values that it computes, by the names of what it reads
FORMULAS: dict[str, Callable[..., Any]] = {
    "curve": lambda x: 4 * np.sin(x),
    "grow": lambda x, w: repeated(x, 10, lambda v, j: v * 0.9 + np.exp(w[0])),
    "add": lambda x: x.sum(keepdims=True),
    "four_lines": lambda a, b: (np.sin(a * b) + a).sum(),
    "relax": lambda x, n: repeated(x, n, lambda v, j: v * 0.95 + 0.01).sum(),
    "wave": sines,
    "weighted": lambda x, n: repeated(x, n, lambda v, j: v * np.cos(0.1 * j)).sum(),
    "chain": lambda x, n: repeated(x, n, lambda v, j: np.exp(-np.sin(v) ** 2)).sum(),
    "drive": driven,
    "triangle": lambda x, n: sines(x, n * (n - 1) / 2),
    "ragged": lambda x, count: sines(x, count),
    "doubling": lambda x, n: sines(x, 2 ** (n + 1) - n - 2),
    "tent": lambda x, n: repeated(x, n, lambda v, j: v * 0.5 if v.real > 0.5 else v + 0.3).sum(),
    "bent": lambda x, n: repeated(x, n, lambda v, j: v * v if v.real > 0.5 else v + 0.3).sum(),
    "root": lambda x: np.sqrt(x).sum(),
    "early": early,
    "between": interpolated,
    "running_sum, add": summed_up,
    "fading": lambda x: repeated(x, 40, lambda v, j: np.sin(0.3 * v)).sum(),
    "cube": lambda a: (a**3).sum(),
}


def compare(browser: Browser, file: Path) -> tuple[int, int]:
    """Opens the page, offline, and compares each panel that has a formula; the numbers of panels, and of these. Nothing
    may be asked of another host, and no script may fail."""
    page, said = offline(browser)
    page.goto(f"file://{file}")
    page.wait_for_function(COMPUTED)
    panels = page.evaluate(READ)
    page.close()
    assert said == []
    known = [x for x in panels if x["title"] in FORMULAS]
    for x in known:
        formula, rough = FORMULAS[x["title"]], any(dtype == "f32" for _, dtype, _ in x["given"])
        given = {name: np.array(v, complex) for name, _, v in x["given"]}
        right, most = formula(**given), {"rtol": 2e-5 if rough else 1e-8, "atol": 1e-6 if rough else 0.0}
        found = x["values"][0][1] if np.ndim(right) else x["loss"]
        np.testing.assert_allclose(found, np.real(right), err_msg=x["title"], **most)
        for name, gradient in x["gradients"]:
            for k, slope in enumerate(gradient):
                given[name][k] += STEP * 1j
                want = np.imag(formula(**given)) / STEP
                given[name][k] = np.real(given[name][k])
                np.testing.assert_allclose(slope, want, err_msg=f"{x['title']}: {name}.grad[{k}]", **most)
    return len(panels), len(known)
