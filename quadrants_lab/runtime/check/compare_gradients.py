"""Compares each gradient of recorded launches with finite differences and with forward mode. This is the core of
the gradient doctor, `qd.ad.check`.

To compare with finite differences, all elements of a field are changed at once, along a direction whose elements are
from 1/2 to 1 in size, by steps of several widths. Over a wide step the loss is not linear, and the change by a narrow
step is lost in rounding, so the step that agrees best counts. If none agrees, elements are changed one by one. Forward
mode gives the derivative along the same direction without a step, as exactly as the gradient, and so finds errors that
differences of 32-bit numbers cannot show. Along that direction the contributions of many elements nearly cancel out,
and so does an error that all of them have in common, such as a factor. So a gradient that agrees is also compared along
its own signs.

`%%qdkernel --check`, `python -m quadrants_lab check`, ``qd.ad.Tape(grad_check=...)`` and ``qd.ad.check`` use it.
"""

import io
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsAssertionError, QuadrantsError
from quadrants_lab.runtime.check import SECONDS, differences, dot_product, slopes
from quadrants_lab.runtime.check.cause import Cause, because
from quadrants_lab.runtime.check.elements import wrong_elements
from quadrants_lab.runtime.check.first_difference import narrow
from quadrants_lab.runtime.check.flow import follow, follow_one
from quadrants_lab.runtime.check.launch_flow import TooLong, Trace
from quadrants_lab.runtime.check.nonfinite import first_nonfinite
from quadrants_lab.runtime.check.recording import outputs
from quadrants_lab.runtime.check.report import Report, Tangent, Verdict, Worst
from quadrants_lab.runtime.check.tangent import Tangents, is_own
from quadrants_lab.runtime.check.why import is_flat, why_decided, why_jump, why_kink, why_zero
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import unwatched
from quadrants_lab.runtime.tape.recorder import Launches

WIDTHS = tuple(10.0**-k for k in range(1, 9))
_BETWEEN = tuple(3 * 10.0**-k for k in range(2, 5))
_HIDDEN = 5e-3  # an error that rounding may hide is reported if it is so large
MOST_ALONE = 32  # the most elements that are changed one by one
FOLLOWED = 10.0  # the interpreter follows launches for at most so many seconds
_JUDGED = ("right", "noisy")  # the kinds of verdicts by differences that do not contradict the gradient
# Tolerances for relative differences; number of bits of the loss -> tolerance.
_AGREES = {16: 0.1, 32: 2e-2, 64: 1e-4}  # from finite differences
_AGREES_FORWARD = {16: 0.1, 32: 1e-3, 64: 1e-8}  # from forward mode
_LAST_DIGITS = {16: 2.0**-8, 32: 2.0**-20, 64: 2.0**-49}  # rounding
_FINEST = {16: 2e-2, 32: 2e-3, 64: 1e-5}  # the least tolerance, if it is derived from the scatter of the differences


@dataclass(slots=True)
class Check:
    """The state of a check. ``value``: the value of the loss. ``until``: the deadline. ``say`` is called with what is
    being checked, in words. ``quiet``: ids of memory for which no cause of a zero gradient is wanted, because launches
    write it before any reads it. ``backwards``: the cause of a NaN in the backward pass, once it is known."""

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
        """Whether there are custom gradients, whose errors may be small."""
        return any(map(is_own, self.launches.leaves()))

    @property
    def seconds(self) -> float:
        """How many seconds are left."""
        return max(0.5, self.until - monotonic())


