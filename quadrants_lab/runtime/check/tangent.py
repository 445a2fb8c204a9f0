"""The derivative of a loss along a direction by forward mode, over launches that a tape recorded.

They are made again on the CPU, in a session beside the recorded one: every kernel with tangents beside its values, in
every buffer that has a gradient. So it shares the table of derivatives with the gradients, and nothing else.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.autodiff.second import with_tangents
from quadrants_lab.backends import DEFAULT
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import from_numpy
from quadrants_lab.runtime.compile.compile import DUAL, load_cached, make_ir
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.runtime.record.replay import frame_of, launch, shadow

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable
    from quadrants_lab.runtime.check.grad_check import Differentiable
    from quadrants_lab.runtime.compile.compile import Compiled
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.recorder import Launches


class Tangents:
    """Derivatives of ``loss`` over repeatable ``launches``. Holds memory of the session beside, of values and of
    tangents, by the id of what they stand for, and the kernels, which serve every direction."""

    def __init__(self, launches: Launches, loss: Differentiable) -> None:
        self.launches = launches
        self.loss: Memory = loss._memory
        self.session = shadow(self.loss.session, DEFAULT)
        self.values: dict[int, Memory] = {}
        self.tangents: dict[int, Memory] = {}
        self.made: dict[int, tuple[N.Kernel, Executable]] = {}  # by the id of what was compiled for the session

    def along(self, x: Differentiable, way: npt.NDArray[np.float64]) -> float | None:
        """The derivative by ``x`` along ``way``; None where a function with a gradient of its own was recorded, for
        that need not be the derivative of what it computes. Raises QuadrantsError where a kernel has no tangent."""
        if any(s.repeat is not None and s.launch is None and s.write is None for s in self.launches.leaves()):
            return None
        self.tangents = {}
        for touched, before in self.launches.initial.values():
            self.values[id(touched)] = self._memory(before)
            self.values[id(touched)].array[...] = before
        self._tangent(x._memory).array.reshape(-1)[...] = way
        for step in self.launches.leaves():
            if step.launch is not None:
                self._launch(*step.launch)
            elif step.write is not None and id(step.write[0]) in self.values:
                memory, elements = step.write
                for where, written in elements:
                    self.values[id(memory)].array[where] = written
                    if id(memory) in self.tangents:
                        self.tangents[id(memory)].array[where] = 0
        return float(self._tangent(self.loss).array[()])

    def _memory(self, like: npt.NDArray[Any]) -> Memory:
        dtype = from_numpy(like.dtype)
        assert dtype is not None
        return Memory(self.session, dtype, like.shape)

    def _tangent(self, of: Memory) -> Memory:
        if id(of) not in self.tangents:
            self.tangents[id(of)] = self._memory(of.values())
        return self.tangents[id(of)]

    def _launch(self, plan: Plan, args: tuple[Any, ...], number: int) -> None:
        kernel, executable = self._compiled(plan.compiled)
        behind: dict[str, Any] = {**plan.arrays(args), **plan.memories(args)}
        memories = {name: self.values[id(one)] for name, one in behind.items() if name in kernel.buffers}
        for name, b in kernel.buffers.items():
            if b.dual and name in behind:
                memories[b.dual] = self._tangent(behind[name])
        shapes = {name: memory.operand.shape for name, memory in memories.items()}
        record = LaunchRecord(plan, args, 0, None, shapes, draws=number)
        launch(record, frame_of(record, executable, kernel, self.session, memories), self.session)

    def _compiled(self, compiled: Compiled) -> tuple[N.Kernel, Executable]:
        if id(compiled) not in self.made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the gradient was compiled, and said what there is to say
                kernel = make_ir(with_tangents(compiled.lowered.kernel), DUAL, compiled.options)
            self.made[id(compiled)] = kernel, load_cached(kernel, compiled.options, self.session)
        return self.made[id(compiled)]
