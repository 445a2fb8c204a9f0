"""``python -m benchmarks [--quick] [--only PATTERN]``: runs the benchmarks, prints tables and writes out/bench.json."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import (
    arrays,
    blocks,
    checks,
    code,
    document,
    native,
    race as R,
    relaunch,
    sizes,
    stacks,
    stencils,
    tapes,
)
from benchmarks.document import Table

STACKS = "adstack bytes an iteration in flight"
CODE = "code of reverse kernels"
RELAUNCH = "relaunch of a gradient"
CHECKS = "looking for races"
LIMITED = (
    ("relaunch", RELAUNCH, relaunch.LIMITS),
    ("checks", CHECKS, checks.LIMITS),
    ("stencils", "stencil gradient over forward", stencils.LIMITS),
    ("arrays", "array arguments over fields", arrays.LIMITS),
    ("tapes", "under a tape", tapes.LIMITS),
    ("native", "time of ours over C by hand", native.LIMITS),
    ("blocks", "blocks of threads on the CPU", blocks.LIMITS),
    ("wasm", "WebAssembly on one thread", relaunch.WASM_LIMITS),
)
COMPILE = "compile time over size"
STACK_HEADS = ("quadrants_lab", "its report", "quadrants", "ratio")
LIMIT_HEADS = ("quadrants_lab", "at most")
SIZE_HEADS = ("forward", "gradient", "quadrants forward", "quadrants gradient")
MOST_SECONDS = 20  # the most seconds for compiling a program
# the most pushes of a gradient whose code is measured: for more, the peer and Vulkan's compiler take minutes
MOST_PUSHES = 100


def race_stacks(logs: Path) -> list[stacks.StackRow]:
    """Measures the bytes of adstacks of each case, in a process of its own for each engine, because the memory is
    measured as the growth of the process."""
    rows: list[stacks.StackRow] = []
    with tempfile.TemporaryDirectory() as cache:
        for case in R.ask_process(R.OURS, "stacks", cache, logs) if stacks.STATUS.exists() else ():
            found: dict[str, dict[str, int]] = {}
            why = ""
            for engine in (R.OURS, R.PEER):
                try:
                    found[engine.module] = R.ask_process(engine, "stacks", f"{cache}/{engine.module}", logs, case)
                except R.ProcessFailed:
                    why = "refused"
            ours, peer = found.get(R.OURS.module, {}), found.get(R.PEER.module, {})
            rows.append(stacks.StackRow(case, ours.get("bytes"), ours.get("reported"), peer.get("bytes"), why))
    return rows


def stack_cells(r: stacks.StackRow) -> list[str]:
    """The cells of a row: bytes measured in quadrants_lab, bytes that its launch report says, bytes measured in the
    peer, and how many times less quadrants_lab takes."""
    ratio = f"{r.peer / r.ours:.2f}" if r.ours and r.peer else "no stack" if r.reported == 0 else ""
    return [*(r.why if b is None else f"{b:,}" for b in (r.ours, r.reported, r.peer)), ratio]


def measure_limits(mode: str, limits: Iterable[relaunch.Limit], logs: Path) -> list[list[str]]:
    """Measures quadrants_lab alone, for figures that have a limit. Returns rows (what, measured value, limit)."""
    with tempfile.TemporaryDirectory() as cache:
        found = R.ask_process(R.OURS, mode, cache, logs)
    return [[x.name, f"{found[x.name]:.2f} {x.unit}".strip(), f"{x.most:g} {x.unit}".strip()] for x in limits]


def beside_others(rows: list[R.Row]) -> list[list[str]]:
    """Rows for the programs that other engines ran, too: the time of quadrants_lab divided by the time of each other
    engine."""

    def cell(row: R.Row, engine: R.Engine) -> str:
        if not row.samples.get(engine.module):
            return row.errors.get(engine.module, "")
        r = R.ratio(row, engine)
        return f"{1 / r:.2f}" if r else "values differ"

    raced = [row for row in rows if any(e.module in row.samples | row.errors for e in R.OTHERS)]
    return [[f"{row.group}: {row.name}", *(cell(row, e) for e in R.OTHERS)] for row in raced]


def measure_sizes(logs: Path) -> list[list[str]]:
    """One row for each program and size: how many milliseconds each engine takes to compile the kernel and its
    gradient. If an engine fails or takes too long, larger sizes are not tried with it."""
    rows = []
    over: dict[tuple[str, str], str] = {}  # by (program, engine): why a size could not be measured
    with tempfile.TemporaryDirectory() as cache:
        for what, size in ((what, size) for what, (_, some) in sizes.PROGRAMS.items() for size in some):
            row = [f"{what} {size}"]
            for engine in (R.OURS, R.PEER):
                place = f"{cache}/{what}-{size}-{engine.module}"
                try:
                    if (what, engine.module) not in over:
                        found = R.ask_process(engine, "sizes", place, logs, row[0], seconds=MOST_SECONDS)
                        row += [f"{1e3 * found[mode]:.0f} ms" for mode in ("forward", "gradient")]
                        continue
                except (R.ProcessFailed, OSError):
                    over[what, engine.module] = "fails"
                except subprocess.TimeoutExpired:
                    over[what, engine.module] = f"over {MOST_SECONDS} s"
                row += [over[what, engine.module], ""]
            rows.append(row)
    return rows


def peer_spirv(case: str, logs: Path) -> int:
    """The bytes of the SPIR-V that the peer makes for a gradient: of the files that the gradient adds to the peer's
    cache; 0 if the peer refuses the kernel."""
    with tempfile.TemporaryDirectory() as cache:
        try:
            R.ask_process(R.PEER, "forward-on-vulkan", cache, logs, case)
            before = set(Path(cache).rglob("*"))
            R.ask_process(R.PEER, "gradient-on-vulkan", cache, logs, case)
        except R.ProcessFailed:
            return 0
        new = {p for p in Path(cache).rglob("*") if p.is_file()} - before
        return sum(code.spirv_bytes(p.read_bytes()) for p in new)


def measure_code(logs: Path) -> list[code.CodeRow]:
    """Measures the code of gradients for GPUs: that of the emitters here, and the SPIR-V of the peer, which is found in
    the peer's cache on disk, because the peer has no option that prints it."""
    rows: list[code.CodeRow] = []
    with tempfile.TemporaryDirectory() as cache:
        for case in R.ask_process(R.OURS, "code", cache, logs):
            found = R.ask_process(R.OURS, "code", cache, logs, case)
            peer = peer_spirv(case, logs) if found[0]["pushes"] <= MOST_PUSHES else None
            rows += (code.row(f, peer) for f in found)
    return rows


