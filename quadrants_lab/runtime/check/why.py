"""Finds the cause of a zero gradient or of a kink, from a trace of the launches (`flow`)."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.check.cause import Cause, Event, cause
from quadrants_lab.runtime.check.launch_flow import DECISIONS, Trace

_JUMPS = frozenset({"floor", "ceil", "trunc", "round", "floordiv"})


def why_zero(trace: Trace, name: str) -> Cause:
    """Why no derivative reaches the loss from the input ``name``."""
    found = trace.loss
    if found is not None and found.tangent is not None and found.lost is not None:
        return _lost(found.lost)
    if found is not None and found.cut is not None:
        return _cut(found.cut, name)
    if found is not None and found.tangent is not None:
        return Cause("small", f"the derivative by {name} gets to the loss, and is too small for its dtype there")
    if found is not None or (trace.decided and not trace.over):
        at = trace.decided[0] if trace.decided else None
        return cause("decision", f"{name} decides what is computed, and nothing else of it gets to the loss", at,
                     "decided here", "a smooth blend instead of a comparison has a derivative")  # fmt: skip
    if trace.over:
        if trace.reached is None and not trace.partial and trace.over[0].stmt.stores:
            says = f"{name} is written over before anything reads it: what it held has no effect"
            return cause("written first", says, trace.over[0], "written over here",
                         "if it is an input, set it after this")  # fmt: skip
        return cause("overwritten", f"what came from {name} is written over before the loss reads it", trace.over[0],
                     "written over here", "write to a field of its own, or add to it with +=")  # fmt: skip
    if trace.python:
        field, launch = trace.python[0]
        says = f"what came from {name} to {field} is written over by Python before launch {launch}"
        return Cause("overwritten", says, help="do it in a kernel, or write before the first launch")
    if trace.skipped:
        return _skipped(next(iter(trace.skipped.values())), name)
    if not trace.read:
        return Cause("unread", f"no launch reads {name}")
    says = f"the loss does not depend on {name}: what is read of it goes elsewhere"
    return cause("unreached", says, trace.reached, "it gets as far as this")


def why_decided(trace: Trace, name: str, at: tuple[int, ...]) -> Cause | None:
    """The comparison that makes the loss depend on the input ``name`` in a way that no derivative shows: the one in
    iteration ``at``, or else the first one. None if there is no comparison."""
    found = [*trace.ties, *trace.decided]
    event = next((e for e in found if e.iteration == at), found[0] if found else None)
    if event is None:
        return None
    return cause("decision", f"{name} also decides what is computed, which a derivative does not show", event,
                 "decided here", "a smooth blend instead of a comparison has a derivative, and so has a loop "
                 "of a fixed length")  # fmt: skip


def is_flat(trace: Trace) -> bool:
    """Whether the input changes the loss only through derivatives that are 0 at the present values."""
    found = trace.loss
    smooth = found is not None and found.lost is not None and found.cut is None
    return smooth and not (trace.partial or trace.decided or trace.ties)


def why_jump(trace: Trace, name: str) -> Cause | None:
    """The operation without a derivative on the way from the input ``name`` to the loss; None if there is none."""
    return _cut(trace.loss.cut, name) if trace.loss is not None and trace.loss.cut is not None else None


def why_kink(trace: Trace) -> Cause | None:
    """The operation that is evaluated at a kink; None if there is none."""
    if not trace.ties:
        return None
    event = trace.ties[0]
    s = event.stmt
    what = s.atomic or s.prim
    if what in DECISIONS:
        return cause("tie", "the two sides of a comparison are equal", event, "decided here")
    if what == "abs":
        return cause("kink", "abs has two slopes at 0", event, "0 here, where the derivative is set to 0")
    share = "all iterations that reach it share" if s.atomic else "the first operand takes"
    return cause("tie", f"the operands of {what} are equal: it has a slope for each", event,
                 f"a tie; {share} the whole derivative")  # fmt: skip


def _lost(event: Event) -> Cause:
    s = event.stmt
    assert isinstance(s, N.Value)
    if s.prim in ("min", "max"):
        return cause("saturated", f"{s.prim} takes its other operand", event, "the derivative ends here")
    if s.prim == "select":
        return cause("branch", "select takes its other operand", event, "the derivative ends here")
    values = [v for _, v in event.values]
    if (0 not in values[:-1]) if s.prim in ("mul", "div") else (s.prim in ("exp", "pow") and values[-1] == 0):
        return cause("underflow", f"the derivative of {s.prim} is too small for {s.type}, and becomes 0", event,
                     "underflows here", "work with logarithms, or in f64")  # fmt: skip
    return cause("zero factor", f"the derivative of {s.prim} is 0 at these operands", event, "it ends here")


def _cut(event: Event, name: str) -> Cause:
    s = event.stmt
    if isinstance(s, N.Write):
        if s.atomic not in ("", "add", "sub"):
            return cause("atomic", f"an atomic {s.atomic} has no derivative", event, "it ends here")
        return cause("no gradient", f"the gradient stops at {s.buffer}, which has none", event,
                     f"{s.buffer} takes what came from {name}", f"make {s.buffer} with needs_grad=True")  # fmt: skip
    if isinstance(s, N.Load):
        says = f"{name} decides which element of {s.buffer} is read, and an index has no derivative"
        return cause("decision", says, event, "decided here", "blend the elements around it, by weights that come from "
                     "the value")  # fmt: skip
    assert isinstance(s, N.Op)
    if s.prim == "custom_jvp":
        return cause("stop_grad", "the derivative is stopped on purpose", event, "by qd.stop_grad or qd.ad.no_grad")
    if s.prim in DECISIONS:
        return cause("decision", "a comparison has no derivative", event, "decided here")
    what = f"cast to {s.type}" if s.prim == "cast" else s.prim
    help = "keep the value in floating point on its way to the loss"
    kind = "jumps" if s.prim in _JUMPS else "integer"
    return cause(kind, f"{what} has no derivative", event, "it ends here", help)


def _skipped(event: Event, name: str) -> Cause:
    s = event.stmt
    if isinstance(s, N.If):
        return cause("branch", f"the branch that reads what comes from {name} is not taken", event, "decided here")
    return cause("no iterations", f"the loop that reads what comes from {name} has no iterations", event,
                 "its bounds leave none", "is the bound set before the launch?")  # fmt: skip
