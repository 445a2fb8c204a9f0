"""Listings as data: the browser (`lines.js`) draws the rows that are seen, so 40,000 lines cost what fifty do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.html import data, esc
from quadrants_lab.widgets.model import Line


def listing(
    lines: Sequence[Line], language: str, label: str, numbers: str = "source", notes: Mapping[int, str] | None = None
) -> str:
    """Code whose lines can be walked, searched and marked. ``numbers``: "source" shows the source line of each,
    "count" counts from 1; ``notes``: HTML behind the lines of a source line. The browser has of each line its source
    line, statement, the statement whose adjoint it computes (0, -1, -1: none), and HTML."""
    html = highlight([x.text for x in lines], language)
    told = [
        f"{x.span_line} {x.stmt} {x.adjoint_of} {t}".replace('"', "'") for x, t in zip(lines, html, strict=True)
    ]
    held = data({"t": told, "n": numbers, "notes": notes or {}})
    return f'<div class="code lines" role="listbox" tabindex="0" aria-label="{esc(label)}" data-lines="{held}"></div>'
