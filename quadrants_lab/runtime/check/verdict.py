"""A verdict on every gradient of recorded launches: beside differences of the loss and beside forward mode, and why.

All elements of a field are moved at once, along a direction whose elements are from 1/2 to 1 in size, by steps of
several widths: too wide a step is not linear, too narrow a one is rounding, so the one that agrees best counts. Where
none agrees, the elements are moved one by one. Forward mode gives the derivative along the same direction without a
step, as exactly as the gradient does: it sees what differences of 32-bit numbers cannot.

`%%qdkernel --check`, `python -m quadrants_lab check`, ``qd.ad.Tape(grad_check=...)`` and ``qd.ad.check`` are this.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsAssertionError, QuadrantsError
from quadrants_lab.runtime.check import SECONDS
from quadrants_lab.runtime.check import differences as D
from quadrants_lab.runtime.check.cause import Cause, because
from quadrants_lab.runtime.check.elements import wrong_elements
from quadrants_lab.runtime.check.flow import follow, follow_one
from quadrants_lab.runtime.check.launch_flow import TooLong, Trace
from quadrants_lab.runtime.check.narrow import narrow
from quadrants_lab.runtime.check.nonfinite import first_nonfinite
from quadrants_lab.runtime.check.parting import is_own, part, restart, why_parted
from quadrants_lab.runtime.check.recording import outputs
from quadrants_lab.runtime.check.report import Report, Tangent, Verdict, Worst
from quadrants_lab.runtime.check.tangent import Tangents
from quadrants_lab.runtime.check.why import why_kink, why_zero
from quadrants_lab.runtime.launch.observe import unwatched
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.recorder import Launches

WIDTHS = tuple(10.0**-k for k in range(1, 9))
MOST_ALONE = 32  # elements that are moved one by one
FOLLOWED = 10.0  # seconds for which the interpreter follows launches
# by the bits of the loss: a greater relative difference counts as one
_AGREES = {16: 0.1, 32: 2e-2, 64: 1e-4}
_ROUND = 3e-7  # of the widest step: narrower ones see an f32 and its neighbours apart
_AGREES_FORWARD = {16: 0.1, 32: 1e-3, 64: 1e-8}
_FINEST = {16: 2e-2, 32: 2e-3, 64: 1e-5}  # where differences show themselves how well they can tell


@dataclass(slots=True)
class Check:
    """What is checked, on the way. ``value``: of the loss. ``until``: by when it is to be done; ``say`` is told what it
    is at. ``quiet``: memory of which nobody asks why its gradient is zero, where that is right."""

    launches: Launches
    loss: Memory
    tangents: Tangents
    value: float
    until: float
    say: Callable[[str], None]
    quiet: frozenset[int] = frozenset()
    backwards: Cause | None = None

    @property
    def bits(self) -> int:
        return int(self.loss.dtype.bits)

    @property
    def own(self) -> bool:
        """Whether there are gradients of the user's, which may be off by little."""
        return any(map(is_own, self.launches.leaves()))

    @property
    def seconds(self) -> float:
        """That are left."""
        return max(0.5, self.until - monotonic())


def check(
    launches: Launches,
    loss: D.Differentiable,
    fields: Mapping[str, D.Differentiable],
    seconds: float = SECONDS,
    say: Callable[[str], None] = lambda text: None,
    explain: bool = False,
) -> Report:
    """A verdict on each of the ``fields``, by name: all have gradients, which have run, and all are compared.
    ``seconds``: after these no more elements are moved alone, and no launch is looked for that is to blame; a search
    that has begun is finished, and to say why a gradient is zero, at a kink or NaN the interpreter takes up to 11 more,
    each time. ``explain``: also why the gradient of a result is zero. Memory is afterwards as it was before."""
    memory = loss._memory
    name = launches.names.get(id(memory), "loss")
    if id(memory) not in launches.initial:
        return Report(name, math.nan, says="no launch touches the loss")
    said, screen = io.StringIO(), sys.stdout  # the kernels have printed before
    with D.saved(launches, [loss, *fields.values()]), redirect_stdout(said):

        def tell(text: str) -> None:
            with redirect_stdout(screen):
                say(text)

        inputs = D.inputs_of(fields)
        was = float(memory.values().reshape(-1)[0])
        if not math.isfinite(was):
            tell("the first NaN or infinity")
            why = first_nonfinite(lambda: _again(launches))
            says = f"the loss is {was}, so there is nothing to compare with"
            return Report(name, was, says=says, causes=(why,) if why else ())
        try:
            now = D.loss_at(launches, memory, memory, launches.initial[id(memory)][1].reshape(-1))
        except QuadrantsAssertionError as e:
            return Report(name, was, says="the program ends with an error", causes=(because(e),))
        if not abs(now - was) <= 1000 * float(np.finfo(memory.operand.dtype).eps) * max(abs(now), abs(was)):
            return Report(
                name, was,
                says=f"making the launches again gives {now:.6g} and not {was:.6g}, so there is nothing to "
                "compare with: Python writes to fields between them, or takes gradients, or they race",
            )  # fmt: skip
        it = Check(launches, memory, Tangents(launches, memory), was, monotonic() + seconds, tell)
        it.quiet = frozenset() if explain else frozenset(outputs(launches))
        found: list[Verdict] = []
        try:
            for each, x in inputs.items():
                tell(f"the gradient of {each} ({len(found) + 1} of {len(inputs)})")
                found.append(_verdict(it, each, x))
        except KeyboardInterrupt:
            return Report(name, was, tuple(found), stopped=True)
        return Report(name, was, tuple(found))


