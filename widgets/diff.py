"""What a pass changed: which lines of IR came and went, as counts and as HTML.

One HTML serves both ways of reading: every hunk has a left and a right column, and the style sheet shows them side by
side or one above the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from quadrants_lab.widgets.html import code_lines
from quadrants_lab.widgets.model import Line

Hunk = tuple[str, list[Line], list[Line]]  # "equal" or "change", left, right


def hunks(before: Sequence[Line], after: Sequence[Line]) -> list[Hunk]:
    """The two texts cut into equal and changed stretches, in order."""
    matcher = SequenceMatcher(None, [x.text for x in before], [x.text for x in after], autojunk=False)
    return [
        ("equal" if tag == "equal" else "change", list(before[a:b]), list(after[c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
    ]


def counts(before: Sequence[Line], after: Sequence[Line]) -> tuple[int, int]:
    """How many statement lines came and how many went."""
    changed = [h for h in hunks(before, after) if h[0] == "change"]
    came = sum(line.stmt >= 0 for h in changed for line in h[2])
    gone = sum(line.stmt >= 0 for h in changed for line in h[1])
    return came, gone


def diff_html(before: Sequence[Line], after: Sequence[Line], context: int = 3) -> str:
    """The diff; equal stretches longer than twice the context fold away in the middle."""
    out: list[str] = []
    cut = hunks(before, after)
    for n, (tag, left, right) in enumerate(cut):
        if tag == "change":
            out.append(_hunk("chg", left, right))
            continue
        head = 0 if n == 0 else context
        tail = 0 if n == len(cut) - 1 else context
        if len(left) <= head + tail + 2:
            out.append(_hunk("eq", left, right))
            continue
        end = len(left) - tail
        if head:
            out.append(_hunk("eq", left[:head], right[:head]))
        folded = _hunk("eq", left[head:end], right[head:end])
        out.append(f'<details class="fold"><summary>{end - head} unchanged lines</summary>{folded}</details>')
        if tail:
            out.append(_hunk("eq", left[end:], right[end:]))
    return f'<div class="diff code" data-roving role="listbox" aria-label="What the pass changed">{"".join(out)}</div>'


def _hunk(kind: str, left: Sequence[Line], right: Sequence[Line]) -> str:
    sides = f'<div class="l">{code_lines(left, "ir")}</div><div class="r">{code_lines(right, "ir")}</div>'
    return f'<div class="hunk {kind}">{sides}</div>'
