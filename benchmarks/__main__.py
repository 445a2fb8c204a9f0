"""``python -m benchmarks [--quick] [--only PATTERN]``: the race, as a table and as out/bench.json."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks import checks, code, document, native, relaunch, sizes, stacks, stencils, tapes
from benchmarks.document import Table
from benchmarks.race import (
    GROUPS,
    IN_JAX,
    JAX,
    OURS,
    PEER,
    PROCESS_GROUPS,
    ProcessFailed,
    Row,
    arguments,
    ask_process,
    case_keys,
    machine,
    race_case,
    race_processes,
    ratio,
)

LOOPS = ("linear", "sin", "8 carried")
COMPILES = tuple(f"{what}, {way}" for what in (*LOOPS, "sample mpm") for way in ("forward", "gradient"))
PROCESS_ROWS = ("import", "init", "first kernel of the process", "import, init and first kernel", *COMPILES)
STACKS = "adstack bytes an iteration in flight"
CODE = "code of reverse kernels"
RELAUNCH = "relaunch of a gradient"
CHECKS = "looking for races"
LIMITED = (
    ("relaunch", RELAUNCH, relaunch.LIMITS),
    ("checks", CHECKS, checks.LIMITS),
    ("stencils", "stencil gradient over forward", stencils.LIMITS),
    ("tapes", "under a tape", tapes.LIMITS),
    ("native", "time of ours over C by hand", native.LIMITS),
)
COMPILE = "compile time over size"
STACK_HEADS = ("quadrants_lab", "its report", "quadrants", "ratio")
LIMIT_HEADS = ("quadrants_lab", "at most")
SIZE_HEADS = ("forward", "gradient", "quadrants forward", "quadrants gradient")
MOST_SECONDS = 20  # of compiling a program of some size
MOST_PUSHES = 100  # beyond that it takes the peer and Vulkan's compiler minutes


def race_stacks(logs: Path) -> list[stacks.StackRow]:
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
    return rows


def stack_cells(r: stacks.StackRow) -> list[str]:
    """Ours, what we report, the peer's, how many times less ours is."""
    ratio = f"{r.peer / r.ours:.2f}" if r.ours and r.peer else "no stack" if r.reported == 0 else ""
    return [*(r.why if b is None else f"{b:,}" for b in (r.ours, r.reported, r.peer)), ratio]


def measure_limits(mode: str, limits: Iterable[relaunch.Limit], logs: Path) -> list[list[str]]:
    """Ours alone, against the limits that it is held to: (what, measured, at most)."""
    with tempfile.TemporaryDirectory() as cache:
        found = ask_process(OURS, mode, cache, logs)
    return [[x.name, f"{found[x.name]:.2f} {x.unit}".strip(), f"{x.most:g} {x.unit}".strip()] for x in limits]


def beside_jax(rows: list[Row]) -> list[list[str]]:
    """Of programs that JAX ran too: ours over its time, and what that should be at most."""
    found = [(row.name, ratio(row, JAX)) for row in rows if row.samples.get(JAX.module)]
    return [[name, f"{1 / r:.2f}" if r else "values differ", "1"] for name, r in found]


def measure_sizes(logs: Path) -> list[list[str]]:
    """A row a program and size: milliseconds of the forward kernel and of its gradient, ours and the peer's. Where an
    engine fails, or takes too long, its larger sizes are not tried."""
    rows = []
    over: dict[tuple[str, str], str] = {}  # by program and engine, what became of a size
    with tempfile.TemporaryDirectory() as cache:
        for what, size in ((what, size) for what, some in sizes.SIZES.items() for size in some):
            row = [f"{what} {size}"]
            for engine in (OURS, PEER):
                place = f"{cache}/{what}-{size}-{engine.module}"
                try:
                    if (what, engine.module) not in over:
                        found = ask_process(engine, "sizes", place, logs, row[0], seconds=MOST_SECONDS)
                        row += [f"{1e3 * found[mode]:.0f} ms" for mode in ("forward", "gradient")]
                        continue
                except (ProcessFailed, OSError):
                    over[what, engine.module] = "fails"
                except subprocess.TimeoutExpired:
                    over[what, engine.module] = f"over {MOST_SECONDS} s"
                row += [over[what, engine.module], ""]
            rows.append(row)
    return rows


