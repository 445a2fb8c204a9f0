"""Reductions: atomics of a task that each thread may first combine for itself."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import uses, walk

_FAMILY = {op: op for op in ("add", "mul", "min", "max", "and", "or", "xor")} | {"sub": "add"}


def reductions(kernel: N.Kernel, body: N.Block) -> dict[str, str]:
    """The 0-d buffers that the block uses for nothing but atomics of one operation whose old values are not used, with
    that operation."""
    read, found = uses(body), dict[str, set[str]]()
    for s in walk(body):
        if isinstance(s, N.Access):
            op = s.op if isinstance(s, N.Atomic) and not read.get(s.id) else ""
            found.setdefault(s.buffer, set()).add(_FAMILY.get(op, "") if kernel.buffers[s.buffer].ndim == 0 else "")
    return {name: op for name, (op, *others) in found.items() if op and not others}


def identity(op: str, t: DType) -> float | int:
    """The identity of the operation. For min and max of floats, which ignore NaN, it is NaN: with an infinity a
    reduction of nothing but NaN would be infinite."""
    if t.kind == "b":
        return int(op == "and")
    if t.is_float:
        return {"add": -0.0, "mul": 1.0, "min": float("nan"), "max": float("nan")}[op]
    low, high = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.kind == "i" else (0, (1 << t.bits) - 1)
    ones = -1 if t.kind == "i" else high
    return {"add": 0, "mul": 1, "min": high, "max": low, "and": ones, "or": 0, "xor": 0}[op]
