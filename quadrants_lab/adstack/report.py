"""Makes the report of a gradient's memory: a row for each adstack, and for each buffer that the forward launch
saves for the gradient."""

from collections.abc import Mapping, Sequence
from math import prod

from quadrants_lab.analysis.algebra import subexpressions
from quadrants_lab.analysis.facts import Facts
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import print_size
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import find, of_kind, walk


@dataclass(frozen=True, slots=True)
class StackRow:
    """One adstack in the launch report. ``depth``: slots per iteration in this launch; ``how``: how the depth was
    determined, in words; ``bytes_per_lane``: bytes for one running iteration; ``reason``: the use that made the stack
    necessary; ``cure``: a change of the program that avoids the stack."""

    stack: int
    name: str
    line: int
    dtype: str
    depth: int
    how: str
    size: str
    bytes_per_lane: int
    reason: str
    cure: str


@dataclass(frozen=True, slots=True)
class KeptRow:
    """Values that a launch keeps for its gradient before it overwrites them. ``elements``: their number in this
    launch; ``size``: the formula for the number; ``line``, ``span``: where they are overwritten; ``slot``: the
    scratch buffer."""

    slot: str
    name: str
    line: int
    span: Span | None
    dtype: str
    elements: int
    size: str
    bytes: int
    reason: str


def kept_rows(facts: Facts, shapes: Mapping[str, tuple[int, ...]]) -> list[KeptRow]:
    """The report's rows about kept values of a reverse kernel. ``shapes``: the shapes of its scratch buffers in a
    launch."""
    rows = []
    for slot, (name, span) in facts.of(_restored).items():
        if slot not in shapes:
            continue
        of, line = facts.kernel.buffers[slot], span.line if span else 0
        size = " * ".join(print_size(e, 2) for e in of.extents) or "1"
        n = prod(shapes[slot])
        reason = f"overwritten at line {line}" if line else "a sum, or computed from what is overwritten"
        rows.append(KeptRow(slot, name, line, span, of.dtype.name, n, size, n * of.dtype.nbytes, reason))
    return rows


def _restored(kernel: N.Kernel) -> dict[str, tuple[str, Span | None]]:
    """Maps each scratch buffer of kept values to the buffer to which the gradient copies them back, and to the source
    lines of the task that overwrote them."""
    found: dict[str, tuple[str, Span | None]] = {}
    for task in kernel.body:
        loaded = {s.id: s.buffer for s in find((task,), N.Load)}
        for s in walk((task,)):
            slot = loaded.get(s.value) if isinstance(s, N.Store) else None
            if slot is not None and kernel.buffers[slot].role == "kept":
                assert isinstance(s, N.Store)
                found.setdefault(slot, (s.buffer, task.span))
    return found


def stack_allocas(kernel: N.Kernel) -> list[N.AdStackAlloca]:
    """The kernel's stacks, task by task. A device gets their capacities in this order."""
    return [
        s for task in kernel.tasks for s in of_kind(task.body, N.AdStackAlloca)
    ]


def report(kernel: N.Kernel, depths: Sequence[int], forced: bool = False) -> list[StackRow]:
    """The report's rows about the stacks of a sized reverse kernel. ``depths`` has the slots of each stack, in the
    order of `stack_allocas`."""
    rows = []
    for s, depth in zip(stack_allocas(kernel), depths, strict=True):
        assert s.size is not None
        rows.append(
            StackRow(
                s.id, s.name or f"%{s.primal}", s.span.line if s.span else 0, s.type.name, depth,
                "forced by ad_stack_size" if forced else how_found(s.size),
                "counted" if isinstance(s.size, S.SizeCounted) else print_size(s.size),
                stack_bytes(s.type, depth), s.reason, cure(s.reason),
            )
        )
    return rows


START = "start of each segment"  # prefix of the reason of the stacks of a checkpointed loop
_AT_HAND = (
    "a value that is computed from loop indices, arguments and memory that the kernel does not write needs no stack"
)
_CURES = {
    "index": _AT_HAND,
    "condition": _AT_HAND,
    "bound": _AT_HAND,
    START: "without checkpoint=True there is no such stack, and those in the loop have a slot for each trip",
    "trip count": "a for over a range that is known before the launch, without break, needs no stack of trips",
}
_LINEAR = "a value that is used only in sums, and in products whose other factor has no derivative, needs no stack"


def cure(reason: str) -> str:
    """What a user can change so that a stack with this reason becomes unnecessary."""
    return next((text for start, text in _CURES.items() if reason.startswith(start)), _LINEAR)


def stack_bytes(dtype: DType, slots: int) -> int:
    """The bytes of a stack for one running iteration; truth values are packed 32 to a word."""
    return (slots + 31) // 32 * 4 if dtype.kind == "b" else slots * dtype.nbytes


def how_found(size: S.SizeExpr) -> str:
    """When the size was determined, in words."""
    if size.constant is not None:
        return "known at compile time"
    if any(of_kind(subexpressions(size), S.SizeCounted)):
        return "counted by the counting slice"
    return "evaluated before the launch"


_SHOWN = 8  # the most stacks that the error lists


class NoRoomForStacks(QuadrantsRuntimeError, MemoryError):
    """The device has not enough memory for the adstacks."""


def too_much(
    kernel: N.Kernel, rows: Sequence[StackRow], threads: int, total: int, why: str,
    cls: type[QuadrantsRuntimeError] = QuadrantsRuntimeError,
) -> QuadrantsRuntimeError:  # fmt: skip
    """The error about a launch that needs at least ``total`` bytes for ``threads`` threads; ``rows`` are about the
    kernel's stacks."""
    stacks = stack_allocas(kernel)
    order = sorted(range(len(rows)), key=lambda n: -rows[n].bytes_per_lane)[:_SHOWN]
    labels = tuple(
        Label(
            stacks[n].span,
            f"{rows[n].name}: {rows[n].bytes_per_lane} bytes per thread, "
            f"{rows[n].depth} x {rows[n].dtype}; kept as {rows[n].reason}; {rows[n].cure}",
        )
        for n in order
    )
    rest = len(rows) - len(order)
    more = f"; {rest} smaller stacks are not listed" if rest else ""
    return cls(
        f"the gradient of kernel {kernel.name} needs {total} bytes of adstacks for {threads} "
        f"threads{more}; {why}; nothing was launched",
        code="QL2076",
        labels=labels,
        help="qd.loop_config(checkpoint=True) before the long serial loop, fewer trips between gradients (split it "
        "over several kernels under a Tape), a narrower dtype, fewer threads, or a larger ad_stack_budget_bytes in "
        "qd.init()",
    )
