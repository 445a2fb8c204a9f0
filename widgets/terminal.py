"""The inspector in a terminal: draws the text and tables in the HTML of the panes with rich."""

import sys
from html.parser import HTMLParser

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from quadrants_lab.widgets import code, run, stacks, static
from quadrants_lab.widgets.model import CellView, KernelView

_BLOCKS = frozenset(("p", "h4", "div", "pre", "summary"))
_HIDDEN = frozenset(("button", "noop"))
_STYLES = {
    "b": "bold", "h4": "bold", "add": "green", "del": "red", "val": "bold cyan",
    **dict.fromkeys(("muted", "same", "none", "foot", "hint"), "dim"),
}  # fmt: skip
PASSES = static.Limits(code=0, change=0, ir=sys.maxsize, graph=0)  # only the numbers of changes


def cell(view: CellView) -> RenderableType:
    """All kernels of a cell; only the steps for a view that opens there."""
    if view.open == "steps":
        return Group(*(drawn(static.steps_of(k, static.LIMITS[0])) for k in view.kernels))
    return Group(*map(kernel, view.kernels))


def kernel(view: KernelView) -> RenderableType:
    """Source, passes, stacks, sizes and runs of one kernel, under its name."""
    parts: list[RenderableType] = []
    if view.source:
        text = "\n".join(line.text for line in view.source)
        parts.append(
            Syntax(text, "python", line_numbers=True, start_line=view.source[0].span_line, theme="ansi_dark")
        )
    parts.append(drawn(static.passes(view, PASSES)))
    if view.stacks or view.kept or view.free:
        parts.append(drawn(stacks.tables(view)))
    parts.append(drawn(static.sizes_of(view)))
    parts += [drawn(f"<h4>code of {mode}</h4>{code.sizes(stages)}") for mode, stages in view.code.items()]
    if view.launches:
        parts.append(drawn(run.pane(view, "", ())))
    return Panel(Group(*parts), title=view.name, title_align="left")


def drawn(html: str) -> RenderableType:
    """The HTML of a pane as a rich renderable."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.end_line()
    return Group(*reader.parts)


class _Reader(HTMLParser):
    """Turns HTML into ``parts``: lines, which are indented in blocks of class "kids", and tables."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[RenderableType] = []
        self.open: list[tuple[str, str]] = []  # tag and class of each open element
        self.text = Text()
        self.table = Table()
        self.row: list[Text] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("img", "br"):
            self.text.append("\n" if tag == "br" else "")
            return
        if tag in _BLOCKS:
            self.end_line()
        if tag == "table":
            self.table = Table(box=None, pad_edge=False)
        self.open.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        _, kind = self.open[-1]
        if tag in _BLOCKS:
            self.end_line()
        if tag in ("th", "td"):
            self.text.rstrip()
            self.row.append(self.text)
            self.text = Text()
        if tag == "th":
            self.table.add_column(self.row.pop(), justify="right" if kind == "num" else "left")
        elif tag == "tr" and self.row:
            self.table.add_row(*self.row)
            self.row = []
        elif tag == "table":
            self.parts.append(self.table)
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not any(x in _HIDDEN for both in self.open for x in both):
            self.text.append(data, " ".join(_STYLES[x] for both in self.open for x in both if x in _STYLES))

    def end_line(self) -> None:
        """Ends a line, at the begin or end of a block; in a table it starts a new line in the cell."""
        if any(tag == "table" for tag, _ in self.open):
            self.text.append("\n" if self.text else "")
        elif self.text:
            deep = sum(kind == "kids" for _, kind in self.open)
            self.parts.append(Padding(self.text, (0, 0, 0, 2 * deep)))
            self.text = Text()

