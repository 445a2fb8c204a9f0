"""The pass `mark_distances` looks at atomic sums by which several iterations add to the same element, as in the
adjoint of a stencil. It finds how far apart these iterations are (the dependence distance), and which of the sums
may move to separate loops (loop fission)."""

from collections.abc import Container
from dataclasses import replace

from quadrants_lab.analysis.accesses import Access, Accesses, Form, accesses_of, symbol
from quadrants_lab.analysis.dependence import may_follow
from quadrants_lab.analysis.effects import aliased_atomic_buffers, memory_classes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import all_are, find, reached, rewrite_in, rules, uses, walk

_MOST = 64  # backends cannot use a larger distance


def mark_distances(kernel: N.Kernel) -> N.Kernel:
    """Sets the field ``distance`` of atomic sums: how far apart, along the task's first index, two iterations are
    that add to the same element. Guarantees for an Atomic with a distance that it is not private, that nothing
    reads its old value, and that all atomics of the task on its buffer have the same distance. Iterations with the
    same first index, and iterations that differ only in the last index, either all add to the same element or all
    add to different elements."""
    body: list[N.Stmt] = []
    for task in kernel.tasks:
        found = _distances(kernel, task)
        # also if an earlier run has marked atomics
        if found or any(s.distance >= 0 for s in find(task.body, N.Atomic)):
            fission = _fission(accesses_of(kernel), task, found) if found else {}

            def marked(s: N.Atomic) -> N.Stmt:
                return replace(s, distance=-1 if s.private else found.get(s.buffer, -1), fission=fission.get(s.id, 0))

            task = rewrite_in(task, rules({N.Atomic: marked}))
        body.append(task)
    return replace(kernel, body=tuple(body))


def _distances(kernel: N.Kernel, task: N.Offload) -> dict[str, int]:
    """Maps each buffer to the largest distance, along the first index, between two iterations of the task that add to
    the same element."""
    if task.kind == "serial":
        return {}
    sums = [s for s in find(task.body, N.Atomic) if not s.private and s.index]
    used = uses(task.body) if sums else {}
    wanted = {s.buffer for s in sums} - {s.buffer for s in sums if s.id in used or s.op in ("cas", "exchange")}
    wanted -= aliased_atomic_buffers(kernel, {s.buffer for s in sums})
    found: dict[str, int] = {}
    for buffer in wanted:
        info, own = accesses_of(kernel), [symbol(p.id) for p in task.indices]
        places = [info.of[s.id] for s in sums if s.buffer == buffer]
        along = [r for axis in range(kernel.buffers[buffer].ndim) if (r := _along(places, axis, own)) is not None]
        if along and min(along) <= _MOST and all(_all_or_none(info, a, own) for a in places):
            found[buffer] = min(along)
    return found


def _along(places: list[Access], axis: int, own: list[str]) -> int | None:
    """The largest distance between the indices along the axis, if each of them is the task's first index plus a
    constant plus the same uniform terms; None if they are not."""
    forms = [a.at[axis] for a in places]
    if any(f.terms != forms[0].terms for f in forms):
        return None
    terms = forms[0].terms
    if terms.get(own[0]) != 1 or any(s[0] != "!" for s in terms if s != own[0]):
        return None
    offsets = [f.const for f in forms]
    return max(offsets) - min(offsets)


def _all_or_none(info: Accesses, place: Access, own: list[str]) -> bool:
    """Whether the iterations of a row, which differ only in the last index, either all access different elements or all
    access the same one. Only then may vector lanes add at once."""
    if not all(_simple(f, own) for f in place.at):
        return False
    return any(own[-1] in f.terms for f in place.at) or _same(info, list(place.stmt.index), own[:-1])


def _same(info: Accesses, values: list[int], outer: list[str]) -> bool:
    """Whether the values are computed from outer indices and uniform values only. Affine forms do not tell this: the
    form of ``(i + j) - j`` has no j."""

    def operands(value: int) -> tuple[int, ...]:
        s = info.defs.get(value)
        return s.operands() if s is not None and s.prim else ()

    made = (v for v in reached(values, operands) if symbol(v) not in outer)
    return all_are(map(info.defs.get, made), (N.Op, N.Uniform))


def _simple(form: Form, own: list[str]) -> bool:
    varying = [(s, c) for s, c in form.terms.items() if s[0] != "!"]
    return not varying or (len(varying) == 1 and varying[0][0] in own and abs(varying[0][1]) == 1)


# --- loop distribution --------------------------------------------------------------------------------------------
#
# The adjoint of a stencil adds to x[j - 1], x[j] and x[j + 1], so neighbouring iterations add to the same element. With
# a separate loop for each of these sums, no two iterations of a loop add to the same element, and each loop can be
# vectorised: first all sums into x[j - 1], then all into x[j + 1], then the sums into x[j] with everything else (R.
# Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, 2001, chapters 2 and 5).


# statements that each of the separate loops may repeat
_PLAIN = (N.Pure, N.Access, N.If, N.Yield)


def _fission(info: Accesses, task: N.Offload, buffers: Container[str]) -> dict[int, int]:
    """Finds atomics that may get a loop of their own (loop fission); maps their ids to the number of that loop.
    ``buffers``: the buffers whose atomics have a dependence distance. Atomics with the same index along the row as
    the first atomic stay with the rest of the body."""
    last = symbol(task.indices[-1].id)
    own = [a for a in info.of.values() if a.task is task and a.in_body]
    sums = [a for a in own if a.stmt.buffer in buffers and _adds(a)]
    number = {step: n for n, step in enumerate(dict.fromkeys(_row_at(info, a, last) for a in sums))}
    if len(number) < 2 or not all_are(walk(task.body), _PLAIN):
        return {}
    used = uses(task.body)
    if any(a.stmt.atomic and a.stmt.id in used for a in own):
        return {}  # each loop that needs the old value would change the element again
    classes = memory_classes(info.kernel)
    near: dict[str, list[Access]] = {}
    for a in own:
        near.setdefault(classes[a.stmt.buffer], []).append(a)
    for group in near.values():
        loads = [a for a in group if a.stmt.loads]
        if any(may_follow(info, a, load) for load in loads for a in group if not a.stmt.loads):
            return {}  # one loop may write what another one reads
    found: dict[int, int] = {}
    for a in sums:
        at = _row_at(info, a, last)
        step = number[at]
        others = [b for b in near[classes[a.stmt.buffer]] if not _adds(b)]
        if step and at and not any(may_follow(info, a, b) or may_follow(info, b, a) for b in others):
            found[a.stmt.id] = step
    return found


def _adds(a: Access) -> bool:
    return a.stmt.atomic in ("add", "sub")


def _row_at(info: Accesses, a: Access, last: str) -> str:
    """The text of the index along the only axis that the row's index appears in, if neighbouring iterations access
    neighbouring elements along it, and all further indices (components of a vector) are constants; otherwise ""."""
    axes = [n for n, form in enumerate(a.at) if last in form.terms]
    if len(axes) != 1 or abs(a.at[axes[0]].terms[last]) != 1:
        return ""
    buffer = info.kernel.buffers[a.stmt.buffer]
    for n, form in enumerate(a.at[axes[0] + 1 :], axes[0] + 1):
        if form.terms or buffer.known_extent(n) is None:  # otherwise LLVM would not vectorise the loop
            return ""
    return str(a.at[axes[0]])
