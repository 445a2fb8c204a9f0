"""Measures reductions, scans and a tiled matrix product by blocks of threads: their time divided by that of plain
loops, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.relaunch import Limit, fastest

N, BLOCK, SIDE, TILE = 1 << 20, 128, 256, 16
HIGH, DEEP = 4, 8  # tiles of 32 x 32 below each other, and the columns that a block multiplies at a time
NAMES = ("a sum, by halves in a SharedArray", "a sum by block.reduce_all_add", "a scan of each block, by doubling",
         "a scan by block.inclusive_add", "a matrix product, by tiles of 16 x 16")  # fmt: skip
LIMITS = tuple(Limit(f"{name}, over a plain loop", 3.0, "") for name in NAMES)


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the ratio by the name of the row."""
    from benchmarks import engine

    engine.init(cpu_max_num_threads=1)
    (plain, *sums), (serial, *scans), (loop, tiles, _) = kernels(engine.qd)
    found = []
    for base, others in ((plain, sums), (serial, scans), (loop, [tiles])):
        least, *rest = fastest(base, *others, times=10)
        found += [seconds / least for seconds in rest]
    return {limit.name: ratio for limit, ratio in zip(LIMITS, found, strict=True)}


def several_each(qd: Any, n: int) -> Callable[[], None]:
    """A sum as programs for GPUs compute it: each thread adds up some elements, and then the block adds up the sums of
    its threads."""
    x, total, threads = qd.field(qd.f32, n), qd.field(qd.f32, ()), 1 << 18
    x.from_numpy(np.linspace(0.0, 1.0, n, dtype=np.float32))

    @qd.kernel
    def several():
        for i in range(threads):
            own = 0.0
            for k in range(n // threads):
                own += x[k * threads + i]
            of_block = qd.simt.block.reduce_all_add(own, BLOCK, qd.f32)
            if qd.simt.block.thread_idx() == 0:
                total[None] += of_block

    return several


def kernels(qd: Any, n: int = N, side: int = SIDE) -> tuple[tuple[Callable[[], None], ...], ...]:
    """Launches of the same work (over ``n`` elements, or a product of matrices of ``side`` rows) in several ways, the
    plain loop first. The last product keeps its sums in registers of a GPU; only `scripts/gpu_parts.py` measures it."""
    block, tiles = qd.simt.block, side // TILE
    x, y, total = qd.field(qd.f32, n), qd.field(qd.f32, n), qd.field(qd.f32, ())
    a, b, c = (qd.field(qd.f32, (side, side)) for _ in range(3))
    x.from_numpy(np.linspace(0.0, 1.0, n, dtype=np.float32))
    a.fill(0.3)
    b.fill(0.4)

    @qd.kernel
    def add_up():
        for i in x:
            total[None] += x[i]

    @qd.kernel
    def halves():
        for i in x:
            held, t, stride = block.SharedArray(BLOCK, qd.f32), block.thread_idx(), BLOCK // 2
            held[t] = x[i]
            block.sync()
            while stride > 0:
                if t < stride:
                    held[t] += held[t + stride]
                block.sync()
                stride //= 2
            if t == 0:
                total[None] += held[0]

    @qd.kernel
    def reduced():
        for i in x:
            of_block = block.reduce_all_add(x[i], BLOCK, qd.f32)
            if block.thread_idx() == 0:
                total[None] += of_block

    @qd.kernel
    def serially():
        for k in range(n // BLOCK):
            so_far = 0.0
            for t in range(BLOCK):
                so_far += x[k * BLOCK + t]
                y[k * BLOCK + t] = so_far

    @qd.kernel
    def doubling():
        for i in x:
            held, t, now, stride = block.SharedArray((2, BLOCK), qd.f32), block.thread_idx(), 0, 1
            held[0, t] = x[i]
            block.sync()
            while stride < BLOCK:
                if t >= stride:
                    held[1 - now, t] = held[now, t] + held[now, t - stride]
                else:
                    held[1 - now, t] = held[now, t]
                block.sync()
                now = 1 - now
                stride *= 2
            y[i] = held[now, t]

    @qd.kernel
    def scanned():
        for i in x:
            y[i] = block.inclusive_add(x[i], BLOCK, qd.f32)

    @qd.kernel
    def multiply():
        for i, j in c:
            sums = 0.0
            for k in range(side):
                sums += a[i, k] * b[k, j]
            c[i, j] = sums

    @qd.kernel
    def tiled():
        qd.loop_config(block_dim=TILE * TILE)
        for tile, t in qd.ndrange(tiles * tiles, TILE * TILE):
            left, right = block.SharedArray((TILE, TILE), qd.f32), block.SharedArray((TILE, TILE), qd.f32)
            p, q, sums = t // TILE, t % TILE, 0.0
            i, j = tile // tiles * TILE + p, tile % tiles * TILE + q
            for k in range(tiles):
                left[p, q] = a[i, k * TILE + q]
                right[p, q] = b[k * TILE + p, j]
                block.sync()
                for m in qd.static(range(TILE)):
                    sums += left[p, m] * right[m, q]
                block.sync()
            c[i, j] = sums

    tile, width = qd.simt.Tile32x32, qd.simt.Tile32x32.SIZE
    across = side // width

    @qd.kernel
    def by_tiles():
        """A matrix product in which each block, one warp, computes four tiles below each other in registers."""
        qd.loop_config(block_dim=width)
        for place, lane in qd.ndrange(across * across // HIGH, width):
            i, j = place // across * HIGH * width, place % across * width
            left, right = block.SharedArray((DEEP, HIGH * width + 4), qd.f32), block.SharedArray((DEEP, width), qd.f32)
            sums = [tile.zeros(dtype=qd.f32) for _ in range(HIGH)]
            for k in range(side // DEEP):
                for m in qd.static(range(HIGH * DEEP)):  # 4 rows at a time, 32 bytes of each
                    row = m * (width // DEEP) + lane // DEEP
                    left[lane % DEEP, row] = a[i + row, k * DEEP + lane % DEEP]
                for m in qd.static(range(DEEP)):
                    right[m, lane] = b[k * DEEP + m, j + lane]
                block.sync()
                for m in qd.static(range(DEEP)):
                    for r in qd.static(range(HIGH)):
                        sums[r] += qd.outer(left[m, r * width + lane], right[m, 0:width])
                block.sync()
            for r in qd.static(range(HIGH)):
                c[i + r * width : i + r * width + width, j : j + width] = sums[r]

    return (add_up, halves, reduced), (serially, doubling, scanned), (multiply, tiled, by_tiles)
