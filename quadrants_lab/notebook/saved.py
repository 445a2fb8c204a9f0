"""Inspectors of a ``with``, and in files: written with all answers, and opened again without a device or the program.

    wave.export("wave.html")                a page for a browser
    wave.export("wave.html", live=True)     the same, and above it the kernel itself, which runs in the page
    wave.export("wave.json")                for qd.inspect("wave.json")
    with qd.recording() as seen: wave()     then ``seen`` displays itself, and seen.export("wave.html") writes a page
"""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from quadrants_lab.errors import QuadrantsRuntimeError, warn
from quadrants_lab.notebook import show
from quadrants_lab.notebook.collect import cell_view, remembered
from quadrants_lab.notebook.inspection import Inspection, as_text
from quadrants_lab.notebook.live_page import of_kernel, of_program
from quadrants_lab.notebook.progress import Progress
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets import live_page
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import CellView
from quadrants_lab.widgets.pack import answers, pack, page, unpack
from quadrants_lab.widgets.panes import answer, render, shape
from quadrants_lab.widgets.static import static_html
from quadrants_lab.widgets.terminal import cell
from quadrants_lab.widgets.tree import controls, empty

FORMAT = 2  # raised when older files can no longer be read
KINDS = (".html", ".json")


class Saved(Inspection):
    """An inspector that was read from a file; it displays itself like the inspector that was written to the file."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.shape, self.answers = data, data["shape"], unpack(data["answers"])

    def __rich__(self) -> Any:
        return Text(self.data["text"])

    def answer(self, request: str) -> str:
        return self.answers.get(request) or write(empty("the file does not contain this: it was not exported"))

    def initial_answers(self) -> dict[str, str]:
        return self.answers

    def text(self, width: int = 110, color: bool = False) -> str:
        return str(self.data["text"])

    def static(self, uid: str = "") -> str:
        return str(self.data["static"]).replace('data-qd-static=""', f'data-qd-static="{uid}"', 1)

    def export(self, path: str | Path) -> Path:
        """Writes the inspector as a page, or as a copy of the file."""
        return _write(self.data, _checked(path))


class Recording(Inspection):
    """`qd.recording`: a context manager that records the launches within it, and afterwards their inspector."""

    def __init__(self) -> None:
        self._exit = ExitStack()
        super().__init__(CellView("a recording", []))

    def __enter__(self) -> "Recording":
        self._recorder = self._exit.enter_context(recording())
        self._exit.enter_context(remembered(self._recorder))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._exit.__exit__(*raised)
        if raised[0] is None:
            super().__init__(cell_view("a recording", self._recorder))
            if not self.view.kernels:
                warn("no kernel was launched within the `with qd.recording()`, so there is nothing to inspect")

    def export(self, path: str | Path, iterations: Sequence[object] = ()) -> Path:
        """Writes the inspector to a file, as `Kernel.export` does."""
        return export(self.view, path, iterations)


def contents(view: CellView, iterations: Sequence[object] = ()) -> dict[str, Any]:
    """Everything that the inspector can show, including the steps of ``iterations``, as data for JSON."""
    with Progress(out=sys.stderr) as progress:
        found = answers(view, lambda part: progress.tell(f"exporting {view.title}: {part}"))
    for n, kernel in enumerate(view.kernels):
        for lane in iterations:
            if not isinstance(kernel.steps, str):
                launch = kernel.steps.shown
                request = f"{n}/steps/{launch.id}/{launch.task}/{str(lane).strip('()')}"
                tree = answer(view, request)
                found[request] = write(tree)
                if any('"cut":true' in x.attributes.get("data-stepper", "") for x in controls(tree)):  # more steps
                    found |= {f"{request}/{at}": render(view, f"{request}/{at}") for at in ("turn", "last")}
    text, static = as_text(cell(view)), static_html(view)
    return {"format": FORMAT, "shape": shape(view), "answers": pack(found), "text": text, "static": static}


def export(view: CellView, path: str | Path, iterations: Sequence[object] = (), above: str = "") -> Path:
    """Writes the inspector to a file, whose name ends in one of `KINDS`, and returns the absolute path. ``above``: HTML
    that stands above it in a page."""
    out = _checked(path)
    return _write(contents(view, iterations), out, above)


def export_kernel(kernel: Any, path: str | Path, iterations: Sequence[object] = (), live: bool = False) -> Path:
    """`Kernel.export`."""
    checked = _checked(path, live)
    above = live_page.panel(of_kernel(kernel.dispatcher)) if live else ""
    return export(show(kernel).view, checked, iterations, above)


def export_program(program: partial[object], loss: Any, path: str | Path) -> Path:
    """`qd.ad.export`."""
    checked = _checked(path, live=True)
    data = of_program(program, loss)
    return _written(live_page.page(data["title"], [live_page.panel(data)]), checked)


def inspect(what: Any) -> Inspection | Saved:
    """`qd.inspect`: the inspector of a kernel, or the one that was written to a file."""
    if not isinstance(what, (str, Path)):
        return show(what)
    try:
        data = json.loads(Path(what).read_text(encoding="utf-8"))
        if data["format"] == FORMAT:
            return Saved(data)
        why = f"it is of format {data['format']}, and this version reads format {FORMAT}"
    except OSError as e:
        why = e.strerror or str(e)
    except (ValueError, KeyError, TypeError):
        why = "it is not what the export of a kernel wrote as .json"
    raise QuadrantsRuntimeError(f"{what} cannot be inspected: {why}", code="QL0711")


def _checked(path: str | Path, live: bool = False) -> Path:
    """Returns the absolute path. Raises QuadrantsRuntimeError if its folder does not exist, before seconds are
    spent on the inspector's data."""
    out, kinds = Path(path).absolute(), KINDS[:1] if live else KINDS
    if out.suffix not in kinds:
        what = "a page that computes" if live else "an inspector"
        raise QuadrantsRuntimeError(
            f"{what} cannot be written to {out.name}", code="QL0712", help=f"name it *{' or *'.join(kinds)}"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise _unwritable(out, e) from None
    return out


def _write(data: dict[str, Any], out: Path, above: str = "") -> Path:
    text = json.dumps(data) if out.suffix == ".json" else page(data["shape"], unpack(data["answers"]), above)
    return _written(text, out)


def _written(text: str, out: Path) -> Path:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as e:
        raise _unwritable(out, e) from None
    return out


def _unwritable(out: Path, e: OSError) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(f"an inspector cannot be written to {out}: {e.strerror or e}", code="QL0712")
