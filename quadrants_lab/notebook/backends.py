"""Which backends there are, their devices, and whether each can run here."""

from typing import Any

from quadrants_lab.runtime.backend import Available, available, names
from quadrants_lab.widgets.html import esc, table
from quadrants_lab.widgets.static import inlined
from quadrants_lab.widgets.terminal import drawn

SIMULATION = "a simulation runs its kernels here, one thread after the other: its times say nothing of a GPU"


def lines(row: Available) -> list[str]:
    """Text about a backend: a line per device; if it has none, why, and whether a simulation replaces it."""
    if not row.why_not:
        return list(row.devices) or ["usable"]
    return [row.why_not, *([SIMULATION] if row.simulated else [])]


class Backends:
    """The table of backends, as an object that displays itself; the default backend is first."""

    def __init__(self) -> None:
        self.rows = [available(name) for name in names()]

    def __rich__(self) -> Any:
        return drawn(self._repr_html_())

    def __repr__(self) -> str:
        return "\n".join(
            f"{row.name if not n else '':<8} {text}" for row in self.rows for n, text in enumerate(lines(row))
        )

    def _repr_html_(self) -> str:
        rows = [(f"<b>{esc(row.name)}</b>", "<br>".join(map(esc, lines(row)))) for row in self.rows]
        return inlined(table(("backend", "devices"), rows))