def main() -> int:
    args = R.arguments("python -m benchmarks", __doc__, "docs/benchmarks.md")
    console, wanted = Console(highlight=False), partial(R.wanted, args.only)
    tables: list[Table] = []

    def show(*made: Table) -> None:
        tables.extend(made)
        for table in made:
            console.print(table.shown())

    with console.status("processes") as status:
        rows = R.race(args, [R.OURS, R.PEER], R.case_keys("all_cases"), R.others, status.update)
    if rows:
        console.print("medians; ratio = quadrants / quadrants_lab, above 1 ours is faster")
        show(*document.groups(rows, R.GROUPS), *document.first_runs(rows))
        for line in document.worse(rows, list(map(R.ratio, rows)), document.recorded(document.PATH)):
            console.print(f"worse by more than 10 %: {line}", soft_wrap=True)
    stack_rows = race_stacks(args.out) if wanted(STACKS) else []
    if stack_rows:
        show(Table(STACKS, STACK_HEADS, [[r.case, *stack_cells(r)] for r in stack_rows]))
    limited: dict[str, list[list[str]]] = {}
    if beside := beside_others(rows):
        show(Table("time of ours over other engines'", tuple(e.module for e in R.OTHERS), beside))
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
        "machine": R.machine(),
        "rows": [{**asdict(r), "ratio": R.ratio(r)} for r in rows],
        "stacks": [asdict(r) for r in stack_rows],
        "code": [asdict(r) for r in code_rows],
        "limits": limited,
        "sizes": size_rows,
    }
    (args.out / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    if args.write:
        document.write(document.PATH, document.text(tables))
    console.print(f"{R.machine()}\nsamples: {args.out / 'bench.json'}", soft_wrap=True)
    return 1 if any(R.OURS.module in r.errors for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
