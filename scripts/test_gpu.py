"""Runs all tests and measurements that need an NVIDIA GPU: `make test-gpu`, or python3 scripts/test_gpu.py.

Needs no network and no installation, only numpy, llvmlite, pytest, hypothesis, a driver and libdevice. If
QL_PEER_PYTHON is an interpreter that can import Quadrants, that is measured, too. Writes to --out FOLDER: gpu_report.md
with a row for each part, and gpu_log.txt with all output. The exit status is 1 if a part failed. The last part is the
whole test suite, which lists the tests that it skips. On 32 cores all parts together take about a quarter of an hour.
--part NAME runs one part alone, and --only suite the test suite.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import gpu_parts  # noqa: E402  # found by the line above
import gpu_rivals  # noqa: E402

PARTS = {**gpu_parts.PARTS, **gpu_rivals.RIVALS}

DTYPES = ["tests/backends/test_dtypes.py", "-k", "cuda or vulkan"]


def pytest_command(*arguments: str, workers: int) -> list[str]:
    spread = ["-n", str(workers), "--dist", "worksteal"] if workers > 1 and _has("xdist") else []
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *spread, *arguments]


def _has(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def own(part: str) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--part", part]


def sanitized(tool: str, part: str) -> list[str]:
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return [found, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20", *own(part)]


def parts(workers: int) -> dict[str, tuple[list[str], int]]:
    """The parts by name: the command, and the seconds that it may take."""
    race = {"race": ([sys.executable, "-m", "benchmarks.cuda", "--quick"], 300)}
    return (race if os.environ.get("QL_PEER_PYTHON") else {}) | {
        "about": (own("about"), 60),
        "speed": (own("speed"), 120),
        "tapes": (own("tapes"), 60),
        "blocks": (own("blocks"), 90),
        "by_hand": (own("by_hand"), 90),
        "jax": (own("jax"), 90),
        "solvers": (own("solvers"), 60),
        "scatter": (own("scatter"), 60),
        "sums": (own("sums"), 60),
        "vulkan": (own("vulkan"), 90),
        "threads": (own("threads"), 420),
        "endurance": (own("endurance"), 60),
        "memory": (own("memory"), 60),
        "differences": (own("differences"), 120),
        "memcheck": (sanitized("memcheck", "small"), 120),
        "racecheck": (sanitized("racecheck", "small"), 120),
        "dtypes": (["env", "QL_NIGHTLY=1", *pytest_command(*DTYPES, workers=workers)], 150),
        "suite": (pytest_command("-rs", "tests", workers=workers), 1200),
    }


# --- all of it ----------------------------------------------------------------------------------------------------


def run_part(command: list[str], limit: int, environment: dict[str, str]) -> tuple[str, str]:
    """Runs the command of a part. Returns how it ended, in words, and its output. After ``limit`` seconds the command
    and its children are killed."""
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, errors="replace", start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as e:
        return f"not run: {e}", ""
    try:
        text, _ = process.communicate(timeout=limit)
        return "passed" if process.returncode == 0 else f"FAILED ({process.returncode})", text
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return f"FAILED (more than {limit} s)", text


def run_all(out: Path, only: list[str], workers: int, minutes: float) -> int:
    out.mkdir(parents=True, exist_ok=True)
    paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": paths, "QL_NO_STAND_IN": "cuda"}
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # otherwise JAX takes memory that other tests need
    rows, texts, failed = [], [], 0
    deadline = perf_counter() + 60 * minutes
    log = (out / "gpu_log.txt").open("w")
    for name, (command, limit) in parts(workers).items():
        if only and name not in only:
            continue
        begin = perf_counter()
        left = int(deadline - begin)
        if left < 5:
            words, text = "not run: no time left", ""
        else:
            words, text = run_part(command, min(limit, left), environment)
        took = perf_counter() - begin
        failed += words.startswith("FAILED")
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        rows.append(f"| {name} | {words} | {took:.0f} s | {last.replace('|', '/')[:160]} |")
        print(rows[-1], flush=True)
        log.write(f"\n===== {name}: {words}, {took:.1f} s\n{text}\n")
        log.flush()
        if name in PARTS or name == "race" or words != "passed":
            plain = name in ("differences", "race") and words == "passed"  # the output is Markdown already
            shown = text if plain else f"```\n{text[-6000:].strip()}\n```"
            texts.append(f"\n## {name}\n\n{shown}\n")
    log.close()
    head = "# Tests on a GPU\n\n| part | result | time | last line |\n| --- | --- | --- | --- |\n"
    report = head + "\n".join(rows) + "\n" + "".join(texts)
    (out / "gpu_report.md").write_text(report)
    print(report[-11_000:])
    return 1 if failed else 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=ROOT / "out", help="folder of the report (default: out)")
    p.add_argument("--part", choices=PARTS, help="runs this part alone, in this process")
    p.add_argument("--only", nargs="*", default=[], help="names of parts")
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4))
    p.add_argument("--minutes", type=float, default=30, help="what has not begun by then is left out")
    args = p.parse_args()
    if args.part:
        PARTS[args.part]()
        return 0
    return run_all(args.out, args.only, args.workers, args.minutes)


if __name__ == "__main__":
    sys.exit(main())
