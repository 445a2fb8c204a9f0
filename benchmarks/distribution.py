"""``python -m benchmarks.distribution [--quick]``: measures the cost of distributing shards with Dask on this machine,
and simulates many workers.

Prints rows (what, figure). Speedups are ratios of runs that take turns. Ratios of wall-clock times need a quiet
machine; ratios of CPU times do not: they divide the CPU time of a single worker by that of the busier one of two
workers. The simulation uses the constants that are measured here.
"""

from __future__ import annotations

import argparse
import heapq
import os
import resource
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

import quadrants_lab as qd
from quadrants_lab.distributed import Gradients, kept, local_client, map_gradients
from quadrants_lab.kernels.mpm import jelly
from quadrants_lab.kernels.rods import misfit

SHARDS = 64
WORKERS = (1, 8, 64, 1000)


def row(what: str, figure: str) -> None:
    print(f"{what:<64} {figure}", flush=True)


# --- programs -----------------------------------------------------------------------------------------------------


def controller(throw: Any, target: Any) -> Any:
    mine = kept(jelly)
    mine.target.from_numpy(target)
    return mine.gradient(throw.to_numpy(), 400)


def nothing(params: Any, shard: Any) -> Any:
    return float(shard), params.grad


def millisecond(params: Any, shard: Any) -> Any:
    end = perf_counter() + 1e-3
    while perf_counter() < end:
        pass
    return float(shard), params.grad


# --- measured -----------------------------------------------------------------------------------------------------


def speedup(name: str, fn: Callable[..., Any], params: Any, shards: list[Any], clients: list[Any], rounds: int) -> None:
    """Prints the speedup of two workers over one, in rounds that take turns, and whether the results equal those of
    this process digit by digit."""
    here = map_gradients(fn, params, shards, client=False, summed=True)
    took: list[list[float]] = [[], []]
    work: list[list[float]] = [[], []]  # CPU seconds of the busiest worker
    for turn in range(rounds + 1):
        for n, client in enumerate(clients):
            before, start = client.run(process_time), perf_counter()
            found = map_gradients(fn, params, shards, client, summed=True)
            if turn:  # the first one compiles
                took[n].append(perf_counter() - start)
                work[n].append(max(now - before[worker] for worker, now in client.run(process_time).items()))
            if not same(here, found):
                row(f"{name}, {n + 1} workers", "OTHER DIGITS than in this process")
    start = perf_counter()
    map_gradients(fn, params, shards, client=False, summed=True)
    alone = perf_counter() - start
    row(f"{name}, {len(shards)} shards: this process, 1 worker, 2 workers",
        f"{alone:.2f} s, {median(took[0]):.2f} s, {median(took[1]):.2f} s")  # fmt: skip
    for by, pair in (("the clock", took), ("CPU time", work)):
        ratios = [one / two for one, two in zip(*pair, strict=True)]
        row(f"{name}: times faster on 2 workers than on 1, by {by}",
            f"{median(ratios):.2f} (of {rounds}: {min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip


def same(left: Gradients, right: Gradients) -> bool:
    return np.array_equal(left.losses, right.losses) and np.array_equal(left.gradients, right.gradients)


def overhead(client: Any, shards: int) -> float:
    """CPU seconds for each task in the process of client and scheduler, measured with shards that do nothing."""
    params = np.zeros(1000, np.float32)
    map_gradients(nothing, params, range(SHARDS), client, summed=True)
    for together in (1, 16):
        start, cpu = perf_counter(), process_time()
        map_gradients(nothing, params, range(shards), client, summed=True, together=together)
        wall, cpu = (perf_counter() - start) / shards, (process_time() - cpu) / shards
        row(f"overhead a shard, {together} to a task: wall, CPU of client and scheduler",
            f"{wall * 1e3:.2f} ms, {cpu * 1e3:.2f} ms")  # fmt: skip
        if together == 1:
            found = cpu
    return found


def many(client: Any, shards: int) -> None:
    """Prints the throughput of many shards, and how much more memory client and scheduler take for four times as many
    shards."""
    params = np.zeros(1000, np.float32)
    held = []
    for n in (shards // 4, shards):
        start = perf_counter()
        map_gradients(millisecond, params, range(n), client, summed=True)
        took = perf_counter() - start
        held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024))
        row(f"{n} shards of 1 ms on 2 workers", f"{n / took:.0f} a second; {held[-1]:.0f} MB most so far")
    start = perf_counter()
    map_gradients(millisecond, params, range(shards), client, summed=True, together=16)
    row("the same, 16 to a task", f"{shards / (perf_counter() - start):.0f} a second")


# --- a model ------------------------------------------------------------------------------------------------------


def simulated(shards: int, workers: int, seconds: float, each: float) -> float:
    """The simulated seconds until all tasks are done. One scheduler takes ``each`` seconds for a task, and a worker
    takes ``seconds``; both do one task at a time.

    A worker that has finished a task waits until the scheduler hands it the next one. The scheduler serves workers in
    the order in which they finish.
    """
    free = [0.0] * min(workers, shards)
    scheduler = 0.0
    for _ in range(shards):
        scheduler = max(scheduler, heapq.heappop(free)) + each
        heapq.heappush(free, scheduler + seconds)
    return max(free)


def model(each: float) -> None:
    row("model: CPU of the scheduler a task, by which workers stop to pay", f"{each * 1e3:.2f} ms")
    for seconds in (0.001, 0.1, 10.0):
        times = [simulated(10_000, workers, seconds, each) for workers in WORKERS]
        row(f"10,000 shards of {seconds:g} s on {', '.join(map(str, WORKERS))} workers: times faster than 1",
            ", ".join(f"{times[0] / t:.0f}" for t in times) + f"; at most {max(1, seconds / each):.0f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer shards and rounds")
    quick = parser.parse_args().quick
    row("load before", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    qd.init(arch=qd.cpu, cpu_max_num_threads=1)
    start = perf_counter()
    clients = [local_client(n, as_default=False) for n in (1, 2)]
    row("clusters of 1 and of 2 workers started in", f"{perf_counter() - start:.1f} s")
    rng = np.random.default_rng(0)
    rods = list(rng.standard_normal((SHARDS, 4001, 50)))
    targets = list(rng.random((SHARDS, 2)).astype(np.float32))
    rounds = 2 if quick else 3
    speedup("diffusivity", misfit, np.full(49, 0.25, np.float32), rods, clients, rounds)
    speedup("controller", controller, np.array([0.5, 0.5], np.float32), targets, clients, rounds)
    each = overhead(clients[1], 256 if quick else 2000)
    many(clients[1], 1000 if quick else 10_000)
    model(each)


if __name__ == "__main__":
    main()
