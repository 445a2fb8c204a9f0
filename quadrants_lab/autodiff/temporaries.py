"""The reverse of a kernel starts from its final memory; launch temporaries are not memory, so they come again."""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff.keeps import NOTHING, Keeps, restored_temporaries
from quadrants_lab.autodiff.slice import again
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import rename, rewrite, rewrite_in, walk


def temporaries(kernel: N.Kernel, adjoints: N.Block, b: Builder, keeps: Keeps = NOTHING) -> N.Block:
    """The tasks of the forward kernel that write temporaries which ``adjoints`` (transitively) read, in forward
    order, with every other effect left out, under new ids; before them what restores the temporaries that are kept."""
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
    return (*restored, *rename(map_origins(tuple(reversed(out))), b.fresh, {}))


def map_origins(block: N.Block) -> N.Block:
    """The block with every statement naming itself as the forward statement that it comes from."""
    return rewrite(block, lambda s: replace(s, adjoint_of=s.id))


def _only_writes(task: N.Offload, buffers: set[str]) -> N.Offload:
    return rewrite_in(task, lambda s: s if again(s, buffers) is s else ())
