"""Shows a view where it is asked for: widget and static copy in a notebook, rich text in a terminal."""

from __future__ import annotations

import io
import secrets
from typing import Any

from quadrants_lab.notebook.code_process import process
from quadrants_lab.widgets.model import CellView


class Inspection:
    """A view that displays itself: rich in a terminal, static HTML where only HTML is shown."""

    def __init__(self, view: CellView) -> None:
        self.view = view

    def __rich__(self) -> Any:
        from quadrants_lab.widgets.terminal import cell

        return cell(self.view)

    def text(self, width: int = 110, color: bool = False) -> str:
        """What a terminal shows, as text; with ANSI colours on demand."""
        return as_text(self.__rich__(), width, color)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from quadrants_lab.widgets.static import static_html

        return {"text/plain": self.text(), "text/html": static_html(self.view)}

    def display(self, shell: Any) -> None:
        """In a notebook the live widget and beside it, hidden while it lives, the static copy; in a terminal text."""
        if not in_notebook(shell):
            from rich.console import Console

            Console().print(self.__rich__())
            return
        from IPython.display import HTML, display

        from quadrants_lab.widgets.static import static_html

        uid = secrets.token_hex(4)
        if (widget := live_widget(self.view, uid)) is not None:
            display(widget)
        display(HTML(static_html(self.view, uid)))


def as_text(shown: Any, width: int = 110, color: bool = False) -> str:
    """What a terminal shows of something rich."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color, force_jupyter=False)
    console.print(shown)
    return out.getvalue()


def in_notebook(shell: Any) -> bool:
    """Whether the shell's front end takes rich output: any kernel does, a terminal does not."""
    return hasattr(shell, "kernel")


def live_widget(view: CellView, uid: str) -> Any:
    """The widget, or None without the packages that it needs: the static copy then stands alone."""
    try:
        from quadrants_lab.widgets.inspector import Inspector
    except ImportError:
        return None
    return Inspector(view, uid, process().stop)
