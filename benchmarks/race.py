"""Measures two engines in turns. Each has a process of its own, repeats of the two alternate, and the process that
waits is stopped."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROCESS_GROUPS = ("start", "cold compile", "compile from disk cache")
GROUPS = (*PROCESS_GROUPS, "launch", "throughput", "draws", "divergent", "reverse", "programs", "samples", "vulkan")
FIRST_KERNEL = "first kernel of the process"
OTHER_FIRSTS = ("rotate", "det")  # kernels of `cases.launch`, each of which is the first one of a process, too
PROCESS_ROWS = (
    "import", "init", FIRST_KERNEL, "import, init and first kernel",
    *(f"{loop}, {way}" for loop in ("linear", "sin", "8 carried", "sample mpm") for way in ("forward", "gradient")),
    *(f"{FIRST_KERNEL}: {name}" for name in OTHER_FIRSTS),
)  # fmt: skip
MOST_SECONDS = 600  # the time limit of an answer; the first answer includes compilation


@dataclass(frozen=True)
class Engine:
    """A package that is measured. ``module``: the module that kernels see as `qd`; ``python``: the interpreter that can
    import it; ``worker``: the module that answers requests. ``root``: the checkout whose worker runs. If two checkouts
    of the same module are compared, the second has a made-up name as its ``module``, and ``package`` is the module to
    import."""

    module: str
    python: str
    worker: str = "benchmarks.worker"
    root: Path = ROOT
    package: str = ""

    def command(self, mode: str) -> list[str]:
        return [self.python, "-m", self.worker, mode]

    def environment(self, cache: str) -> dict[str, str]:
        """The environment variables of the engine's processes. Bytecode is cached, so that a checkout is as fast to
        import as an installed package, which comes with bytecode."""
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        if cache:
            # where NVIDIA's drivers keep machine code
            kept |= dict.fromkeys(("CUDA_CACHE_PATH", "__GL_SHADER_DISK_CACHE_PATH"), f"{cache}/driver")
        paths = os.pathsep.join((str(self.root), *filter(None, [os.environ.get("PYTHONPATH")])))
        named = {"QL_ENGINE": self.package or self.module, "QL_BENCH_CACHE": cache, "PYTHONPATH": paths}
        named["QL_PACKAGES"] = sysconfig.get_path("purelib")  # for torch, which the peer's environment lacks
        return kept | named


@dataclass
class Row:
    """The measurements of one case. ``samples``: seconds of a run, by engine; ``values``: the values that the engines
    computed; ``first``: the time of the first run, which compiles."""

    group: str
    name: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)

    def median(self, engine: str) -> float | None:
        return median(self.samples[engine]) if self.samples.get(engine) else None

    def add(self, engine: str, answer: dict[str, Any]) -> None:
        if "error" in answer:
            self.errors[engine] = answer["error"]
        else:
            self.samples.setdefault(engine, []).append(answer["seconds"])
            self.values[engine] = answer["value"]
            self.first[engine] = answer.get("first", 0.0)

    def agrees(self, *engines: str) -> bool:
        """Whether all engines of this comparison computed the same value, except for the rounding of f32 sums in
        different orders."""
        values = [self.values[engine] for engine in engines if engine in self.values]
        return all(math.isclose(v, values[0], rel_tol=2e-3, abs_tol=1e-6) for v in values)


class Worker:
    """A process of one engine that answers requests. It is stopped (SIGSTOP) except while it answers."""

    def __init__(self, engine: Engine, log: Path, cache: str) -> None:
        self.process = subprocess.Popen(
            engine.command("serve"), cwd=engine.root, env=engine.environment(cache), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"),
        )  # fmt: skip
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, case: str, seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps({"case": case, "seconds": seconds}) + "\n")
            if not select.select([self.process.stdout], [], [], MOST_SECONDS)[0]:
                self.end()
                return {"error": f"over {MOST_SECONDS} s"}
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": f"process ended with {self.process.wait()}"}
        self.process.send_signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def in_turn(engines: list[Engine], repeat: int) -> list[Engine]:
    """The engines in the order for this repeat: the one that goes first changes with every repeat."""
    return engines if repeat % 2 == 0 else engines[::-1]


def race_processes(
    engines: list[Engine], repeats: int, logs: Path, arch: str = "cpu", only: Callable[[str], bool] = lambda row: True
) -> list[Row]:
    """Measures import, init and compilation. Each repeat starts a process with an empty disk cache, and then a process
    that finds the files of the first one. ``only`` selects from `OTHER_FIRSTS` by the names of rows.

    The first processes, which write bytecode and the object file of the CPU runtime, do not count.
    """
    rows: dict[tuple[str, str], Row] = {}
    with tempfile.TemporaryDirectory() as cache:
        for engine in engines:
            _one_process(engine, f"{cache}/{engine.module}", logs, "process", arch)
    firsts = [("first", name) for name in OTHER_FIRSTS if arch == "cpu" and only(f"{FIRST_KERNEL}: {name}")]
    for repeat, asked in product(range(repeats), [("process", arch), *firsts]):
        for engine in in_turn(engines, repeat):
            with tempfile.TemporaryDirectory() as cache:
                for group in PROCESS_GROUPS[1:]:
                    for name, seconds, error in _one_process(engine, cache, logs, *asked):
                        where = "start" if name in ("import", "init") else group
                        row = rows.setdefault((where, name), Row(where, name))
                        if error:
                            row.errors[engine.module] = error
                        else:
                            row.samples.setdefault(engine.module, []).append(seconds)
    return sorted(rows.values(), key=lambda r: GROUPS.index(r.group))


def _one_process(engine: Engine, cache: str, logs: Path, mode: str, case: str) -> list[tuple[str, float, str]]:
    """Starts one new process and returns its measurements as (row, seconds, error)."""
    try:
        return [(name, seconds, "") for name, seconds in ask_process(engine, mode, cache, logs, case).items()]
    except ProcessFailed as error:
        return [(f"{FIRST_KERNEL}: {case}" if mode == "first" else FIRST_KERNEL, 0.0, str(error))]


class ProcessFailed(Exception):
    """A worker process ended without an answer."""


def ask_process(
    engine: Engine, mode: str, cache: str, logs: Path, *arguments: str, seconds: float | None = None
) -> Any:
    """Starts a process for one request and returns its answer. Raises ProcessFailed if the process ends without an
    answer, and TimeoutExpired after ``seconds``."""
    with (logs / f"bench-{engine.module}-{mode}.log").open("w") as log:
        done = subprocess.run(
            [*engine.command(mode), *arguments], cwd=engine.root, env=engine.environment(cache), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, timeout=seconds,
        )  # fmt: skip
    if done.returncode:
        raise ProcessFailed(f"process ended with {done.returncode}, see {log.name}")
    return json.loads(done.stdout)


def race_case(engines: list[Engine], key: str, repeats: int, seconds: float, logs: Path) -> Row:
    """Measures one case ("group/name"). Each engine runs in a new process, which runs no other case."""
    return race_cases(engines, [key], repeats, seconds, logs)[0]


def race_cases(engines: list[Engine], keys: list[str], repeats: int, seconds: float, logs: Path) -> list[Row]:
    """Measures several cases, one after the other, in the same processes."""
    rows = [Row(*key.split("/", 1)) for key in keys]
    with tempfile.TemporaryDirectory() as cache:
        workers = {e.module: Worker(e, logs / f"bench-{e.module}.log", f"{cache}/{e.module}") for e in engines}
        try:
            for key, row in zip(keys, rows, strict=True):
                for repeat in range(repeats):
                    for engine in in_turn(engines, repeat):
                        if engine.module not in row.errors:
                            row.add(engine.module, workers[engine.module].ask(key, seconds))
        finally:
            for worker in workers.values():
                worker.end()
    return rows


OURS = Engine("quadrants_lab", sys.executable)
PEER = Engine("quadrants", os.environ.get("QL_PEER_PYTHON", str(ROOT / ".venv-peer" / "bin" / "python")))

OTHERS = (
    Engine("c", sys.executable, "benchmarks.others.with_c"),
    *(
        Engine(name, str(ROOT / ".venv-others" / "bin" / "python"), f"benchmarks.others.with_{name}")
        for name in ("jax", "drjit", "numba")
    ),
)


def others(key: str) -> list[Engine]:
    """The other engines that have a program for this case and are installed."""
    return [e for e in OTHERS if key in import_module(e.worker).PROGRAMS and Path(e.python).exists()]


def case_keys(of: str, engine: Engine = OURS) -> list[str]:
    """The keys of the table that the function ``of`` of `benchmarks.cases` makes. A process of its own makes it,
    because this process must not import an engine."""
    code = f"from benchmarks.cases import {of}; print(*{of}(), sep='\\n')"
    done = subprocess.run(
        [engine.python, "-c", code], cwd=engine.root, env=engine.environment(""), text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def arguments(program: str, about: str | None, document: str = "") -> argparse.Namespace:
    """The parsed options of a benchmark program, whose figures go to ``document``; without a document another checkout
    is an argument."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--quick", action="store_true", help="3 short repeats in place of 9")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose 'group: name' contains TEXT")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="folder for what is measured, and engines' logs")
    if document:
        parser.add_argument("--write", action="store_true", help=f"put the run into {document}")
    else:
        parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="the folder of the other checkout")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    return args


