"""Launch records: inputs, stack sizes and outputs of a launch."""

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
HEAD_BYTES = 16 << 20  # the most bytes of first elements, for all arrays of a launch whose copies do not fit
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class LaunchRecord:
    """One launch. ``inputs``: copies, by name, of the buffers that it reads, from before it. ``outputs``: copies of the
    buffers that it writes, from after it. Both are None if they did not fit into the recording's memory. ``shapes``:
    the shapes of all its arrays. ``returned``: the values of its "ret" buffers. ``report``, for a gradient: a row for
    each adstack. ``kept``: a row for each buffer whose overwritten values the launch saved. ``draws``: the launch
    number of its random draws. ``first``: it is the first launch of its specialisation. ``number``: its position in the
    recording, from 0. ``launch``: its number among the launches that are no gradients, from 1; a gradient has the
    number of its forward launch, or a separate number if that was not recorded. ``memories``: each buffer's memory, and
    its version after the launch. ``first_elements``: set by `first_elements` if there are no inputs. ``rounded``:
    launches before it were repeated to find its inputs, and the repetition summed in another order. ``data``: cache of
    `launch_data`."""

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
        """The depths of the stacks, by id."""
        return {row.stack: row.depth for row in self.report}

    @property
    def random(self) -> tuple[int, int]:
        """The seed and launch number that its random draws depend on."""
        return self.plan.session.settings.random_seed, self.draws


class Copier(Observer):
    """An observer that records the last launch, and copies everything that the launch reads and writes."""

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
        plan.session.finish()  # a launch may return before it is done
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
    """The first elements, flat, of arrays that a launch reads and that cannot be read after it, because it writes them
    too or because they are in none of the ``memories``. All elements of an array if they are equal. With ``none``,
    because there is no time to copy, no elements of any array."""
    read = {n for n in arrays if any(s.loads for s in plan.facts.of(statements).get(n, ()))}
    names = {n for n in read if n in plan.writes or n not in memories}
    each, found = 0 if none else HEAD_BYTES // max(len(names), 1), {}
    for n in names:
        flat = arrays[n].reshape(-1)
        if not none and flat.size and _all_equal(flat):  # for instance of a cleared gradient: this takes no memory
            found[n] = np.broadcast_to(flat[0].copy(), flat.shape)
        else:
            found[n] = flat[: each // flat.itemsize].copy()
    return found


def _all_equal(flat: npt.NDArray[Any]) -> bool:
    step = 1 << 20  # most arrays soon have a different element
    return all((flat[n : n + step] == flat[0]).all() for n in range(0, flat.size, step))
