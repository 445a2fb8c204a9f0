"""The notebook extension: `%load_ext quadrants_lab`, the magics, and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.notebook.inspection import Inspection, Shown


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics, their completion, and the short form of diagnostics."""
    from quadrants_lab.notebook.magic import load

    load(shell)


def show(kernel: Any) -> Inspection:
    """The inspector of a kernel's last recorded launches, as an object that displays itself.

    Launches are recorded in `%%qdkernel` cells and within `qd.recording()`. For others the inspector shows code, passes
    and sizes, but no data or times.
    """
    from quadrants_lab.notebook.collect import last_view
    from quadrants_lab.notebook.inspection import Inspection
    from quadrants_lab.widgets.model import CellView

    view = last_view(kernel)
    if view is None:
        from quadrants_lab.errors import QuadrantsRuntimeError

        raise QuadrantsRuntimeError(
            f"kernel {kernel.name} was not launched yet",
            code="QL0700",
            help="what it is compiled to depends on its arguments: call it once",
        )
    return Inspection(CellView(kernel.name, [view]))


def beside(kernel: Any, other: Any) -> Shown:
    """`Kernel.beside`: ``other`` is a kernel, or the name of a backend, of an earlier launch, or "edit"."""
    from quadrants_lab.errors import QuadrantsKeyError
    from quadrants_lab.notebook.inspection import Shown
    from quadrants_lab.widgets.beside import Side, beside, others

    (view,) = show(kernel).view.kernels
    if not isinstance(other, str):
        return Shown(beside(Side(view.name, view), Side(other.name, show(other).view.kernels[0])))
    known = {pair.called: pair for pair in others(view).values() if pair.called}
    if other not in known:
        what = f"nothing beside kernel {view.name} is called {other!r}"
        raise QuadrantsKeyError(f"{what}: there are {', '.join(map(repr, known))}", code="QL0721")
    return Shown(beside(known[other].first, known[other].second))