def check(
    launches: Launches,
    loss: differences.Differentiable,
    fields: Mapping[str, differences.Differentiable],
    seconds: float = SECONDS,
    say: Callable[[str], None] = lambda text: None,
    explain: bool = False,
) -> Report:
    """Returns a verdict on each of the ``fields``, by name. Their gradients must have run. All are compared, but after
    ``seconds`` no more elements are changed one by one and no new search for the faulty launch begins; to explain a
    gradient that is zero, at a kink or NaN the interpreter takes up to 11 seconds more, each time. ``explain``: also
    find out why the gradient of a result is zero. Memory is restored."""
    memory = loss._memory
    name = launches.names.get(id(memory), "loss")
    if id(memory) not in launches.initial:
        return Report(name, math.nan, says="no launch touches the loss")
    output, screen = io.StringIO(), sys.stdout  # repeated kernels print into ``output``: the user has seen their prints
    with differences.saved(launches, [loss, *fields.values()]), redirect_stdout(output):

        def report_progress(text: str) -> None:
            with redirect_stdout(screen):
                say(text)

        inputs = differences.inputs_of(fields)
        was = float(memory.values().reshape(-1)[0])
        if not math.isfinite(was):
            report_progress("the first NaN or infinity")
            why = first_nonfinite(lambda: _again(launches))
            says = f"the loss is {was}, so there is nothing to compare with"
            return Report(name, was, says=says, causes=(why,) if why else ())
        try:
            now = differences.loss_at(launches, memory, memory, launches.initial[id(memory)][1].reshape(-1))
        except QuadrantsAssertionError as e:
            return Report(name, was, says="the program ends with an error", causes=(because(e),))
        if not abs(now - was) <= 1000 * float(np.finfo(memory.operand.dtype).eps) * max(abs(now), abs(was)):
            return Report(
                name, was,
                says=f"making the launches again gives {now:.6g} and not {was:.6g}, so there is nothing to "
                "compare with: Python writes to fields between them, or takes gradients (of a loop that trains, check "
                "one turn), or they race",
            )  # fmt: skip
        state = Check(launches, memory, Tangents(launches, memory), was, monotonic() + seconds, report_progress)
        state.quiet = frozenset() if explain else frozenset(outputs(launches))
        found: list[Verdict] = []
        try:
            for each, x in inputs.items():
                report_progress(f"the gradient of {each} ({len(found) + 1} of {len(inputs)})")
                found.append(_verdict(state, each, x))
        except KeyboardInterrupt:
            return Report(name, was, tuple(found), stopped=True)
        return Report(name, was, tuple(found))


def _again(launches: Launches) -> None:
    """Repeats the launches, from the memory before them."""
    differences.restore(launches)
    launches.repeat()


def _verdict(state: Check, name: str, x: differences.Input) -> Verdict:
    """The verdict on one input, and its causes."""
    tolerance, signs = _AGREES_FORWARD[state.bits], x.along_signs()
    tangent = _tangent(state, x) if np.isfinite(x.gradient).all() else None
    if tangent is not None and tangent.error <= tolerance and (other := _tangent(state, signs)) is not None:
        if other.error > tolerance:
            x, tangent = signs, other
        tangent = replace(tangent, error=max(tangent.error, other.error))
    seen = _by_differences(state, name, x, tangent)
    if tangent is None and seen.kind in _JUDGED and seen.moves:
        again = _by_differences(state, name, signs, None)
        # along its own signs, contributions do not cancel out, so noise hides less
        x, seen = (signs, again) if again.kind == "wrong" or seen.kind == "noisy" else (x, seen)
    judged = seen.kind in _JUDGED
    if tangent is not None:
        agrees = tangent.error <= tolerance
        says, kind = seen.says, seen.kind
        if not agrees and kind == "right" and state.own and _contradict(seen.moves, tangent, _AGREES[state.bits]):
            return replace(seen, says=f"{says}; a function with a custom gradient hides some of it from forward mode")
        if not agrees and kind != "kink":  # at a kink the two modes may use the slopes of different sides
            says = "differs from forward mode" if judged else f"{says}; it differs from forward mode, too"
            kind = "wrong" if judged else kind
        elif judged and tangent.found == tangent.expected == 0:
            says += "; forward mode gives zero, too"
        elif judged:
            says += " and" if says.startswith("agrees") else ", but agrees"
            # threads may add in another order each time, so results are not bit-equal
            close = tangent.error <= _LAST_DIGITS[state.bits]
            says += f" with forward mode to {'the last digits' if close else f'{tangent.error:.0e}'}"
        seen = replace(seen, says=says, tangent=tangent, kind=kind)
    seen = replace(seen, zero=not x.gradient.any())
    if seen.zero and seen.kind == "right" and id(x.memory) in state.quiet:
        says = "was passed on: the launches write it before they read it, so it goes to what they compute it from"
        return replace(seen, says=says, zero=False)
    state.say(f"why the gradient of {name} is as it is")
    return _explained(state, seen, x)


