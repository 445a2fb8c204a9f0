"""Decides where derivatives end at a function with a custom gradient: at the elements that its launches overwrite. If
only the data decide whether they do, the function that is the gradient has to clear the adjoints, and a warning tells
that it did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.facts import statements
from quadrants_lab.analysis.regions import Region, add, is_empty, minus, whole
from quadrants_lab.autodiff.diagnostics import GradientWarning, warn, warning
from quadrants_lab.errors import Label
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.memory.identity import memory_at
from quadrants_lab.runtime.memory.memory import THREAD, Memory
from quadrants_lab.runtime.tape.python_writes import write_elements
from quadrants_lab.runtime.tape.step import Boxes, Item, Step, Unclear, part
from quadrants_lab.runtime.tape.written import span_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.access_summary import AccessSummary

Inner = Sequence[tuple["AccessSummary", Sequence[Any]]]  # the launches within a call, and their arguments

MOST = 4  # so many launches of a kernel are examined in a recording


class Overwriting:
    """What the launches within a call of a function with a custom gradient overwrite if the data say so: copies of the
    values from before the call."""

    def __init__(self) -> None:
        self._examined: Counter[Plan] = Counter()
        # id of a memory -> the memory, the box, its values, and the launch that stores them
        self._before: dict[int, tuple[Memory, Region, npt.NDArray[Any], AccessSummary, Sequence[Any], str]] = {}

    def begin(self) -> None:
        """A call begins, maybe after one that has failed."""
        self._before.clear()

    def launch(self, summary: AccessSummary, args: Sequence[Any]) -> None:
        """A launch within a call is about to begin."""
        plan = summary.plan
        if not summary.derivatives or self._examined[plan] == MOST:
            return
        self._examined[plan] += 1
        stored = {id(memory): box for memory, _, box, _ in _stores(summary, args)}
        for name, place, footprint, _ in summary.writes:
            memory = memory_at(place, args)
            stores = any(isinstance(s, N.Store) for s in plan.facts.of(statements).get(name, ()))
            if not stores or memory.foreign or id(memory) in self._before or plan.gradient_of(name, args) is None:
                continue
            box = whole(memory.operand.shape) if footprint is None else footprint.of(args)
            if any(not is_empty(piece) for piece in minus(box, [stored[id(memory)]] if id(memory) in stored else [])):
                self._before[id(memory)] = memory, box, part(memory, box), summary, args, name

    def call(self, inner: Inner, touched: AbstractSet[int]) -> list[Unclear]:
        """What the call that has just ended overwrote. Memory that one of its launches reads is left out: what they
        store may follow from what was there, as ``y[i] = round(y[i])``. ``inner``, ``touched``: as for `ends`."""
        if not self._before:
            return []
        read = {id(memory_at(place, args)) for summary, args in inner for _, place, _ in summary.own_reads}
        found = []
        for memory, box, values, summary, args, name in self._before.values():
            grad = summary.plan.gradient_of(name, args)
            if grad is not None and memory.serial not in touched and id(memory) not in read:
                now = part(memory, box)
                changed = (now != values) & ~(np.isnan(now) & np.isnan(values))
                if changed.any():
                    found.append(Unclear(grad, box, changed, summary.plan, name))
        self._before.clear()
        return found


def ends(inner: Inner, touched: AbstractSet[int]) -> Boxes:
    """The elements of gradients in which derivatives end at the call of a function with a custom gradient. They belong
    to elements that its launches store, whatever the data, before anything reads them. ``inner``: these launches;
    ``touched``: serials of the memory that its Python code accessed."""
    launches = [(summary, args, _stores(summary, args)) for summary, args in inner]
    # id of a memory -> the elements that earlier launches read or stored
    decided: dict[int, list[Region]] = {
        id(memory): [] for _, _, stores in launches for memory, *_ in stores if memory.serial not in touched
    }
    found: Boxes = []
    for summary, args, stores in launches if decided else ():
        reads = [(memory_at(place, args), elements(args)) for _, place, elements in summary.own_reads]
        own = [(memory, stored) for memory, _, stored, _ in stores]
        for memory, grad, stored, before in stores:
            if (known := decided.get(id(memory))) is not None:
                pieces = minus(stored, known if before is None else [*known, before])
                found += [(grad, piece) for piece in pieces if not is_empty(piece)]
        for memory, region in (*reads, *own):
            if (known := decided.get(id(memory))) is not None:
                add(known, region)
    return found


def _stores(
    summary: AccessSummary, args: Sequence[Any]
) -> list[tuple[Memory, Memory, Region, Region | None]]:
    """What a launch certainly stores: memory that it uses under one name only, the memory's gradient, the box of the
    elements, and a box of those that may be read before."""
    plan = summary.plan
    if not summary.derivatives or not plan.stored:
        return []
    memories = plan.memories(args)
    uses = Counter(id(memory) for memory in memories.values())
    found = []
    for name, stored, before in plan.stored:
        grad = plan.gradient_of(name, args)
        if grad is not None and uses[id(memories[name])] == 1:
            found.append((memories[name], grad, stored.of(args), None if before is None else before.of(args)))
    return found


def inner_launches(items: Sequence[Item]) -> list[tuple[AccessSummary, tuple[Any, ...]]]:
    """The launches within the function with a custom gradient that has just returned; they are the last of the items.
    """
    found: list[tuple[AccessSummary, tuple[Any, ...]]] = []
    for step in reversed(items):
        if not isinstance(step, Step) or step.call or step.write or (step.launch and not step.inner):
            break
        if step.known is not None:
            found.insert(0, (step.known, step.args))
    return found


class Left:
    """Adjoints that custom gradients left as they were, though their functions overwrote the values. A warning comes
    as soon as the gradient of an earlier step takes such an adjoint for the one of its result."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Unclear, str]] = {}  # id of the adjoints' memory -> what, and the function's name

    def run_gradient(self, step: Step) -> None:
        """Runs the step's function `gradient`. After that of a call, it clears the adjoints of what the call overwrote
        whatever the data."""
        assert step.gradient is not None
        if step.launch is not None and step.known is not None:  # one that cannot be repeated, as with a numpy array
            self.launch(step.known, step.args)
        self.take([*(grad for grad, _ in step.ends), *(place.grad for place in step.unclear)])
        before = [place.adjoints() for place in step.unclear]
        step.gradient()
        clear(step.ends)
        for place, values in zip(step.unclear, before, strict=True):
            if step.call is not None and ((values != 0) & (values == place.adjoints())).any():
                self._found[id(place.grad)] = place, step.call[0].__name__

    def launch(self, summary: AccessSummary, args: Sequence[Any]) -> None:
        """The gradient of a launch is about to run."""
        if self._found:
            grads = [summary.plan.gradient_of(name, args) for name, *_ in summary.writes]
            self.take([grad for grad in grads if grad is not None])

    def take(self, grads: Iterable[Memory]) -> None:
        """These adjoints are about to be taken for those of results."""
        for grad in grads:
            if (found := self._found.pop(id(grad), None)) is not None:
                warn([_warning(*found)])


def _warning(place: Unclear, function: str) -> GradientWarning:
    name, kernel, span = place.buffer, place.plan.kernel.name, span_of(place.plan, place.buffer, N.Store)
    return warning(
        "QL0426",
        f"the gradient of {function} leaves {name}.grad as it was, where {kernel} overwrites {name}: it goes on to "
        "what was there before",
        () if span is None else (Label(span, "the data decide which elements it stores"),),
        f"set {name}.grad to 0 in this gradient, where {kernel} stores {name}",
        span,
    )


def clear(boxes: Boxes) -> None:
    """Sets the elements in these boxes of gradients to 0, because derivatives end there."""
    for grad, box in boxes:
        if box == whole(grad.operand.shape):
            grad.fill(0, THREAD.number)
        else:
            write_elements(grad, [(tuple(slice(*ends) for ends in box), 0)], True)