def _again(launches: Launches) -> None:
    """The launches once more, from memory as it was before them."""
    D.restore(launches)
    launches.repeat()


def _verdict(it: Check, name: str, x: D.Input) -> Verdict:
    """By differences, by forward mode, and why."""
    tangent = _tangent(it, x) if np.isfinite(x.gradient).all() else None
    seen = _by_differences(it, name, x, tangent)
    if tangent is not None:
        agrees = tangent.apart <= _AGREES_FORWARD[it.bits]
        says, kind = seen.says, seen.kind
        if not agrees and kind != "kink":  # at a kink each mode may take another side
            says = "differs from forward mode" if seen.good else f"{says}; it differs from forward mode, too"
            kind = "wrong" if seen.good else kind
        elif seen.good and tangent.found == tangent.expected == 0:
            says += "; forward mode gives zero, too"
        elif seen.good:
            says += " and" if says.startswith("agrees") else ", but agrees"
            close = "to the last digit" if tangent.found == tangent.expected else "as far as rounding lets see"
            says += " with forward mode " + (f"to {tangent.apart:.0e}" if tangent.apart else close)
        seen = replace(seen, says=says, tangent=tangent, kind=kind)
    it.say(f"why the gradient of {name} is as it is")
    return _explained(it, seen, x)


def _explained(it: Check, seen: Verdict, x: D.Input) -> Verdict:
    """The verdict with its causes, and with which elements are wrong."""
    why: Cause | None = None
    tolerance = _AGREES_FORWARD[it.bits]
    if seen.kind == "nonfinite":
        if it.backwards is None:
            it.backwards = first_nonfinite(lambda: _backwards(it), it.launches)
        why = it.backwards
    elif seen.kind == "wrong" and seen.tangent is not None and seen.tangent.apart > tolerance:
        why = _parted(it, x) if monotonic() < it.until else None
        seen = replace(seen, wrong=wrong_elements(it.tangents, x, tolerance, it.until))
    elif seen.good and seen.tangent is not None and it.own:
        why = _parted(it, x) if monotonic() < it.until else None
        if why is not None:
            seen = replace(seen, kind="wrong", says=f"is off at a launch, though too little to show: it {seen.says}")
    elif not seen.good or not (x.gradient.any() or id(x.memory) in it.quiet):
        trace = _traced(it, x, seen)
        if trace is not None and seen.kind == "kink":
            why = why_kink(trace)
            if why is None and not trace.partial and seen.tangent is not None and seen.tangent.apart <= tolerance:
                says = "agrees with forward mode; the loss bends sharply close by, but no statement stands at a kink"
                return replace(seen, kind="right", says=says)
        elif trace is not None:
            why = why_zero(trace, seen.field)
            unsure = trace.partial and why.kind in ("unread", "unreached", "small")
            why = None if unsure or (why.kind == "small" and x.gradient.any()) else why
    return seen if why is None else replace(seen, causes=(why,))


def _parted(it: Check, x: D.Input) -> Cause | None:
    _again(it.launches)
    tolerance = _AGREES_FORWARD[it.bits]
    parted = None
    with suppress(TooLong):
        parted = part(it.tangents, x.memory, _direction(x), tolerance)
    if parted is None:
        return None
    it.say("the statement at which they part")
    return why_parted(parted, narrow(it.tangents, parted, tolerance))


def _traced(it: Check, x: D.Input, seen: Verdict) -> Trace | None:
    """From all elements of the input; where that takes too long, from the one that is off the most, or at a kink."""
    with suppress(TooLong, QuadrantsError, ArithmeticError):
        return follow(it.launches, it.loss, x.memory, _direction(x), min(FOLLOWED / 2, it.seconds))
    at = seen.at if seen.at is not None else _bent(it, x, seen.moves) if seen.kind == "kink" else x.gradient.size // 2
    with suppress(TooLong, QuadrantsError, ArithmeticError):
        return follow_one(it.launches, it.loss, x.memory, at, it.tangents.session, FOLLOWED)
    return None


