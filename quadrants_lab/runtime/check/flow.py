"""How far a derivative gets: the recorded launches once more in the reference interpreter, statement by statement, with
the tangent of every value that depends on an input, and the statement that ended it where there is none.

What a derivative does not follow is followed, too: casts to integers, comparisons, memory without a gradient, values
that are written over, branches and loops that do not run.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab import pipelines
from quadrants_lab.ir import nodes as N
from quadrants_lab.passes import pipeline
from quadrants_lab.runtime.check.launch_flow import Cell, Flow, LaunchFlow, Trace
from quadrants_lab.runtime.compile.compile import forward_ir
from quadrants_lab.runtime.interpret.interpreter import interpret

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.compile import Compiled
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.recorder import Launches


def follow(launches: Launches, loss: Any, x: Any, way: npt.NDArray[np.float64], seconds: float) -> Trace:
    """Follows ``x`` (memory) along a direction to the loss (memory). Raises TooLong."""
    follower = _Follower(launches, monotonic() + seconds)
    start = launches.initial[id(x)][1] if id(x) in launches.initial else x.values()
    for index, t in zip(np.ndindex(start.shape), way, strict=True):
        follower.cells[id(x), index] = Flow(start.dtype.type(t))
    number = 0
    for step in launches.leaves():
        launch = step.launch or step.within
        if launch is not None:
            number += 1
            follower.launch(number, *launch)
        elif step.write is not None:
            follower.write(number + 1, *step.write)
    follower.trace.loss = follower.cells.get((id(loss), ()), None)
    follower.trace.read |= id(loss) == id(x)
    return follower.trace


def forward_tasks(compiled: Compiled) -> N.Kernel:
    """The kernel as tasks, as its gradient starts from it."""
    made = forward_ir(compiled.lowered.kernel, compiled.options)
    return pipeline.run(made, pipelines.TASKS, compiled.options.verify)


class _Follower:
    def __init__(self, launches: Launches, until: float) -> None:
        self.until = until
        self.names = launches.names
        self.state = {key: before.copy() for key, (_, before) in launches.initial.items()}
        self.kernels: dict[int, N.Kernel] = {}
        self.cells: dict[Cell, Flow] = {}
        self.trace = Trace()

    def write(self, number: int, memory: Any, elements: list[tuple[Any, Any]]) -> None:
        """Python's."""
        if id(memory) not in self.state:
            return
        for where, values in elements:
            self.state[id(memory)][where] = values
            mask = np.zeros(self.state[id(memory)].shape, bool)
            mask[where] = True
            gone = [cell for cell in self.cells if cell[0] == id(memory) and mask[cell[1]]]
            for cell in gone:
                del self.cells[cell]
            if gone:
                self.trace.python.append((self.names.get(id(memory), "a field"), number))

    def launch(self, number: int, plan: Plan, args: tuple[Any, ...], draws: int) -> None:
        compiled = plan.compiled
        if id(compiled) not in self.kernels:
            self.kernels[id(compiled)] = forward_tasks(compiled)
        kernel = self.kernels[id(compiled)]
        behind: dict[str, Any] = {**plan.arrays(args), **plan.memories(args)}
        keys: dict[str, Any] = {name: id(one) for name, one in behind.items() if id(one) in self.state}
        arrays = {name: self.state[key] for name, key in keys.items() if name in kernel.buffers}
        keys |= {b.name: (number, b.name) for b in kernel.buffers.values() if b.name not in keys}
        run = LaunchFlow(self.trace, self.cells, self.until, kernel, number, keys)
        random = plan.session.settings.random_seed, draws
        interpret(
            kernel, plan.scalars(args), arrays, random=random, observer=run.told, iterations=run.iterations
        )
        run.done()
