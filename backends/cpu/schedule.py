"""Decides how the CPU runs each task: in how many vector lanes, in which order and pieces, with which copies of
arrays, and which of LLVM's passes run over its loops.

One pass decides it, before anything else depends on it, and writes it on the tasks (`ir.traits.Scheduled`). Emitters
and launches read it there.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from quadrants_lab.backends.cost import estimate, fixed_total
from quadrants_lab.backends.cpu import lanes as choose, vector_loops
from quadrants_lab.backends.cpu.layout import COPIES
from quadrants_lab.backends.cpu.moves import moves
from quadrants_lab.backends.lower import sums
from quadrants_lab.backends.lower.sums import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f16
from quadrants_lab.ir.walk import find, map_blocks, of_kind, rewrite_in, rules, walk

CHUNK_CYCLES = 20000  # cycles of work that are worth a separate chunk
BLOCK = 8192  # how many iterations a block has whose rows run as several loops, which LLVM can vectorise
# a task with more lowered statements has one function for its sums; smaller tasks have two, with plain and atomic sums
SHORT = 200
OF_STACK = 10  # a push or a pop of an adstack counts as so many lowered statements
FISSION_WORK = 2  # the loops that fission makes may together do so many times the work of the original loop
COPIED = ("f32", "f64", "i32", "u32", "i64", "u64")  # the runtime adds up copies of these dtypes


@dataclass(frozen=True, slots=True)
class CpuSchedule(Parametrised):
    """Decides how the CPU runs each task, and writes the decision on the task. Sums into neighbours' elements
    become plain additions: iterations that touch the same element get different colours, and the colours run one
    after the other. ``width``: how many 32-bit values a vector of the processor holds, 0 if it has no gathers and
    masks. ``reproducible``: all kernels that compute a value must get the same bits."""

    width: int = 0
    reproducible: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        short = brief(kernel)
        tasks = [self._task(kernel, t) for t in kernel.tasks]
        vectorised = not (short or any(_ends_llvm(t) for t in tasks))
        unrolled = not short and any(b.kind == "private" for b in kernel.buffers.values())
        body = tuple(
            replace(t, vectorise=vectorised and _vectorisable(t), unroll=unrolled and not t.lanes, brief=short)
            for t in tasks
        )
        return replace(kernel, body=body)

    def _task(self, kernel: N.Kernel, task: N.Offload) -> N.Offload:
        if task.kind == "serial":
            return task
        if moves(kernel, task):
            return replace(task, moves=True, why="a copy of elements as they are")
        cycles, exact = estimate(task.body)
        grain = max(1, CHUNK_CYCLES // max(1, cycles)) if exact else 1
        task, why = _coloured(task)
        added = [t for t in sums.targets(kernel, task) if t.buffer.dtype.name in COPIED and not t.buffer.order][:COPIES]
        names = tuple(t.buffer.name for t in added)
        shares = reductions(kernel, task.body)
        lanes, reason = self._lanes(kernel, task, {*shares}, {*names})
        if lanes and task.fission:
            task = replace(task, fission=0)
        why = "; ".join(filter(None, (reason, why)))
        wait = 0
        if lanes and not (task.lanes or shares or names or task.colour_rows):
            wait = choose.wait_threshold(task, lanes, 4 * self.width)
        copied = () if task.colour_rows else names
        how = _sums(task, lanes, grain, exact) if copied else ""
        searched = copied and not lanes and not self.reproducible and how != "serial"
        return replace(
            task, lanes=lanes, wait=wait, shares=tuple(shares.items()), copies=copied, sums=how,
            aggregate=choose.lanes_to_aggregate(task, copied, 4 * self.width) if searched else 0,
            grain=BLOCK if task.fission else grain, timed=not exact, why=why,
        )  # fmt: skip


    def _lanes(
        self, kernel: N.Kernel, task: N.Offload, reduced: Collection[str], copied: Collection[str]
    ) -> tuple[int, str]:
        """In how many lanes the task runs, and the reason. `qd.loop_config` can override the choice if lanes are
        possible at all."""
        # in lanes, elementary functions round differently, and another kernel may compute the same value without lanes
        alike = self.reproducible and any(map(choose.is_math, walk(task.body)))
        if not task.lanes:
            if task.fission or alike:
                return 0, ""
            lanes, reason = choose.lanes_of(kernel, task, reduced, copied, 4 * self.width)
            return lanes, reason and f"{lanes} lanes: {reason}"
        if task.lanes == 1:
            return 0, "no lanes, as qd.loop_config says"
        hindrance = "elementary functions round otherwise in lanes, and results must be reproducible" if alike else ""
        hindrance = hindrance or choose.hindrance(task) or choose.with_local_array(kernel, task, True)
        if not self.width:
            hindrance = "this processor cannot mask and gather"
        if hindrance:
            return 0, f"qd.loop_config(lanes={task.lanes}) has no effect: {hindrance}"
        return task.lanes, f"{task.lanes} lanes, as qd.loop_config says"


def brief(kernel: N.Kernel) -> bool:
    """Whether a launch is known to take a few microseconds at most. Such a launch keeps the GIL. LLVM's passes over
    loops do not run for it, since their time would pay only after some ten thousand launches."""
    total = 0
    for task in kernel.tasks:
        (cycles, exact), iterations = estimate(task.body), fixed_total(task)
        if not exact or iterations is None:
            return False
        total += cycles * iterations
    return total < CHUNK_CYCLES


# --- colours and steps ----------------------------------------------------------------------------------------------


def _coloured(task: N.Offload) -> tuple[N.Offload, str]:
    """Returns the task with plain instead of atomic sums into neighbours' elements, and with the colours and steps
    that these require; and the reason."""
    distances = [s.distance for s in find(task.body, N.Atomic) if s.distance >= 0]
    # each iteration adds only to its own element
    disjoint = bool(distances) and max(distances) == 0 and len(task.indices) == 1
    one_colour = task.colours == 1 and not disjoint

    def private(s: N.Atomic) -> N.Stmt:
        if s.distance < 0:
            return s
        return replace(s, private=not one_colour, distance=-1 if disjoint or one_colour else s.distance)

    if distances:
        task = rewrite_in(task, rules({N.Atomic: private}))
    if disjoint or not distances:
        none = "no sums of neighbouring iterations meet in an element"
        return task, f"qd.loop_config(colours={task.colours}) has no effect: {none}" if task.colours else ""
    if one_colour:
        return task, "1 colour, as qd.loop_config says"
    task = replace(task, colour_rows=max(1, *distances), fission=_fission(task.body))
    far = {0: "along a row", 1: "the next row"}.get(max(distances), f"{max(distances)} rows further")
    return task, f"2 colours: sums reach {far}"


def _fission(body: N.Block) -> int:
    """Into how many loops the body is split along a row (loop fission); 0 if LLVM cannot vectorise the body, or if the
    loops would repeat too much of its work."""
    if any("@math" in PRIMS[s.prim].llvm for s in find(body, N.Op)):
        return 0
    found = parts(body)
    pays = len(found) > 1 and sum(estimate(b)[0] for b in found) <= FISSION_WORK * estimate(body)[0]
    return len(found) if pays else 0


def parts(body: N.Block) -> tuple[N.Block, ...]:
    """The bodies of the loops that loop fission makes: one for each group of atomics with the same number, and a last
    one for everything else."""
    numbers = sorted({s.fission for s in find(body, N.Atomic)} - {0})
    return tuple(_slice(body, n, set()) for n in (*numbers, 0))


def _slice(block: N.Block, number: int, live: set[int]) -> N.Block:
    """The atomics of ``block`` with this fission number (for 0: the stores), and the statements that they need.
    ``live``: ids of values that are read after the block."""
    out: list[N.Stmt] = []
    for s in reversed(block):
        if isinstance(s, N.If):
            s = map_blocks(s, lambda arm: _slice(arm, number, live))
        acts = any(any(find(b, N.Write)) for b in s.blocks())
        acts = acts or (s.fission == number if isinstance(s, N.Atomic) else s.stores and not number)
        if acts or s.terminates or any(i in live for i, _ in s.defs()):
            out.append(s)
            live.update(s.operands())
    return tuple(reversed(out))


# --- sums at places from data ---------------------------------------------------------------------------------------


def _sums(task: N.Offload, lanes: int, grain: int, exact: bool) -> str:
    """The field ``sums`` of `ir.traits.Scheduled`: how the task adds at indices read from data. A task too small to
    wake a second thread for runs on one thread."""
    size = sum(OF_STACK if isinstance(s, N.StackUse) else 1 for s in walk(task.body))
    if lanes or size > SHORT:
        return ""
    total = fixed_total(task)
    return "serial" if exact and total is not None and total <= grain else "versioned"


# --- LLVM's passes over loops ---------------------------------------------------------------------------------------


def _vectorisable(task: N.Offload) -> bool:
    """Whether LLVM's loop vectoriser may gain from an innermost loop of the task: the loop accesses successive elements
    or reduces, and contains nothing that forbids vectors."""
    return not (task.lanes or task.moves) and vector_loops.vectorisable(task.body, task.kind != "serial")


def _ends_llvm(task: N.Offload) -> bool:
    """Whether an innermost loop contains one of three kinds of minimum or maximum: of f16, of several floats, or of one
    float beside elementary functions. LLVM's vectoriser has assertions that fail for them and end the process: its two
    cost models disagree on the first and third kind, and for the second one comparison tests all floats for NaN."""
    bodies = [s.blocks() for s in find(task.body, N.Loop)]
    for blocks in bodies if task.lanes else [(task.body,), *bodies]:
        inside = [s for block in blocks for s in walk(block)]
        if any(of_kind(inside, N.Loop)):
            continue
        floats = {t for t in _extremes(inside) if t.is_float}
        if f16 in floats or len(floats) > 1 or (floats and any(map(choose.is_math, inside))):
            return True
    return False


def _extremes(inside: Iterable[N.Stmt]) -> list[DType]:
    """The dtypes of the minima and maxima among the statements."""
    return [s.type for s in of_kind(inside, N.Value) if (s.prim or s.atomic) in N.MINMAX]
