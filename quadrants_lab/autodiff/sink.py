"""The pass `sink_sums` moves an addition to a gradient into a branch if its amount is 0 unless the branch was
taken."""

from collections.abc import Container
from dataclasses import replace

from quadrants_lab.analysis.effects import memory_classes, written
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import find, map_blocks, reached, rename, same_or, uses

_OF_FIRST = ("neg", "cast", "div")  # primitives whose result is 0 if their first operand is 0
_OF_ALL = ("add", "sub")  # primitives whose result is 0 if all operands are 0


def sink_sums(kernel: N.Kernel) -> N.Kernel:
    """Moves atomic additions into branches. If the amount of an addition is 0 unless one arm of an earlier if in the
    same block ran, the addition moves into that arm, with the statements that compute the amount, unless a statement
    between the if and the addition forbids it.

    The derivative of a value that an if reads from outside is a result of the reversed if, and 0 in the arm that does
    not use the value. Without this pass such zeros would be added to memory. A product with 0 counts as 0, even if the
    other factor is infinite outside the arm, because the derivative does not depend on that factor there. Private
    sums stay where they are, so that their loops can be vectorised.
    """
    b, classes = Builder(kernel.next_id), memory_classes(kernel)
    nil = {s.id for s in find(kernel.body, N.Const) if s.type.is_float and not s.value}

    def block(stmts: N.Block) -> N.Block:
        out = list(stmts)
        for n in reversed(range(len(out))):
            s = out[n]
            if isinstance(s, N.If) and s.results:
                for arm in (0, 1):
                    s, out[n + 1 :] = _sunk(b, s, arm, tuple(out[n + 1 :]), nil, classes)
                out[n] = s
            out[n] = map_blocks(out[n], block)
        return same_or(stmts, out)

    body = block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body, next_id=b.next_id)


def _sunk(
    b: Builder, s: N.If, arm: int, tail: N.Block, nil: set[int], classes: dict[str, str]
) -> tuple[N.If, N.Block]:
    """The if ``s`` with the statements that move into its arm, and those statements of ``tail`` that stay. ``tail`` are
    the statements after the if, and ``nil`` has the ids of constants that are 0."""
    blocks = s.blocks()
    ends = blocks[1 - arm][-1].operands()
    zero = {r.id for r, given in zip(s.results, ends, strict=True) if given in nil}
    if not zero:
        return s, tail
    made = {i: t for t in tail for i, _ in t.defs()}
    changed = written((tail,), classes)
    used = uses(tail)
    read = {classes[t.buffer] for t in find(tail, N.Access) if not _only_adds(t, used)}
    for t in tail:
        if isinstance(t, N.Op) and _is_zero(t, zero, nil):
            zero.add(t.id)
    moved: set[int] = set()
    needed: set[int] = set()
    for t in tail:
        if any(find((t,), N.Assert)):
            break  # the assert that fails first must be reported
        if not isinstance(t, N.Atomic) or not _only_adds(t, used) or t.private or t.distance >= 0:
            continue
        if t.value not in zero or classes[t.buffer] in read:
            continue
        found = _closure(t, made, changed, classes)
        if found is not None:
            moved.add(t.id)
            needed |= found
    if not moved:
        return s, tail
    end = blocks[arm][-1]
    ids = {r.id: i for r, i in zip(s.results, end.operands(), strict=True)}
    sunk = rename(tuple(t for t in tail if t.id in moved or t.id in needed), b.fresh, ids)
    arms = [*blocks[:arm], (*blocks[arm][:-1], *sunk, end), *blocks[arm + 1 :]]
    changed_if = s.with_blocks(tuple(arms))
    assert isinstance(changed_if, N.If)
    return changed_if, tuple(t for t in tail if t.id not in moved)


def _only_adds(s: N.Stmt, used: Container[int]) -> bool:
    """Whether the access is an atomic addition whose old value nothing reads, so that its order among such additions
    does not matter."""
    return s.atomic in ("add", "sub") and s.id not in used


def _is_zero(s: N.Op, zero: set[int], nil: set[int]) -> bool:
    if not s.type.is_float:
        return False
    if s.prim == "mul":
        return any(i in zero for i in s.args)
    if s.prim in _OF_FIRST:
        return s.args[0] in zero
    if s.prim == "select":
        return all(i in zero or i in nil for i in s.args[1:])
    return s.prim in _OF_ALL and all(i in zero for i in s.args)


def _closure(
    s: N.Stmt, made: dict[int, N.Stmt], changed: set[str], classes: dict[str, str]
) -> set[int] | None:
    """Ids of the statements of the tail that the statement depends on, or None if one of them may not move."""
    found = reached(s.operands(), lambda v: made[v].operands() if v in made else ())
    needed = [made[v] for v in found if v in made]
    may = all(isinstance(t, N.Pure) or (isinstance(t, N.Load) and classes[t.buffer] not in changed) for t in needed)
    return {t.id for t in needed} if may else None
