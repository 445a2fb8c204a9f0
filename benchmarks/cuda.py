"""``python -m benchmarks.cuda [--quick] [--write]``: the race on an NVIDIA GPU, as Markdown on standard output."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from benchmarks import document
from benchmarks.race import (
    OURS,
    PEER,
    ROOT,
    ProcessFailed,
    Row,
    ask_process,
    cells,
    machine,
    race_cases,
    race_processes,
)

BEGIN, END = "<!-- the race writes from here -->", "<!-- to here -->"
GROUPS = ("start", "cold compile", "compile from disk cache", "launch", "throughput", "reverse")
STACKS = "Adstacks: bytes of device memory, 1M iterations of 256 trips"
HEADS = ["", "quadrants_lab", "quadrants", "ratio"]


def case_keys() -> list[str]:
    code = "from benchmarks.cases import cuda_cases; print(*cuda_cases(), sep='\\n')"
    done = subprocess.run(
        [OURS.python, "-c", code], cwd=ROOT, env=OURS.environment(""), text=True, check=True, capture_output=True
    )
    return done.stdout.splitlines()


def stack_rows(logs: Path) -> list[list[str]]:
    """Bytes of device memory that the adstacks of a gradient take."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for case in ask_process(OURS, "device-stacks", cache, logs):
            found = []
            for engine in (OURS, PEER):
                try:
                    answer = ask_process(engine, "device-stacks", f"{cache}/{engine.module}", logs, case)
                    found.append(answer["bytes"])
                except ProcessFailed:
                    found.append(None)
            ours, peer = found
            ratio = f"{peer / ours:.2f}" if ours and peer else ""
            rows.append([case, *("failed" if b is None else f"{b:,}" for b in found), ratio])
    return rows


def text(rows: list[Row], stacks: list[list[str]]) -> str:
    lines = [", ".join(f"{k} {v}" for k, v in machine().items()) + ".", ""]
    for group in GROUPS:
        members = [[r.name, *cells(r)] for r in rows if r.group == group]
        if members:
            lines += [f"### {group.capitalize()}", "", *document.table(HEADS, members)]
    if stacks:
        lines += [f"### {STACKS}", "", *document.table(HEADS, stacks)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 short repeats in place of 9")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose 'group: name' contains TEXT")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="folder for the engines' logs")
    parser.add_argument("--write", action="store_true", help="put the run into docs/gpu.md")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    repeats, seconds, processes = (3, 0.05, 2) if args.quick else (9, 0.2, 5)
    engines = [OURS, PEER]
    keys = [key for key in case_keys() if args.only.lower() in key.replace("/", ": ").lower()]
    rows = [] if args.only else race_processes(engines, processes, args.out, "cuda")
    rows += race_cases(engines, keys, repeats, seconds, args.out)
    measured = text(rows, [] if args.only else stack_rows(args.out))
    print(measured)
    if args.write:
        document.write(ROOT / "docs" / "gpu.md", measured, BEGIN, END)
    return 1 if any(OURS.module in r.errors for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
