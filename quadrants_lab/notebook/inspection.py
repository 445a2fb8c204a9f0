"""Displays a view: as a widget and a static copy in a notebook, as rich text in a terminal."""

import io
import secrets
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from quadrants_lab.notebook.code_process import process
from quadrants_lab.widgets.model import CellView
from quadrants_lab.widgets.pack import small_answers
from quadrants_lab.widgets.panes import render, shape
from quadrants_lab.widgets.static import static, static_html
from quadrants_lab.widgets.terminal import cell, drawn
from quadrants_lab.widgets.tree import Tree


class Shown:
    """A tree of `widgets.tree` as an object that displays itself, in a notebook and in a terminal."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __rich__(self) -> Any:
        return drawn(self.tree)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return static(self.tree)


# JupyterLab puts a sentence without elements in the place of a widget whose model is gone: "Error displaying widget:
# model not found". Above a static copy it says nothing.
NO_ERROR = (
    "<style>.jp-OutputArea-child:has(+.jp-OutputArea-child [data-qd-static]) .jupyter-widgets:not(:has(*))"
    "{display:none}</style>"
)


@dataclass(frozen=True)
class StaticCopy:
    """HTML that displays itself."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


_DISPLAYED: dict[str, tuple[str, list[Any]]] = {}  # a cell's id -> a run of the cell, and the widgets it displayed


def cell_and_run(shell: Any) -> tuple[str, str]:
    """The front end's id of the cell that runs, which stays the same when the cell is edited, and an id of this run;
    "" if there is none."""
    request = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return str(request.get("metadata", {}).get("cellId", "")), str(request.get("header", {}).get("msg_id", ""))


def _close_earlier(shell: Any, widget: Any) -> None:
    """Closes the widgets of the cell's last run. A notebook that is saved with its widgets would hold all of them."""
    cell, run = cell_and_run(shell)
    if not cell:
        return
    displayed = _DISPLAYED.get(cell)
    if displayed is None or displayed[0] != run:
        for old in displayed[1] if displayed else []:
            old.layout.close()
            old.close()
        displayed = _DISPLAYED[cell] = run, []
    displayed[1].append(widget)


class Inspection:
    """The inspector of a view. It displays itself: as the live widget in a notebook, as text in a terminal, or as
    static HTML."""

    def __init__(self, view: CellView) -> None:
        self.view, self.shape = view, shape(view)

    def __rich__(self) -> Any:
        return cell(self.view)

    def answer(self, request: str) -> str:
        """The HTML for a request of the widget."""
        return render(self.view, request)

    def initial_answers(self) -> dict[str, str]:
        """Answers that are sent with the widget."""
        return small_answers(self.view)

    def text(self, width: int = 110, color: bool = False) -> str:
        """The text for a terminal, on demand with ANSI colours."""
        return as_text(self.__rich__(), width, color)

    def static(self, uid: str = "") -> str:
        return static_html(self.view, uid)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.static()}

    def _display_(self) -> Any:
        """What marimo displays: the live widget, or the static copy if there is no widget."""
        return self.widget(secrets.token_hex(4)) or StaticCopy(self.static())

    def _ipython_display_(self) -> None:
        from IPython.core.getipython import get_ipython

        self.display(get_ipython())

    def display(self, shell: Any) -> None:
        """Displays the live widget and the static copy, which the widget hides; in a terminal prints text."""
        if not in_notebook(shell):
            print(self.text(color=True))
            return
        from IPython.display import HTML, display

        uid = secrets.token_hex(4)
        if (widget := self.widget(uid)) is not None:
            _close_earlier(shell, widget)
            display(widget)
        display(HTML(NO_ERROR + self.static(uid)))

    def widget(self, uid: str) -> Any:
        """The widget, or None if its packages are not installed; then only the static copy is shown."""
        try:
            from quadrants_lab.widgets.inspector import Inspector
        except ImportError:
            return None
        return Inspector(self.shape, self.initial_answers(), self.answer, uid, process().stop)


def as_text(shown: Any, width: int = 110, color: bool = False) -> str:
    """A rich renderable as text for a terminal."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color, force_jupyter=False)
    console.print(shown)
    return out.getvalue()


def in_notebook(shell: Any) -> bool:
    """Whether the shell's front end takes rich output: any kernel does, a terminal does not."""
    return hasattr(shell, "kernel")
