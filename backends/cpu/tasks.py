"""A kernel's LLVM module for the CPU: an entry that runs the tasks in order, and a chunk function for each task."""

from functools import partial

from quadrants_lab.backends import cost
from quadrants_lab.backends._llvm import memory, ops
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends.block_memory import own_memory
from quadrants_lab.backends.boxes import fixed_total
from quadrants_lab.backends.cpu import colours, copies, jit, layout as L, shares
from quadrants_lab.backends.cpu.body import CpuBody, call_parallel, chunk_function
from quadrants_lab.backends.cpu.colours import coloured
from quadrants_lab.backends.cpu.lanes import vector_loops
from quadrants_lab.backends.cpu.lanes.choose import is_math, lanes_of
from quadrants_lab.backends.cpu.rows import iterations, rows, saturated_product
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks
from quadrants_lab.backends.lower.casts import ESTIMATED, NOTHING
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f16, u64
from quadrants_lab.ir.walk import walk

_emit_in_lanes, _groups = lazily("backends.cpu.lanes.task", "emit"), lazily("backends.cpu.lanes.task", "groups")
_arrays = lazily("backends.lower.local_arrays", "lower_local_arrays")
_lanes_of_one_place = lazily("backends.cpu.lanes.one_place", "lanes_of")
_one_place_row = lazily("backends.cpu.lanes.one_place", "row_of")
_lower_divergent_math = lazily("backends.cpu.lanes.functions", "lower_divergent_math")

CHUNK_CYCLES = 20000  # work that is worth a chunk of its own
BLOCK = 8192  # iterations of a block whose rows run in steps, and so in vectors
PIECE = 1024  # iterations of a row that each step runs before the next step, so that the cache holds their elements
BLOCK_MEMORY = 1 << 16  # bytes of a worker's stack for memory that a block shares
FEWEST_SELECTS = 7  # of a kernel with an array that `lower.local_arrays` puts in memory
SHORT = 200  # the most statements of a task that gets one function with plain sums and one with atomic sums
STOP_STATUS = Status.ASSERT | Status.CANCELLED


def module(kernel: N.Kernel, options: CompileOptions, widths: list[int], triple: str, data_layout: str) -> Module:
    """The module; its one external function is ``entry(ptr frame)``. ``widths``: lanes of each task, see `widths_of`.

    The entry only starts tasks: with ``optnone`` LLVM spends no time on it. Nothing in the module throws: ``nounwind``
    spares tables for unwinding.
    """
    maker = _Maker(kernel, options, widths, Module(triple, data_layout))
    mod, tasks = maker.mod, maker.kernel.tasks
    fn = mod.function(jit.ENTRY_NAME, f"define void @{jit.ENTRY_NAME}(ptr %frame) noinline nounwind optnone")
    device = fn.let("load ptr, ptr %frame")
    shares_at = shares.reserve(fn, maker.in_order)
    for number, task in enumerate(tasks):
        fn.stmt = task.id
        if task.kind == "serial":
            maker.serial(task, number)
            fn.call("void", f"task{number}", ("ptr", "%frame"), ("ptr", device))
        else:
            maker.parallel(fn, task, number, shares_at)
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