def _backwards(it: Check) -> None:
    """All gradients once more."""
    with unwatched():
        _again(it.launches)
    restart(it.launches, it.loss)
    it.launches.differentiate()


def _tangent(it: Check, x: D.Input) -> Tangent | None:
    if not it.tangents.possible:
        return None
    way = _direction(x)
    try:
        found = it.tangents.along(x.memory, way)
    except QuadrantsError:  # something that has a gradient and no tangent
        return None
    if not np.isfinite(found):  # 0 times an infinite slope, of an input that does not move: it says nothing of this one
        return None
    expected = float(x.gradient @ way)
    size = max(float(np.abs(x.gradient) @ np.abs(way)), abs(found))
    start = np.abs(D.initial(it.launches, x.memory))
    least = 1e-3 * float(np.finfo(it.loss.dtype.numpy).eps) * abs(it.value) / (float(start.max(initial=0.0)) or 1.0)
    size = max(size, least) or 1.0  # what no step of the loss could ever show is no difference
    off = abs(found - expected)
    if off > _AGREES_FORWARD[it.bits] * size:
        off = max(off - it.tangents.rounding(x.memory, way, found), 0.0)  # in this order a NaN stays one
    return Tangent(found, expected, off / size)


def _direction(x: D.Input) -> npt.NDArray[np.float64]:
    """Of sizes that differ: along 1 and -1 equal elements of a gradient would cancel out. f16 holds them exactly."""
    draw = np.random.default_rng(0)
    size = x.gradient.size
    way: npt.NDArray[np.float64] = np.where(draw.random(size) < 0.5, -1.0, 1.0)
    way *= draw.integers(32, 65, size) / 64
    return way


def _by_differences(it: Check, name: str, x: D.Input, tangent: Tangent | None) -> Verdict:
    found = tuple(D.moves(it.launches, it.loss, x, _direction(x), WIDTHS))
    if not np.isfinite(x.gradient).all():
        return Verdict(name, "nonfinite", "has elements that are NaN or infinite", found)
    if not found:
        says = "cannot be compared with differences: a step of any width leads an index out of bounds"
        return Verdict(name, "noisy", says)
    limit, scatter = _AGREES[it.bits], _scatter(found)
    if tangent is None:  # nothing else sees a small difference: as small a one as these steps can tell
        limit = min(limit, max(_FINEST[it.bits], 4 * scatter))
    best = _best(found, limit)
    still = max(abs(best.found), abs(best.expected)) <= best.noise
    if _in_jumps(found):
        says = "is zero, and the loss moves in jumps: rounding, comparisons, integers"
        return Verdict(name, "jumps", says, found)
    agree = tangent is not None and tangent.apart <= _AGREES_FORWARD[it.bits]
    if limit < best.apart <= 2 * scatter and (agree or tangent is None) and not _kinked(found):
        says = f"is within the noise: differences scatter by {scatter:.0%}, too much to judge it by"
        return Verdict(name, "noisy", says, found)
    worst, at = _worst(it, x, limit) if best.apart > limit else (None, None)
    if worst is not None:
        what = "is 0 there, but the loss moves" if worst.gradient == 0 else f"is {worst.gradient:.6g} there"
        says = f"is WRONG at [{worst.index}]: it {what}, by finite differences it is {worst.slope:.6g}"
        return Verdict(name, "wrong", says, found, worst=worst, at=at)
    if at is not None or _kinked(found, apart=best.apart > limit):
        says = f"{'is zero' if still else 'is one of several'}, at a kink: the loss has another slope to each side"
        return Verdict(name, "kink", says, found, at=at)
    if agree and _narrow(found).apart <= limit < best.apart:
        return Verdict(name, "right", "agrees with finite differences by narrow steps", found)
    if best.apart > limit:
        says = "differs from finite differences, but in none of the elements that were moved alone"
        return Verdict(name, "wrong", says, found)
    if still:
        says = "is too small to be seen in the loss" if x.gradient.any() else "is zero, and the loss does not move"
        return Verdict(name, "right", says, found)
    to = f"to {best.apart:.0e}" if best.apart else "as far as rounding lets see"
    return Verdict(name, "right", f"agrees with finite differences {to}", found)


def _scatter(found: Sequence[D.Move]) -> float:
    """By how much the slopes of two neighbouring widths differ where they do so least, relative: what the differences
    themselves show of their noise."""
    slopes = [m.found / m.width for m in found if abs(m.found) > m.noise]
    return min((abs(a - b) / max(abs(a), abs(b)) for a, b in pairwise(slopes)), default=1.0)


