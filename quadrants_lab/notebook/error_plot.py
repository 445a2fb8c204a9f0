"""A picture of a check: the relative difference of the gradient from finite differences at each step size, and the
part of the difference that rounding by itself can explain."""

from collections.abc import Sequence
from itertools import pairwise
from math import log10

from quadrants_lab.runtime.check.report import Report, Verdict
from quadrants_lab.widgets.tree import BLUE, GREY, ORANGE, Picture

_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 300, 110, 46, 8, 30
_LEAST, _MOST = -16.0, 1.0  # powers of ten at the ends of the vertical axis


def pictures(report: Report) -> list[Picture]:
    """A picture of each input whose gradient is not right."""
    return [picture(v) for v in report.verdicts if not v.good and len(v.moves) > 1]


def picture(v: Verdict) -> Picture:
    """The differences of one input, in colours of its own."""
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
    floor = _line([at(x, y) for x, y in zip(widths, noise, strict=True)], f'{ORANGE}" stroke-dasharray="4 3')
    marks = "".join(_text(_LEFT - 6, at(low, y)[1] + 4, f"1e{y:.0f}", "end") for y in (0.0, -8.0, -16.0))
    ends = "".join(_text(at(x, 0)[0], _TOP + _HEIGHT + 13, f"1e{x:.0f}", "middle") for x in (low, high))
    says = _text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 26, "step size", "middle")
    axes = _line([at(low, _LEAST), at(high, _LEAST)], GREY) + _line([at(low, _LEAST), at(low, _MOST)], GREY)
    parts = f"{axes}{floor}{_line(places, BLUE)}{dots}{marks}{ends}{says}"
    parts = f'<g font-family="sans-serif" font-size="12" fill="{GREY}">{parts}</g>'
    alt = ", ".join(f"{10**y:.0e} at step {m.width:.0e}" for y, m in zip(errors, v.moves, strict=True))
    name = f"{v.field}: relative distance of the gradient from finite differences (dots), and from rounding (dashed)"
    return Picture.drawn(alt, _LEFT + _WIDTH + 16, _TOP + _HEIGHT + _BELOW, parts, name)


def _power(part: float, size: float) -> float:
    """The power of ten of ``part / size``, clipped to the axis; NaN and infinity are at the top."""
    share = part / size if size else 0.0
    return min(max(log10(share), _LEAST), _MOST) if 0 < share < float("inf") else _LEAST if share == 0 else _MOST


def _line(points: Sequence[tuple[float, float]], stroke: str) -> str:
    if not any(a != b for a, b in pairwise(points)):
        return ""
    return f'<polyline fill="none" stroke="{stroke}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
