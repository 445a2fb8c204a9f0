"""Small pieces of HTML from which all panes are made: escaping, listings, tables, menus."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence

from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.model import Line


def esc(text: object) -> str:
    return html.escape(str(text), quote=True)


def data(value: object) -> str:
    """JSON for an attribute in double quotes. It is shortest if HTML in it uses single quotes."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "&amp;").replace('"', "&quot;")


def ties(line: Line) -> str:
    """The attributes that tie an element to its source line and statement; "" if it has none."""
    if line.span_line <= 0:
        return ""
    stmt = f' data-stmt="{line.stmt}"' if line.stmt >= 0 else ""
    twin = f' data-adj="{line.adjoint_of}"' if line.adjoint_of >= 0 else ""
    return f' data-span-line="{line.span_line}"{stmt}{twin}'


def short_listing(lines: Sequence[Line], language: str, label: str) -> str:
    """A short listing of which every line is an element. Arrow keys move in it, Enter marks a line."""
    rows = "".join(
        f'<div class="ln"{ties(x)} data-item="" tabindex="-1" role="option" aria-selected="false">'
        f'<span class="no">{x.span_line or ""}</span><span class="tx">{text or " "}</span></div>'
        for x, text in zip(lines, highlight([x.text for x in lines], language), strict=True)
    )
    return f'<div class="code" data-roving role="listbox" aria-label="{esc(label)}">{rows}</div>'


def listing(
    lines: Sequence[Line], language: str, label: str, numbers: str = "source", notes: Mapping[int, str] | None = None
) -> str:
    """A listing as data, of which the browser (`lines.js`) only draws the visible rows. ``numbers``: "source" shows
    each line's source line, "count" counts from 1. ``notes``: source line -> HTML that follows its lines. Each entry of
    the data is "source line, statement, statement whose adjoint it computes, HTML"; 0, -1 and -1 mean none."""
    html = highlight([x.text for x in lines], language)
    rows = [f"{x.span_line} {x.stmt} {x.adjoint_of} {t}" for x, t in zip(lines, html, strict=True)]
    packed = data({"t": [row.replace('"', "'") for row in rows], "n": numbers, "notes": notes or {}})
    return f'<div class="code lines" role="listbox" tabindex="0" aria-label="{esc(label)}" data-lines="{packed}"></div>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = (), links: Sequence[Line] = ()
) -> str:
    """A table of HTML cells. ``right``: columns with numbers. ``links``: the line to which each row is tied."""
    cells = [f'<th class="{"num" if n in right else ""}" scope="col">{h}</th>' for n, h in enumerate(head)]
    body = []
    for n, row in enumerate(rows):
        link = ties(links[n]) if links else ""
        link += ' data-item="" tabindex="-1"' if link else ""
        tds = "".join(f'<td class="{"num" if c in right else ""}">{cell}</td>' for c, cell in enumerate(row))
        body.append(f"<tr{link}>{tds}</tr>")
    roving = " data-roving" if links else ""
    return f'<table class="tb"><thead><tr>{"".join(cells)}</tr></thead><tbody{roving}>{"".join(body)}</tbody></table>'


def offer(text: str, request: str, into: str) -> str:
    """A button that loads the answer to the request into the slot ``into``."""
    ask = f'data-item data-req="{esc(request)}" data-into="{into}"'
    return f'<button class="ch offer" type="button" {ask}>{esc(text)}</button>'


def choices(label: str, items: Sequence[tuple[str, str]], into: str, chosen: int = 0) -> str:
    """A row of (text, request) buttons, one of which is chosen. Choosing one loads its answer into the slot
    ``into``."""
    buttons = "".join(
        f'<button class="ch" type="button" role="radio" aria-checked="{"true" if n == chosen else "false"}" data-item '
        f'tabindex="{0 if n == chosen else -1}" data-req="{esc(req)}" data-into="{into}">{esc(text)}</button>'
        for n, (text, req) in enumerate(items)
    )
    return f'<div class="chs" role="radiogroup" aria-label="{esc(label)}" data-roving data-follow>{buttons}</div>'


def pick(
    label: str, groups: Sequence[tuple[str, Sequence[tuple[str, str]]]], into: str, chosen: str = "",
    to: str = "",
) -> str:  # fmt: skip
    """A menu of (text, request) in named groups, whose answers are loaded into the slot ``into``. ``to``: a request
    with whose answer each answer is compared. The name of the chosen request's group stands beside the menu."""
    out = []
    for name, items in groups:
        options = "".join(
            f'<option data-req="{esc(req)}"{" selected" if req == chosen else ""}>{esc(text)}</option>'
            for text, req in items
        )
        out.append(f'<optgroup label="{esc(name)}">{options}</optgroup>' if name else options)
    differs = f' data-to="{esc(to)}"' if to else ""
    group = next((name for name, items in groups if any(req == chosen for _, req in items)), "")
    menu = f'<select aria-label="{esc(label)}" data-into="{into}"{differs}>{"".join(out)}</select>'
    return f'{menu} <span class="muted" data-group>{esc(group)}</span>'


def slot(name: str, content: str = "", load: str = "") -> str:
    """A part of a pane that answers are put into. ``load``: a request by which the browser fills it at once."""
    attribute = f' data-load="{esc(load)}"' if load else ""
    return f'<div class="slot" data-slot="{name}"{attribute}>{content}</div>'


def difference(name: str, before: str, after: str) -> str:
    """A slot in which the browser (`diff.js`) compares the listings of two requests."""
    return f'<div class="slot" data-slot="{name}" data-from="{esc(before)}" data-to="{esc(after)}"></div>'


def empty(text: str) -> str:
    """The text of an empty pane: why there is nothing."""
    return f'<p class="none">{esc(text)}</p>'


def seconds(value: float) -> str:
    """A duration with a readable unit: 41 ns, 3.2 µs, 12 ms, 1.5 s; "" for 0, which means not measured."""
    if not value:
        return ""
    for scale, unit in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms")):
        if value < scale * 1000:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} s"


def size(value: int | None) -> str:
    """A readable number of bytes: 640 B, 12.5 KB, 3.2 MB."""
    if value is None:
        return "–"
    if value < 1024:
        return f"{value} B"
    return f"{value / 1024:.1f} KB" if value < 1 << 20 else f"{value / (1 << 20):.1f} MB"
