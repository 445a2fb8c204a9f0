"""``python -m benchmarks.cuda [--quick] [--write]``: the benchmarks on an NVIDIA GPU. Prints the tables as Markdown.

First kernels and compilations are also measured on the GPU's Vulkan driver.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import document, race as R

BEGIN, END = "<!-- the race writes from here -->", "<!-- to here -->"
GROUPS = ("start", "cold compile", "compile from disk cache", "launch", "throughput", "reverse")
STACKS = "Adstacks: bytes of device memory, 1M iterations of 256 trips"


def stack_rows(logs: Path) -> list[list[str]]:
    """Rows with the bytes of device memory that the adstacks of each case's gradient take."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for case in R.ask_process(R.OURS, "device-stacks", cache, logs):
            found = []
            for engine in (R.OURS, R.PEER):
                try:
                    answer = R.ask_process(engine, "device-stacks", f"{cache}/{engine.module}", logs, case)
                    found.append(answer["bytes"])
                except R.ProcessFailed:
                    found.append(None)
            ours, peer = found
            ratio = f"{peer / ours:.2f}" if ours and peer else ""
            rows.append([case, *("failed" if b is None else f"{b:,}" for b in found), ratio])
    return rows


def main() -> int:
    args = R.arguments("python -m benchmarks.cuda", __doc__, "docs/gpu.md")
    repeats, seconds, processes = (3, 0.05, 2) if args.quick else (9, 0.2, 5)
    engines = [R.OURS, R.PEER]
    keys = [key for key in R.case_keys("cuda_cases") if R.wanted(args.only, *key.split("/", 1))]
    rows = []
    for arch, suffix in () if args.only else (("cuda", ""), ("vulkan", ", Vulkan")):
        for row in R.race_processes(engines, processes, args.out, arch):
            rows.append(replace(row, name=row.name + suffix))
    rows += R.race_cases(engines, keys, repeats, seconds, args.out)
    tables = document.groups(rows, GROUPS)
    if not args.only:
        tables.append(document.Table(STACKS, document.RACE, stack_rows(args.out)))
    measured = document.text(tables)
    print(measured)
    if args.write:
        document.write(R.ROOT / "docs" / "gpu.md", measured, BEGIN, END)
    return 1 if any(R.OURS.module in r.errors for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
