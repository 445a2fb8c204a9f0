"""A kernel's tasks as programs: what the device starts, one after the other, with everything written in between seen.

A serial task is a program of one thread. A parallel task is a program whose threads stride over the flattened box of
iterations, row-major: thread t runs iterations t, t + n, t + 2n, ... where n is the number of threads. Bounds made
of constants, arguments and shapes are computed by every thread for itself (and by the host, which starts no more
threads than there are iterations); other bounds by a program of one thread before, which leaves begin and extent of
each axis and the group count in the frame.
"""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends.boxes import inline
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

GROUP = 64  # threads of a group of a parallel task


@dataclass(frozen=True, slots=True)
class Program:
    """``kind``: "serial", "bounds" or "range"; ``number`` of its task in the kernel; ``group``: threads of a group.

    ``inline``: the task's bounds are computed where they are needed. ``checked``: an earlier program may fail an
    assert, after which this one does nothing.
    """

    name: str
    kind: str
    number: int
    task: N.Offload
    group: int
    inline: bool
    checked: bool


def programs(kernel: N.Kernel) -> tuple[Program, ...]:
    """The programs of an offloaded kernel, in the order in which they run."""
    out: list[Program] = []
    checked = False
    for number, task in enumerate(kernel.body):
        if not isinstance(task, N.Offload):
            raise TypeError(f"kernel {kernel.name} is not offloaded: {type(task).__name__} at top level")
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
    return any(isinstance(s, (N.Assert, N.Leave)) for s in walk(block))


def answers(kernel: N.Kernel) -> bool:
    """Whether a launch returns something, or can fail otherwise than by a stack that is too small."""
    rets = any(b.kind == "ret" for b in kernel.buffers.values())
    return rets or any(isinstance(s, (N.Assert, N.Print)) for s in walk(kernel.body))
