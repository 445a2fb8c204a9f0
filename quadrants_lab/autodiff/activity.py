"""Analyses activity: finds which values carry a derivative. Such a value varies (it depends on a buffer with a
gradient) and is useful (a buffer with a gradient depends on it)."""

from functools import cache

from quadrants_lab.autodiff.derivative_expressions import share
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.walk import of_kind, reached, types_of, walk


def flows(stmt: N.Op) -> tuple[int, ...]:
    """The operands of an op with respect to which it has a derivative."""
    return tuple([stmt.args[n] for n in _open(stmt.prim, len(stmt.args))])


@cache
def _open(prim: str, arity: int) -> tuple[int, ...]:
    """The positions of the operands with respect to which the primitive has a derivative."""
    return tuple(n for n in range(arity) if share(prim, n) is not None)


def active_values(kernel: N.Kernel, with_derivative: set[str] | None = None) -> set[int]:
    """Ids of the floating-point values of an offloaded kernel through which a derivative flows between the buffers
    ``with_derivative`` (by default the buffers with an adjoint). A launch temporary (memory between two tasks of one
    launch) is never an end of the flow: a derivative flows through it, from the values written to the values read."""
    floats = {v for v, t in types_of(kernel.body).items() if t.is_float}
    carriers = {b.name for b in kernel.buffers.values() if b.grad} if with_derivative is None else with_derivative
    stmts = list(walk(kernel.body))
    # a derivative goes from a value, or a buffer by name, to another
    steps: list[tuple[int | str, int | str]] = [(a, op.id) for op in of_kind(stmts, N.Op) for a in flows(op)]
    steps += [(s.buffer, s.id) for s in of_kind(stmts, N.Read) if s.buffer in carriers]
    steps += [(s.value, s.buffer) for s in of_kind(stmts, N.Write) if s.buffer in carriers]
    steps += [pair for s in stmts for pair in merges(s)]
    forward: dict[int | str, list[int | str]] = {}
    backward: dict[int | str, list[int | str]] = {}
    for a, b in steps:
        if (a in floats or a in carriers) and (b in floats or b in carriers):
            forward.setdefault(a, []).append(b)
            backward.setdefault(b, []).append(a)
    ends: set[int | str] = {name for name in carriers if name in kernel.buffers and not kernel.buffers[name].transient}
    vary, useful = (reached(ends, lambda v, on=on: on.get(v, ())) for on in (forward, backward))  # type: ignore[misc]
    return {v for v in floats if v in vary and v in useful}