def _explained(state: Check, seen: Verdict, x: differences.Input) -> Verdict:
    """The verdict, completed with its causes and the map of wrong elements."""
    why: Cause | None = None
    tolerance = _AGREES_FORWARD[state.bits]
    if seen.kind == "nonfinite":
        if state.backwards is None:
            state.backwards = first_nonfinite(lambda: _backwards(state), state.launches)
        why = state.backwards
    elif seen.kind == "wrong" and seen.tangent is not None and seen.tangent.error > tolerance:
        why = _mismatched(state, x) if monotonic() < state.until else None
        seen = replace(seen, wrong=wrong_elements(state.tangents, x, tolerance, state.until))
    elif seen.kind in _JUDGED and seen.tangent is not None and state.own:
        why = _mismatched(state, x) if monotonic() < state.until else None
        if why is not None:
            seen = replace(seen, kind="wrong", says=f"is off at a launch, though too little to show: it {seen.says}")
    elif seen.kind not in _JUDGED or not (x.gradient.any() or id(x.memory) in state.quiet):
        trace = _traced(state, x, seen)
        if trace is not None:
            seen, why = _by_trace(state, x, seen, trace)
    return seen if why is None else replace(seen, causes=(why,))


def _by_trace(state: Check, x: differences.Input, seen: Verdict, trace: Trace) -> tuple[Verdict, Cause | None]:
    """The verdict, corrected by what a trace from the input to the loss shows, and the cause that the trace shows."""
    agrees = seen.tangent is not None and seen.tangent.error <= _AGREES_FORWARD[state.bits]
    if seen.kind == "kink":
        why = why_kink(trace)
        if why is not None or trace.partial or not agrees:
            return seen, why
        why = why_jump(trace, seen.field)
        if why is None or slopes.best_of(seen.moves, _AGREES[state.bits]).error <= _AGREES[state.bits]:
            says = "agrees with forward mode; the loss bends sharply close by, but no statement stands at a kink"
            return replace(seen, kind="right", says=says), None
        if x.gradient.any():
            return seen, why
        seen = replace(seen, kind="jumps", says=_JUMPS)  # the point is right at the edge of a jump
    # values in the trace may not be those of the wrong gradient
    if seen.kind == "wrong" and not state.tangents.possible:
        return seen, why_jump(trace, seen.field) or dot_product.why_in_python(state.launches)
    jump = why_jump(trace, seen.field)
    if seen.kind == "wrong" and agrees and jump is not None and jump.kind in ("jumps", "integer"):
        says = "is the slope of the loss between jumps, which differences cross" if x.gradient.any() else _JUMPS
        return replace(seen, kind="jumps", says=says), jump
    why = why_zero(trace, seen.field)
    if seen.kind == "jumps" and agrees and is_flat(trace):
        return replace(seen, kind="right", says="is zero, and the loss is flat here: only wide steps move it"), why
    if trace.partial and why.kind in ("unread", "unreached", "small"):
        return seen, None
    if why.kind == "small" and x.gradient.any():
        at = () if seen.at is None else tuple(int(k) for k in np.unravel_index(seen.at, x.shape))
        return seen, why_decided(trace, seen.field, at)
    return seen, why


def _mismatched(state: Check, x: differences.Input) -> Cause | None:
    """The launch at which the gradient and forward mode disagree, as a cause; None if there is none. Among many
    elements, a single wrong element is lost in the tolerance of their sum; so a smaller difference counts, too, if one
    element causes it."""
    tolerance = _AGREES_FORWARD[state.bits]
    for part in (1.0,) if state.bits == 64 else (1.0, 2e-3):
        _again(state.launches)
        found = None
        with suppress(TooLong):
            found = dot_product.find_mismatch(state.tangents, x.memory, x.direction, part * tolerance)
        if found is not None:
            state.say("the statement at which they part")
            close = narrow(state.tangents, found, tolerance)
            if part == 1.0 or (close is not None and close.makes(found)):
                return dot_product.why_mismatched(found, close)
    return None


def _traced(state: Check, x: differences.Input, seen: Verdict) -> Trace | None:
    """Follows all elements of the input to the loss; if that takes too long, only the element with the greatest error,
    or an element at a kink."""
    with suppress(TooLong, QuadrantsError, ArithmeticError):
        return follow(state.launches, state.loss, x.memory, x.direction, min(FOLLOWED / 2, state.seconds))
    at = seen.at
    if at is None:
        at = _bent(state, x, seen.moves) if seen.kind == "kink" else x.gradient.size // 2
    with suppress(TooLong, QuadrantsError, ArithmeticError):
        return follow_one(state.launches, state.loss, x.memory, at, state.tangents.session, FOLLOWED)
    return None


