"""``python -m benchmarks.against CHECKOUT [--quick] [--only PATTERN]`` compares this checkout of the project with
another one: it runs the rows that both have, in turns. Rows that became slower by 5 % or more are yellow, and the exit
status is then 1."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from benchmarks import race as R

SLOWER = 0.95  # the least ratio (time before) / (time now) of a row that is not slower


def main() -> int:
    args = R.arguments("python -m benchmarks.against", __doc__)
    before = R.Engine("before", sys.executable, root=args.checkout.resolve(), package=R.OURS.module)
    console = Console(highlight=False)
    theirs = set(R.case_keys("all_cases", before))
    rows = R.race(args, [R.OURS, before], [key for key in R.case_keys("all_cases") if key in theirs])
    slower = report(console, rows, before)
    report_path = args.out / "against.json"
    report_path.write_text(json.dumps({"machine": R.machine(), "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
    console.print(f"{slower} of {len(rows)} rows are more than 5 % slower; samples: {report_path}", soft_wrap=True)
    return 1 if slower else 0


def report(console: Console, rows: list[R.Row], before: R.Engine) -> int:
    """Prints the rows and returns how many became slower."""
    table, slower = Table("", "now", "before", "before / now"), 0
    for row in rows:
        r = R.ratio(row, before)
        slower += (yellow := r is not None and r < SLOWER)
        table.add_row(f"{row.group}: {row.name}", *R.cells(row, before), style="yellow" if yellow else "")
    console.print(table)
    return slower


if __name__ == "__main__":
    sys.exit(main())
