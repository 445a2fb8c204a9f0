"""Shows the inspector in a terminal: draws trees (`tree`) by rich."""

import sys
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table as RichTable
from rich.text import Text

from quadrants_lab.runtime.check import LEVELS
from quadrants_lab.widgets import code, run, stacks, static
from quadrants_lab.widgets.model import CellView, KernelView, SizeView
from quadrants_lab.widgets.tree import (
    Block,
    Difference,
    Fold,
    Lines,
    SizeTree,
    Slot,
    Table,
    Tree,
    Word,
    head,
    size_head,
)

_STYLES = {
    "b": "bold", "h4": "bold", "answer": "bold", "add": "green", "del": "red", "val": "bold cyan",
    **{f"verdict {level}": f"reverse {colour}" for level, (colour, _) in LEVELS.items()},
    **dict.fromkeys(("muted", "same", "none", "foot", "hint", "cure"), "dim"),
}  # fmt: skip
MOST_CHANGED = 40  # changes of a difference, and lines of each
PASSES = static.Limits(code=0, change=0, ir=sys.maxsize, graph=0)  # only the numbers of changes


def cell(view: CellView) -> RenderableType:
    """Draws all kernels of a cell; if the cell's view opens at the steps, only the steps."""
    if view.open == "steps":
        return Group(*(drawn(static.steps_of(k, static.LIMITS[0])) for k in view.kernels))
    return Group(*map(kernel, view.kernels))


def kernel(view: KernelView) -> RenderableType:
    """Source, passes, stacks, sizes and runs of one kernel, under its name."""
    parts: list[RenderableType] = []
    if view.source:
        text, start = "\n".join(line.text for line in view.source), view.source[0].span_line
        parts.append(Syntax(text, "python", line_numbers=True, start_line=start, theme="ansi_dark"))
    kept = view.stacks or view.kept or view.free
    told = [static.passes(view, PASSES), [_said(stacks.answer(view)), stacks.tables(view)] if kept else ()]
    told.append(static.sizes_of(view))
    told += [[head(f"code of {mode}"), code.sizes(stages)] for mode, stages in view.code.items()]
    parts.append(drawn([told, [_said(run.answer(view)), run.pane(view, "", ())] if view.launches else ()]))
    return Panel(Group(*parts), title=view.name, title_align="left")


def _said(answer: str) -> Block:
    return Block(answer, "answer")


def drawn(tree: Tree) -> RenderableType:
    """The tree as a rich renderable. Pictures, graphs and controls are left out."""
    pen = _Pen()
    pen.draw(tree)
    pen.end_line()
    return Group(*pen.parts)


class _Pen:
    """Draws trees into ``parts``: lines and tables. ``deep``: the indentation of the line."""

    def __init__(self) -> None:
        self.parts: list[RenderableType] = []
        self.text = Text()
        self.deep = 0

    def draw(self, tree: Tree, style: str = "") -> None:
        match tree:
            case str():
                self.text.append(tree, style)
            case Word(body, kind):
                self.draw("\n" if kind == "br" else body, f"{style} {_STYLES.get(kind, '')}".strip())
                self.text.append("   " * (kind == "chip"))
            case Block(_, "noop"):
                pass
            case Block(body, kind):
                self.end_line()
                self.parts += [Text()] if kind == "h4" and self.parts else []  # a blank line
                self.line(body, f"{style} {_STYLES.get(kind, '')}".strip())
            case Fold(title, body):
                self.line(title, style)
                self.draw(body, style)
            case Table():
                self.end_line()
                self.table(tree)
            case Lines(lines):
                self.line("\n".join(line.text for line in lines), style)
            case Difference(before, after):
                for row in static.unified(before.lines, after.lines, MOST_CHANGED):
                    self.line(row, style)
            case SizeTree(size):
                self.size(size)
            case Slot(_, body):
                self.draw(body, style)
            case Sequence():
                for part in tree:
                    self.draw(part, style)

    def line(self, body: Tree, style: str) -> None:
        self.end_line()
        self.draw(body, style)
        self.end_line()

    def end_line(self) -> None:
        if self.text:
            self.parts.append(Padding(self.text, (0, 0, 0, 2 * self.deep)))
            self.text = Text()

    def table(self, x: Table) -> None:
        made = RichTable(box=None, pad_edge=False)
        for n, title in enumerate(x.head):
            made.add_column(title, justify="right" if n in x.right else "left")
        for row in x.rows:
            made.add_row(*map(_text, row))
        self.parts.append(made)

    def size(self, e: SizeView) -> None:
        """A node of an expression on a line of its own, and its operands below it."""
        self.line(size_head(e), "")
        self.deep += 1
        for child in e.children:
            self.size(child)
        self.deep -= 1


def _text(tree: Tree) -> Text:
    """The text of a cell of a table, whose blocks are lines."""
    pen = _Pen()
    pen.draw(tree)
    pen.end_line()
    return Text("\n").join(part.renderable for part in pen.parts if isinstance(part, Padding))  # type: ignore[misc]