def _grain(task: N.Offload) -> tuple[int, int]:
    """The least number of iterations in a chunk, and 1 where only timing tells the cost of an iteration, else 0."""
    cycles, exact = cost.estimate(task.body)
    return (max(1, CHUNK_CYCLES // max(1, cycles)), 0) if exact else (1, 1)


class _Maker:
    """Makes the functions of one module."""

    def __init__(self, kernel: N.Kernel, options: CompileOptions, widths: list[int], mod: Module) -> None:
        self.widths = widths
        self.grains = [_grain(t) for t in kernel.tasks]
        self.plan = plan = coloured(lower(kernel, lowering(options, widths), options))
        self.kernel = kernel = plan.kernel
        self.targets = [() if n in plan.rows else copies.targets(kernel, t) for n, t in enumerate(kernel.tasks)]
        self.in_order = [shares.ordered(kernel, task) for task in kernel.tasks]
        self.mod = mod
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

    def parallel(self, fn: Function, task: N.Offload, number: int, shares_at: str) -> None:
        """Runs a parallel task in the entry ``fn``, and makes its chunk function. ``shares_at``: see `shares`."""
        entry, total = self._bounds(fn, task, number)
        targets, width = self.targets[number], self.widths[number]
        wanted = targets and self._ways(task, number) != ("alone",)
        reached = copies.request(entry, task, targets, total) if wanted else []
        shared = shares.Shares(entry, self.in_order[number], shares_at)
        grain, timed = self.grains[number]
        rows = self.plan.rows.get(number)
        if width:
            _emit_in_lanes(self._chunk(number), self.unit, task, number, width, rows is not None, targets)
            if rows is None:
                total = _groups(fn, self.kernel, task, total, width)
                grain = max(1, grain // width)
        else:
            steps = self.plan.steps.get(number, (task.body,))
            self._range(task, number, steps)
            grain = grain if len(steps) == 1 else BLOCK
        if rows is not None:
            at = self.unit.frame.bounds[number]
            colours.launch(shared, self.mod, number, len(task.indices), at, rows, grain, timed)
            return
        unit = shared.begin(total, grain if timed else grain * shares.GRAINS)
        helpers = call_parallel(fn, f"task{number}", total, grain, timed, unit)
        shared.end(total, unit)
        if reached:
            copies.add(entry, reached, helpers)

    def _bounds(self, fn: Function, task: N.Offload, number: int) -> tuple[CpuBody, str]:
        """Runs the bounds block in the entry and leaves begin and extent of each axis in the frame. Returns the body
        of the entry, and how many iterations there are."""
        body = CpuBody(fn, self.unit, parallel=False)
        body.device = "%t1"
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

    def _ways(self, task: N.Offload, number: int) -> tuple[str, ...]:
        """The ways in which sums at places from data may run, each of which gets a function of its own; see
        `copies.open`."""
        if not self.targets[number] or sum(1 for _ in walk(task.body)) > SHORT:
            return ("",)
        (grain, timed), total = self.grains[number], fixed_total(task)
        alone = not timed and total is not None and total <= grain  # then `qd_parallel` wakes no worker
        return ("alone",) if alone and not self.widths[number] else ("plain", "atomic")

    def _range(self, task: N.Offload, number: int, steps: tuple[N.Block, ...]) -> None:
        """The chunk function: iterations %begin to %end of the box in row-major order. Each row runs the ``steps`` one
        after the other."""
        ways, targets = self._ways(task, number), self.targets[number]
        searched = targets and not self.unit.options.reproducible
        lanes = _lanes_of_one_place(task, targets, jit.vector_bytes()) if searched else 0
        for way in ways:
            fn = self._chunk(number, way if len(ways) > 1 else "")
            opened = partial(self._open, task, number, way)
            body = CpuBody(fn, self.unit, parallel=True)
            if len(steps) == 1:
                body.own = own_memory(self.kernel, task, BLOCK_MEMORY)
            opened(body)
            shares.open(body, task)
            row = partial(_row, steps)
            if lanes and way != "alone":
                row = _one_place_row(fn, self.unit, task, lanes, opened)
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
        copies.open(body, self.targets[number], way)


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


def lowering(options: CompileOptions, widths: list[int] | None = None) -> tuple[N.Pass, ...]:
    """The passes from a kernel to what the emitters have spellings for. ``widths``: lanes of each task, by default
    those that the kernel has on this processor before anything is lowered."""
    found: list[int] = []

    def layouts(kernel: N.Kernel) -> list[Layout]:
        found[:] = widths_of(kernel, options) if widths is None else widths
        return [Layout(u64, lanes=width > 0) for width in found]

    def lower_lanes(kernel: N.Kernel) -> N.Kernel:
        """Guarantees that elementary functions of divergent values are calls; others are left to the C library."""
        return _lower_divergent_math(kernel, found) if any(found) else kernel

    own = ESTIMATED if options.fast_math else NOTHING
    return (lower_local_arrays, lower_adstacks(layouts), lower_lanes, *ops.lowering(own=own))


def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """See `lower.local_arrays`, which most kernels need not import. It runs once: a kernel that has arrays stays."""
    if any(b.kind == "private" for b in kernel.buffers.values()):
        return kernel
    selects = sum(isinstance(s, N.Op) and s.prim == "select" for s in walk(kernel.body))
    return _arrays(kernel) if selects >= FEWEST_SELECTS else kernel


def widths_of(kernel: N.Kernel, options: CompileOptions) -> list[int]:
    """Lanes of each task, 0 where its iterations run by themselves."""
    size, found = jit.vector_bytes(), coloured(lower_local_arrays(kernel))

    def alone(number: int, task: N.Offload) -> bool:
        # elementary functions round otherwise in lanes, which another kernel's task may not have
        return number in found.steps or (options.reproducible and any(map(is_math, walk(task.body))))

    return [0 if alone(n, t) else lanes_of(found.kernel, t, size) for n, t in enumerate(found.kernel.tasks)]


def lanes_at_once(kernel: N.Kernel, number: int, width: int) -> int:
    """How many iterations of a task a worker may have side by side: no more than there are, rounded up to a power of
    two."""
    total = fixed_total(kernel.tasks[number])
    return width if total is None else min(width, 1 << (max(total, 1) - 1).bit_length())


def machine_code(kernel: N.Kernel, options: CompileOptions, widths: list[int]) -> bytes:
    """The kernel's object code."""
    lines, _ = module(kernel, options, widths, *jit.triple_and_layout()).lines()
    return jit.compiled("\n".join(lines), *loop_passes(kernel, widths))


def loop_passes(kernel: N.Kernel, widths: list[int]) -> tuple[bool, bool]:
    """Whether LLVM's loop vectoriser runs, and whether its loop unroller does."""
    return vectorisable(kernel, widths), unrollable(kernel)


def unrollable(kernel: N.Kernel) -> bool:
    """Whether LLVM unrolls short loops: those over local arrays, whose elements it then keeps in registers."""
    return not brief(kernel) and any(b.kind == "private" for b in lower_local_arrays(kernel).buffers.values())


def vectorisable(kernel: N.Kernel, widths: list[int]) -> bool:
    """Whether LLVM's loop vectoriser may gain from an innermost loop: the loop reads or writes memory in step with its
    index, or reduces, and holds nothing that forbids vectors. For others, and for a `brief` kernel, which regains the
    compile time only after some ten thousand launches, the vectoriser does not run."""
    if brief(kernel):
        return False
    tasks = [*zip(coloured(kernel).kernel.tasks, widths, strict=True)]
    if any(_ends_llvm(t, lanes) for t, lanes in tasks):
        return False
    return any(not lanes and vector_loops.vectorisable(t.body, t.kind != "serial") for t, lanes in tasks)


def _ends_llvm(task: N.Offload, lanes: int) -> bool:
    """Whether an innermost loop takes the least or greatest of f16, of several floats, or of one beside elementary
    functions. LLVM's two models of costs disagree on the first and the last, and its vectoriser asks with one
    comparison whether any of the second is NaN. Its assertions on these end the process."""
    bodies = [s.blocks() for s in walk(task.body) if isinstance(s, N.Loop)]
    for blocks in bodies if lanes else [(task.body,), *bodies]:
        inside = [s for block in blocks for s in walk(block)]
        if any(isinstance(s, N.Loop) for s in inside):
            continue
        extremes = (s.type for s in inside if isinstance(s, (N.Op, N.Atomic)) and _name(s) in N.MINMAX)
        floats = {t for t in extremes if t.is_float}
        if f16 in floats or len(floats) > 1 or (floats and any(map(is_math, inside))):
            return True
    return False


def _name(s: N.Op | N.Atomic) -> str:
    return s.prim if isinstance(s, N.Op) else s.op


def brief(kernel: N.Kernel) -> bool:
    """Whether a launch is known to take a few microseconds at most. Such a launch keeps the GIL."""
    total = 0
    for task in kernel.tasks:
        (cycles, exact), iterations = cost.estimate(task.body), fixed_total(task)
        if not exact or iterations is None:
            return False
        total += cycles * iterations
    return total < CHUNK_CYCLES