def _backwards(state: Check) -> None:
    """Repeats the launches and their gradients."""
    with unwatched():
        _again(state.launches)
    dot_product.seed_gradients(state.launches, state.loss)
    state.launches.differentiate()


def _tangent(state: Check, x: differences.Input) -> Tangent | None:
    """Compares the gradient with forward mode; None if that is not possible or gives no finite number."""
    if not state.tangents.possible:
        return None
    direction = x.direction
    try:
        found = state.tangents.along(x.memory, direction)
    except QuadrantsError:  # a kernel has a gradient but no tangent
        return None
    if not np.isfinite(found):  # 0 times the infinite slope of another input, which is not changed, is NaN
        return None
    expected = float(x.gradient @ direction)
    size = max(float(np.abs(x.gradient) @ np.abs(direction)), abs(found))
    greatest = float(np.abs(differences.initial(state.launches, x.memory)).max(initial=0.0)) or 1.0
    least = 1e-3 * float(np.finfo(state.loss.dtype.numpy).eps) * abs(state.value) / greatest
    size = max(size, least) or 1.0  # a difference that can never change the loss counts as none
    off = abs(found - expected)
    if off > _AGREES_FORWARD[state.bits] * size:
        off = max(off - state.tangents.rounding(x.memory, direction, found), 0.0)  # max(NaN, 0.0) is NaN
    return Tangent(found, expected, off / size)


_JUMPS = "is zero, and the loss moves in jumps: rounding, comparisons, integers"


def _by_differences(state: Check, name: str, x: differences.Input, tangent: Tangent | None) -> Verdict:
    found = tuple(differences.moves(state.launches, state.loss, x, x.direction, WIDTHS))
    if not np.isfinite(x.gradient).all():
        return Verdict(name, "nonfinite", "has elements that are NaN or infinite", found)
    if not found:
        says = "cannot be compared with differences: a step of any width leads an index out of bounds"
        return Verdict(name, "noisy", says)
    limit, scatter = _AGREES[state.bits], slopes.scatter(found)
    # only differences can show a small error here, so the tolerance is as small as their scatter allows
    if tangent is None:
        limit = min(limit, max(_FINEST[state.bits], 4 * scatter))
    best = slopes.best_of(found, _AGREES[state.bits])
    still = max(abs(best.found), abs(best.expected)) <= best.noise
    if slopes.in_jumps(found):
        return Verdict(name, "jumps", _JUMPS, found)
    if x.gradient.any() and slopes.at_a_jump(found):
        return Verdict(name, "jumps", "is the slope beside a jump: the loss has another value to each side", found)
    agree = tangent is not None and tangent.error <= _AGREES_FORWARD[state.bits]
    measured, unsure = (1.0, math.inf) if tangent is not None else _measured(state, x, found)
    differs = abs(measured - 1) > max(_FINEST[state.bits], 1.5 * unsure)
    if limit < best.error <= 2 * scatter and (agree or tangent is None) and not slopes.kinked(found):
        if not x.gradient.any() and slopes.flattens(found):
            return Verdict(name, "right", "is zero, and so is the slope of the loss where steps are narrow", found)
        if not x.gradient.any():  # noise has a slope, since each step, however narrow, crosses a jump of some element
            return Verdict(name, "jumps", _JUMPS, found)
        return Verdict(name, "noisy", _scattered(scatter), found)
    worst, at = _worst(state, x, limit) if best.error > limit else (None, None)
    if worst is not None:
        what = "is 0 there, but the loss moves" if worst.gradient == 0 else f"is {worst.gradient:.6g} there"
        says = f"is WRONG at [{worst.index}]: it {what}, by finite differences it is {worst.slope:.6g}"
        return Verdict(name, "wrong", says, found, worst=worst, at=at)
    if at is not None or slopes.kinked(found, wrong=best.error > limit):
        says = f"{'is zero' if still else 'is one of several'}, at a kink: the loss has another slope to each side"
        return Verdict(name, "kink", says, found, at=at)
    if agree and slopes.narrowest(found).error <= limit < best.error:
        return Verdict(name, "right", "agrees with finite differences by narrow steps", found)
    if best.error > limit and (agree or tangent is None) and slopes.only_bends(found):
        says = "cannot be judged by differences: the loss bends too much within each step that rounding does not hide"
        return Verdict(name, "noisy", says, found)
    if best.error > limit or (differs and not slopes.kinked(found)):
        says = "differs from finite differences, but in none of the elements that were moved alone"
        if differs and measured:
            says = f"is WRONG: along one direction it gives {1 / measured:.4g} times what finite differences give"
        return Verdict(name, "wrong", says, found)
    if still:
        says = "is too small to be seen in the loss" if x.gradient.any() else "is zero, and the loss does not move"
        return Verdict(name, "right", says, found)
    to = f"to {best.error:.0e}" if best.error else "within rounding error"
    if tangent is None and x.gradient.any() and unsure > 0.5:
        return Verdict(name, "noisy", _scattered(max(scatter, min(unsure, 1.0))), found)
    if tangent is None and x.gradient.any() and unsure > _HIDDEN:
        to += f", which hides errors of less than {unsure:.0%}"
    return Verdict(name, "right", f"agrees with finite differences {to}", found)


