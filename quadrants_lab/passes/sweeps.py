"""Loop distribution for sums into neighbouring elements, so that each of the loops becomes vectors.

The adjoint of a stencil adds to ``x[j - 1]``, ``x[j]`` and ``x[j + 1]``, so neighbouring iterations add to one
element. In separate loops they do not: first all sums into ``x[j - 1]``, then all into ``x[j + 1]``, then those
into ``x[j]`` and the rest (R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, 2001, chapters
2 and 5).
"""

from __future__ import annotations

from collections.abc import Container

from quadrants_lab.analysis.accesses import Access, Accesses, symbol
from quadrants_lab.analysis.alias import memory_classes
from quadrants_lab.analysis.dependence import may_follow
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import uses, walk

# statements that each of the loops may repeat
_PLAIN = (N.Pure, N.Access, N.If, N.Yield)


def sweeps(info: Accesses, task: N.Offload, buffers: Container[str]) -> dict[int, int]:
    """The ``sweep`` of each atomic on one of ``buffers`` (those with a reach) that may have a loop of its own, by
    its id. Atomics with the same index along the rows as the first one stay with the rest."""
    last = symbol(task.indices[-1].id)
    own = [a for a in info.of.values() if a.task is task and a.in_body]
    sums = [a for a in own if a.stmt.buffer in buffers and _adds(a)]
    number = {step: n for n, step in enumerate(dict.fromkeys(_along(info, a, last) for a in sums))}
    if len(number) < 2 or not all(isinstance(s, _PLAIN) for s in walk(task.body)):
        return {}
    used = uses(task.body)
    if any(isinstance(a.stmt, N.Atomic) and a.stmt.id in used for a in own):
        return {}  # each loop that needs an old value would change the element again
    classes = memory_classes(info.kernel)
    near: dict[str, list[Access]] = {}
    for a in own:
        near.setdefault(classes[a.stmt.buffer], []).append(a)
    for group in near.values():
        loads = [a for a in group if isinstance(a.stmt, N.Load)]
        if any(may_follow(info, a, load) for load in loads for a in group if not isinstance(a.stmt, N.Load)):
            return {}  # one loop may have written what another one reads
    found: dict[int, int] = {}
    for a in sums:
        step = number[_along(info, a, last)]
        others = [b for b in near[classes[a.stmt.buffer]] if not _adds(b)]
        if step and _along(info, a, last) and not any(may_follow(info, a, b) or may_follow(info, b, a) for b in others):
            found[a.stmt.id] = step
    return found


def _adds(a: Access) -> bool:
    return isinstance(a.stmt, N.Atomic) and a.stmt.op in ("add", "sub")


def _along(info: Accesses, a: Access, last: str) -> str:
    """The index along the one axis that the row's index appears in, if neighbouring iterations go to neighbouring
    elements there, and all further indices (components of a vector) are constants; else ""."""
    axes = [n for n, form in enumerate(a.at) if last in form.terms]
    if len(axes) != 1 or abs(a.at[axes[0]].terms[last]) != 1:
        return ""
    buffer = info.kernel.buffers[a.stmt.buffer]
    for n, form in enumerate(a.at[axes[0] + 1 :], axes[0] + 1):
        if form.terms or buffer.known_extent(n) is None:  # without, LLVM makes no vectors
            return ""
    return str(a.at[axes[0]])