def wanted(only: str, group: str, name: str = "") -> bool:
    """Whether the pattern ``--only`` selects a row, or, without a name, some row of a group."""
    return only.lower() in f"{group}: {name}".lower()


def race(
    args: argparse.Namespace, engines: list[Engine], keys: Iterable[str],
    beside: Callable[[str], list[Engine]] = lambda key: [], tell: Callable[[str], object] = lambda key: None,
) -> list[Row]:  # fmt: skip
    """Measures the rows that ``args`` select: of processes, and of cases with these ``keys``. ``beside`` returns
    further engines for a case, and ``tell`` is called with the name of each case that begins."""
    repeats, seconds = (3, 0.02) if args.quick else (9, 0.1)
    rows: list[Row] = []
    if any(wanted(args.only, group, name) for group in PROCESS_GROUPS for name in PROCESS_ROWS):
        measured = race_processes(
            engines, repeats, args.out, only=lambda row: any(wanted(args.only, g, row) for g in PROCESS_GROUPS)
        )
        rows += [r for r in measured if wanted(args.only, r.group, r.name)]
    for key in keys:
        if wanted(args.only, *key.split("/", 1)):
            tell(key)
            rows.append(race_case(engines + beside(key), key, repeats, seconds, args.out))
    return rows


def human(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio(row: Row, other: Engine = PEER) -> float | None:
    """How many times faster quadrants_lab is than ``other``; None if an engine has no time or the values differ."""
    ours, peer = row.median(OURS.module), row.median(other.module)
    return peer / ours if ours and peer and row.agrees(OURS.module, other.module) else None


def cells(row: Row, other: Engine = PEER) -> list[str]:
    """The cells of a row: the time of quadrants_lab, that of the other engine, and the ratio."""
    r = ratio(row, other)
    last = f"{r:.2f}" if r is not None else ("values differ" if not row.agrees(OURS.module, other.module) else "")
    return [*(row.errors.get(e.module) or human(row.median(e.module)) for e in (OURS, other)), last]


def machine() -> dict[str, str | int]:
    """A description of the machine on which the numbers were measured."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((s.split(":")[1].strip() for s in info.read_text().splitlines() if "model name" in s), model)
    return {
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": date.today().isoformat(),
    }
