"""Writes the tables of the benchmarks to a terminal and to a page of docs/, so that all numbers on the page come from a
run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table as Shown

from benchmarks.race import Row, cells, machine

PATH = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
WORSE = 0.1
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"
RACE = ("quadrants_lab", "quadrants", "ratio")


@dataclass
class Table:
    """One table. ``heads`` are the heads of all columns except the first, which has the names of the rows."""

    title: str
    heads: tuple[str, ...]
    rows: list[list[str]]

    def shown(self) -> Shown:
        """The table for a terminal; rows in which the peer is faster are yellow."""
        made = Shown("", title=self.title, title_justify="left")
        for head in self.heads:
            made.add_column(head, justify="right")
        for row in self.rows:
            slower = self.heads == RACE and _number(row[-1]) < 1
            made.add_row(*row, style="yellow" if slower else "")
        return made

    def markdown(self) -> list[str]:
        rule = "|".join(["---", *["---:"] * len(self.heads)])
        rows = (f"| {' | '.join(row)} |" for row in (["", *self.heads], *self.rows))
        return [f"### {self.title[0].upper()}{self.title[1:]}", "", next(rows), f"|{rule}|", *rows, ""]


def _number(cell: str) -> float:
    return float(cell) if cell.replace(".", "", 1).isdigit() else float("inf")


def groups(rows: list[Row], names: Iterable[str]) -> list[Table]:
    """One table for each group of cases that was run."""
    made = [Table(name, RACE, [[r.name, *cells(r)] for r in rows if r.group == name]) for name in names]
    return [table for table in made if table.rows]


def first_runs(rows: list[Row]) -> list[Table]:
    """A table of the times of the first run of each sample program."""
    made = [Row(r.group, r.name, {e: [t] for e, t in r.first.items()}, r.values, r.errors) for r in rows]
    return [replace(t, title=f"{t.title}, first run") for t in groups(made, ("samples",))]


def text(tables: list[Table]) -> str:
    """The measured part of a document."""
    lines = [", ".join(f"{k} {v}" for k, v in machine().items()) + ".", ""]
    return "\n".join([*lines, *(line for table in tables for line in table.markdown())])


def recorded(path: Path) -> dict[tuple[str, str], float]:
    """The ratios in the document at ``path``, by (group, row)."""
    found: dict[tuple[str, str], float] = {}
    group, columns = "", 0
    for line in path.read_text().split(BEGIN)[1].split(END)[0].splitlines():
        parts = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            group = line[4:]
        elif line.startswith("|  |"):
            columns = len(parts) if tuple(parts[1:]) == RACE else 0
        elif len(parts) == columns and _number(parts[-1]) < float("inf"):
            found[group, parts[0]] = _number(parts[-1])
    return found


def worse(rows: list[Row], ratios: list[float | None], before: dict[tuple[str, str], float]) -> list[str]:
    """A sentence for each row whose ratio is lower than the recorded one by more than the share `WORSE`."""
    said = []
    for row, now in zip(rows, ratios, strict=True):
        was = before.get((row.group.capitalize(), row.name))
        if was and now is not None and now < (1 - WORSE) * was:
            said.append(f"{row.group}: {row.name}: {now:.2f} times the peer's speed, {was:.2f} is recorded")
    return said


def write(path: Path, measured: str, begin: str = BEGIN, end: str = END) -> None:
    """Replaces the text between the marks ``begin`` and ``end`` of the document."""
    before, rest = path.read_text().split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{measured}\n{end}{after}")
