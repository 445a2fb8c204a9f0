"""A kernel's LLVM module for the CPU: an entry that runs the tasks in order, and a chunk function for each task."""

from functools import partial

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends.block_memory import own_memory
from quadrants_lab.backends.boxes import fixed_total
from quadrants_lab.backends.cpu import colours, copies, jit, layout as L, shares, waits
from quadrants_lab.backends.cpu.body import CpuBody, call_parallel, chunk_function
from quadrants_lab.backends.cpu.rows import iterations, rows, saturated_product
from quadrants_lab.backends.cpu.schedule import CpuSchedule, parts
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.lower import devices, lower
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.options import CompileOptions

_emit_in_lanes, _groups = lazily("backends.cpu.lanes.task", "emit"), lazily("backends.cpu.lanes.task", "groups")
_one_place_row = lazily("backends.cpu.lanes.one_place", "row_of")
_lower_lanes = lazily("backends.cpu.lanes.functions", "lower_lanes")

PIECE = 1024  # iterations of a row that each step runs before the next step, so that the cache holds their elements
BLOCK_MEMORY = 1 << 16  # bytes of a worker's stack for memory that a block shares
STOP_STATUS = Status.ASSERT | Status.CANCELLED


def module(kernel: N.Kernel, options: CompileOptions, triple: str, data_layout: str) -> Module:
    """The module of a `lowered` kernel; its one external function is ``entry(ptr frame)``.

    The entry only starts tasks: with ``optnone`` LLVM spends no time on it. Nothing in the module throws: ``nounwind``
    spares tables for unwinding.
    """
    mod, tasks = Module(triple, data_layout), kernel.tasks
    fn = mod.function(jit.ENTRY_NAME, f"define void @{jit.ENTRY_NAME}(ptr %frame) noinline nounwind optnone")
    device = fn.let("load ptr, ptr %frame")
    shares_at = shares.reserve(fn, [shares.ordered(kernel, task) for task in tasks])
    maker = _Maker(kernel, options, mod, fn, device, shares_at)
    for number, task in enumerate(tasks):
        fn.stmt = task.id
        if task.kind == "serial":
            maker.serial(task, number)
            fn.call("void", f"task{number}", ("ptr", "%frame"), ("ptr", device))
        else:
            maker.parallel(task, number)
        if number + 1 < len(tasks):
            bits = fn.let(f"and i64 {fn.word(L.STATUS)}, {STOP_STATUS}")
            on = fn.label("task")
            fn.branch(fn.let(f"icmp eq i64 {bits}, 0"), on, "leave")
            fn.start(on)
    fn.stmt = N.NO_ID
    fn.jump("leave")
    fn.start("leave")
    fn.put("ret void")
    fn.close()
    mod.helpers = {name: text.replace(") {\n", ") nounwind {\n", 1) for name, text in mod.helpers.items()}
    mod.metadata = maker.unit.scopes.lines()
    return mod


