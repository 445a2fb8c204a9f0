"""The code of a task on the CPU: where its buffers, its adstacks and its reports are."""

from collections.abc import Callable
from typing import Any

from quadrants_lab.backends._llvm import body, memory
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Function, Module, memory_type
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


class CpuBody(body.Body):
    """The code of a task. ``device`` is the address of the device block, ``worker`` the number of the worker thread, an
    i64."""

    def __init__(self, fn: Function, unit: Unit, parallel: bool) -> None:
        super().__init__(fn, unit, parallel)
        self.exit = "leave"
        self.device = "%device"
        self.worker = "0"
        self.alone = ""  # an i1: no other thread runs iterations of the task meanwhile
        self.copies: dict[str, tuple[str, str]] = {}  # what `sums` returns for buffers that workers may have copies of
        self.indices: tuple[N.Param, ...] = ()  # of a parallel task
        self.bounds_at = 0  # where its bounds are in the frame
        self.scratch = ""  # room for the values that an assert or a print reports

    def begin_chunk(self, task: N.Offload, number: int) -> None:
        """Begins a chunk function of the parallel task with that number, which has a parameter %worker."""
        fn = self.fn
        self.alone = fn.let("icmp slt i64 %worker, 0")
        self.worker = fn.call("i64", "llvm.smax.i64", ("i64", "%worker"), ("i64", "0"))
        self.indices, self.bounds_at = task.indices, self.frame.bounds[number]
        self.device = fn.let("load ptr, ptr %frame")

    def open(self, *blocks: N.Block) -> None:
        super().open(*blocks)
        reports = (s for block in blocks for s in walk(block) if isinstance(s, (N.Assert, N.Print)))
        words = max((len(s.operands()) for s in reports), default=0)
        if words:
            self.scratch = self.fn.let(f"alloca [{words} x i64]")

    # --- what Body asks for -------------------------------------------------------------------------------------

    def address_at(self, offset: int) -> str:
        return self.word(offset, "ptr")

    def first_slot(self, b: N.Buffer, at: int) -> str:
        place = self.in_slab(self.word(at))
        return self.fn.let(f"getelementptr inbounds i8, ptr {self.opened('slab', self._slab)}, i64 {place}")

    def in_slab(self, at: str) -> str:
        """The place in the worker's slab of a stack that has the place ``at`` in the slab of one iteration."""
        return at

    def _slab(self) -> str:
        base = self.fn.word(L.HEAP, "ptr", self.device)
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

    # --- reports to the host ------------------------------------------------------------------------------------

    def fail(self, stmt: N.Assert) -> None:
        """Records a failed assert and leaves the task."""
        self._report("qd_assert", stmt, stmt.args[: L.VALUES])
        self.fn.jump(self.exit)

    def print(self, stmt: N.Print) -> None:
        self._report("qd_print", stmt, stmt.operands())

    def _report(self, function: str, stmt: N.Stmt, ids: tuple[int, ...]) -> None:
        number, values = self.frame.numbers[stmt.id], self._raw_values(ids)
        counts = ("i64", str(number)), ("i64", str(len(ids)))
        self.fn.call("void", function, ("ptr", "%frame"), *counts, ("ptr", values))

    def overflow(self, stack: str, depth: str) -> None:
        """Records that the stack with that number in the kernel, an i64, went over capacity."""
        self.fn.call("void", "qd_overflow", ("ptr", "%frame"), ("i64", stack), ("i64", depth))

    def builtin(self, what: str) -> str:
        if what == "seed":
            return self.fn.word(L.SEED, base=self.device)
        return self.word(L.LAUNCH) if what == "launch" else self.iteration()

    def iteration(self) -> str:
        """The row-major number of the parallel iteration within its task."""
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

    def reported(self, id: int) -> str:
        """A value in the iteration whose assert, print or overflow is reported."""
        return self.values[id]

    def _raw_values(self, ids: tuple[int, ...]) -> str:
        """Address of words that hold the values."""
        for n, i in enumerate(ids):
            at = self.fn.let(f"getelementptr inbounds i64, ptr {self.scratch}, i64 {n}")
            t, value = self.types[i], self.reported(i)
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


# --- functions of the module ------------------------------------------------------------------------------------


def chunk_function(mod: Module, name: str) -> Function:
    """A function that runs the iterations %begin to %end, one at least, of a task."""
    head = f"define internal void @{name}(ptr %frame, i64 %begin, i64 %end, i64 %worker) noinline nounwind"
    return mod.function(name, head)


def call_parallel(fn: Function, name: str, total: str, grain: int, timed: int, unit: str) -> str:
    """Calls the runtime's `qd_parallel` with a chunk function; returns how many workers took part."""
    numbers = (("i64", x) for x in (total, str(grain), str(timed), unit))
    return fn.call("i64", "qd_parallel", ("ptr", "%frame"), ("ptr", f"@{name}"), *numbers)
