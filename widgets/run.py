"""The Run pane: what each launch took, what it was given and what came out."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.html import empty, esc, seconds, table
from quadrants_lab.widgets.model import ArrayView, KernelView, LaunchView


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    if not view.launches:
        return empty("this kernel was not launched in the cell")
    return "".join(launch(x) for x in view.launches)


def launch(view: LaunchView) -> str:
    """One launch: its time, the scalars that it read, and its arrays."""
    given = "".join(f'<span class="chip"><code>{esc(k)}</code> = {esc(v)}</span>' for k, v in view.arguments)
    head = f'<h4>{esc(view.mode)} <span class="muted">{seconds(view.seconds)}</span></h4>'
    chips = f'<p class="chips">{given}</p>' if given else ""
    facts = "".join(f'<span class="chip">{esc(k)} <b>{esc(v)}</b></span>' for k, v in view.sizes)
    return (
        head
        + chips
        + (arrays(view.arrays) if view.arrays else "")
        + (f'<p class="chips">{facts}</p>' if facts else "")
    )


def arrays(views: Sequence[ArrayView]) -> str:
    rows = [
        (
            f"<code>{esc(a.name)}</code>",
            f"<code>{esc(a.dtype)}{list(a.shape) if a.shape else ''}</code>",
            esc(a.low),
            esc(a.high),
            f"<code>{esc(a.preview)}</code>"
            + (f' <span class="muted">{esc(a.note)}</span>' if a.note else ""),
        )
        for a in views
    ]
    head: tuple[str, ...] = ("array", "type", "least", "greatest", "values")
    if not any(a.low or a.high for a in views):  # single numbers have no extremes
        return table((*head[:2], head[4]), [(*r[:2], r[4]) for r in rows])
    return table(head, rows, right=(2, 3))
