"""Packs the inspector for use without a running kernel: its panes compressed, the browser's scripts that read them,
and one HTML page with all panes that needs no network.

Answers share most of their lines (`live.py` begins one for each row), because a pass changes only few lines of a
kernel. So each line is stored once, and an answer is a list of line numbers. `unpack` in loader.js joins them again.
"""

import base64
import gzip
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

from quadrants_lab.runtime.check import LEVELS
from quadrants_lab.widgets.graph import STANDALONE
from quadrants_lab.widgets.live import esc, write
from quadrants_lab.widgets.model import ONLY_READY, CellView, KernelView, NotReady
from quadrants_lab.widgets.panes import PANES, answer, known
from quadrants_lab.widgets.tree import COLOURS, colour_of, empty, requests

PARTS = ("dom", "lines", "graph", "sizes", "search", "timeline", "stepper", "inspector")
HERE = Path(__file__).resolve().parent


@cache
def script() -> str:
    """The module: all parts in one scope, without comments and indentation."""
    text = "".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in PARTS)
    text += f"const SAVED = {json.dumps(STANDALONE)};\n"  # the colours of a graph in a file
    return short(text)


def short(script: str) -> str:
    """A JavaScript text without its comments and indentation."""
    return re.sub(r"(?m)^\s*(?://.*|/\*\*[^*]*\*/$)?\n?|^\s+", "", script)


@cache
def style() -> str:
    """The style sheet, with the colours of verdicts and of counted things."""
    levels = (f".qdi .{level}{{--qd-level:{colour}}}" for level, (_, colour) in LEVELS.items())
    counted = (f".qdi .{colour_of(n)}{{color:{colour}}}" for n, colour in enumerate(COLOURS))
    return "".join(((HERE / "inspector.css").read_text(encoding="utf-8"), *levels, *counted))


@cache
def loader() -> str:
    """The script with `unpack`, which reads a bundle of `pack.bundle`."""
    return (HERE / "loader.js").read_text(encoding="utf-8")


MOST_BYTES = 41 << 9  # of a cell's compressed answers in a notebook
MOST_TEXT = 1 << 20  # characters of HTML that are made for these answers, so that a cell does not wait long
MOST_KEPT_STATEMENTS = 2000  # of a kernel whose large panes are stored in a notebook
LARGE = ("passes", "cfg", "code", "beside")  # panes that a notebook stores only for small kernels
LAST = ("steps", *LARGE)  # panes that are stored after all other panes of all kernels


def offered(
    view: CellView, most: int = sys.maxsize, wait: Callable[[], None] | None = None
) -> Iterator[tuple[str, str]]:
    """All requests of the inspector with their answers: first the pane that opens, with its IR, then the other panes,
    then the answers that panes load at once, then all other requests in the answers. If ``most`` is given, leaves out
    comparisons of passes, and large panes of kernels with more than ``most`` statements. If `ONLY_READY` is set,
    requests that would have to wait come last, after ``wait``, or are left out."""
    first: list[str] = []
    panes = [
        f"{k}/{pane}"
        for pane in sorted(known(view), key=lambda pane: (pane != view.open, pane in LAST))
        for k, kernel in enumerate(view.kernels)
        if pane not in LARGE or _statements(kernel) <= most
    ]
    panes += [step for k in view.kernels[:1] if k.check for step in k.check[1] if step]
    loads, others, late, done = list[str](), list[str](), list[str](), set[str]()
    while queue := first or panes or loads or others or (late if wait else []):
        if queue is late and wait:
            wait()
            others, wait = list(late), None
            done.difference_update(late)
            continue
        if (request := queue.pop(0)) in done:
            continue
        done.add(request)
        if wait and PANES[request.split("/")[1]].of_code:
            late.append(request)
            continue
        try:
            tree = answer(view, request)
        except NotReady:
            late.append(request)
            continue
        loaded, asked = requests(tree)
        yield request, write(tree)
        statements = _statements(view.kernels[int(request.partition("/")[0])])
        if _is_pane(request) and statements <= most:
            first += [r for r in loaded if r.endswith("/ir")] if len(done) == 1 else []
            loads += loaded
        page = most == sys.maxsize and statements <= MOST_KEPT_STATEMENTS
        others += [r for r in (*loaded, *asked) if page or not re.search("/since/|/beside/.*/(IR|code)-", r)]


def _is_pane(request: str) -> bool:
    return request.count("/") == 1


def _statements(view: KernelView) -> int:
    return max((steps[-1].after.next_id for steps in view.traces.values() if steps), default=0)


@contextmanager
def only_ready() -> Iterator[None]:
    """Makes a ``with`` in which panes show only what is ready."""
    token = ONLY_READY.set(True)
    try:
        yield
    finally:
        ONLY_READY.reset(token)


