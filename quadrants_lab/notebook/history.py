"""The history of each kernel: source, times and sizes of each run of its cell, in order."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

from quadrants_lab.runtime.check.report import Verdict
from quadrants_lab.widgets.code import bytes_of
from quadrants_lab.widgets.model import CellView, EditView, KernelView

MOST_EDITS = 50  # of a kernel
EDITS: dict[tuple[str, str, int], list[EditView]] = {}
"""(id of a cell, name of a kernel in it, number of the kernel among kernels with that name) -> its runs. An edited
kernel is a new object in a new file; only the front end's id of the cell ("" if there is none) and the name stay the
same."""


def remember_edit(view: CellView, verdicts: Sequence[Verdict], cell: str = "") -> None:
    """Adds a row to the history of each kernel of the cell with the id ``cell``, and puts the history into the view."""
    worst = _worst(verdicts)
    alike: Counter[str] = Counter()
    for kernel in view.kernels:
        alike[kernel.name] += 1
        rows = EDITS.setdefault((cell, kernel.name, alike[kernel.name]), [])
        rows.append(_row(kernel, worst))
        del rows[:-MOST_EDITS]
        kernel.edits = list(rows)


def _worst(verdicts: Sequence[Verdict]) -> float | None:
    """The greatest relative error by `--check`, with each input's best step; NaN if a gradient is not finite, None if
    nothing was checked."""
    if any(v.kind == "nonfinite" for v in verdicts):
        return math.nan
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
    code = sum(bytes_of(view, backend) for backend in own)
    stacks = sum(s.bytes or 0 for s in view.stacks)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return EditView(digest, list(view.source), parts, launches, code, stacks, worst)
