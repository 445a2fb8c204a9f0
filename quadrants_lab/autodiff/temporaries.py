"""The reverse of a kernel starts from its final memory; launch temporaries are not memory, so they come again."""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.autodiff.keeps import NOTHING, Keeps, restored_temporaries
from quadrants_lab.autodiff.slice import left_out
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import map_blocks, rename, walk


def temporaries(kernel: N.Kernel, adjoints: N.Block, b: Builder, keeps: Keeps = NOTHING) -> N.Block:
    """The tasks of the forward kernel that write temporaries which ``adjoints`` (transitively) read, in forward
    order, with every other effect left out, under new ids; before them what restores the temporaries that are kept."""
    kept = set(keeps.temporaries)
    temps = {b.name for b in kernel.buffers.values() if b.kind == "temp"} - kept
    needed = _reads(adjoints) & temps
    all_read = _reads(adjoints)
    out: list[N.Offload] = []
    for task in reversed(kernel.body):
        assert isinstance(task, N.Offload)
        if not any(isinstance(s, (N.Store, N.Atomic)) and s.buffer in needed for s in walk((task,))):
            continue
        again = _only_writes(task, needed)
        needed |= _reads((again,)) & temps
        all_read |= _reads((again,))
        out.append(again)
    buffers = {**kernel.buffers, **keeps.scratch(kernel.buffers, gradient=True)}
    restored = restored_temporaries(b, keeps, buffers, all_read)
    return (*restored, *rename(map_origins(tuple(reversed(out))), b.fresh, {}))


def map_origins(block: N.Block) -> N.Block:
    """The block with every statement naming itself as the forward statement that it comes from."""
    return tuple(map_blocks(replace(s, adjoint_of=s.id), map_origins) for s in block)


def drop_unread_temporaries(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that every launch temporary which is written is also read."""
    read = _reads(kernel.body)
    unread = {b.name for b in kernel.buffers.values() if b.kind == "temp"} - read
    if not any(isinstance(s, (N.Store, N.Atomic)) and s.buffer in unread for s in walk(kernel.body)):
        return kernel

    def block(stmts: N.Block) -> N.Block:
        kept = (s for s in stmts if not (isinstance(s, (N.Store, N.Atomic)) and s.buffer in unread))
        return tuple(map_blocks(s, block) for s in kept)

    return replace(kernel, body=block(kernel.body))


def _reads(block: N.Block) -> set[str]:
    return {s.buffer for s in walk(block) if isinstance(s, N.Load)}


def _only_writes(task: N.Offload, buffers: set[str]) -> N.Offload:
    def block(stmts: N.Block) -> N.Block:
        out: list[N.Stmt] = []
        for s in stmts:
            if left_out(s, buffers) or (isinstance(s, N.Atomic) and s.buffer not in buffers):
                continue
            out.append(map_blocks(s, block))
        return tuple(out)

    kept = map_blocks(task, block)
    assert isinstance(kept, N.Offload)
    return kept
