"""The Verdict pane shows a card for each gradient that was checked, with its cause, what to do, and the step sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING

from quadrants_lab.widgets.model import KernelView
from quadrants_lab.widgets.tree import (
    BLUE,
    GREY,
    ORANGE,
    Block,
    Fold,
    Picture,
    Table,
    Tree,
    Word,
    bold,
    button,
    count,
    empty,
    muted,
)

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.cause import Cause
    from quadrants_lab.runtime.check.report import Card, Report, Verdict

_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 300, 110, 46, 8, 30
_LEAST, _MOST = -16.0, 1.0  # powers of ten at the ends of the vertical axis

def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The verdict on the cell's gradients."""
    return empty("the cell checked no gradient: --check does") if view.check is None else verdict(*view.check)


def verdict(report: Report, steps: Sequence[str] = ()) -> Tree:
    """The report in a sentence and as cards. ``steps``: for each of its causes the request for its step, or ""."""
    links = {id(c): request for c, request in zip(report.all_causes, steps, strict=bool(steps))}
    notes = [Block(text, "pre") for text in report.other_warnings()]
    stopped = Block("The check was stopped before everything was checked.") if report.stopped else ()
    return [Block(answer(report), "answer"), [card(c, links) for c in report.cards], stopped, notes]


def answer(report: Report) -> str:
    """The pane in a sentence: how many of the checked gradients are right."""
    if report.says:
        return "The program cannot be checked."
    right, of = sum(v.good for v in report.verdicts), len(report.verdicts)
    if not of and not report.causes:
        return "The launches touched no field with a gradient but the loss."
    more = f", and the program has {count(len(report.causes), 'fault')}" if report.causes else ""
    if of == 1:
        return f"The gradient of {report.verdicts[0].field} is {'' if right else 'not '}right{more}."
    return f"{'All' if right == of else right or 'None'} of {of} gradients {'is' if right < 2 else 'are'} right{more}."


def card(c: Card, links: Mapping[int, str]) -> Tree:
    """Badge and cause in the first line; the cause's place, with a link to its step, in the second; then what to do.
    The step sizes are folded. A gradient that is right is one line, which opens."""
    badge, measured = Word(c.badge, f"verdict {c.level}"), _measured(c)
    if c.why is None and c.level == "good":
        line: Tree = [badge, " ", c.sentence]
        return Block(Fold(line, measured) if measured else line, f"card {c.level}")
    said = _cause(c.why, links, [badge, f" {c.of}: "]) if c.why else Block([badge, " ", c.sentence])
    others = Fold(count(len(c.others), "further cause"), [_cause(x, links) for x in c.others]) if c.others else ()
    sizes = Fold(c.summary(), measured) if measured else ()
    what = Block(f"{c.sentence[:1].upper()}{c.sentence[1:]}.") if c.why and c.says else ()
    return Block([said, what, others, sizes], f"card {c.level}")


def _cause(why: Cause, links: Mapping[int, str], before: Tree = ()) -> Tree:
    follow = button("follow it step by step", request) if (request := links.get(id(why))) else ()
    place = [why.place, muted(f"{' · ' if why.place else ''}{why.ran}") if why.ran else "", " ", follow]
    return [
        Block([before, bold(why.says)]),
        Block(place) if why.place or why.ran or follow else (),
        Block([bold("What to do: "), why.help]) if why.help else (),
        Block("\n".join(why.source()[1:]), "pre") if why.at is not None else (),
    ]


def _measured(c: Card) -> Tree:
    """The table of step sizes, what else was measured, and the picture of both."""
    v = c.verdict
    if v is None or not v.moves:
        return ()
    rows = [(f"{m.width:.0e}", f"{m.found:.6g}", f"{m.expected:.6g}", f"{m.error:.1e}") for m in v.moves]
    drawn = picture(v) if not v.good and len(v.moves) > 1 else ()
    table = Table(("step", "the loss changes by", "by the gradient", "apart beyond noise"), rows, right=range(4))
    return [table, [Block(line, "pre") for line in v.table()[len(v.moves) :]], drawn]


# --- the picture ---------------------------------------------------------------------------------------------------

def picture(v: Verdict) -> Picture:
    """Draws the relative difference of a gradient from finite differences at each step size, and the part of the
    difference that rounding can explain."""
    widths = [log10(m.width) for m in v.moves]
    sizes = [max(abs(m.found), abs(m.expected)) for m in v.moves]
    errors = [_power(abs(m.found - m.expected), size) for m, size in zip(v.moves, sizes, strict=True)]
    noise = [_power(m.noise, size) for m, size in zip(v.moves, sizes, strict=True)]
    low, high = min(widths), max(widths)

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / ((high - low) or 1.0)
        return _LEFT + _WIDTH * across, _TOP + _HEIGHT * (_MOST - y) / (_MOST - _LEAST)

    places = [at(x, y) for x, y in zip(widths, errors, strict=True)]
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{BLUE}"/>' for x, y in places)
    floor = Picture.polyline([at(x, y) for x, y in zip(widths, noise, strict=True)], ORANGE, 'stroke-dasharray="4 3"')
    marks = "".join(Picture.words(_LEFT - 6, at(low, y)[1] + 4, f"1e{y:.0f}", "end") for y in (0.0, -8.0, -16.0))
    ends = "".join(Picture.words(at(x, 0)[0], _TOP + _HEIGHT + 13, f"1e{x:.0f}", "middle") for x in (low, high))
    says = Picture.words(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 26, "step size", "middle")
    axes = Picture.polyline([at(high, _LEAST), at(low, _LEAST), at(low, _MOST)], GREY)
    parts = f"{axes}{floor}{Picture.polyline(places, BLUE)}{dots}{marks}{ends}{says}"
    alt = ", ".join(f"{10**y:.0e} at step {m.width:.0e}" for y, m in zip(errors, v.moves, strict=True))
    name = f"{v.field}: relative distance of the gradient from finite differences (dots), and from rounding (dashed)"
    return Picture.drawn(alt, _LEFT + _WIDTH + 16, _TOP + _HEIGHT + _BELOW, parts, name)


def _power(part: float, size: float) -> float:
    """The power of ten of ``part / size``, clipped to the axis; NaN and infinity are at the top."""
    share = part / size if size else 0.0
    return min(max(log10(share), _LEAST), _MOST) if 0 < share < float("inf") else _LEAST if share == 0 else _MOST
