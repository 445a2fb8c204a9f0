"""Computes the derivative of a loss along a direction by forward mode, over launches that a Tape has recorded.

The launches are repeated on the CPU, in a second session, by kernels that compute tangents besides values for every
buffer with a gradient. These kernels have nothing in common with the gradients but the table of derivatives.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.autodiff.second import with_tangents
from quadrants_lab.backends import DEFAULT
from quadrants_lab.backends.launch import Executable
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.cell_order import Order
from quadrants_lab.ir.types import from_numpy
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.specialisation import DUAL, Compiled, load_cached
from quadrants_lab.runtime.launch.plan import Plan
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.runtime.record.replay import add_scratch, frame_of, launch, shadow
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.runtime.tape.step import Step


class Tangents:
    """Computes derivatives of ``loss`` over ``launches`` by repeating them in a second session. ``values`` maps the
    id of a recorded memory to the second session's memory for its values, ``tangents`` to that for its tangent.
    ``made``: the compiled kernels, which serve every direction."""

    def __init__(self, launches: Launches, loss: Memory) -> None:
        self.launches = launches
        self.loss = loss
        self.session = shadow(self.loss.session, DEFAULT)
        self.values: dict[int, Memory] = {}
        self.tangents: dict[int, Memory] = {}
        # id of the recorded `Compiled` -> its kernel with tangents
        self.made: dict[int, tuple[N.Kernel, Executable]] = {}

    @property
    def possible(self) -> bool:
        """Whether forward mode can follow all steps; it cannot follow what a custom gradient hides."""
        return not opaque_steps(self.launches)

    def along(self, x: Memory, direction: npt.NDArray[np.float64], after: Callable[[], None] | None = None) -> float:
        """The derivative of the loss along ``direction`` at ``x``. It is the derivative of what the launches compute,
        even in functions with a custom gradient. ``after`` is called after each step. Raises QuadrantsError if a kernel
        has no tangent."""
        self.start()
        self._tangent(x).put(..., direction.reshape(x.operand.shape))
        for step in self.launches.leaves():
            self.step(step)
            if after is not None:
                after()
        return float(self._tangent(self.loss).values()[()])

    def rounding(
        self, x: Memory, direction: npt.NDArray[np.float64], found: float, scales: Sequence[float] = (3, 7, 1.7)
    ) -> float:
        """A bound for the rounding error of ``found``, the derivative along ``direction``. The derivative is computed
        again along the direction divided by each of the ``scales``, and multiplied by the scale; the bound is 16 times
        the greatest difference from ``found``."""
        return 16 * max(abs(n * self.along(x, direction / n) - found) for n in scales)

    def start(self) -> None:
        """Sets all values to what they were before the first step, and all tangents to 0."""
        self.tangents = {}
        for touched, before in self.launches.initial.values():
            if id(touched) not in self.values:
                self.values[id(touched)] = self._memory(before, getattr(touched, "order", ()))
            self.values[id(touched)].put(..., before)

    def step(self, step: Step) -> None:
        """Repeats one step, on values and tangents."""
        if step.launch is not None:
            self._launch(*step.launch)
        elif step.write is not None and id(step.write[0]) in self.values:
            memory, elements = step.write
            for where, written in elements:
                self.values[id(memory)].put(where, written)
                if id(memory) in self.tangents:
                    self.tangents[id(memory)].put(where, 0)

    def set(self, tangents: Mapping[int, npt.NDArray[Any]]) -> None:
        """Sets the tangents of memory with these ids; all others become 0."""
        self.tangents = {}
        for key, direction in tangents.items():
            self._tangent(self.values[key], key).put(..., direction)

    def _memory(self, like: npt.NDArray[Any], order: Order) -> Memory:
        dtype = from_numpy(like.dtype)
        assert dtype is not None
        return allocate(self.session, dtype, like.shape, order)

    def _tangent(self, of: Memory, key: int = 0) -> Memory:
        key = key or id(of)
        if key not in self.tangents:
            self.tangents[key] = self._memory(of.values(), of.order)
        return self.tangents[key]

    def _launch(self, plan: Plan, args: tuple[Any, ...], number: int) -> None:
        _, executable = self._compiled(plan.compiled)
        record, kernel, memories = self.record(plan, args, number)
        add_scratch(record.scalars, kernel, self.session, memories)
        launch(record, frame_of(record, executable, kernel, self.session, memories), self.session)

    def record(
        self, plan: Plan, args: tuple[Any, ...], number: int
    ) -> tuple[LaunchRecord, N.Kernel, dict[str, Memory]]:
        """Prepares a launch with tangents. Returns its record, its kernel, and name of a buffer -> memory, for values
        and tangents."""
        kernel, _ = self._compiled(plan.compiled)
        backing = plan.backing(args)
        memories = {name: self.values[id(one)] for name, one in backing.items() if name in kernel.buffers}
        for name, b in kernel.buffers.items():
            if b.dual and name in backing:
                memories[b.dual] = self._tangent(backing[name])
        shapes = {name: memory.operand.shape for name, memory in memories.items()}
        return LaunchRecord(plan, args, 0, None, shapes, draws=number), kernel, memories

    def _compiled(self, compiled: Compiled) -> tuple[N.Kernel, Executable]:
        if id(compiled) not in self.made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the same warnings were given when the gradient was compiled
                kernel = make_ir(with_tangents(compiled.lowered.kernel), DUAL, compiled.options)
            self.made[id(compiled)] = kernel, load_cached(kernel, compiled.options, self.session)
        return self.made[id(compiled)]


def is_own(step: Step) -> bool:
    """Whether the step is a call of a function with a custom gradient."""
    return step.gradient is not None and step.launch is None and step.write is None


def opaque_steps(launches: Launches) -> list[Step]:
    """The steps that forward mode cannot follow: functions with custom gradients that launched nothing, and those that
    `Tape.insert` added."""
    found: list[Step] = []
    before = None
    for step in launches.leaves():
        if step.repeat is not None and is_own(step) and not (before is not None and before.inner):
            found.append(step)
        before = step
    return found
