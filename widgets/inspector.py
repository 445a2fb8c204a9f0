"""The live widget: sends its shape once, then each piece of HTML when the browser asks for it."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from quadrants_lab.widgets import assets
from quadrants_lab.widgets.html import empty
from quadrants_lab.widgets.model import CellView
from quadrants_lab.widgets.panes import render, shape


class Inspector(anywidget.AnyWidget):
    """One inspector. ``uid`` ties it to the static copy that it hides."""

    _esm = assets.script()
    _css = assets.style()
    shape = traitlets.Dict().tag(sync=True)
    uid = traitlets.Unicode().tag(sync=True)

    def __init__(self, view: CellView, uid: str = "") -> None:
        super().__init__(shape=shape(view), uid=uid)
        self._view = view
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        """What stands in a notebook that is opened without its kernel."""
        return "The live inspector needs a running kernel: run the cell. A static copy follows."

    def _answer(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        if message.get("kind") != "ask":
            return
        request = str(message.get("request"))
        try:
            html = render(self._view, request)
        except Exception as e:  # whatever a pane stumbles over is shown there: a silent pane helps nobody
            html = empty(f"this pane failed: {type(e).__name__}: {e}")
        self.send({"kind": "html", "request": request, "html": html})
