"""``python -m benchmarks [--quick] [--only PATTERN]``: the race, as a table and as out/bench.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import code, document, relaunch, stacks
from benchmarks.race import (
    GROUPS,
    PROCESS_GROUPS,
    ROOT,
    Engine,
    ProcessFailed,
    Row,
    ask_process,
    race_case,
    race_processes,
)

OURS = Engine("quadrants_lab", sys.executable)
PEER = Engine("quadrants", os.environ.get("QL_PEER_PYTHON", str(ROOT / ".venv-peer" / "bin" / "python")))

LOOPS = ("linear", "sin", "8 carried")
COMPILES = tuple(f"{what}, {way}" for what in (*LOOPS, "sample mpm") for way in ("forward", "gradient"))
PROCESS_ROWS = ("import", "init", "first kernel of the process", "import, init and first kernel", *COMPILES)
STACKS = "adstack bytes an iteration in flight"
CODE = "code of reverse kernels"
RELAUNCH = "relaunch of a gradient"


def case_keys() -> list[str]:
    """The keys of the table, asked for in a process: here no engine is to be imported."""
    code = "from benchmarks.cases import all_cases; print(*all_cases(), sep='\\n')"
    done = subprocess.run(
        [OURS.python, "-c", code], cwd=ROOT, env=OURS.environment(""), text=True, check=True, capture_output=True
    )
    return done.stdout.splitlines()


def human(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio(row: Row) -> float | None:
    """How many times faster ours is; None where one engine has no time or the values differ."""
    ours, peer = row.median(OURS.module), row.median(PEER.module)
    return peer / ours if ours and peer and row.agrees() else None


def cells(row: Row) -> list[str]:
    """Ours, the peer's and the ratio as shown."""
    r = ratio(row)
    last = f"{r:.2f}" if r is not None else ("values differ" if not row.agrees() else "")
    return [*(row.errors.get(e.module) or human(row.median(e.module)) for e in (OURS, PEER)), last]


def show(rows: list[Row], console: Console) -> None:
    table = Table(title="medians; ratio = quadrants / quadrants_lab, above 1 ours is faster", title_justify="left")
    table.add_column("case")
    for head in ("quadrants_lab", "quadrants", "ratio"):
        table.add_column(head, justify="right")
    for group in GROUPS:
        members = [r for r in rows if r.group == group]
        for row in members:
            r = ratio(row)
            style = "" if r is None or r >= 1.0 else "yellow"
            table.add_row(f"{group}: {row.name}", *cells(row), style=style, end_section=row is members[-1])
    console.print(table)


def race_stacks(logs: Path, console: Console) -> list[stacks.StackRow]:
    """One process an engine and case: memory is measured by how much the process grows."""
    rows: list[stacks.StackRow] = []
    with tempfile.TemporaryDirectory() as cache:
        for case in ask_process(OURS, "stacks", cache, logs) if stacks.STATUS.exists() else ():
            found: dict[str, dict[str, int]] = {}
            why = ""
            for engine in (OURS, PEER):
                try:
                    found[engine.module] = ask_process(engine, "stacks", f"{cache}/{engine.module}", logs, case)
                except ProcessFailed:
                    why = "refused"
            ours, peer = found.get(OURS.module, {}), found.get(PEER.module, {})
            rows.append(stacks.StackRow(case, ours.get("bytes"), ours.get("reported"), peer.get("bytes"), why))
    table = Table(title=f"{STACKS} ({stacks.TRIPS} trips)", title_justify="left")
    for head in ("gradient", "quadrants_lab", "its report", "quadrants", "ratio"):
        table.add_column(head, justify="left" if head == "gradient" else "right")
    for r in rows:
        table.add_row(r.case, *stack_cells(r))
    console.print(table)
    return rows


def stack_cells(r: stacks.StackRow) -> list[str]:
    """Ours, what we report, the peer's, how many times less ours is."""
    ratio = f"{r.peer / r.ours:.2f}" if r.ours and r.peer else "no stack" if r.reported == 0 else ""
    return [*(r.why if b is None else f"{b:,}" for b in (r.ours, r.reported, r.peer)), ratio]


def measure_relaunch(logs: Path, console: Console) -> list[list[str]]:
    """Ours alone, against the limits that it is held to: (what, measured, at most)."""
    with tempfile.TemporaryDirectory() as cache:
        found = ask_process(OURS, "relaunch", cache, logs)
    rows = [[x.name, f"{found[x.name]:.2f} {x.unit}".strip(), f"{x.most:g} {x.unit}".strip()] for x in relaunch.LIMITS]
    table = Table(title=RELAUNCH, title_justify="left")
    for head in ("", "quadrants_lab", "at most"):
        table.add_column(head, justify="right" if head else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    return rows


def measure_code(logs: Path, console: Console) -> list[code.CodeRow]:
    """Of our emitters alone: the peer has no documented way to hand out its shaders."""
    rows: list[code.CodeRow] = []
    with tempfile.TemporaryDirectory() as cache:
        for case in ask_process(OURS, "code", cache, logs):
            rows += map(code.row, ask_process(OURS, "code", cache, logs, case))
    table = Table(title=f"{CODE}; ratios = branchy / straight", title_justify="left")
    for head in ("gradient", "language", *code.HEADS):
        table.add_column(head, justify="left" if head in ("gradient", "language") else "right")
    for r in rows:
        table.add_row(r.case, r.language, *code.cells(r))
    console.print(table)
    return rows


def machine() -> dict[str, str | int]:
    """What the numbers were measured on."""
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 short repeats in place of 9")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose 'group: name' contains TEXT")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="folder for bench.json and the engines' logs")
    parser.add_argument("--write", action="store_true", help="put the run into docs/benchmarks.md")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    repeats, seconds = (3, 0.02) if args.quick else (9, 0.1)
    console = Console(highlight=False)
    engines = [OURS, PEER]

    def wanted(group: str, name: str) -> bool:
        return args.only.lower() in f"{group}: {name}".lower()

    rows: list[Row] = []
    with console.status("processes") as status:
        keys = [key for key in case_keys() if wanted(*key.split("/", 1))]
        if any(wanted(group, name) for group in PROCESS_GROUPS for name in PROCESS_ROWS):
            rows += [r for r in race_processes(engines, repeats, args.out) if wanted(r.group, r.name)]
        for key in keys:
            status.update(key)
            rows.append(race_case(engines, key, repeats, seconds, args.out))
    if rows:
        show(rows, console)
    stack_rows = race_stacks(args.out, console) if wanted(STACKS, "") else []
    relaunches = measure_relaunch(args.out, console) if wanted(RELAUNCH, "") else []
    code_rows = measure_code(args.out, console) if wanted(CODE, "") else []
    report = {
        "machine": machine(),
        "rows": [{**asdict(r), "ratio": ratio(r)} for r in rows],
        "stacks": [asdict(r) for r in stack_rows],
        "code": [asdict(r) for r in code_rows],
        "relaunch": relaunches,
    }
    (args.out / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    if args.write:
        shown = {n: cells(row) for n, row in enumerate(rows)}
        bytes_ = [[r.case, *stack_cells(r)] for r in stack_rows]
        codes = [[f"{r.case}, {r.language}", *code.cells(r)] for r in code_rows]
        measured = document.text(rows, shown, bytes_, relaunches, codes, machine())
        document.write(ROOT / "docs" / "benchmarks.md", measured)
    console.print(f"{machine()}\nsamples: {args.out / 'bench.json'}", soft_wrap=True)
    return 1 if any(OURS.module in r.errors for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
