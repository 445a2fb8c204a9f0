"""The part "sparse" of `scripts/test_gpu.py`: what sparse layouts take of a GPU's memory and of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants_lab as qd

SIDE = 16384  # of a field of 1 GiB


def sparse(start: Callable[[], None], clock: Callable[..., float]) -> None:
    start()
    for cell in (8, 16, 64):
        blocks = SIDE // cell
        rng = np.random.default_rng(cell)
        places = np.stack(np.unravel_index(rng.permutation(blocks**2)[: blocks**2 // 100], (blocks, blocks)), 1)
        for again in range(2):  # the memory of the first field may become that of the second one
            _one(cell, np.ascontiguousarray(places, np.int32), bool(again), clock)


def _free() -> int:
    from quadrants_lab.backends.cuda import driver

    qd.sync()
    return int(driver.current().free_bytes())


def _one(cell: int, places: np.ndarray, again: bool, clock: Callable[..., float]) -> None:
    builder, before = qd.FieldsBuilder(), _free()
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    nodes = builder.pointer(qd.ij, SIDE // cell)
    nodes.dense(qd.ij, cell).place(x, y)
    tree = builder.finalize()
    total = qd.field(qd.f64, shape=())
    at = qd.ndarray(qd.i32, places.shape)
    at.from_numpy(places)

    @qd.kernel
    def touch(at: qd.types.ndarray(qd.i32, 2)):  # type: ignore[valid-type]
        for k in range(at.shape[0]):
            for i, j in qd.ndrange(cell, cell):
                x[at[k, 0] * cell + i, at[k, 1] * cell + j] += 1.0

    @qd.kernel
    def sum_up():
        for i, j in x:
            total[None] += x[i, j]

    @qd.kernel
    def stencil():
        for i, j in x:
            if 0 < i < SIDE - 1 and 0 < j < SIDE - 1:
                y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4 * x[i, j]

    touch(at)
    sum_up()
    assert total[None] == len(places) * cell**2, (total[None], len(places) * cell**2)
    dense, takes, gone = 4 * SIDE**2, qd.sparse.nbytes(x), before - _free()
    print(f"cells of {cell}^2, 1 % active anywhere: {takes / dense:.2%} of {dense >> 20} MiB by its count", end=", ")
    print(f"{gone / dense:.2%} of the device's free memory{' (again)' * again}")
    assert takes <= 0.03 * dense
    assert gone <= 0.05 * dense + (64 << 20)  # and what the driver allocates for code and pages
    took: dict[str, Any] = {k.__name__: 1e3 * clock(k, qd.sync) for k in (touch_all(touch, at), sum_up, stencil)}
    print("  ms:", ", ".join(f"{name} {ms:.2f}" for name, ms in took.items()))
    nodes.deactivate_all()
    total[None] = 0
    sum_up()
    assert total[None] == 0
    assert not np.any(x[int(places[0, 0]) * cell, int(places[0, 1]) * cell])
    tree.destroy()


def touch_all(touch: Any, at: Any) -> Callable[[], None]:
    def touch_cells() -> None:
        touch(at)

    return touch_cells
