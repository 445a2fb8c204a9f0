"""Which backends there are, and whether each can run here."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import quadrants_lab.backends as folder


def names() -> list[str]:
    """The backends' folders, by name; those that begin with an underscore are shared emitters."""
    return sorted(
        m.name for m in pkgutil.iter_modules(folder.__path__) if m.ispkg and not m.name.startswith("_")
    )


def probes() -> list[tuple[str, str]]:
    """(name, "" or the sentence why it cannot run) of each."""
    return [(name, str(_module(name).probe())) for name in names()]


def _module(name: str) -> Any:
    return importlib.import_module(f"quadrants_lab.backends.{name}")


class Backends:
    """The table as an object that displays itself."""

    def __init__(self, rows: list[tuple[str, str]]) -> None:
        self.rows = rows

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table("backend", "here", box=None)
        for name, why in self.rows:
            table.add_row(name, why or "[green]usable[/green]")
        return table

    def __repr__(self) -> str:
        return "\n".join(f"{name:<8} {why or 'usable'}" for name, why in self.rows)

    def _repr_html_(self) -> str:
        from quadrants_lab.widgets.html import esc, table
        from quadrants_lab.widgets.static import inlined

        return inlined(
            table(("backend", "here"), [(f"<b>{esc(n)}</b>", esc(why or "usable")) for n, why in self.rows])
        )
