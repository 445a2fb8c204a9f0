"""The inspector's answers as one compressed piece, for notebooks that are opened without a kernel and for pages.

Answers share most of their lines: a pass changes few of a kernel's. So they are cut into pieces, each piece is kept
once, and an answer is the numbers of its pieces. `unpack` in loader.js puts them together again.
"""

from __future__ import annotations

import gzip
import html
import json
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any

from quadrants_lab.widgets import assets
from quadrants_lab.widgets.model import ONLY_KNOWN, CellView, KernelView, NotMade
from quadrants_lab.widgets.panes import PANES, render

MOST_BYTES = 17 << 10  # of a cell's answers in a notebook, compressed
MOST_TEXT = 1 << 20  # characters of HTML that are made for it: a cell is not to wait
MOST_KEPT_STATEMENTS = 2000  # of a kernel of which a notebook gets passes, graphs and code
LARGE = ("passes", "cfg", "code")  # panes that a notebook gets after the others of all kernels
_REQUEST = re.compile(r'data-(?:req|load|from|to)="([^"]*)"')
_PIECE = re.compile(r"(?=<(?:div|g|tr|details|option)\b)|(?<=&quot;,)(?=&quot;)")


def offered(view: CellView, most: int = sys.maxsize) -> Iterator[tuple[str, str]]:
    """Every request that the inspector can make with its answer: first those of the panes, then what these offer. Where
    `ONLY_KNOWN` is set those that would have to wait for code are left out, and so are large panes of kernels with more
    than ``most`` statements."""
    todo = [
        f"{k}/{pane}"
        for pane in sorted(PANES, key=LARGE.__contains__)
        for k, kernel in enumerate(view.kernels)
        if pane not in LARGE or _statements(kernel) <= most
    ]
    todo += [request for _, request in view.findings]
    done: set[str] = set()
    for request in todo:  # grows
        if request in done:
            continue
        done.add(request)
        try:
            answer = render(view, request)
        except NotMade:
            continue
        yield request, answer
        todo += [html.unescape(r) for r in _REQUEST.findall(answer)]


def _statements(view: KernelView) -> int:
    return max((steps[-1].after.next_id for steps in view.traces.values() if steps), default=0)


def answers(view: CellView) -> dict[str, str]:
    """All of them; what nobody has seen yet is made now."""
    for kernel in view.kernels:
        for later in kernel.later():
            later.make()
    return dict(offered(view))


def small_answers(view: CellView) -> dict[str, str]:
    """Those that a notebook can hold: of what is known, until its place is full."""
    token = ONLY_KNOWN.set(True)
    kept: dict[str, str] = {}
    seen: set[str] = set()
    held = made = 0
    try:
        for request, answer in offered(view, MOST_KEPT_STATEMENTS):
            new = [p for p in dict.fromkeys(_PIECE.split(answer)) if p not in seen]
            cost = len(zlib.compress(json.dumps(new).encode()))
            if held + cost <= MOST_BYTES:
                kept[request] = answer
                seen.update(new)
                held += cost
            made += len(answer)
            if made > MOST_TEXT:
                break
    finally:
        ONLY_KNOWN.reset(token)
    return kept


def pack(found: dict[str, str]) -> list[object]:
    """The pieces and, by request, the numbers of those that make its answer."""
    numbers: dict[str, int] = {}
    made = {
        request: [numbers.setdefault(piece, len(numbers)) for piece in _PIECE.split(answer)]
        for request, answer in found.items()
    }
    return [list(numbers), made]


def unpack(packed: Any) -> dict[str, str]:
    """The answers that `pack` was given."""
    pieces, made = packed
    return {request: "".join(pieces[n] for n in numbers) for request, numbers in made.items()}


def bundle(found: dict[str, str], **more: object) -> bytes:
    """What `unpack` takes: script, style, the answers, and ``more``; compressed."""
    data = {"script": assets.script(), "style": assets.style(), "answers": pack(found), **more}
    return gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
