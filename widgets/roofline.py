"""Shows how near launches are to the limits of their device: the roofline as a chart, with a sentence for each
launch."""

from collections.abc import Sequence
from math import ceil, floor, log10

from quadrants_lab.widgets.model import KernelView, RooflineView
from quadrants_lab.widgets.tree import (
    COLOURS,
    GREY,
    Block,
    Picture,
    Slot,
    Tree,
    bold,
    button,
    foot,
    head,
    seconds,
    size,
)

OFFER = "how near the launches are to the device's limits"
WIDTH, HEIGHT, LEFT, TOP, BELOW = 440, 210, 76, 12, 40  # of the area of the chart, and around it
LEAST = 1 / 64  # operations a byte at the left end, where launches without operations stand
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def near(view: KernelView, request: str) -> Slot:
    """The chart if it was made, else a button that makes it."""
    made = all(x.roofline.known is not None for x in view.launches if x.roofline)
    return Slot("near", limits(view) if made else button(OFFER, request, "near"))


def limits(view: KernelView) -> Tree:
    """The chart of the launches, with those of the run before in grey, and a sentence for each."""
    now = {x.mode: x.roofline.make() for x in view.launches if x.roofline}
    past = {mode: later.make() for mode, later in view.edits[-2].near.items()} if len(view.edits) > 1 else {}
    points = [(m, x, COLOURS[n % len(COLOURS)]) for n, (m, x) in enumerate(now.items()) if not x.problem]
    points += [(f"{mode} before", x, GREY) for mode, x in past.items() if not x.problem]
    said = [sentence(x, f"{mode}: ") for mode, x in now.items()]
    drawn = chart(points) if any(colour != GREY for _, _, colour in points) else ()
    return [head("How near the launches are to the device's limits"), drawn, said]


def sentence(view: RooflineView, what: str = "") -> Block:
    """A sentence with the figures of a roofline."""
    if view.problem:
        return foot(f"{what}how near the launch is to the device's limits is not known: {view.problem}")
    memory, computing = view.least
    by = "memory" if memory >= computing else "computing"
    share = f"{view.share:.0%}" if view.share >= 0.01 else f"{100 * view.share:.1g}%"
    text = (
        f" of the device's limit, which is {by}: about {size(int(view.bytes))} must move, which "
        f"takes {seconds(memory) or '0 s'} at {view.bandwidth / 1e9:.3g} GB/s; "
        f"about {view.operations:,.0f} operations take {seconds(computing) or '0 s'} at "
        f"{view.rate / 1e9:.3g} Gop/s ({view.dtype}); the launch took {seconds(view.seconds)}"
    )
    return Block([what, bold(share), text], "limit")


def chart(points: Sequence[tuple[str, RooflineView, str]]) -> Picture:
    """Operations a second over operations a byte, both logarithmic, under the roofs of memory and of computing.
    ``points``: name, figures, colour; the first lie above the others. Without operations a point stands at the left
    end, as far below the roof as it is from the limit."""
    bandwidth, rate = (max(getattr(x, name) for _, x, _ in points) for name in ("bandwidth", "rate"))
    dense = {name: max(x.operations / x.bytes if x.bytes else rate / bandwidth * 16, LEAST) for name, x, _ in points}
    fast = {name: x.share * min(rate, bandwidth * dense[name]) or 1.0 for name, x, _ in points}
    ridge = rate / bandwidth
    x0, x1 = floor(log10(min(ridge, *dense.values()) / 2)), ceil(log10(max(ridge, *dense.values()) * 2))
    y0, y1 = floor(log10(min(fast.values()) / 3)), ceil(log10(rate * 1.5))

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = (log10(x) - x0) / (x1 - x0), (log10(y) - y0) / (y1 - y0)
        return LEFT + WIDTH * across, TOP + HEIGHT * (1 - min(max(up, 0.0), 1.0))

    low = max(10.0**x0, 10.0**y0 / bandwidth)
    roof = [at(low, bandwidth * low), at(ridge, rate), at(10.0**x1, rate)]
    parts = [Picture.polyline(roof, GREY, 'stroke-width="2"')]
    parts.append(f'<path fill="none" stroke="{GREY}" d="M{LEFT},{TOP}v{HEIGHT}h{WIDTH}"/>')
    parts.append(Picture.words(roof[1][0] + 6, roof[1][1] - 6, f"computing, {_of(rate)}op/s"))
    tx, ty = (0.4 * a + 0.6 * b for a, b in zip(roof[0], roof[1], strict=True))
    over = tx > LEFT + 130  # the line rises: its text stands above it, or, without room there, below
    place = (tx - 8, ty - 4) if over else (tx + 14, ty + 12)
    parts.append(Picture.words(*place, f"memory, {_of(bandwidth)}B/s", "end" if over else "start"))
    for k in range(x0, x1 + 1):
        parts.append(Picture.words(at(10.0**k, 1.0)[0], TOP + HEIGHT + 16, f"{10.0**k:g}", "middle"))
    for k in range(y0, y1 + 1, 1 + (y1 - y0) // 6):
        parts.append(Picture.words(LEFT - 6, at(1.0, 10.0**k)[1] + 4, f"{_of(10.0**k)}op/s", "end"))
    parts.append(Picture.words(LEFT + WIDTH / 2, TOP + HEIGHT + 34, "operations a byte", "middle"))
    taken: list[tuple[float, float]] = []
    dots: list[str] = []
    for name, view, colour in points:
        cx, cy = at(dense[name], fast[name])
        ly = cy + 4
        while any(abs(cx - x) < 150 and abs(ly - y) < 14 for x, y in taken):  # labels do not lie on each other
            ly += 14
        taken.append((cx, ly))
        side, anchor = (9, "start") if cx < LEFT + WIDTH - 150 else (-9, "end")
        dots.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="5" fill="{colour}"/>')
        if ly > cy + 4:  # the label is not beside its dot, and has one of its own
            dots.append(f'<circle cx="{cx + side * 1.5:.1f}" cy="{ly - 4:.1f}" r="3" fill="{colour}"/>')
            side *= 2
        parts.append(Picture.words(cx + side, ly, f"{name} {view.share:.1%}", anchor))
    parts += reversed(dots)
    alt = "roofline: " + "; ".join(f"{name} reaches {x.share:.1%} of the device's limit" for name, x, _ in points)
    return Picture.drawn(alt, LEFT + WIDTH + 28, TOP + HEIGHT + BELOW, "".join(parts))


def _of(value: float) -> str:
    """A number with the prefix of its unit: 27.5 G."""
    scale, unit = next(((s, u) for s, u in _UNITS if value >= s), _UNITS[-1])
    return f"{value / scale:.3g} {unit}"
