"""Finds the buffers that a task uses only for additions to elements whose index is read from data."""

from collections.abc import Mapping

from quadrants_lab.analysis.effects import memory_classes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import slots_of
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import find, uses, walk

_ADDS = ("add", "sub")
# operations that may compute an index which is the same in all iterations; cheap enough to repeat
_CHEAP = ("add", "sub", "mul", "cast")


@dataclass(frozen=True, slots=True)
class Target:
    """A buffer that a task only adds to. ``fixed``: the leading indices that are the same in all iterations; ``sums``:
    how many additions an iteration makes."""

    buffer: N.Buffer
    fixed: tuple[int, ...]
    sums: int


def targets(kernel: N.Kernel, task: N.Offload) -> list[Target]:
    """The targets of a task. Buffers that may be the same array are left out, since their elements would have two
    copies; so are buffers with slots, since a copy has no slots."""
    sums, others = _sums(task)
    if not sums:
        return []
    shared, classes = uniform(task), memory_classes(kernel)
    found = []
    for name, atomics in sums.items():
        if sum(classes[other] == classes[name] for other in sums) > 1 or slots_of(kernel.buffers[name]):
            continue
        target = _target(kernel, name, atomics, shared)
        if all(_disjoint(s, name, target.fixed, shared) for s in others if classes[s.buffer] == classes[name]):
            found.append(target)
    return found


def copied(kernel: N.Kernel, task: N.Offload) -> list[Target]:
    """The targets that the task's schedule names in ``copies``."""
    sums, shared = _sums(task)[0], uniform(task)
    return [_target(kernel, name, sums[name], shared) for name in task.copies]


def _sums(task: N.Offload) -> tuple[dict[str, list[N.Atomic]], list[N.Access]]:
    """Maps the name of a buffer to its additions whose old values are not used; also returns all other accesses."""
    used = uses(task.body)
    others: list[N.Access] = []
    sums: dict[str, list[N.Atomic]] = {}
    for s in walk(task.body):
        if isinstance(s, N.Atomic) and s.op in _ADDS and s.id not in used and s.index and not s.private:
            sums.setdefault(s.buffer, []).append(s)
        elif isinstance(s, N.Access):
            others.append(s)
    return sums, others


def _target(kernel: N.Kernel, name: str, atomics: list[N.Atomic], shared: Mapping[int, N.Stmt]) -> Target:
    fixed = atomics[0].index
    for a in atomics:
        same = [i == j and i in shared for i, j in zip(fixed, a.index, strict=False)]
        fixed = fixed[: [*same, False].index(False)]
    return Target(kernel.buffers[name], fixed, len(atomics))


def _disjoint(s: N.Access, name: str, fixed: tuple[int, ...], shared: Mapping[int, N.Stmt]) -> bool:
    """Whether the access never goes to an element with the leading indices ``fixed``, because one of its indices
    differs from the fixed one by a constant: ``t + 1`` if sums go to ``t``. For an atomic the result is always false,
    because all atomics on a target with copies have to go to the copies."""

    def parts(id: int) -> tuple[int, int]:
        made = shared.get(id)
        if made is not None and made.constant is not None:
            return N.NO_ID, int(made.constant)
        if made is not None and made.prim in ("add", "sub"):
            (a, m), (b, n) = map(parts, made.operands())
            if b == N.NO_ID:
                return a, m + n if made.prim == "add" else m - n
            if a == N.NO_ID and made.prim == "add":
                return b, m + n
        return id, 0

    pairs = [(parts(i), parts(j)) for i, j in zip(s.index, fixed, strict=False)]
    return not s.atomic and s.buffer == name and any(a == b and m != n for (a, m), (b, n) in pairs)


def uniform(task: N.Offload) -> dict[int, N.Value]:
    """Maps ids to statements, in program order, for the values that are the same in all iterations and may be computed
    before them. Lowerings replace none of these statements, so the result is the same before and after lowering."""
    found: dict[int, N.Value] = {}
    for s in walk(task.body):
        if isinstance(s, N.Uniform) or (
            isinstance(s, N.Op) and s.prim in _CHEAP and s.type.is_int
            and all(i in found and found[i].type.is_int for i in s.args)
        ):  # fmt: skip
            found[s.id] = s
    return found


_FAMILY = {op: op for op in ("add", "mul", "min", "max", "and", "or", "xor")} | {"sub": "add"}


def reductions(kernel: N.Kernel, body: N.Block) -> dict[str, str]:
    """Maps the name of a 0-d buffer to an operation, for buffers that the block uses only in atomics of one operation
    whose old values are not used."""
    read, found = uses(body), dict[str, set[str]]()
    for s in find(body, N.Access):
        op = "" if read.get(s.id) else s.atomic
        found.setdefault(s.buffer, set()).add(_FAMILY.get(op, "") if kernel.buffers[s.buffer].ndim == 0 else "")
    return {name: op for name, (op, *others) in found.items() if op and not others}


def identity(op: str, t: DType) -> float | int:
    """The identity of the operation. Min and max of floats ignore NaN, so their identity is NaN: if it were an
    infinity, a reduction of NaNs only would be infinite."""
    if t.kind == "b":
        return int(op == "and")
    if t.is_float:
        return {"add": -0.0, "mul": 1.0, "min": float("nan"), "max": float("nan")}[op]
    low, high = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.kind == "i" else (0, (1 << t.bits) - 1)
    ones = -1 if t.kind == "i" else high
    return {"add": 0, "mul": 1, "min": high, "max": low, "and": ones, "or": 0, "xor": 0}[op]
