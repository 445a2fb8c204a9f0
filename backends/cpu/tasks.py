"""Emits a kernel's LLVM module for the CPU: an entry that runs the tasks in order, and for each task a chunk
function, which runs a range of the task's iterations."""

from functools import partial
from math import prod

from quadrants_lab.analysis.divergence import divergence
from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.memory import own_memory
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends.cost import fixed_total
from quadrants_lab.backends.cpu import copies, jit, layout as L, moves, shares
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.backends.cpu.lanes import local_arrays, lower_lanes
from quadrants_lab.backends.cpu.rows import (
    Row,
    adaptive,
    aggregated,
    iterations,
    rows,
    saturated_product,
)
from quadrants_lab.backends.cpu.schedule import CpuSchedule, parts
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.lower import devices, lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.backends.lower.cells import copied, splits
from quadrants_lab.backends.pages import PAGE
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

# how many iterations of a row run one step before they run the next step; few enough that the cache still holds their
# elements
PIECE = 1024
# after a group whose sums went to several elements, so many groups run one iteration at a time; see `rows.aggregated`
PAUSE = 16
BLOCK_MEMORY = 1 << 16  # bytes of a worker's stack for memory that a block shares
STOP_STATUS = Status.ASSERT | Status.CANCELLED


def module(kernel: N.Kernel, options: CompileOptions, triple: str, data_layout: str) -> Module:
    """The module of a kernel that `lowered` returned; its one exported function is ``entry(ptr frame)``.

    The entry only starts tasks: ``optnone`` keeps LLVM from spending time on it. Nothing in the module throws, so
    ``nounwind`` saves the tables for unwinding.
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
    fn.enter("leave")
    fn.end()
    mod.helpers = {name: text.replace(") {\n", ") nounwind {\n", 1) for name, text in mod.helpers.items()}
    mod.metadata = maker.unit.scopes.lines()
    return mod


class _Maker:
    """Makes the functions of one module. ``entry``: the entry function; within it ``device`` is the address of the
    device block, and ``shares_at`` the address from `shares.reserve`."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, mod: Module, entry: Function, device: str, shares_at: str
    ) -> None:
        self.kernel = kernel
        self.mod = mod
        self.entry, self.device, self.shares_at = entry, device, shares_at
        self.strides = moves.reserve(entry, kernel.tasks)
        self.unit = Unit(kernel, options, L.frame_layout(kernel))

    def serial(self, task: N.Offload, number: int) -> None:
        fn = self.mod.function(
            f"task{number}", f"define internal void @task{number}(ptr %frame, ptr %device) noinline nounwind"
        )
        body = CpuBody(fn, self.unit, parallel=False)
        body.open(task.body)
        body.block(task.body)
        fn.enter("leave")
        fn.end()

    def parallel(self, task: N.Offload, number: int) -> None:
        """Emits into the entry a parallel run of the task, and adds the task's chunk function to the module."""
        fn = self.entry
        if (pair := copied(self.kernel, task)) is not None:
            body = CpuBody(fn, self.unit, parallel=False)
            to, of = (body.pointer(buffer.name) for buffer in pair)
            pages = -(-prod(n for _, n in pair[0].order) * pair[0].dtype.nbytes // PAGE)
            fn.call("void", "qd_copy_pages", ("ptr", to), ("ptr", of), ("i64", str(pages)), ("i64", str(PAGE)))
            return
        entry, total = self._bounds(task, number)
        if task.moves:
            moves.call(entry, task, self.unit.frame.bounds[number], self.strides)
            return
        reached = copies.request(entry, task, total) if task.copies and task.sums != "serial" else []
        shared = shares.Shares(entry, shares.ordered(self.kernel, task), self.shares_at)
        grain, timed = task.grain, int(task.timed)
        self._range(task, number)
        if task.lanes and not task.colour_rows:
            size = _group(fn, self.kernel, task, total)
            total = fn.divided_up(total, size)
            grain = max(1, grain // task.lanes)
        if task.colour_rows:
            _in_colours(shared, self.mod, task, number, self.unit.frame.bounds[number])
            return
        unit = shared.begin(total, grain if timed else grain * shares.GRAINS)
        helpers = _call_parallel(fn, f"task{number}", total, grain, timed, unit)
        shared.end(total, unit)
        if reached:
            copies.add(entry, reached, helpers)

    def _bounds(self, task: N.Offload, number: int) -> tuple[CpuBody, str]:
        """Emits the task's bounds block into the entry, and stores begin and extent of each axis of the box in the
        frame. Returns the entry's body, and the number of iterations, an i64."""
        fn = self.entry
        body = CpuBody(fn, self.unit, parallel=False)
        body.device = self.device
        body.open(task.bounds)
        body.block(task.bounds)
        total = "1"
        for axis, (_, *ends) in enumerate(task.box()):
            begin, end = (memory.widen(body, i) for i in ends)
            extent = fn.extreme("smax", fn.call("i64", "llvm.ssub.sat.i64", ("i64", end), ("i64", begin)), "0")
            at = self.unit.frame.bounds[number] + axis * 2 * L.WORD
            fn.put(f"store i64 {begin}, ptr {body.at(at)}")
            fn.put(f"store i64 {extent}, ptr {body.at(at + L.WORD)}")
            total = saturated_product(fn, total, extent) if axis else extent
        return body, total

    def _range(self, task: N.Offload, number: int) -> None:
        """Makes the chunk function of the task. It runs the iterations %begin to %end of the box in row-major order;
        with lanes, it counts groups of iterations. In each row, the steps run one after the other. If the task sums at
        indices read from data, there may be a function for plain and one for atomic sums, see `copies.open`."""
        variants = ("plain", "atomic") if task.sums == "versioned" else (task.sums,)
        steps = parts(task.body) if task.fission else (task.body,)
        for variant in variants:
            fn = _chunk_function(self.mod, f"task{number}_{variant}" if len(variants) > 1 else f"task{number}")
            body = self._body(fn, task, task.lanes)
            if len(steps) == 1 and body.width == 1:  # each lane is a block
                body.own = own_memory(self.kernel, task, BLOCK_MEMORY)
            begin, end = self._open(body, task, number, variant)
            shares.open(body, task)
            row: Row = partial(_row, steps)
            if task.aggregate:
                wide = self._body(fn, task, task.aggregate)
                self._open(wide, task, number, variant)
                row = partial(aggregated, wide, PAUSE * task.aggregate)
            if task.wait:
                narrow = self._body(fn, task, 0)
                self._open(narrow, task, number, variant)
                row = partial(adaptive, narrow)
            rows(body, task, begin, end, row)
            fn.start("leave")
            shares.close(body, task)
            fn.end()
        if len(variants) > 1:
            copies.choose(_chunk_function(self.mod, f"task{number}"), number)

    def _body(self, fn: Function, task: N.Offload, lanes: int) -> CpuBody:
        variables = {b.name for b in self.kernel.buffers.values() if b.kind == "local"}
        arrays = local_arrays(self.kernel)
        found = divergence(task.body, [task.indices[-1].id], variables, arrays) if lanes else None
        body = CpuBody(fn, self.unit, True, max(1, lanes), found)
        if any(buffer.order for buffer in self.kernel.buffers.values()):
            body.splits = splits(task, self.unit.ranges)
        return body

    def _open(self, body: CpuBody, task: N.Offload, number: int, way: str) -> tuple[str, str]:
        """Emits the reads of what a chunk function needs from the frame. Returns the index of its first iteration, and
        the index after its last."""
        fn, begin, end = body.fn, "%begin", "%end"
        body.exclusive = fn.let("icmp slt i64 %worker, 0")
        body.worker = fn.extreme("smax", "%worker", "0")
        body.indices, body.bounds_at = task.indices, self.unit.frame.bounds[number]
        body.device = fn.let("load ptr, ptr %frame")
        if task.lanes:
            total = "1"
            for axis in range(len(task.indices)):
                extent = body.word(body.bounds_at + (2 * axis + 1) * L.WORD)
                total = saturated_product(fn, total, extent) if axis else extent
            body.stride = _group(fn, self.kernel, task, total)
            body.whole = fn.let(f"icmp eq i64 {body.stride}, {body.width}")
            if not task.colour_rows:
                begin, past = (fn.let(f"mul i64 {n}, {body.stride}") for n in (begin, end))
                end = fn.extreme("umin", past, total)
        body.open(task.body)
        copies.open(body, task.copies, way)
        if task.lanes:
            body.scratch_at = fn.let(f"alloca <{body.width} x ptr>")
            body.scratch_values = fn.let(f"alloca <{body.width} x i64>")
        return begin, end


def _group(fn: Function, kernel: N.Kernel, task: N.Offload, total: str) -> str:
    """How many iterations run side by side, an i64: one a lane, unless there are fewer iterations or the heap lacks
    room for their adstacks. The number that the frame holds is for the kernel's task with the most lanes."""
    if not stores_slots(kernel, task.body):
        return str(task.lanes)
    room = fn.extreme("umin", fn.word(L.LANES), str(task.lanes))
    return fn.extreme("umax", fn.extreme("umin", room, total), "1")


def _row(steps: tuple[N.Block, ...], body: CpuBody, task: N.Offload, begin: str, end: str, done: str) -> None:
    """Emits a row of iterations, over a range of i64 that is never empty. If there are several steps, they take the row
    in pieces: the cache still holds a piece when the next step runs it."""
    fn, p = body.fn, task.indices[-1]
    if len(steps) == 1:
        iterations(body, p, steps[0], begin, end, done)
        return
    with fn.loop("piece", "i64", begin, end, done, str(PIECE)) as low:
        high = fn.extreme("smin", fn.let(f"add i64 {low}, {PIECE}"), end)
        for step in steps:
            after = fn.label("step")
            iterations(body, p, step, low, high, after)
            fn.start(after)


# --- functions of the module -------------------------------------------------------------------------------------


def _chunk_function(mod: Module, name: str) -> Function:
    """Begins a function that runs the iterations %begin to %end of a task; there is at least one."""
    head = f"define internal void @{name}(ptr %frame, i64 %begin, i64 %end, i64 %worker) noinline nounwind"
    return mod.function(name, head)


def _call_parallel(fn: Function, name: str, total: str, grain: int, timed: int, unit: str) -> str:
    """Emits a call of the runtime's `qd_parallel`, which runs a chunk function on all workers; returns how many workers
    took part."""
    numbers = (("i64", x) for x in (total, str(grain), str(timed), unit))
    return fn.call("i64", "qd_parallel", ("ptr", "%frame"), ("ptr", f"@{name}"), *numbers)


# --- two colours ------------------------------------------------------------------------------------------------


def _in_colours(shared: shares.Shares, mod: Module, task: N.Offload, number: int, at: int) -> None:
    """Emits a run of the chunk function of task ``number`` over all iterations of its box, whose bounds are in the
    frame at byte ``at``. ``shared``: the partial results of the task's reductions.

    The adjoint of a stencil adds to the elements around its own. Iterations are cut along the first axis into blocks,
    and the blocks get two colours in turn. A block has at least as many rows as the sums extend over, so two blocks of
    one colour touch no common element. First all blocks of one colour run in parallel, then the blocks of the other;
    each sum is a plain read, addition and write. The result does not depend on the number of threads.
    """
    fn, axes, rows, grain = shared.entry.fn, len(task.indices), task.colour_rows, task.grain
    for colour in (0, 1):
        name = f"task{number}_colour{colour}"
        _colour(mod, name, number, axes, at, rows, grain, colour)
        _, size, blocks = _sizes(fn, axes, at, rows, grain)
        count = fn.let(f"lshr i64 {fn.let(f'add i64 {blocks}, {1 - colour}')}, 1")
        unit = shared.begin(count, 1, fn.let(f"shl i64 {size}, 1"))
        _call_parallel(fn, name, count, 1, int(task.timed), unit)
        shared.end(count, unit)


def _sizes(fn: Function, axes: int, at: int, rows: int, grain: int) -> tuple[str, str, str]:
    """Emits the number of iterations, the number of iterations in a block, and the number of blocks."""
    first, *others = (fn.word(at + (2 * axis + 1) * L.WORD) for axis in range(axes))
    row = "1"
    for extent in others:
        row = fn.let(f"mul i64 {row}, {extent}")
    # empty rows mean that the box has no iterations
    first = fn.let(f"select i1 {fn.let(f'icmp eq i64 {row}, 0')}, i64 0, i64 {first}")
    row = fn.extreme("umax", row, "1")
    high = fn.extreme("umax", fn.divided_up(str(grain), row), str(rows))
    blocks = fn.divided_up(first, high)
    return fn.let(f"mul i64 {first}, {row}"), fn.let(f"mul i64 {high}, {row}"), blocks


def _colour(mod: Module, name: str, number: int, axes: int, at: int, rows: int, grain: int, colour: int) -> None:
    """Makes a chunk function whose pieces are the blocks of one colour."""
    fn = _chunk_function(mod, name)
    total, size, _ = _sizes(fn, axes, at, rows, grain)
    with fn.loop("block", "i64", "%begin", "%end", "done", less="ult") as n:
        place = fn.let(f"add i64 {fn.let(f'shl i64 {n}, 1')}, {colour}")
        low = fn.let(f"mul i64 {place}, {size}")
        high = fn.extreme("umin", fn.let(f"add i64 {low}, {size}"), total)
        fn.call("void", f"task{number}", ("ptr", "%frame"), ("i64", low), ("i64", high), ("i64", "%worker"))
    fn.start("done")
    fn.end()


# --- from a kernel to its object --------------------------------------------------------------------------------


def lowered(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """The kernel after its schedule is decided and its statements are lowered, as `module` takes it."""
    return lower(kernel, lowering(options), options)


def lowering(options: CompileOptions) -> tuple[N.Pass, ...]:
    """The passes that turn every statement into statements that the emitter has instructions for, on this processor."""
    return devices.cpu(CpuSchedule(jit.vector_bytes() // 4, options.reproducible), lower_lanes, options)


def lanes_at_once(task: N.Offload) -> int:
    """How many iterations of a task a worker may run side by side: its lanes, but no more than its iterations, rounded
    up to a power of two."""
    total = fixed_total(task)
    return task.lanes if total is None else min(task.lanes, 1 << (max(total, 1) - 1).bit_length())


def machine_code(kernel: N.Kernel, options: CompileOptions) -> bytes:
    """Compiles a kernel that `lowered` returned to object code."""
    lines, _ = module(kernel, options, *jit.triple_and_layout()).lines()
    return jit.compiled("\n".join(lines), *loop_passes(kernel))


def loop_passes(kernel: N.Kernel) -> tuple[bool, bool]:
    """Decides whether LLVM's loop vectoriser runs on this kernel, and whether its loop unroller does."""
    return any(t.vectorise for t in kernel.tasks), any(t.unroll for t in kernel.tasks)
