"""Launch temporaries that the reverse needs. They do not outlast the launch, so the gradient computes them again."""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff.keeps import NOTHING, Keeps, restored_temporaries
from quadrants_lab.autodiff.slice import again
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import rename, rewrite, rewrite_in, walk


def temporaries(kernel: N.Kernel, adjoints: N.Block, b: Builder, keeps: Keeps = NOTHING) -> N.Block:
    """The tasks of the forward kernel that write temporaries which ``adjoints`` (transitively) read, in forward order,
    under new ids and without other effects; in front of them the task that restores the temporaries that are kept.
    Every statement names the forward statement that it repeats."""
    kept = set(keeps.temporaries)
    temps = {b.name for b in kernel.buffers.values() if b.kind == "temp"} - kept
    all_read = touched(adjoints, N.Load)
    needed = all_read & temps
    out: list[N.Offload] = []
    blocks = {b.name for b in kernel.buffers.values() if b.role == "block"}
    for task in reversed(kernel.tasks):
        if not any(isinstance(s, N.Write) and s.buffer in needed for s in walk((task,))):
            continue
        writing = _only_writes(task, needed | blocks)
        all_read |= touched((writing,), N.Load)
        needed |= touched((writing,), N.Load) & temps
        out.append(writing)
    buffers = {**kernel.buffers, **keeps.scratch(kernel.buffers, gradient=True)}
    restored = restored_temporaries(b, keeps, buffers, all_read)
    repeated = rewrite(tuple(reversed(out)), lambda s: replace(s, adjoint_of=s.id))
    return (*restored, *rename(repeated, b.fresh, {}))


def _only_writes(task: N.Offload, buffers: set[str]) -> N.Offload:
    """The task without effects other than writes to these buffers."""
    return rewrite_in(task, lambda s: s if again(s, buffers) is s else ())
