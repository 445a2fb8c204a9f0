"""The history of each kernel: source, times and sizes of each run of its cell, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from quadrants_lab.runtime.check.report import Verdict
from quadrants_lab.widgets.model import CellView, EditView, KernelView

MOST_EDITS = 50  # of a kernel
EDITS: dict[str, list[EditView]] = {}
"""Name of a kernel -> its runs. An edited kernel is a new object in a new cell, only its name stays."""


def remember_edit(view: CellView, verdicts: Sequence[Verdict]) -> None:
    """Adds a row to the history of each kernel of the cell, and puts the history into the view."""
    worst = _worst(verdicts)
    for kernel in view.kernels:
        rows = EDITS.setdefault(kernel.name, [])
        rows.append(_row(kernel, worst))
        del rows[:-MOST_EDITS]
        kernel.edits = list(rows)


def _worst(verdicts: Sequence[Verdict]) -> float | None:
    """The greatest relative error by `--check`, with each input's best step; None if nothing was checked."""
    return max((min(m.apart for m in v.moves) for v in verdicts if v.moves), default=None)


def _row(view: KernelView, worst: float | None) -> EditView:
    text = "\n".join(x.text for x in view.source if not x.text.startswith("%%"))  # without options
    compile_parts = ("front end", "passes and checks", "machine code")
    parts: dict[str, float] = {}
    launches: dict[str, float] = {}
    for launch in view.launches:
        for name, seconds in launch.times:
            if name in compile_parts:
                parts[name] = parts.get(name, 0.0) + seconds
        launches[launch.mode] = next((t for name, t in launch.times if name.startswith("median")), launch.seconds)
    own = {stages[0].backend for stages in view.code.values() if stages}
    made = [s.known for stages in view.code.values() for s in stages if s.backend in own and s.known is not None]
    code = max((n for m in made for name, n in m.measures if name == "bytes of code"), default=0)
    stacks = sum(s.bytes or 0 for s in view.stacks)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return EditView(digest, list(view.source), parts, launches, code, stacks, worst)