def answers(view: CellView, say: Callable[[str], None] = lambda text: None) -> dict[str, str]:
    """The answers to all requests. Meanwhile a thread makes all lazy values, mostly code, which another process
    makes; values that are measured are made before. ``say`` is called with what is being made."""
    for measured in (x.roofline for kernel in view.kernels for x in kernel.launches if x.roofline):
        say(f"{measured.name} of {measured.backend}")
        measured.make()
    every = [later for kernel in view.kernels for later in kernel.later()]

    def make() -> None:
        with suppress(Exception):  # the answer that needs it makes it again
            for later in every:
                later.make()

    maker = Thread(target=make, daemon=True)

    def wait() -> None:
        while maker.is_alive():
            now = next((x for x in every if x.known is None), every[-1])
            say(f"{now.name} of {now.backend}")
            maker.join(0.2)
        ONLY_READY.set(False)

    maker.start()
    found: dict[str, str] = {}
    with only_ready():
        for request, markup in offered(view, wait=wait):
            say(f"pane {request.split('/')[1]}, {len(found):,} parts are done")
            found[request] = markup
    return found


def small_answers(view: CellView) -> dict[str, str]:
    """The answers that are stored in a notebook: of ready values, up to `MOST_BYTES`. First come the pane that opens
    with its IR, and all panes that take few of these bytes; then the others, such as a pane with pictures; then parts
    of panes."""
    found: list[tuple[str, str]] = []
    made = 0
    with only_ready():
        for request, markup in offered(view, MOST_KEPT_STATEMENTS):
            found.append((request, markup))
            made += len(markup)
            if made > MOST_TEXT:
                break
    kept: dict[str, str] = {}
    seen: set[str] = set()
    left = MOST_BYTES
    for most, of_parts in ((MOST_BYTES // 4, False), (MOST_BYTES, True)):
        for n, (request, markup) in enumerate(found):
            if request in kept or not (of_parts or n < 2 or _is_pane(request)):
                continue
            new = [p for p in dict.fromkeys(markup.split("\n")) if p not in seen]
            cost = len(zlib.compress(json.dumps(new).encode()))
            if cost <= min(left, most if kept and _is_pane(request) else MOST_BYTES):
                kept[request] = markup
                seen.update(new)
                left -= cost
    return kept


def pack(found: dict[str, str]) -> list[object]:
    """Packs answers: returns a list of all their lines, and for each request the numbers of the lines of its
    answer."""
    numbers: dict[str, int] = {}
    made = {
        request: [numbers.setdefault(piece, len(numbers)) for piece in markup.split("\n")]
        for request, markup in found.items()
    }
    return [list(numbers), made]


def unpack(packed: Any) -> dict[str, str]:
    """The inverse of `pack`."""
    pieces, made = packed
    return {request: "\n".join(pieces[n] for n in numbers) for request, numbers in made.items()}


def bundle(found: dict[str, str], **more: object) -> bytes:
    """Compressed data for `unpack` in loader.js: script, style, answers, and ``more``."""
    data = {"script": script(), "style": style(), "answers": pack(found), **more}
    return gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title><style>
body{{--jp-ui-font-color1:#1f2328;--jp-ui-font-color2:#57606a;--jp-layout-color1:#fff;--jp-layout-color2:#f5f6f8;
--jp-border-color2:#d0d7de;--jp-brand-color1:#1565c0;background:#fff;color:#1f2328;font:14px/1.5 system-ui,sans-serif;
margin:0 auto;padding:16px 24px;max-width:1400px}}
body[data-jp-theme-light=false]{{--jp-ui-font-color1:#e6e8eb;--jp-ui-font-color2:#a0a7b0;--jp-layout-color1:#16181c;
--jp-layout-color2:#1f2227;--jp-border-color2:#3a3f47;--jp-brand-color1:#64b5f6;background:#111316;color:#e6e8eb}}
header{{display:flex;align-items:center;gap:16px}}h1{{font-size:18px;flex:1}}
header button{{font:inherit;color:inherit;
background:none;border:1px solid currentColor;border-radius:4px;padding:2px 10px;cursor:pointer}}
#view [role=tabpanel]{{max-height:none}}
</style></head><body><header><h1>{title}</h1><button type="button" id="theme">dark / light</button></header>
{above}
<main id="view"></main>
<script type="text/plain" id="data">{data}</script>
<script type="module">{loader}
const body = document.body;
const set = (light) => {{ body.dataset.jpThemeLight = light; }};
set(!matchMedia("(prefers-color-scheme: dark)").matches);
document.getElementById("theme").onclick = () => set(body.dataset.jpThemeLight !== "true");
const data = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
const {{ mount, shape, answers }} = await unpack(data);
mount(document.getElementById("view"), shape, async (request) => answers(request) ?? {missing});
</script></body></html>
"""


def page(shape: dict[str, Any], answers: dict[str, str], above: str = "") -> str:
    """A self-contained page with the inspector of this shape and all its answers. ``above``: HTML to stand above it."""
    data = bundle(answers, shape=shape)
    return _PAGE.format(
        title=esc(shape["title"]),
        above=above,
        loader=loader(),
        missing=json.dumps(write(empty("this page does not contain this: run the cell in a notebook"))),
        data=base64.b64encode(data).decode(),
    )
