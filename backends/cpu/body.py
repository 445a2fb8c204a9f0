"""Where a task's code on the CPU finds what it works on: its frame, its worker's share of the heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm import body, memory
from quadrants_lab.backends._llvm.text import Function, memory_type
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk


class CpuBody(body.Body):
    """A task's code. The frame is the parameter %frame; ``device`` and ``worker`` are values."""

    def __init__(
        self, fn: Function, kernel: N.Kernel, options: CompileOptions, frame: L.FrameLayout, parallel: bool,
        scopes: memory.Scopes, ranges: Ranges,
    ) -> None:  # fmt: skip
        super().__init__(fn, kernel, options, frame, parallel, scopes, ranges)
        self.options = options
        self.device = "%device"
        self.worker = "0"
        self.alone = ""  # whether no other thread runs iterations of the task meanwhile, an i1
        self.copies: dict[str, tuple[str, str]] = {}  # what `sums` says of buffers that workers may have copies of
        self.indices: tuple[N.Param, ...] = ()  # of a parallel task, and where its bounds are
        self.bounds_at = 0
        self.scratch = ""  # room for the values that an assert or a print hands over

    def open(self, *blocks: N.Block) -> None:
        super().open(*blocks)
        said = (s for block in blocks for s in walk(block) if isinstance(s, (N.Assert, N.Print)))
        words = max((len(s.operands()) for s in said), default=0)
        if words:
            self.scratch = self.fn.let(f"alloca [{words} x i64]")

    # --- what Body asks for -------------------------------------------------------------------------------------

    def address_at(self, offset: int) -> str:
        return self.word(offset, "ptr")

    def first_slot(self, b: N.Buffer, at: int) -> str:
        place = self.in_slab(self.word(at))
        return self.fn.let(f"getelementptr inbounds i8, ptr {self.opened('slab', self._slab)}, i64 {place}")

    def in_slab(self, at: str) -> str:
        """Where a stack begins that has the place ``at`` in the slab of one iteration."""
        return at

    def _slab(self) -> str:
        heap = self.fn.let(f"getelementptr inbounds i8, ptr {self.device}, i64 {L.HEAP}")
        base = self.fn.let(f"load ptr, ptr {heap}")
        offset = self.fn.let(f"mul i64 {self.worker}, {self.word(L.SLAB_BYTES)}")
        return self.fn.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")

    def sums(self, buffer: str) -> tuple[str, str]:
        return self.copies.get(buffer, (self.alone, ""))

    def poll(self) -> None:
        if not self.polls:
            return
        fn = self.fn
        flag = fn.let(f"load volatile i32, ptr {self.device}")
        look, on = fn.label("look"), fn.label("on")
        fn.branch(fn.let(f"icmp eq i32 {flag}, 0"), on, look)
        fn.start(look)
        stop = fn.call("i1", "qd_poll", ("ptr", "%frame"), ("i64", self.worker))
        fn.branch(stop, self.exit, on)
        fn.start(on)

    def statement(self, stmt: N.Stmt) -> None:
        HANDLERS[type(stmt)](self, stmt)

    # --- what a thread leaves behind for the host ---------------------------------------------------------------

    def fail(self, stmt: N.Assert) -> None:
        """Records a failed assert and leaves the task."""
        number = self.frame.numbers[stmt.id]
        values = self._raw_values(stmt.args[: L.VALUES])
        count = min(len(stmt.args), L.VALUES)
        self.fn.call(
            "void", "qd_assert", ("ptr", "%frame"), ("i64", str(number)), ("i64", str(count)), ("ptr", values)
        )
        self.fn.jump(self.exit)

    def print(self, stmt: N.Print) -> None:
        ids, number = stmt.operands(), self.frame.numbers[stmt.id]
        values = self._raw_values(ids)
        self.fn.call(
            "void", "qd_print", ("ptr", "%frame"), ("i64", str(number)), ("i64", str(len(ids))), ("ptr", values)
        )

    def overflow(self, stack: str, depth: str) -> None:
        """Records that a stack (its number in the kernel, an i64) went over capacity."""
        self.fn.call("void", "qd_overflow", ("ptr", "%frame"), ("i64", stack), ("i64", depth))

    def builtin(self, what: str) -> str:
        if what == "seed":
            at = self.fn.let(f"getelementptr inbounds i8, ptr {self.device}, i64 {L.SEED}")
            return self.fn.let(f"load i64, ptr {at}")
        return self.word(L.LAUNCH) if what == "launch" else self.iteration()

    def iteration(self) -> str:
        """Number of the parallel iteration within its task, row by row."""
        number = "0"
        for n, p in enumerate(self.indices):
            at = self.bounds_at + 2 * n * L.WORD
            place = self.fn.let(f"sub i64 {memory.widen(self, p.id)}, {self.word(at)}")
            if n:
                number = self.fn.let(f"mul i64 {number}, {self.word(at + L.WORD)}")
                number = self.fn.let(f"add i64 {number}, {place}")
            else:
                number = place
        return number

    def one(self, id: int) -> str:
        """A value of the iteration that has something to say."""
        return self.values[id]

    def _raw_values(self, ids: tuple[int, ...]) -> str:
        """Address of the values' words."""
        for n, i in enumerate(ids):
            at = self.fn.let(f"getelementptr inbounds i64, ptr {self.scratch}, i64 {n}")
            t, value = self.types[i], self.one(i)
            self.fn.put(f"store {memory_type(t)} {memory.stored(self, t, value)}, ptr {at}")
        return self.scratch if ids else "null"


def _check(b: CpuBody, s: N.Assert) -> None:
    fn = b.fn
    bad, good = fn.label("fail"), fn.label("ok")
    fn.branch(b.values[s.cond], good, bad)
    fn.start(bad)
    b.fail(s)
    fn.start(good)


HANDLERS: dict[type, Callable[[Any, Any], None]] = body.HANDLERS | {
    N.Assert: _check,
    N.Print: lambda b, s: b.print(s),
    N.Overflow: lambda b, s: b.overflow(memory.widen(b, s.stack), memory.widen(b, s.depth)),
}
