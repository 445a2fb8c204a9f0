"""Emits loads, stores and atomic operations as MSL."""


from quadrants_lab.backends._msl import atomics, expr as X, stacks
from quadrants_lab.backends._msl.body import Body
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.frame import stored
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1

# --- elements -------------------------------------------------------------------------------------------------------


def element(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> Expr:
    """An element of the buffer, as an expression of type `stored`, or a variable of the iteration. The index is assumed
    to be in range; debug mode checks it."""
    if buffer.kind == "local":
        return X.variable(b.local(buffer), X.name(buffer.dtype), assigned=True)
    if buffer.in_frame and not index:
        return X.variable(b.frame.buffer(buffer), stored(buffer))
    pointer = b.frame.buffer(buffer) if buffer.in_frame else b.pointer(buffer)
    if not index:
        return Expr(f"*{pointer}", X.UNARY, stored(buffer))
    number = b.values[index[0]]
    return X.made(f"{pointer}[{number.text}]", X.PRIMARY, stored(buffer), number)


def _loaded(t: DType, e: Expr) -> Expr:
    """The value of an element, as an expression of its dtype's type."""
    if t is u1 and e.type != "bool":
        e = X.binary("!=", "bool", e, Expr("0", X.PRIMARY, "int"))
    return Expr(e.text, e.level, e.type, None, e.reads, True)


def load(b: Body, s: N.Load) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "heap":
        stacks.load(b, s, buffer)
    else:
        b.define(s, _loaded(s.type, element(b, buffer, s.index)))


def store(b: Body, s: N.Store) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "heap":
        stacks.store(b, s, buffer)
    else:
        b.out.put(X.assignment(element(b, buffer, s.index).text, b.values[s.value]))


# --- atomics --------------------------------------------------------------------------------------------------------


def atomic(b: Body, s: N.Atomic) -> None:
    t, buffer = s.type, b.frame.kernel.buffers[s.buffer]
    target = element(b, buffer, s.index)
    whole = not s.index and not buffer.in_frame
    args = [Expr(b.pointer(buffer) if whole else "&" + target.text, X.UNARY, "", None, target.reads, target.memory)]
    if t.bits == 64:
        args.insert(0, Expr("f", X.PRIMARY, ""))
    if s.op == "cas":
        args.append(b.typed(s.expected))
    b.define(s, X.call(atomics.helper(b, s.op, t), X.name(t), *args, b.typed(s.value)), at_once=True)
