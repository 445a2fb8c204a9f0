"""Tests two GPUs of one host: `make test-gpu2`, or python3 scripts/test_gpu2.py. Prints one line for each figure. The
exit status is 1 if a gradient is wrong.

First come data-parallel steps with one process for each GPU: each process differentiates its half of the shards, and
NCCL (through torch.distributed) sums the gradients on the devices. Then `map_gradients` runs the same shards, with one
worker for each GPU. With a single GPU both processes share it, and gradients are summed on the host (gloo), since NCCL
does not accept the same GPU twice; ``--cpu`` does the same without a GPU. Needs no network, only numpy, llvmlite and a
driver. The steps need torch and the workers need Dask; without it, that part is left out.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

import quadrants_lab as qd  # noqa: E402  # found by the line above
from quadrants_lab.distributed import kept, local_client, map_gradients  # noqa: E402
from quadrants_lab.distributed.cluster import visible_gpus  # noqa: E402
from quadrants_lab.kernels.mpm import jelly  # noqa: E402

SIZE, ROUNDS, TOLERANCE = 1 << 22, 20, 1e-5
SIMULATIONS, STEPS = 32, 400  # shards in a batch, steps of each
LIMIT = 240  # seconds that the two processes may take


@qd.kernel
def misfit(x: qd.Tensor, shard: qd.Tensor, loss: qd.Tensor):
    for i in range(x.shape[0]):
        v = x[i]
        for _ in range(8):
            v = qd.sin(v) + shard[i]
        loss[None] += v * v / x.shape[0]


def shards(count: int, size: int) -> list[np.ndarray]:
    return list(0.1 * np.random.default_rng(0).random((count, size), np.float32))


def number() -> Any:
    return qd.field(qd.f32, shape=(), needs_grad=True)


def data(size: int) -> Any:
    return qd.field(qd.f32, shape=size)


def program(x: Any, shard: Any) -> Any:
    loss, held = kept(number), kept(data, *x.shape)
    held.from_numpy(shard)
    with qd.ad.Tape(loss):
        misfit(x, held, loss)
    return loss


def exact(all_shards: list[np.ndarray], size: int) -> np.ndarray:
    """The gradient at x = 0.5, by the chain rule in f64."""
    slope = np.zeros(size)
    for shard in all_shards:
        v, d = np.full(size, 0.5), np.ones(size)
        for _ in range(8):
            d *= np.cos(v)
            v = np.sin(v) + shard
        slope += 2.0 * v * d / size
    return slope


def wrong(what: str, found: np.ndarray, right: np.ndarray) -> bool:
    """Prints the error of a gradient, and returns whether it is too large."""
    off = float(np.abs(found - right).max() / np.abs(right).max())
    print(f"{what}: off by {off:.1e} of the greatest element{'' if off <= TOLERANCE else ', WRONG'}", flush=True)
    return not off <= TOLERANCE


def rank(number: int, size: int, cpu: bool, way: str) -> int:
    """One of the two processes."""
    import torch
    import torch.distributed as td

    device = "cpu" if cpu else "cuda"
    qd.init(arch=qd.cpu if cpu else qd.cuda, enable_fallback=False, cpu_max_num_threads=1, offline_cache=False)
    td.init_process_group(way, rank=number, world_size=2)
    mine = torch.tensor(shards(2, size)[number], device=device)
    x = torch.full((size,), 0.5, device=device, requires_grad=True)
    loss = torch.zeros((), device=device, requires_grad=True)
    seconds = {"gradient": 0.0, "sum": 0.0}
    for turn in range(ROUNDS + 1):
        x.grad = None
        start = perf_counter()
        with qd.ad.Tape(loss):
            misfit(x, mine, loss)
        qd.sync()
        middle = perf_counter()
        total = x.grad.cpu() if way == "gloo" else x.grad
        td.all_reduce(total)
        if not cpu:
            torch.cuda.synchronize()
        if turn:  # not the first turn, which compiles and connects
            seconds["gradient"] += middle - start
            seconds["sum"] += perf_counter() - middle
    bad = False
    if number == 0:
        for what, took in seconds.items():
            print(f"a step on two processes, {what}: {1e3 * took / ROUNDS:.2f} ms", flush=True)
        print(f"sum of {size * 4 / 1e6:.1f} MB by {way}: {size * 4 * ROUNDS / seconds['sum'] / 1e9:.2f} GB/s")
        bad = wrong("data-parallel gradient", total.cpu().numpy().astype(np.float64), exact(shards(2, size), size))
    td.destroy_process_group()
    return int(bad)


def steps(gpus: list[str], size: int, cpu: bool) -> bool:
    """Runs both processes of the steps. Returns whether a gradient is wrong."""
    if why_not := _without_torch(cpu):
        print(f"data-parallel steps: left out, {why_not}", flush=True)
        return False
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    way = "nccl" if len(gpus) > 1 else "gloo"
    processes = []
    for n in range(2):
        seen = {"CUDA_VISIBLE_DEVICES": gpus[n % len(gpus)]} if gpus else {}
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **seen}
        command = [sys.executable, __file__, "--rank", str(n), "--size", str(size), "--way", way]
        processes.append(subprocess.Popen([*command, *["--cpu"] * cpu], env=env, stdin=subprocess.DEVNULL))
    try:
        return any(p.wait(LIMIT) for p in processes)
    finally:
        for process in processes:
            process.kill()


def _without_torch(cpu: bool) -> str:
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return "" if cpu or torch.cuda.is_available() else "this torch has no CUDA"


def workers(gpus: list[str], size: int, cpu: bool) -> bool:
    """Runs the same shards by `map_gradients`. Returns whether a gradient is wrong."""
    if find_spec("distributed") is None:
        print("map_gradients: left out, Dask is not installed")
        return False
    client = local_client(2, gpus=bool(gpus), as_default=False)
    all_shards, x = shards(16, size // 16), np.full(size // 16, 0.5, np.float32)
    init = {"arch": qd.cpu if cpu else qd.cuda, "enable_fallback": False}
    found = map_gradients(program, x, all_shards, client, summed=True, init=init)
    start = perf_counter()
    found = map_gradients(program, x, all_shards, client, summed=True, init=init)
    print(f"map_gradients, 16 shards on two workers: {perf_counter() - start:.2f} s", flush=True)
    # a lambda, because os.environ.get itself would be pickled with the environment of this process
    seen = client.run(lambda: os.environ.get("CUDA_VISIBLE_DEVICES"))
    print(f"the workers' GPUs: {', '.join(str(name) for name in seen.values())}")
    return wrong("map_gradients", found.gradients.astype(np.float64), exact(all_shards, size // 16))


def simulation(throw: Any, target: Any) -> Any:
    """Throws a jelly of 4,096 particles at a target. Returns how far it misses, and the derivative with respect to the
    throw."""
    mine = kept(jelly, 64, 128, 0.0005)
    mine.target.from_numpy(target)
    return mine.gradient(throw.to_numpy(), STEPS)


def batch(gpus: list[str], size: int, cpu: bool) -> bool:
    """Runs a batch of simulations on one worker and on two. Returns whether a gradient is wrong."""
    if find_spec("distributed") is None:
        return False
    targets = list(np.random.default_rng(0).random((SIMULATIONS, 2)).astype(np.float32))
    init = {"arch": qd.cpu if cpu else qd.cuda, "enable_fallback": False}
    took, found = [], []
    for count in (1, 2):
        client = local_client(count, gpus=bool(gpus), as_default=False)
        for n in (2 * count, SIMULATIONS):  # the first run compiles
            start = perf_counter()
            throw = np.array([0.5, 0.5], np.float32)
            got = map_gradients(simulation, throw, targets[:n], client, summed=True, init=init)
        took.append(perf_counter() - start)
        found.append(got.gradients.astype(np.float64))
        client.close()
        client.cluster.close()
    print(f"{SIMULATIONS} simulations of {STEPS} steps with gradients: {took[0]:.2f} s on one GPU, {took[1]:.2f} s on "
          f"{max(1, min(2, len(gpus)))} by two workers, {took[0] / took[1]:.2f} times as fast", flush=True)  # fmt: skip
    return wrong("gradient on two workers, beside one", found[1], found[0])


def sessions(gpus: list[str], size: int, cpu: bool) -> bool:
    """Uses two sessions of this process, each with a GPU. Returns whether a gradient is wrong."""
    if len(gpus) < 2:
        print("two sessions in a process: left out, there is one GPU", flush=True)
        return False
    options = {"enable_fallback": False, "offline_cache": False}
    both = [qd.another_session(qd.cuda, device=n, **options) for n in range(2)]
    mine, bad = [], False
    for session, shard in zip(both, shards(2, size), strict=True):
        with session:
            x, held, loss = qd.field(qd.f32, size, needs_grad=True), qd.field(qd.f32, size), number()
            x.fill(0.5)
            held.from_numpy(shard)
            mine.append((x, held, loss))
            misfit(*mine[-1])
            session.sync()

    def launched(which: tuple[int, ...]) -> float:
        start = perf_counter()
        for _ in range(ROUNDS):
            for n in which:
                with both[n]:
                    misfit(*mine[n])
        for n in which:
            both[n].sync()
        return perf_counter() - start

    alone, together = min(launched((0,)) for _ in range(3)), min(launched((0, 1)) for _ in range(3))
    print(f"{ROUNDS} launches on one GPU {1e3 * alone:.2f} ms, as many on each of two {1e3 * together:.2f} ms, "
          f"by one process: {2 * alone / together:.2f} times as fast", flush=True)  # fmt: skip
    for n, (session, (x, held, loss)) in enumerate(zip(both, mine, strict=True)):
        with session:
            with qd.ad.Tape(loss):
                misfit(x, held, loss)
            found = x.grad.to_numpy().astype(np.float64)
        bad |= wrong(f"gradient on GPU {n} of one process", found, exact([held.to_numpy()], size))
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="two processes without a GPU")
    parser.add_argument("--size", type=int, default=SIZE, help="elements of the gradient")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--way", default="gloo", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        return rank(given.rank, given.size, given.cpu, given.way)
    gpus = [] if given.cpu else visible_gpus()
    if not gpus and not given.cpu:
        print("no GPU of NVIDIA's here; --cpu runs two processes without one")
        return 1
    print(f"GPUs: {', '.join(gpus) or 'none, on the CPU'}", flush=True)
    bad = [part(gpus, given.size, given.cpu) for part in (steps, workers, batch, sessions)]
    return int(any(bad))


if __name__ == "__main__":
    sys.exit(main())
