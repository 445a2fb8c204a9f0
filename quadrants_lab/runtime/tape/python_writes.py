"""What Python writes under a Tape, between launches: constants, over values that gradients may read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.autodiff.warned import warn
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.followed import Followed
from quadrants_lab.runtime.tape.parts import HostPart
from quadrants_lab.runtime.tape.step import Step
from quadrants_lab.runtime.tape.writes import written_over

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.recorder import Launches


def notice(launches: Launches) -> None:
    """Notes what was written between launches."""
    if launches.rerun is not None:
        launches.rerun.end()
    for followed in launches.followed.values():
        if followed.shadow is not None:
            followed.compare()
        if followed.written or followed.memory.version != followed.version:
            _wrote(launches, followed)


def _wrote(launches: Launches, followed: Followed) -> None:
    memory, step = followed.memory, Step()
    unseen = memory.version - followed.version - len(followed.written)
    if unseen > 0 and followed.shadow is None and (followed.regions or followed.grad is not None):
        raise QuadrantsRuntimeError(
            f"{followed.name} was written under a Tape by a launch that the Tape did not see",
            code="QL2094",
            help="launch in the thread that opened the Tape, or before it",
        )
    written, followed.written = followed.written, []
    followed.version = memory.version
    for where, old in written:
        if old is not None and followed.reader:
            launches.keep(step, followed, HostPart(memory, where, old), "Python", None)
    if not launches.paused:
        now = memory.values()
        step.write = memory, [(where, np.array(now[where])) for where, _ in written]
        step.repeat = partial(write_elements, *step.write)
        if followed.grad is not None:
            if id(memory) not in launches.writes.written and memory.serial not in launches.constants:
                launches.constants.add(memory.serial)
                warn([written_over(followed.name, "grad")])
            step.gradient = partial(write_elements, followed.grad, [(where, 0) for where, _ in written], True)
    launches.add(step)
    if followed.tangent is not None:
        _no_tangent(launches, followed.tangent, [where for where, _ in written])


def _no_tangent(launches: Launches, followed: Followed, written: list[Any]) -> None:
    """What Python wrote to memory with that tangent is a constant."""
    tangent = followed.memory
    launches.constants.add(tangent.serial)  # what there is to say of it was said
    for where in written:
        tangent.write(where, 0)
    _wrote(launches, followed)


def write_again(launches: Launches, step: Step) -> None:
    """Does again what Python did, and records it."""
    assert step.write is not None
    memory, elements = step.write
    made = Step(step.gradient, step.repeat, [], None, step.write)
    followed = launches.followed.get(id(memory))
    if followed is not None and followed.regions:
        for where, _ in elements:
            launches.keep(made, followed, HostPart(memory, where, np.array(memory.values()[where])), "Python", None)
    write_elements(memory, elements, counts=True)
    if followed is not None:
        followed.version = memory.version
    launches.add(made)

def write_elements(memory: Memory, elements: Sequence[tuple[Any, Any]], counts: bool = False) -> None:
    for where, values in elements:
        memory.array[where] = values
    memory.flush()
    if counts:
        memory.version += 1
