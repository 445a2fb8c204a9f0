"""Decides whether two accesses can touch the same element, by the GCD test and by bounds (Banerjee's test) on affine
indices.

The answers are conservative: two accesses are assumed to touch the same element unless a test excludes it. From them
also follows which reads a gradient may repeat although there are later writes to the buffer (`may_lose_reads`).

Sources: U. Banerjee, Dependence Analysis (1997), chapters 2 to 4; R. Allen and K. Kennedy, Optimizing Compilers for
Modern Architectures (2001), chapter 3.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import gcd

from quadrants_lab.analysis.accesses import Access, Accesses, Form, accesses_of, symbol
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find

_LATER = "!later"  # a symbol: by how many iterations an access is later than another, at least 1


def may_follow(info: Accesses, first: Access, second: Access) -> bool:
    """Whether ``second`` may touch an element after ``first`` has touched it, in a later task, or in the same iteration
    of one task. Two different iterations of a parallel task are not compared, because that would be a race."""
    if second.number != first.number:
        return second.number > first.number and _may_meet(info, first, second, dict.fromkeys(_symbols(second), "'"))
    common = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
    other_arm = any(second.arms.get(owner, arm) != arm for owner, arm in first.arms.items())
    if second.order > first.order and not other_arm and _may_meet(info, first, second, {}):
        return True
    return any(_may_meet(info, first, second, _later(info, second, common, n), loop) for n, loop in enumerate(common))


def other_iterations(info: Accesses, a: Access, b: Access) -> bool:
    """Whether, in two different iterations of their (parallel) task, ``a`` and ``b`` may touch the same element."""
    if _own_element(a, b):
        return False
    for p in a.task.indices:
        renamed = {s: "'" for s in _symbols(b) if s != symbol(p.id)}
        if any(_may_meet(info, a, b, renamed, step=step, index=symbol(p.id)) for step in (1, -1)):
            return True
    return False


def _own_element(a: Access, b: Access) -> bool:
    """A quick test that is true only if two different iterations never touch the same element: either both accesses go
    to the element that the task's indices name, each index alone along an axis, or their indices along one axis are
    different constants."""
    places = [(f.const, g.const) for f, g in zip(a.at, b.at, strict=True) if not f.terms and not g.terms]
    if any(x != y for x, y in places):
        return True
    same = [f for f, g in zip(a.at, b.at, strict=True) if f == g]
    single = {next(iter(own)) for f in same if len(own := [s for s in f.terms if s[0] != "!"]) == 1}
    return all(symbol(p.id) in single for p in a.task.indices)


def _symbols(a: Access) -> Iterator[str]:
    return (s for form in a.at for s in form.terms if s[0] != "!")


def _later(info: Accesses, second: Access, common: list[N.Loop], n: int) -> dict[str, str]:
    """Renames the symbols of the second access that the ``n``-th common loop computes: if the second access happens
    in a later iteration than the first, these symbols have other values there. Returns symbol -> its name in the
    later iteration."""
    loop = common[n]
    own = symbol(loop.index.id) if isinstance(loop, N.For) else ""
    return {s: "'" for s in _symbols(second) if s != own and any(around is loop for around in info.home.get(s, ()))}


def _may_meet(
    info: Accesses, first: Access, second: Access, renamed: Mapping[str, str], loop: N.Loop | None = None,
    *, step: int = 1, index: str = "",
) -> bool:  # fmt: skip
    """Whether both accesses may go to the same element. ``renamed``: symbols of the second access whose values differ
    from those in the first access -> their other names. In the second access, the index of ``loop``, or the symbol
    ``index``, is greater by one ``step`` or more."""
    if isinstance(loop, N.For):
        index, step = symbol(loop.index.id), -1 if loop.reverse else 1
    differences: list[Form] = []
    within: list[Form] = []  # the same differences, where the second index is a symbol within the loop's range
    for r, w in zip(first.at, second.at, strict=True):
        moved = Form({s + renamed.get(s, ""): c for s, c in w.terms.items()}, w.const)
        if index in w.terms:
            within.append(moved.replaced(index, Form({index + "'": 1})).plus(r, -1))
            moved = moved.plus(Form({_LATER: step * w.terms[index]}))
        differences.append(moved.plus(r, -1))
    # sums and differences of two axes are tested too: dynamic programming fills tables along diagonals
    diagonals = [a.plus(b, sign) for a, b in combinations(differences, 2) for sign in (1, -1)]
    return all(_may_be_zero(info, info.congruent(d)) for d in (*differences, *within, *diagonals))


def _may_be_zero(info: Accesses, d: Form) -> bool:
    common = gcd(*d.terms.values()) if d.terms else 0
    if (d.const % common if common else d.const) != 0:
        return False
    for low in (True, False):
        end = info.bound(_without_later(d, low), low)
        if end is None:
            continue
        least, most = info.value_range(end)
        if (least is not None and least > 0) if low else (most is not None and most < 0):
            return False
    return True


def _without_later(d: Form, low: bool) -> Form:
    """The form with `_LATER` replaced by 1, its least value, if this gives a lower bound (upper bound unless ``low``).
    """
    k = d.terms.get(_LATER, 0)
    if not k or (k > 0) != low:
        return d  # `_LATER` has no greatest value
    return d.replaced(_LATER, Form({}, 1))


def may_repeat(s: N.Access) -> bool:
    """Whether a gradient may need the value that this statement read."""
    return s.loads or s.atomic in N.MINMAX


def may_be_lost(info: Accesses, read: Access, write: Access) -> bool:
    """Whether the write may change an element after the read has read it. The result of an atomic min or max counts as
    read at the end of its task."""
    return write.number > read.number if read.stmt.atomic else may_follow(info, read, write)


def may_lose_reads(kernel: N.Kernel) -> bool:
    """Whether the kernel may overwrite values that its gradient needs. If not, a launch has nothing to save."""
    if not any(b.grad and not b.transient for b in kernel.buffers.values()):
        return False
    if sums_of_winners(kernel):
        return True
    info = accesses_of(kernel)
    reads = [a for a in info.of.values() if may_repeat(a.stmt) and not kernel.buffers[a.stmt.buffer].transient]
    return any(may_be_lost(info, r, w) for r in reads for w in info.writes.get(r.stmt.buffer, ()))


def sums_of_winners(kernel: N.Kernel) -> set[str]:
    """The launch temporaries that are sums over parallel loops, in a kernel with a differentiable atomic min or max
    in memory. If a gradient computed them again, in another order, it might not find which iteration has won."""
    buffers = kernel.buffers
    atomics = list(find(kernel.body, N.Atomic))
    if not any(s.op in N.MINMAX and buffers[s.buffer].grad and buffers[s.buffer].kind != "temp" for s in atomics):
        return set()
    sums = {s.buffer for s in atomics if s.op not in N.MINMAX}
    return {name for name in sums if buffers[name].kind == "temp" and buffers[name].dtype.is_float}
