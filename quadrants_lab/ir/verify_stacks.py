"""Verifies statically that a task's pushes and pops of adstacks fit each other."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find, of_kind

Broken = tuple[str, N.Stmt]
Depths = dict[int, int | None]  # None: not known


class _Empty(Exception):
    def __init__(self, use: N.TopUse) -> None:
        self.use = use


def check_stacks(task: N.Offload, mode: str) -> Broken | None:
    """The first rule that the task's stacks certainly break, and where; None if there is none.

    The rules: a stack that is read or popped is pushed somewhere in the task. Where the depth is known (outside of
    loops, and behind an If whose arms agree), no empty stack is popped or read. In a kernel of mode "reverse" or "both"
    every stack that is not count_only is empty at the end.
    """
    stacks = list(of_kind(task.body, N.AdStackAlloca))
    if not stacks:
        return None
    depths: Depths = {s.id: 0 for s in stacks}
    pushed = {s.stack for s in find(task.body, N.AdStackPush)}
    for use in find(task.body, N.TopUse):
        if use.stack not in pushed:
            return f"nothing in this task pushes on ${use.stack}", use
    try:
        after = _block(task.body, depths)
    except _Empty as e:
        return f"${e.use.stack} is empty here", e.use
    for s in stacks:
        if mode in ("reverse", "both") and not s.count_only and (left := after[s.id]):
            return f"{left} values are left on ${s.id} at the end of the task", s
    return None


def _block(block: N.Block, depths: Depths) -> Depths:
    """The depths after the block. Raises _Empty for a read or pop of an empty stack."""
    for s in block:
        if isinstance(s, N.AdStackPush):
            now = depths[s.stack]
            depths = {**depths, s.stack: None if now is None else now + 1}
        elif isinstance(s, N.TopUse):
            now = depths[s.stack]
            if now == 0:
                raise _Empty(s)
            if now is not None and isinstance(s, N.AdStackPop):
                depths = {**depths, s.stack: now - 1}
        elif isinstance(s, N.If):
            arms = [(arm, _block(arm, depths)) for arm in s.blocks()]
            ends = [after for arm, after in arms if type(arm[-1]) is N.Yield]
            depths = {k: d if ends and all(a[k] == d for a in ends) else None for k, d in (ends or [depths])[0].items()}
        elif isinstance(s, N.AdStackGuard):
            depths = _block(s.body, depths)
        elif s.blocks():
            moved = {i.stack for b in s.blocks() for i in find(b, (N.AdStackPush, N.AdStackPop))}
            depths = {k: None if k in moved else d for k, d in depths.items()}
            for b in s.blocks():
                depths = _block(b, depths)
    return depths