def peer_spirv(case: str, logs: Path) -> int:
    """Bytes of the peer's SPIR-V of a gradient: what its cache holds after it and not before; 0 where it refuses."""
    with tempfile.TemporaryDirectory() as cache:
        try:
            ask_process(PEER, "forward-on-vulkan", cache, logs, case)
            before = set(Path(cache).rglob("*"))
            ask_process(PEER, "gradient-on-vulkan", cache, logs, case)
        except ProcessFailed:
            return 0
        new = {p for p in Path(cache).rglob("*") if p.is_file()} - before
        return sum(code.spirv_bytes(p.read_bytes()) for p in new)


def measure_code(logs: Path) -> list[code.CodeRow]:
    """Of our emitters, and of the peer's, which has no option that hands out its shaders but keeps them in
    its cache on disk."""
    rows: list[code.CodeRow] = []
    with tempfile.TemporaryDirectory() as cache:
        for case in ask_process(OURS, "code", cache, logs):
            found = ask_process(OURS, "code", cache, logs, case)
            peer = peer_spirv(case, logs) if found[0]["pushes"] <= MOST_PUSHES else None
            rows += (code.row(f, peer) for f in found)
    return rows


def main() -> int:
    args = arguments("python -m benchmarks", __doc__, "docs/benchmarks.md")
    repeats, seconds = (3, 0.02) if args.quick else (9, 0.1)
    console = Console(highlight=False)
    engines, tables = [OURS, PEER], []

    def wanted(group: str, name: str = "") -> bool:
        return args.only.lower() in f"{group}: {name}".lower()

    def show(*made: Table) -> None:
        tables.extend(made)
        for table in made:
            console.print(table.shown())

    rows: list[Row] = []
    with console.status("processes") as status:
        keys = [key for key in case_keys("all_cases") if wanted(*key.split("/", 1))]
        if any(wanted(group, name) for group in PROCESS_GROUPS for name in PROCESS_ROWS):
            rows += [r for r in race_processes(engines, repeats, args.out) if wanted(r.group, r.name)]
        for key in keys:
            status.update(key)
            beside = [JAX] if key in IN_JAX and Path(JAX.python).exists() else []
            rows.append(race_case(engines + beside, key, repeats, seconds, args.out))
    if rows:
        console.print("medians; ratio = quadrants / quadrants_lab, above 1 ours is faster")
        show(*document.groups(rows, GROUPS))
        for line in document.worse(rows, list(map(ratio, rows)), document.recorded(document.PATH)):
            console.print(f"worse by more than 10 %: {line}", soft_wrap=True)
    stack_rows = race_stacks(args.out) if wanted(STACKS) else []
    if stack_rows:
        show(Table(STACKS, STACK_HEADS, [[r.case, *stack_cells(r)] for r in stack_rows]))
    limited: dict[str, list[list[str]]] = {}
    if beside := beside_jax(rows):
        limited["time of ours over jax's"] = beside
        show(Table("time of ours over jax's", LIMIT_HEADS, beside))
    for mode, title, limits in LIMITED:
        if wanted(title):
            limited[title] = measure_limits(mode, limits, args.out)
            show(Table(title, LIMIT_HEADS, limited[title]))
    code_rows = measure_code(args.out) if wanted(CODE) else []
    if code_rows:
        show(Table(CODE, code.HEADS, [[f"{r.case}, {r.language}", *code.cells(r)] for r in code_rows]))
    size_rows = measure_sizes(args.out) if wanted(COMPILE) else []
    if size_rows:
        show(Table(COMPILE, SIZE_HEADS, size_rows))
    report = {
        "machine": machine(),
        "rows": [{**asdict(r), "ratio": ratio(r)} for r in rows],
        "stacks": [asdict(r) for r in stack_rows],
        "code": [asdict(r) for r in code_rows],
        "limits": limited,
        "sizes": size_rows,
    }
    (args.out / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    if args.write:
        document.write(document.PATH, document.text(tables))
    console.print(f"{machine()}\nsamples: {args.out / 'bench.json'}", soft_wrap=True)
    return 1 if any(OURS.module in r.errors for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
