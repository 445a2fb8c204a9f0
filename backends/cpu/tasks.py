"""A kernel's LLVM module for the CPU: an entry that runs the tasks in order, and for each task its chunk function."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends import cost
from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.ops import LOWERING
from quadrants_lab.backends._llvm.text import Function, Module, ty
from quadrants_lab.backends.block_memory import own_memory
from quadrants_lab.backends.boxes import fixed_total
from quadrants_lab.backends.cpu import colours, copies, jit, shares
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.backends.cpu.colours import Coloured, coloured
from quadrants_lab.backends.cpu.lanes import task as in_lanes
from quadrants_lab.backends.cpu.lanes.choose import lanes_of
from quadrants_lab.backends.cpu.lanes.functions import lower_varying_math
from quadrants_lab.backends.cpu.rows import rows
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks
from quadrants_lab.backends.lower.casts import ESTIMATED, lower_formulas
from quadrants_lab.backends.lower.functions import lower_math
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import u64
from quadrants_lab.ir.walk import walk

CHUNK_CYCLES = 20000  # work that is worth a chunk of its own
BLOCK = 8192  # iterations of a block whose rows run in steps, and so in vectors
PIECE = 1024  # iterations of a row whose elements stay in the nearest cache from step to step
BLOCK_MEMORY = 1 << 16  # bytes of a worker's stack for what a block shares
SHORT = 200  # statements of a task whose sums at places from data are chosen once a chunk
STOP_STATUS = 6  # Status.ASSERT | Status.CANCELLED


def module(
    kernel: N.Kernel, options: CompileOptions, widths: list[int], triple: str, data_layout: str
) -> Module:
    """The module; its one external function is ``entry(ptr frame)``. ``widths``: lanes of each task, see `widths_of`.

    The entry is glue that runs once a launch: ``optnone`` spends no time on it. Nothing in the module throws:
    ``nounwind`` spares tables for unwinding.
    """
    grains = [_grain(t) for t in kernel.tasks]
    plan = coloured(lower(kernel, lowering(options, widths), options))
    kernel = plan.kernel
    maker = _Maker(plan, options, Module(triple, data_layout))
    maker.alone = {n for n, t in enumerate(kernel.tasks) if not widths[n] and _runs_alone(t, *grains[n])}
    mod = maker.mod
    fn = mod.function(jit.ENTRY_NAME, f"define void @{jit.ENTRY_NAME}(ptr %frame) noinline nounwind optnone")
    device = fn.let("load ptr, ptr %frame")
    tasks = kernel.tasks
    in_order = [shares.ordered(kernel, task) for task in tasks]
    room = shares.room(fn, in_order)
    for number, task in enumerate(tasks):
        fn.stmt = task.id
        if task.kind == "serial":
            maker.serial(task, number)
            fn.put(f"call void @task{number}(ptr %frame, ptr {device})")
        else:
            entry, total = maker.bounds(fn, task, number)
            asks = maker.targets[number] and maker.ways(task, number) != ("alone",)
            reached = copies.ask(entry, task, maker.targets[number], total) if asks else []
            shared = shares.Shares(entry, in_order[number], room)
            grain, timed = grains[number]
            if widths[number]:
                maker.lanes(task, number, widths[number], number in plan.rows)
                if number not in plan.rows:
                    total = in_lanes.groups(fn, kernel, task, total, widths[number])
                    grain = max(1, grain // widths[number])
            else:
                steps = plan.steps.get(number, (task.body,))
                maker.range(task, number, steps)
                grain = grain if len(steps) == 1 else BLOCK
            if number in plan.rows:
                at = maker.frame.bounds[number]
                colours.launch(shared, mod, number, len(task.indices), at, plan.rows[number], grain, timed)
            else:
                unit = shared.begin(total, grain if timed else grain * shares.GRAINS)
                helpers = fn.call(
                    "i64", "qd_parallel", ("ptr", "%frame"), ("ptr", f"@task{number}"), ("i64", total),
                    ("i64", str(grain)), ("i64", str(timed)), ("i64", unit),
                )  # fmt: skip
                shared.end(total, unit)
                if reached:
                    copies.add(entry, reached, helpers)
        if number + 1 < len(tasks):
            status = fn.let(f"getelementptr inbounds i8, ptr %frame, i64 {L.STATUS}")
            bits = fn.let(f"and i64 {fn.let(f'load i64, ptr {status}')}, {STOP_STATUS}")
            on = fn.label("task")
            fn.branch(fn.let(f"icmp eq i64 {bits}, 0"), on, "leave")
            fn.start(on)
    fn.stmt = N.NO_ID
    fn.jump("leave")
    fn.start("leave")
    fn.put("ret void")
    fn.close()
    mod.helpers = {name: text.replace(") {\n", ") nounwind {\n", 1) for name, text in mod.helpers.items()}
    mod.metadata = maker.scopes.lines()
    return mod


def _grain(task: N.Offload) -> tuple[int, int]:
    """The least number of iterations in a chunk, and whether an iteration's cost is only known by timing it."""
    cycles, exact = cost.estimate(task.body)
    if not exact:
        return 1, 1
    return max(1, CHUNK_CYCLES // max(1, cycles)), 0


def _runs_alone(task: N.Offload, grain: int, timed: int) -> bool:
    """Whether one thread is known to run the whole task in every launch (`qd_parallel`)."""
    total = None if timed or task.kind == "serial" else fixed_total(task)
    return total is not None and total <= grain


class _Maker:
    """What the functions of one module share. ``alone``: numbers of tasks of which `_runs_alone` says so."""

    alone: Set[int] = frozenset()

    def __init__(self, plan: Coloured, options: CompileOptions, mod: Module) -> None:
        self.kernel = kernel = plan.kernel
        self.targets = [() if n in plan.rows else copies.targets(kernel, t) for n, t in enumerate(kernel.tasks)]
        self.options = options
        self.mod = mod
        self.frame = L.frame_layout(kernel)
        self.scopes = memory.Scopes(kernel)
        self.ranges = Ranges(kernel)

    def body(self, fn: Function, parallel: bool) -> CpuBody:
        body = CpuBody(fn, self.kernel, self.options, self.frame, parallel, self.scopes, self.ranges)
        body.exit = "leave"
        return body

    def serial(self, task: N.Offload, number: int) -> None:
        fn = self.mod.function(
            f"task{number}", f"define internal void @task{number}(ptr %frame, ptr %device) noinline nounwind"
        )
        body = self.body(fn, parallel=False)
        body.open(task.body)
        body.block(task.body)
        fn.jump("leave")
        fn.start("leave")
        fn.put("ret void")
        fn.close()

    def bounds(self, fn: Function, task: N.Offload, number: int) -> tuple[CpuBody, str]:
        """Runs the bounds block in the entry and leaves begin and extent of each axis in the frame. Returns the body
        of the entry, and how many iterations there are."""
        body = self.body(fn, parallel=False)
        body.device = "%t1"
        body.open(task.bounds)
        body.block(task.bounds)
        total = "1"
        for axis, (_, *ends) in enumerate(task.box()):
            begin, end = (memory.widen(body, i) for i in ends)
            extent = fn.call("i64", "llvm.smax.i64", ("i64", fn.let(f"sub i64 {end}, {begin}")), ("i64", "0"))
            at = self.frame.bounds[number] + axis * 2 * L.WORD
            fn.put(f"store i64 {begin}, ptr {body.at(at)}")
            fn.put(f"store i64 {extent}, ptr {body.at(at + L.WORD)}")
            total = extent if axis == 0 else fn.let(f"mul i64 {total}, {extent}")
        return body, total

    def chunk(self, number: int, which: str = "") -> Function:
        name = f"task{number}{which and f'_{which}'}"
        head = f"define internal void @{name}(ptr %frame, i64 %begin, i64 %end, i64 %worker) noinline nounwind"
        return self.mod.function(name, head)

    def lanes(self, task: N.Offload, number: int, width: int, whole: bool) -> None:
        """The chunk function of a task that runs in lanes: groups %begin to %end, or with ``whole`` iterations."""
        fn = self.chunk(number)
        found = self.targets[number]
        in_lanes.emit(
            fn, self.kernel, self.options, self.frame, self.scopes, self.ranges, task, number, width, whole, found
        )

    def range(self, task: N.Offload, number: int, steps: tuple[N.Block, ...]) -> None:
        """The chunk function: iterations %begin to %end of the box in row-major order; each row runs the
        ``steps`` one after the other."""
        ways = self.ways(task, number)
        if len(ways) == 1:
            self._range(self.chunk(number), task, number, steps, ways[0])
            return
        for which in ways:
            self._range(self.chunk(number, which), task, number, steps, which)
        copies.choose(self.chunk(number), number)

    def ways(self, task: N.Offload, number: int) -> tuple[str, ...]:
        """How sums at places from data are known to run: a function for each way, see `copies.open`."""
        if not self.targets[number] or sum(1 for _ in walk(task.body)) > SHORT:
            return ("",)
        return ("alone",) if number in self.alone else ("plain", "atomic")

    def _range(
        self, fn: Function, task: N.Offload, number: int, steps: tuple[N.Block, ...], which: str
    ) -> None:
        body = self.body(fn, parallel=True)
        copies.worker(body)
        body.indices, body.bounds_at = task.indices, self.frame.bounds[number]
        body.device = fn.let("load ptr, ptr %frame")
        if len(steps) == 1:
            body.own = own_memory(self.kernel, task, BLOCK_MEMORY)
        body.open(task.body)
        copies.open(body, self.targets[number], which)
        shares.open(body, task)
        rows(body, task, number, "%begin", "%end", partial(_row, steps))
        fn.start("leave")
        shares.close(body, task, lambda p: memory.read(body, p.dtype, p.ptr))
        fn.put("ret void")
        fn.close()


def _row(steps: tuple[N.Block, ...], body: CpuBody, task: N.Offload, begin: str, end: str, done: str) -> None:
    """A row, over [begin, end) given as i64, never empty. Several steps take it in pieces, which each of them finds in
    the cache."""
    fn, p = body.fn, task.indices[-1]
    if len(steps) == 1:
        _loop(body, p, steps[0], begin, end, done)
        return
    piece, before = fn.label("piece"), fn.block
    fn.jump(piece)
    fn.start(piece)
    low, hole = fn.hole()
    high = fn.call("i64", "llvm.smin.i64", ("i64", fn.let(f"add i64 {low}, {PIECE}")), ("i64", end))
    for step in steps:
        after = fn.label("step")
        _loop(body, p, step, low, high, after)
        fn.start(after)
    fn.patch(hole, f"{low} = phi i64 [{begin}, %{before}], [{high}, %{fn.block}]")
    fn.branch(fn.let(f"icmp slt i64 {high}, {end}"), piece, done)


def _loop(body: CpuBody, p: N.Param, block: N.Block, begin: str, end: str, done: str) -> None:
    """The innermost parallel loop, over [begin, end) given as i64, never empty."""
    fn = body.fn
    t = ty(p.type).text
    if p.type.bits < 64:
        begin, end = fn.let(f"trunc i64 {begin} to {t}"), fn.let(f"trunc i64 {end} to {t}")
    loop, before = fn.label("iteration"), fn.block
    fn.jump(loop)
    fn.start(loop)
    index, at = fn.hole()
    body.define(p.id, p.type, index)
    body.block(block)
    wraps = "nsw" if p.type.kind == "i" else "nuw"
    step = fn.let(f"add {wraps} {t} {index}, 1")
    fn.patch(at, f"{index} = phi {t} [{begin}, %{before}], [{step}, %{fn.block}]")
    fn.branch(fn.let(f"icmp {'slt' if p.type.kind == 'i' else 'ult'} {t} {step}, {end}"), loop, done)


def _layouts(widths: list[int]) -> list[Layout]:
    return [Layout(u64, lanes=width > 0) for width in widths]


def lowering(options: CompileOptions, widths: list[int] | None = None) -> tuple[N.Pass, ...]:
    """From a kernel to what the emitters have spellings for. ``widths``: lanes of each task; where none are given those
    that it has on this processor, before anything is lowered."""
    found = widths

    def layouts(kernel: N.Kernel) -> list[Layout]:
        nonlocal found
        found = widths_of(kernel) if widths is None else widths
        return _layouts(found)

    def lower_lanes(kernel: N.Kernel) -> N.Kernel:
        """Guarantees that elementary functions of what differs between lanes are calls; others are the C library's."""
        return lower_varying_math(kernel, widths_of(kernel) if found is None else found)

    roots = (lower_formulas(own=ESTIMATED),) if options.fast_math else ()
    return (lower_adstacks(layouts), lower_lanes, lower_math(), *roots, *LOWERING)


def widths_of(kernel: N.Kernel) -> list[int]:
    """Lanes of each task, 0 where its iterations run by themselves."""
    size, found = jit.vector_bytes(), coloured(kernel)
    return [0 if n in found.steps else lanes_of(kernel, t, size) for n, t in enumerate(found.kernel.tasks)]


def lanes_at_once(kernel: N.Kernel, number: int, width: int) -> int:
    """How many iterations of a task a worker may have side by side: no more than there are, rounded up to a power of
    two."""
    task = kernel.tasks[number]
    total = 1 if task.kind == "serial" else fixed_total(task)
    return width if total is None else min(width, 1 << (max(total, 1) - 1).bit_length())


def machine_code(kernel: N.Kernel, options: CompileOptions, widths: list[int]) -> bytes:
    """The kernel's object."""
    lines, _ = module(kernel, options, widths, *jit.triple_and_layout()).lines()
    return jit.compiled("\n".join(lines), vectorisable(kernel, widths))


def vectorisable(kernel: N.Kernel, widths: list[int]) -> bool:
    """Whether an innermost loop is one that LLVM's vectoriser may gain from: it reads or writes memory in step with
    its index, or reduces, and holds nothing that forbids vectors. What it cannot vectorise costs compile time only, and
    what is brief makes good for it after some ten thousand launches."""
    if brief(kernel):
        return False
    tasks = zip(coloured(kernel).kernel.tasks, widths, strict=True)
    return any(not lanes and _vectorisable(t.body, t.kind != "serial") for t, lanes in tasks)


_MOST_IN_VECTORS = 1000  # statements of a loop: the time that LLVM's vectoriser takes grows with their square
_NOT_IN_VECTORS = (
    N.While, N.Assert, N.Print, N.Random, N.AdStackAlloca, N.StackUse,
)  # fmt: skip


def _vectorisable(block: N.Block, in_loop: bool) -> bool:
    loops = [s for s in walk(block) if isinstance(s, N.For)]
    if loops:
        return any(_vectorisable(s.body, True) for s in loops)
    if not in_loop:
        return False
    for n, s in enumerate(walk(block)):
        if isinstance(s, _NOT_IN_VECTORS) or n == _MOST_IN_VECTORS:
            return False
        if isinstance(s, N.Op) and "@math" in PRIMS[s.prim].llvm:
            return False
        if isinstance(s, N.Atomic) and s.index and not s.private:
            return False
    return True


def brief(kernel: N.Kernel) -> bool:
    """Whether a launch is known to take a few microseconds at most: then it keeps the GIL."""
    total = 0
    for task in kernel.tasks:
        cycles, exact = cost.estimate(task.body)
        if not exact:
            return False
        if task.kind != "serial":
            known = cost.constants(task.bounds)
            for _, begin, end in task.box():
                if begin not in known or end not in known:
                    return False
                cycles *= max(0, known[end] - known[begin])
        total += cycles
    return total < CHUNK_CYCLES
