"""Splits a kernel into programs (GPU kernels), one or two for each task. The device runs one after the other; each
sees what the programs before it have written.

A serial task is a program of one thread. A parallel task is a program whose threads stride over the row-major box of
iterations: thread t of n threads runs iterations t, t + n, t + 2n, ... If the bounds depend only on constants,
arguments and shapes, every thread computes them; the host computes them too, so as not to start more threads than there
are iterations. Otherwise a program of one thread runs first. It writes the begin and extent of each axis and the number
of groups to the frame.
"""

from dataclasses import dataclass

from quadrants_lab.backends.cost import GROUP, inline
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find


@dataclass(frozen=True, slots=True)
class Program:
    """One piece of GPU code that is launched for a task. ``kind``: "serial" (one thread runs it), "bounds" (it computes
    the bounds of the task's loop) or "range" (it runs the loop); ``number``: the index of the task; ``group``: how many
    threads a group has.

    ``inline``: every thread computes the task's bounds. ``checked``: the program does nothing if an earlier program has
    failed an assert.
    """

    name: str
    kind: str
    number: int
    task: N.Offload
    group: int
    inline: bool
    checked: bool

    @property
    def block(self) -> N.Block:
        """The statements that the program runs."""
        return self.task.bounds if self.kind == "bounds" else self.task.body


def programs(kernel: N.Kernel) -> tuple[Program, ...]:
    """The programs of an offloaded kernel, in the order in which they run."""
    out: list[Program] = []
    checked = False
    for number, task in enumerate(kernel.tasks):
        name = f"task{number}"
        if task.kind == "serial":
            out.append(Program(name, "serial", number, task, 1, True, checked))
        else:
            if not inline(task):
                out.append(Program(name + "_bounds", "bounds", number, task, 1, False, checked))
                checked = checked or _asserts(task.bounds)
            out.append(Program(name, "range", number, task, GROUP, inline(task), checked))
        checked = checked or _asserts(task.body)
    return tuple(out)


def _asserts(block: N.Block) -> bool:
    return any(find(block, (N.Assert, N.ThreadExit)))


def returns_or_fails(kernel: N.Kernel) -> bool:
    """Whether a launch returns or prints something, or can fail for another reason than a full adstack."""
    rets = any(b.kind == "ret" for b in kernel.buffers.values())
    return rets or any(find(kernel.body, (N.Assert, N.Print)))
