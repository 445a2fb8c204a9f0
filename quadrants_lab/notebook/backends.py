"""Lists the backends, their devices, and whether each can run here."""

from quadrants_lab.notebook.inspection import Shown
from quadrants_lab.runtime.backend import Available, available, names
from quadrants_lab.widgets.tree import Table, bold, broken

SIMULATION = "a simulation runs its kernels here, one thread after the other: its times say nothing of a GPU"


def lines(row: Available) -> list[str]:
    """The text about a backend: one line for each device; if it has no device, the reason, and whether a simulation
    replaces it."""
    if not row.why_not:
        return list(row.devices) or ["usable"]
    return [row.why_not, *([SIMULATION] if row.simulated else [])]


class Backends(Shown):
    """The table of backends, as an object that displays itself; the default backend is first."""

    def __init__(self) -> None:
        self.rows = [available(name) for name in names()]
        super().__init__(Table(("backend", "devices"), [(bold(x.name), broken(lines(x))) for x in self.rows]))

    def __repr__(self) -> str:
        return "\n".join(
            f"{row.name if not n else '':<8} {text}" for row in self.rows for n, text in enumerate(lines(row))
        )
