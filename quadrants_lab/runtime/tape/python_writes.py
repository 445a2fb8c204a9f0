"""Records what Python writes between launches under a Tape. For derivatives, written values are constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.step import Step
from quadrants_lab.runtime.tape.tracked import Tracked

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.keeper import Keeper


def record_python_writes(launches: Keeper) -> None:
    """Records all writes since the last launch."""
    launches.end_rerun()
    for tracked in launches.tracked.values():
        if tracked.shadow is not None:
            tracked.compare()
        if tracked.written or tracked.memory.version != tracked.version:
            _wrote(launches, tracked)


def _wrote(launches: Keeper, tracked: Tracked) -> None:
    """Records, as a step, the writes to one memory."""
    memory, step = tracked.memory, Step()
    unseen = memory.version - tracked.version - len(tracked.written)
    if unseen > 0 and tracked.hold is None and (tracked.regions or tracked.grad is not None):
        raise tracked.unseen()
    written, tracked.written = tracked.written, []
    tracked.version = memory.version
    into = launches.open[0] if launches.open else step
    for _, part in written:
        if part is not None and tracked.reader:
            launches.keep(into, tracked, part, "Python", None)
            step.cost += part.nbytes if part.region is not None else memory.operand.nbytes
    if not launches.paused:
        places = [where for where, _ in written]
        step.write = memory, [(where, None) for where in places]
        if launches.recomputes or launches.repeatable:
            now = [memory.part(where) for where in places]
            nbytes = sum(values.nbytes for values in now)
            step.holds.append(tracked.account_for(nbytes).hold(nbytes))
            if not launches.account.short:
                step.write = memory, [(where, np.array(v)) for where, v in zip(places, now, strict=True)]
            step.repeat = partial(write_elements, *step.write)
        if tracked.grad is not None:
            if id(memory) not in launches.writes.written and memory.serial not in launches.constants:
                launches.constants.add(memory.serial)
                launches.overwritten.names[id(memory)] = tracked.name
            step.gradient = partial(write_elements, tracked.grad, [(where, 0) for where in places], True)
    launches.add(step)
    if tracked.tangent is not None:
        _no_tangent(launches, tracked.tangent, [where for where, _ in written])


def _no_tangent(launches: Keeper, tracked: Tracked, written: list[Any]) -> None:
    """Clears the tangents of elements that Python wrote, because these are constants."""
    tangent = tracked.memory
    launches.constants.add(tangent.serial)  # a warning was given when the values were overwritten
    for where in written:
        tangent.write(where, 0)
    _wrote(launches, tracked)


def write_elements(memory: Memory, elements: Sequence[tuple[Any, Any]], counts: bool = False) -> None:
    for where, values in elements:
        with memory.writing():
            if memory.recorded is not None:
                memory.recorded(memory, where, values)
            memory.put(where, values)
            memory.version += counts
    memory.flush()