def _measured(state: Check, x: differences.Input, found: Sequence[differences.Move]) -> tuple[float, float]:
    """What `slopes.measured` returns for ``found``. For f32 and f16, steps between those of ``found`` are tried too,
    because fewer than three of ``found`` may be neither too wide nor too narrow."""
    if state.bits < 64:
        between = differences.moves(state.launches, state.loss, x, x.direction, _BETWEEN)
        found = sorted((*found, *between), key=lambda m: -m.width)
    eps = float(np.finfo(state.loss.dtype.numpy).eps)
    return slopes.measured(found, 16 * eps * float(np.abs(x.gradient) @ np.abs(x.direction)))


def _scattered(scatter: float) -> str:
    return f"is within the noise: differences scatter by {scatter:.0%}, too much to judge it by"


def _contradict(found: Sequence[differences.Move], tangent: Tangent, limit: float) -> bool:
    """Whether differences agree with the gradient and contradict forward mode, beyond doubt. This happens if a function
    with a custom gradient computes in Python, between its launches."""
    best = slopes.best_of(found, limit)
    size = max(abs(best.found), best.noise)
    return best.error <= limit and abs(best.found - 2 * best.width * tangent.found) > 10 * limit * size


def _worst(state: Check, x: differences.Input, limit: float) -> tuple[Worst | None, int | None]:
    """The element with the greatest error that is not at a kink, None if there is none; and the flat index of this
    element, or else of an element at a kink."""
    enough = monotonic() + 0.3 * state.seconds  # the rest of the time is for finding the cause
    at: int | None = None
    some = np.unique(np.linspace(0, x.gradient.size - 1, MOST_ALONE, dtype=np.intp))
    worst: tuple[float, Worst | None] = (0.0, None)
    place = 0
    for n in map(int, some):
        one = np.zeros(x.gradient.size)
        one[n] = 1.0
        found = differences.moves(state.launches, state.loss, x, one, WIDTHS[1:6])
        if not found:
            continue
        best = slopes.best_of(found, _AGREES[state.bits])
        size = abs(best.found - best.expected) / best.width
        if best.error > limit and (slopes.kinked(found) or slopes.on_one_side(found, limit)):
            at = n if at is None else at
        elif best.error > limit and size > worst[0] and not slopes.only_bends(found):
            index = ", ".join(map(str, np.unravel_index(n, x.shape)))
            worst = size, Worst(index, float(x.gradient[n]), best.found / (2 * best.width))
            place = n
        if monotonic() > (enough if worst[1] is not None else state.until):
            break
    return worst[1], at if worst[1] is None else place


def _bent(state: Check, x: differences.Input, found: Sequence[differences.Move]) -> int:
    """The flat index of the element that bends the loss the most; found by bisection at the narrowest step at which the
    bend shows."""
    width = min((m.relative for m in found if abs(m.bend) > 8 * m.noise), default=WIDTHS[0])
    where, direction = np.arange(x.gradient.size), x.direction

    def bend(half: npt.NDArray[np.intp]) -> float:
        some = np.zeros_like(direction)
        some[half] = direction[half]
        return max((abs(m.bend) for m in differences.moves(state.launches, state.loss, x, some, (width,))), default=0.0)

    while where.size > 1:
        where = max(np.array_split(where, 2), key=bend)
    return int(where[0])
