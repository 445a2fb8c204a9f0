"""Emits those parts of a task that only the CPU has: accesses to buffers and adstacks, and reports to the host."""

from quadrants_lab.analysis.divergence import Divergence
from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.body import Body, Unit
from quadrants_lab.backends._llvm.statements import HANDLERS
from quadrants_lab.backends._llvm.text import Function, memory_type, ty
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find


class CpuBody(Body):
    """Emits the code of a task. ``device``: the address of the device block; ``worker``: the index of the worker
    thread, an i64."""

    handlers = HANDLERS

    def __init__(
        self, fn: Function, unit: Unit, parallel: bool, width: int = 1, found: Divergence | None = None
    ) -> None:
        super().__init__(fn, unit, parallel, width, found)
        self.exit = "leave"
        self.device = "%device"
        self.worker = "0"
        self.exclusive = ""  # an i1: no other thread runs iterations of the task at the same time
        # name of a buffer that has a copy for each worker -> what `sums` returns for it
        self.copies: dict[str, tuple[str, str]] = {}
        self.indices: tuple[N.Param, ...] = ()  # the indices of a parallel task
        self.bounds_at = 0  # the byte offset in the frame of the task's bounds
        self.scratch = ""  # an alloca with room for the values that an assert or a print reports
        self.lane = "0"  # the index of the lane whose values are reported

    def open(self, *blocks: N.Block) -> None:
        super().open(*blocks)
        reports = (s for block in blocks for s in find(block, (N.Assert, N.Print)))
        words = max((len(s.operands()) for s in reports), default=0)
        if words:
            self.scratch = self.fn.let(f"alloca [{words} x i64]")

    # --- what Body requires of a device -----------------------------------------------------------------------------

    def address_at(self, offset: int) -> str:
        return self.word(offset, "ptr")

    def first_slot(self, b: N.Buffer, at: int) -> str:
        place = self.word(at)  # the offset of the stack in one iteration's part of the heap
        if self.width > 1:
            place = self.fn.let(f"mul i64 {place}, {self.stride}")
        return self.fn.at(place, self.opened("slab", self._slab))

    def _slab(self) -> str:
        base = self.fn.word(L.HEAP, "ptr", self.device)
        return self.fn.at(self.fn.let(f"mul i64 {self.worker}, {self.word(L.SLAB_BYTES)}"), base)

    def sums(self, buffer: str) -> tuple[str, str]:
        return self.copies.get(buffer, (self.exclusive, ""))

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

    # --- reports to the host ------------------------------------------------------------------------------------

    def check(self, stmt: N.Assert) -> None:
        """Emits a check of an assert: if it fails in any lane, the first such lane is recorded, and the task ends."""
        fn, outer = self.fn, self.offsets
        bad, good = fn.label("fail"), fn.label("ok")
        fails = self.masked(self.mask, self.inverse(self.vector(stmt.cond))) if self.mask else ""
        fn.branch(*((self.any(fails), bad, good) if fails else (self.values[stmt.cond], good, bad)))
        fn.start(bad)
        self.offsets = dict(outer)
        self.lane = self.first(fails) if fails else "0"
        self._report("qd_assert", stmt, stmt.args[: L.VALUES])
        fn.jump(self.exit)
        self.offsets = outer
        fn.start(good)

    def print(self, stmt: N.Print) -> None:
        self._report("qd_print", stmt, stmt.operands())

    def _report(self, function: str, stmt: N.Stmt, ids: tuple[int, ...]) -> None:
        number, values = self.frame.numbers[stmt.id], self._raw_values(ids)
        counts = ("i64", str(number)), ("i64", str(len(ids)))
        self.fn.call("void", function, ("ptr", "%frame"), *counts, ("ptr", values))

    def overflow(self, stmt: N.Overflow) -> None:
        """Emits the report that a stack exceeded its capacity. It holds the stack's index in the kernel, and the first
        lane in which this happened."""
        if not self.uniform(stmt.stack, stmt.depth):
            self.lane = self.first(self.mask)
        both = (self.fn.widened(self.reported(i), self.types[i]) for i in (stmt.stack, stmt.depth))
        self.fn.call("void", "qd_overflow", ("ptr", "%frame"), *(("i64", value) for value in both))

    def builtin(self, what: str) -> str:
        if what == "seed":
            return self.fn.word(L.SEED, base=self.device)
        if what == "clock":
            return self.fn.call("i64", "llvm.readcyclecounter")
        return self.word(L.LAUNCH) if what == "launch" else self.iteration()

    def iteration(self) -> str:
        """The row-major index of this iteration in the task's box; with lanes, that of the first lane."""
        number = "0"
        for n, p in enumerate(self.indices):
            at = self.bounds_at + 2 * n * L.WORD
            place = self.fn.let(f"sub i64 {memory.widen(self, p.id)}, {self.word(at)}")
            scaled = self.fn.let(f"mul i64 {number}, {self.word(at + L.WORD)}") if n else ""
            number = self.fn.let(f"add i64 {scaled}, {place}") if n else place
        return number

    def reported(self, id: int) -> str:
        """The value with this id in the lane that an assert, print or overflow reports."""
        if self.uniform(id):
            return self.values[id]
        v = ty(self.types[id], self.width).text
        return self.fn.let(f"extractelement {v} {self.vector(id)}, i64 {self.lane}")

    def _raw_values(self, ids: tuple[int, ...]) -> str:
        """The address of an array of words that hold the values."""
        for n, i in enumerate(ids):
            at = self.fn.let(f"getelementptr inbounds i64, ptr {self.scratch}, i64 {n}")
            t, value = self.types[i], self.reported(i)
            self.fn.put(f"store {memory_type(t)} {self.fn.stored(t, value)}, ptr {at}")
        return self.scratch if ids else "null"
