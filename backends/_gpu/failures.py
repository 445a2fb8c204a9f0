"""Lowers asserts, overflows and prints to stores and atomics in the head of the launch frame and in the print block,
where the host finds them (`layout`).

    assert %1, "bad {}" (%2)    becomes    if %1 {} else {
                                             atomic or @$status[], 2
                                             first = atomic cas @$failed[], 2 expected 0
                                             if first == 0 { store @$failure[0], number  ..  store @$failure[2], %2 }
                                             thread_exit
                                           }

If an assert fails in one program of a kernel, the programs after it return at once. A parallel task that `lower.tasks`
has not lowered is left to its emitter.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import programs
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import VALUES, WORD, frame_layout
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import UNSIGNED, i32, u1, u32, u64
from quadrants_lab.ir.walk import find, rewrite, types_of

_STATUS, _FAILED = (N.Buffer(name, "frame", u32, 0, ()) for name in ("$status", "$failed"))
# three parts: what failed, how many values are recorded, the values
_FAILURE = N.Buffer("$failure", "frame", u64, 1, (2 + VALUES,))
_PRINTS = N.Buffer("$prints", "frame", u64, 1, (1 << 20,), role="prints")
_HEAD = N.Buffer("$prints.head", "words", u32, 1, None, of=_PRINTS.name)


def lower_failures(kernel: N.Kernel) -> N.Kernel:
    """Replaces asserts, overflows and prints by code with which threads record them for the host. A thread ends
    after a failed assert."""
    if not any(find(kernel.body, (N.Assert, N.Print, N.Overflow))):
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))
    numbers = frame_layout(kernel, 0).numbers
    checked = {(p.number, p.kind == "bounds") for p in programs(kernel) if p.checked}

    def lowered(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        b.span, b.adjoint_of = s.span, s.adjoint_of
        rule = _RULES.get(type(s))
        return b.made(rule, b, s, numbers.get(s.id, 0)) if rule else s

    body: list[N.Stmt] = []
    for n, task in enumerate(kernel.tasks):
        blocks = []
        for block, bounds in ((task.bounds, True), (task.body, False)):
            made = rewrite(block, lowered)
            if (n, bounds) in checked and task.kind in ("threads", "serial"):
                b.span, b.adjoint_of = task.span, N.NO_ID
                at = next((k for k, s in enumerate(made) if isinstance(s, N.For)), 0) if task.kind == "threads" else 0
                made = (*made[:at], *b.made(_leave_after_a_failure, b), *made[at:])
            blocks.append(made)
        body.append(task.with_blocks(tuple(blocks)))
    buffers = {x.name: x for x in (_STATUS, _FAILED, _FAILURE, _PRINTS, _HEAD)}
    return replace(kernel, buffers={**kernel.buffers, **buffers}, body=tuple(body), next_id=b.next_id)


def _leave_after_a_failure(b: Builder) -> None:
    failed = b.op("and", b.load(_STATUS, ()), b.const(Status.ASSERT, u32))
    _unless(b, b.op("eq", failed, b.const(0, u32)), lambda: None)


def _unless(b: Builder, cond: int, report: Callable[[], None], id: int = N.NO_ID) -> None:
    """Emits an If: unless the condition holds, it reports a failure and ends the thread. ``id``: the id of the If,
    a new one by default."""
    with b.block() as bad:
        report()
        b.add(N.ThreadExit(b.fresh()))
        b.yield_()
    b.add(N.If(b.fresh() if id == N.NO_ID else id, cond, b.nothing(), tuple(bad), ()))


def _record(b: Builder, bit: int, what: int, count: int, values: Sequence[int] = ()) -> None:
    """Emits the record of a failure: sets a bit of the status; the first thread that fails also stores what failed."""
    flag, none = b.const(bit, u32), b.const(0, u32)
    b.atomic("or", _STATUS, (), flag)
    seen = b.add(N.Atomic(b.fresh(), u32, _FAILED.name, (), flag, "cas", expected=none))
    with b.when(b.op("eq", seen, none)):
        for n, value in enumerate((what, count, *values)):
            b.store(_FAILURE, (b.const(n, i32),), _raw(b, value))


def _assert(b: Builder, s: N.Assert, number: int) -> None:
    values = s.args[:VALUES]

    def report() -> None:
        _record(b, Status.ASSERT, b.const(number, u64), b.const(len(values), u64), values)

    _unless(b, s.cond, report, s.id)


def _print(b: Builder, s: N.Print, number: int) -> None:
    """Emits a print: reserves a record in the print block and writes it, or counts the print as lost if the block is
    full. ``number``: the index of the Print among the kernel's."""
    b.atomic("or", _STATUS, (), b.const(Status.PRINTED, u32))
    used, lost, room = (b.const(at // 4, i32) for at in (L.PRINT_USED, L.PRINT_LOST, L.PRINT_ROOM))
    words = [b.const(number, u64), *(_raw(b, i) for i in s.operands())]
    count = b.const(len(words), u32)
    at = b.atomic("add", _HEAD, (used,), count)
    with b.block() as fits:
        for n, word in enumerate(words):
            b.store(_PRINTS, (b.cast(b.op("add", at, b.const(L.PRINT_DATA // WORD + n, u32)), i32),), word)
        b.yield_()
    with b.block() as full:
        b.atomic("add", _HEAD, (lost,), b.const(1, u32))
        b.yield_()
    b.add(N.If(s.id, b.op("le", b.op("add", at, count), b.load(_HEAD, (room,))), tuple(fits), tuple(full), ()))


def _raw(b: Builder, id: int) -> int:
    """The bits of a value as a u64."""
    t = b.types[id]
    if t is u1:
        return b.op("select", id, b.const(1, u64), b.const(0, u64))
    return b.cast(b.op("bitcast", id, type=UNSIGNED[t.bits]) if t.is_float else id, u64)


_RULES: dict[type, Callable[..., None]] = {
    N.Assert: _assert,
    N.Print: _print,
    N.Overflow: lambda b, s, number: _record(b, Status.OVERFLOW, s.stack, s.depth),
}
