"""The notebook: `%load_ext quadrants_lab`, magics, and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.notebook.inspection import Inspection


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics, their completion, and the short form of diagnostics."""
    from quadrants_lab.notebook.magic import load

    load(shell)


def show(kernel: Any) -> Inspection:
    """The inspector of a kernel's last recorded launches, as an object that displays itself.

    Launches are recorded in `%%qdkernel` cells. For other launches it has code, passes and sizes, but no data or times.
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
