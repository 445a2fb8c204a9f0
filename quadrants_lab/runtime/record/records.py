"""Defines launch records: inputs, sizes of stacks and outputs of a launch."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.facts import statements
from quadrants_lab.runtime.observe.observers import Observer

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow, StackRow
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

COPY_BYTES = 256 << 20
HEAD_BYTES = 16 << 20  # the most bytes of first elements that are stored of a launch whose arrays are too large to copy
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class LaunchRecord:
    """The record of one launch. ``inputs``: name of each buffer that it reads -> a copy from before it. ``outputs``:
    name of each buffer that it writes -> a copy from after it. Both are None if they did not fit in the recording's
    memory. ``shapes``: the shapes of all its arrays. ``returned``: the values of its "ret" buffers. ``report``, for a
    gradient: a row for each adstack. ``kept``: a row for each buffer whose overwritten values the forward launch saved.
    ``draws``: the launch number that its random draws depend on. ``first``: it is the first launch of its
    specialisation. ``number``: its index in the recording. ``launch``: it is the launch with this number, from 1, among
    those that are no gradients; a gradient has the number of its forward launch, or one of its own if that was not
    recorded. ``memories``: the memory of each buffer, with its version after the launch. ``first_elements``: set by the
    function `first_elements` if there are no inputs. ``rounded``: its inputs were found by repeating launches before
    it, and the repetition rounded sums differently. ``data``: a cache for `launch_data`."""

    plan: Plan
    args: tuple[Any, ...]
    number: int
    inputs: Arrays | None
    shapes: dict[str, tuple[int, ...]]
    outputs: Arrays | None = None
    returned: dict[str, Any] = field(default_factory=dict)
    report: tuple[StackRow, ...] = ()
    kept: tuple[KeptRow, ...] = ()
    draws: int = 0
    seconds: float = 0.0
    first: bool = False
    failed: bool = False
    launch: int = 0
    memories: dict[str, tuple[Memory, int]] = field(default_factory=dict)
    first_elements: Arrays = field(default_factory=dict)
    rounded: bool = False
    data: Any = None

    @property
    def kernel(self) -> str:
        return self.plan.kernel.name

    @property
    def mode(self) -> str:
        """ "forward" or "reverse"."""
        mode: str = self.plan.owner.mode
        return mode

    @property
    def scalars(self) -> dict[str, Any]:
        return self.plan.scalars(self.args)

    @property
    def caps(self) -> dict[int, int]:
        """Maps the id of each stack to its depth."""
        return {row.stack: row.depth for row in self.report}

    @property
    def random(self) -> tuple[int, int]:
        """The seed and launch number that its random draws depend on."""
        return self.plan.session.settings.random_seed, self.draws


class Copier(Observer):
    """An observer that makes a record of the last launch, with copies of everything that the launch reads and writes.
    """

    def __init__(self) -> None:
        self.record: LaunchRecord | None = None
        self.launches = 0

    def before(self, plan: Plan, args: tuple[Any, ...]) -> LaunchRecord:
        arrays = plan.arrays(args) | {name: memory.values() for name, memory in plan.given().items()}
        shapes = {name: a.shape for name, a in arrays.items()}
        self.record = LaunchRecord(plan, args, self.launches, None, shapes)
        read = {name: a for name, a in arrays.items() if name in touched(plan)}
        if sum(a.nbytes for a in read.values()) <= COPY_BYTES:
            self.record.inputs = {name: a.copy() for name, a in read.items()}
        self.launches += 1
        return self.record

    def after(self, plan: Plan, args: tuple[Any, ...], token: LaunchRecord, failed: bool) -> None:
        plan.session.finish()  # wait here, since a launch may return before it is done
        token.failed = failed
        token.memories = {name: (memory, memory.version) for name, memory in plan.memories(args).items()}
        if token.inputs is not None:
            token.outputs = {name: a.copy() for name, a in plan.arrays(args).items() if name in plan.writes}
        token.returned = {} if failed else {name: plan.frame.ret(name) for name in plan.compiled.returns}
        token.report, token.draws = tuple(plan.report()), plan.drawn()


def touched(plan: Plan) -> AbstractSet[str]:
    """The names of the buffers of a launch that a record contains."""
    return plan.reads | plan.writes | plan.primal_reads | plan.given().keys()


def first_elements(plan: Plan, arrays: Arrays, memories: AbstractSet[str], none: bool = False) -> Arrays:
    """The first elements, flat, of arrays that a launch reads and that cannot be read after the launch, because it
    overwrites them or because they are in none of the ``memories``. If all elements of an array are equal, all of them.
    With ``none``, because there is no time to copy, no elements of any array."""
    read = {n for n in arrays if any(s.loads for s in plan.facts.of(statements).get(n, ()))}
    names = {n for n in read if n in plan.writes or n not in memories}
    each, found = 0 if none else HEAD_BYTES // max(len(names), 1), {}
    for n in names:
        flat = arrays[n].reshape(-1)
        # often a cleared gradient; the array of equal elements takes no memory
        if not none and flat.size and _all_equal(flat):
            found[n] = np.broadcast_to(flat[0].copy(), flat.shape)
        else:
            found[n] = flat[: each // flat.itemsize].copy()
    return found


def _all_equal(flat: npt.NDArray[Any]) -> bool:
    step = 1 << 20  # compared in steps, since in most arrays a different element is found soon
    return all((flat[n : n + step] == flat[0]).all() for n in range(0, flat.size, step))