class _Maker:
    """Makes the functions of one module. ``entry``: the entry, in which ``device`` is the address of the device block
    and ``shares_at`` what `shares.reserve` returned."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, mod: Module, entry: Function, device: str, shares_at: str
    ) -> None:
        self.kernel = kernel
        self.mod = mod
        self.entry, self.device, self.shares_at = entry, device, shares_at
        self.unit = Unit(kernel, options, L.frame_layout(kernel))

    def serial(self, task: N.Offload, number: int) -> None:
        fn = self.mod.function(
            f"task{number}", f"define internal void @task{number}(ptr %frame, ptr %device) noinline nounwind"
        )
        body = CpuBody(fn, self.unit, parallel=False)
        body.open(task.body)
        body.block(task.body)
        fn.jump("leave")
        fn.start("leave")
        fn.put("ret void")
        fn.close()

    def parallel(self, task: N.Offload, number: int) -> None:
        """Runs a parallel task in the entry, and makes its chunk function."""
        fn = self.entry
        entry, total = self._bounds(task, number)
        reached = copies.request(entry, task, total) if task.copies and task.sums != "alone" else []
        shared = shares.Shares(entry, shares.ordered(self.kernel, task), self.shares_at)
        grain, timed = task.grain, int(task.timed)
        if task.lanes:
            _emit_in_lanes(self._chunk(number, "lanes" if task.wait else ""), self.unit, task, number)
            if task.wait:
                self._range(task, number, "alone")
                waits.choose(self._chunk(number), self.unit, task, number)
            if not task.colour_rows:
                total = _groups(fn, self.kernel, task, total)
                grain = max(1, grain // task.lanes)
        else:
            self._range(task, number)
        if task.colour_rows:
            at = self.unit.frame.bounds[number]
            colours.launch(shared, self.mod, task, number, at)
            return
        unit = shared.begin(total, grain if timed else grain * shares.GRAINS)
        helpers = call_parallel(fn, f"task{number}", total, grain, timed, unit)
        shared.end(total, unit)
        if reached:
            copies.add(entry, reached, helpers)

    def _bounds(self, task: N.Offload, number: int) -> tuple[CpuBody, str]:
        """Runs the bounds block in the entry and leaves begin and extent of each axis in the frame. Returns the body
        of the entry, and how many iterations there are."""
        fn = self.entry
        body = CpuBody(fn, self.unit, parallel=False)
        body.device = self.device
        body.open(task.bounds)
        body.block(task.bounds)
        total = "1"
        for axis, (_, *ends) in enumerate(task.box()):
            begin, end = (memory.widen(body, i) for i in ends)
            extent = fn.call("i64", "llvm.ssub.sat.i64", ("i64", end), ("i64", begin))
            extent = fn.call("i64", "llvm.smax.i64", ("i64", extent), ("i64", "0"))
            at = self.unit.frame.bounds[number] + axis * 2 * L.WORD
            fn.put(f"store i64 {begin}, ptr {body.at(at)}")
            fn.put(f"store i64 {extent}, ptr {body.at(at + L.WORD)}")
            total = saturated_product(fn, total, extent) if axis else extent
        return body, total

    def _chunk(self, number: int, way: str = "") -> Function:
        return chunk_function(self.mod, f"task{number}{way and f'_{way}'}")

    def _range(self, task: N.Offload, number: int, name: str = "") -> None:
        """The chunk function: iterations %begin to %end of the box in row-major order. Each row runs the steps one
        after the other. Sums at places from data may have a function of their own for each way, see `copies.open`."""
        ways = ("plain", "atomic") if task.sums == "apart" else (task.sums,)
        steps = parts(task.body) if task.steps else (task.body,)
        for way in ways:
            fn = self._chunk(number, way if len(ways) > 1 else name)
            opened = partial(self._open, task, number, way)
            body = CpuBody(fn, self.unit, parallel=True)
            if len(steps) == 1:
                body.own = own_memory(self.kernel, task, BLOCK_MEMORY)
            opened(body)
            shares.open(body, task)
            row = _one_place_row(fn, self.unit, task, opened) if task.one_place else partial(_row, steps)
            rows(body, task, "%begin", "%end", row)
            fn.start("leave")
            shares.close(body, task, partial(_partial_result, body))
            fn.put("ret void")
            fn.close()
        if len(ways) > 1:
            copies.choose(self._chunk(number), number)

    def _open(self, task: N.Offload, number: int, way: str, body: CpuBody) -> None:
        """Reads what a chunk function needs from the frame."""
        body.begin_chunk(task, number)
        body.open(task.body)
        copies.open(body, task.copies, way)


def _partial_result(body: CpuBody, p: memory.Partial) -> str:
    return memory.read(body, p.dtype, p.ptr)


def _row(steps: tuple[N.Block, ...], body: CpuBody, task: N.Offload, begin: str, end: str, done: str) -> None:
    """A row, over a range of i64 that is never empty. Several steps take it in pieces, which each of them finds in the
    cache."""
    fn, p = body.fn, task.indices[-1]
    if len(steps) == 1:
        iterations(body, p, steps[0], begin, end, done)
        return
    with fn.loop("piece", "i64", begin, end, done, str(PIECE)) as low:
        high = fn.call("i64", "llvm.smin.i64", ("i64", fn.let(f"add i64 {low}, {PIECE}")), ("i64", end))
        for step in steps:
            after = fn.label("step")
            iterations(body, p, step, low, high, after)
            fn.start(after)


def lowered(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """The kernel with its schedule, of which `module` takes the schedule and the statements."""
    return lower(kernel, lowering(options), options)


def lowering(options: CompileOptions) -> tuple[N.Pass, ...]:
    """The passes from a kernel to what the emitters have spellings for, on this processor."""
    return devices.cpu(CpuSchedule(jit.vector_bytes() // 4, options.reproducible), lower_lanes, options)


def lower_lanes(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that elementary functions of divergent values are calls; others are left to the C library."""
    return _lower_lanes(kernel) if any(task.lanes for task in kernel.tasks) else kernel


def lanes_at_once(task: N.Offload) -> int:
    """How many iterations of a task a worker may have side by side: no more than there are, rounded up to a power of
    two."""
    total = fixed_total(task)
    return task.lanes if total is None else min(task.lanes, 1 << (max(total, 1) - 1).bit_length())


def machine_code(kernel: N.Kernel, options: CompileOptions) -> bytes:
    """The object code of a `lowered` kernel."""
    lines, _ = module(kernel, options, *jit.triple_and_layout()).lines()
    return jit.compiled("\n".join(lines), *loop_passes(kernel))


def loop_passes(kernel: N.Kernel) -> tuple[bool, bool]:
    """Whether LLVM's loop vectoriser runs, and whether its loop unroller does."""
    return any(t.vectorise for t in kernel.tasks), any(t.unroll for t in kernel.tasks)