def _best(found: Sequence[D.Move], limit: float) -> D.Move:
    """The widest step of those that agree best, among steps in which rounding cannot hide a difference of ``limit``;
    where there are not two of these, among steps that show more than rounding."""
    sizes = [(m, max(abs(m.found), abs(m.expected))) for m in found]
    clear = [m for m, size in sizes if size * limit > m.noise]
    if len(clear) < 2:
        clear = [m for m, size in sizes if size > m.noise] or list(found)
    return min(clear, key=lambda m: (m.apart, -m.width))


def _narrow(found: Sequence[D.Move]) -> D.Move:
    """The narrowest step that shows well more than rounding."""
    return next((m for m in reversed(found) if abs(m.found) > 8 * m.noise), found[0])


def _in_jumps(found: Sequence[D.Move]) -> bool:
    """Whether the gradient is zero, and wide steps change the loss where narrow ones, which would show, do not."""
    if any(abs(m.expected) > m.noise for m in found):
        return False
    wide = next((m for m in found if abs(m.found) > m.noise), None)
    if wide is None:
        return False
    slope = abs(wide.found) / wide.width
    return any(abs(m.found) <= m.noise < 0.1 * slope * m.width for m in found)


def _kinked(found: Sequence[D.Move], apart: bool = True) -> bool:
    """Whether the bend shrinks as the step does, and not as its square: over three steps in a row, or, where no step
    agrees with the gradient (``apart``), over two where it is a good part of what the loss changes by; and so on down
    to the narrowest step at which it would show: what is round below some width is smooth. What is round only within
    a few roundings of an f32 is a kink all the same."""
    bent = [m for m in found if abs(m.bend) > 8 * m.noise]
    narrow = [m for m in found if m.width > _ROUND * found[0].width]

    def lasts(b: D.Move) -> bool:
        least = ((m, abs(b.bend) * m.width / b.width) for m in narrow if m.width < b.width)
        return not any(size > 8 * m.noise and abs(m.bend) < 0.7 * size for m, size in least)

    pairs = [(b, b.bend * a.width / (a.bend * b.width), min(abs(m.bend / m.found) for m in (a, b) if m.found))
             for a, b in pairwise(bent) if a.found or b.found]  # fmt: skip
    alike = [0.7 < ratio < 1.4 and lasts(b) for b, ratio, _ in pairs]
    strong = apart and any(0.8 < ratio < 1.25 and part > 0.05 and lasts(b) for b, ratio, part in pairs)
    return strong or any(a and b for a, b in pairwise(alike))


def _worst(it: Check, x: D.Input, limit: float) -> tuple[Worst | None, int | None]:
    """The element that is off the most, None where none is, but for those at a kink; its place, or that of one at a
    kink."""
    enough = monotonic() + 0.3 * it.seconds  # what is left is for why it is so
    at: int | None = None
    some = np.unique(np.linspace(0, x.gradient.size - 1, MOST_ALONE, dtype=np.intp))
    worst: tuple[float, Worst | None] = (0.0, None)
    place = 0
    for n in map(int, some):
        alone = np.zeros(x.gradient.size)
        alone[n] = 1.0
        found = D.moves(it.launches, it.loss, x, alone, WIDTHS[1:6])
        if not found:
            continue
        best = _best(found, limit)
        size = abs(best.found - best.expected) / best.width
        if best.apart > limit and (_kinked(found) or _on_one_side(found, limit)):
            at = n if at is None else at
        elif best.apart > limit and size > worst[0]:
            index = ", ".join(map(str, np.unravel_index(n, x.shape)))
            worst = size, Worst(index, float(x.gradient[n]), best.found / (2 * best.width))
            place = n
        if monotonic() > (enough if worst[1] is not None else it.until):
            break
    return worst[1], at if worst[1] is None else place


def _bent(it: Check, x: D.Input, found: Sequence[D.Move]) -> int:
    """The element that bends the loss the most, by halves, at the narrowest step at which the bend shows."""
    width = min((m.relative for m in found if abs(m.bend) > 8 * m.noise), default=WIDTHS[0])
    where, way = np.arange(x.gradient.size), _direction(x)

    def bend(half: npt.NDArray[np.intp]) -> float:
        some = np.zeros_like(way)
        some[half] = way[half]
        return max((abs(m.bend) for m in D.moves(it.launches, it.loss, x, some, (width,))), default=0.0)

    while where.size > 1:
        where = max(np.array_split(where, 2), key=bend)
    return int(where[0])


def _on_one_side(found: Sequence[D.Move], limit: float) -> bool:
    """Whether the gradient is the slope to one side of a kink: at two neighbouring widths, and there is another slope
    to the other side."""

    def fits(m: D.Move, side: int) -> bool:
        off = abs(m.found + side * m.bend - m.expected)
        return abs(m.bend) > 4 * m.noise and off <= 2 * m.noise + limit * abs(m.expected)

    return any(fits(a, side) and fits(b, side) for a, b in pairwise(found) for side in (1, -1))
