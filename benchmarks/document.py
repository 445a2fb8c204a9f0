"""Writes a race into docs/benchmarks.md, so that its numbers are always some run's own."""

from __future__ import annotations

from pathlib import Path

from benchmarks.code import HEADS
from benchmarks.race import GROUPS, Row

SIZE_HEADS = ("forward", "gradient", "quadrants forward", "quadrants gradient")
PATH = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
WORSE = 0.1
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table; the first column left, the others right."""
    rule = "|".join(["---", *["---:"] * (len(heads) - 1)])
    return [f"| {' | '.join(heads)} |", f"|{rule}|", *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def text(
    rows: list[Row],
    cells: dict[int, list[str]],
    stacks: list[list[str]],
    limited: dict[str, list[list[str]]],
    codes: list[list[str]],
    sizes: list[list[str]],
    machine: dict[str, str | int],
) -> str:
    """The measured part; ``cells`` are the shown columns of each row, by its place in ``rows``; ``stacks`` a row a
    gradient: its name, our bytes, our report, the peer's bytes, the ratio; ``codes`` a row a kernel and language;
    ``limited`` tables by their titles: what was measured, its value and its limit; ``sizes`` a row a program and
    size."""
    lines = [", ".join(f"{k} {v}" for k, v in machine.items()) + ".", ""]
    for group in GROUPS:
        members = [[r.name, *cells[n]] for n, r in enumerate(rows) if r.group == group]
        if members:
            lines += [f"### {group.capitalize()}", "", *table(["", "quadrants_lab", "quadrants", "ratio"], members)]
    if stacks:
        heads = ["", "quadrants_lab", "its report", "quadrants", "ratio"]
        lines += ["### Adstack bytes an iteration in flight", "", *table(heads, stacks)]
    for title, measured in limited.items():
        lines += [f"### {title.capitalize()}", "", *table(["", "quadrants_lab", "at most"], measured)]
    if codes:
        lines += ["### Code of reverse kernels", ""]
        lines += table(["", *HEADS], codes)
    if sizes:
        lines += ["### Compile time over size", "", *table(["", *SIZE_HEADS], sizes)]
    return "\n".join(lines)


def recorded(path: Path) -> dict[tuple[str, str], float]:
    """The ratios that the document has, by group and row."""
    found: dict[tuple[str, str], float] = {}
    group, columns = "", 0
    for line in path.read_text().split(BEGIN)[1].split(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            group = line[4:]
        elif line.startswith("|  |"):
            columns = len(cells) if cells[1:] == ["quadrants_lab", "quadrants", "ratio"] else 0
        elif columns and len(cells) == columns and cells[-1].replace(".", "", 1).isdigit():
            found[group, cells[0]] = float(cells[-1])
    return found


def worse(rows: list[Row], ratios: list[float | None], before: dict[tuple[str, str], float]) -> list[str]:
    """A sentence a row whose ratio is more than `WORSE` below the recorded one."""
    said = []
    for row, now in zip(rows, ratios, strict=True):
        was = before.get((row.group.capitalize(), row.name))
        if was and now is not None and now < (1 - WORSE) * was:
            said.append(f"{row.group}: {row.name}: {now:.2f} times the peer's speed, {was:.2f} is recorded")
    return said


def write(path: Path, measured: str, begin: str = BEGIN, end: str = END) -> None:
    """Replaces what stands between the two marks of the document."""
    before, rest = path.read_text().split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{measured}\n{end}{after}")
