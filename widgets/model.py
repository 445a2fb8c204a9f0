"""Defines the data that the inspector shows: `notebook.collect` makes it, the panes turn it into trees. What takes
long to make, such as the code of a backend, is made when it is first shown (`Lazy`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.text import statement_lines

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow
    from quadrants_lab.autodiff.explain import Note
    from quadrants_lab.runtime.check.report import Report as CheckReport
    from quadrants_lab.runtime.tape.report import Report


@dataclass(slots=True)
class Line:
    """A line of text. ``span_line``: its line in the view's source (0: unknown). ``stmt``: the id of its IR statement
    (-1: none). ``adjoint_of``: the id of the forward statement whose adjoint it computes (-1: none)."""

    text: str
    span_line: int = 0
    stmt: int = -1
    adjoint_of: int = -1


@dataclass(slots=True)
class PassView:
    """A pass in a trace, with the kernel before and after it."""

    name: str
    before: Kernel | None  # None for the front end, which starts from source
    after: Kernel
    seconds: float
    doc: str = ""
    lowering: bool = False  # it lowers for a device


@dataclass(slots=True)
class NodeView:
    """A box of a graph: a title line and text lines in a ``language``."""

    id: str
    title: str
    lines: list[Line] = field(default_factory=list)
    kind: str = ""  # "entry", "exit", "branch", "loop", "push", ...: a CSS class
    line: int = 0
    note: str = ""
    language: str = "ir"


@dataclass(slots=True)
class EdgeView:
    """``kind``: "back" for a loop's back edge; "exit"; between a column and its side "use", "both" (a derivative flows
    back) or "kept" (so does one, of values that a Tape keeps)."""

    src: str
    dst: str
    kind: str = ""
    label: str = ""


@dataclass(slots=True)
class ClusterView:
    """The parts of a loop, drawn inside one labelled frame; the first one is the loop's header."""

    label: str
    body: list[Part]


# an element of a column of the graph: a node, a loop, or the two arms of a branch
Part: TypeAlias = "str | ClusterView | tuple[list[Part], list[Part]]"


@dataclass(slots=True)
class GraphView:
    """``side``: nodes that stand beside the column ``body``. ``drawn``: cache of the data for the browser."""

    title: str
    nodes: list[NodeView]
    edges: list[EdgeView]
    body: list[Part]
    side: list[str] = field(default_factory=list)
    drawn: str = ""


Bar: TypeAlias = "tuple[int, float, float, int, int, int]"


@dataclass(slots=True)
class TimelineView:
    """Bars on ``tracks`` over a common axis, and the bytes kept meanwhile. ``bars``: track, begin, end, index in
    ``names``, bytes kept, index of the launch whose gradient it is (-1: none). ``timed``: the axis has seconds,
    else launches. ``cuts``: (place, seconds) of pauses that were cut out."""

    title: str
    tracks: list[str]
    names: list[str]
    bars: list[Bar]
    timed: bool
    cuts: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class SizeView:
    """A node of a SizeExpr with its value at the shown launch (None: it depends on an enclosing index). ``role``: its
    role in its parent. ``op``: "const", "arg", "shape", "load", "var", "counted", "sum", "greatest", or the name of a
    `SizeOp`. ``key``: the name of a leaf, or of the index of a range."""

    text: str
    value: int | None
    children: list[SizeView] = field(default_factory=list)
    note: str = ""
    role: str = ""
    op: str = ""
    key: str = ""


@dataclass(slots=True)
class StackView:
    """A row of the launch report. ``bytes``: per thread; ``cure``: how to save them; ``choice``: why not recompute."""

    stack: int
    name: str
    line: int
    dtype: str
    depth: int | None
    how: str
    bytes: int | None
    reason: str
    size: SizeView | None = None
    primal: int = -1
    cure: str = ""
    choice: str = ""


@dataclass(slots=True)
class CodeView:
    """The lines of a stage's code and its measures, e.g. ``[("bytes", 1234), ("instructions", 120)]``. ``problem``: why
    the backend cannot make it, else ""."""

    lines: list[Line]
    measures: list[tuple[str, int]]
    problem: str = ""


# panes only show what is ready: a `Lazy` value that was not made yet raises `NotReady`
ONLY_READY: ContextVar[bool] = ContextVar("only ready", default=False)
T = TypeVar("T")


class NotReady(Exception):
    """Raised if an answer needs something that takes long to make. ``make`` makes it, in a thread. ``stop`` stops the
    making; None if killing the process of `notebook.code_process` stops it."""

    def __init__(self, what: str, make: Callable[[], object], stop: Callable[[], None] | None = None) -> None:
        super().__init__(what)
        self.make, self.stop = make, stop


@dataclass(slots=True)
class Lazy(Generic[T]):
    """A value of ``backend`` that ``maker`` makes when it is first shown; ``known`` is the value then."""

    name: str
    backend: str
    maker: Callable[[], T]
    known: T | None = None

    def make(self) -> T:
        if self.known is None:
            if ONLY_READY.get():
                raise NotReady(f"{self.name} of {self.backend}", self.make)
            self.known = self.maker()
        return self.known


@dataclass(slots=True)
class StageView(Lazy[CodeView]):
    """A stage of a backend's code. ``language``: name of a Pygments lexer. ``statements``: size of the kernel's IR."""

    language: str = ""
    statements: int = 0


@dataclass(slots=True)
class Pictured:
    """An array of some ``shape`` as slices of rows and columns. ``slices``: the numbers of those in ``values``, of the
    axes before the last two. ``values``: slice, row, column; each is the mean of a ``block`` of elements. ``signed``:
    there are values below zero and above it. ``first``: the slice that is shown first."""

    shape: tuple[int, ...]
    slices: list[int]
    values: npt.NDArray[np.float32]
    block: tuple[int, int]
    signed: bool
    first: int


@dataclass(slots=True)
class ArrayView:
    """The values of a buffer at a launch. ``preview``: short text. ``low``, ``high``: least and greatest value.
    ``difference``: from the home backend. ``picture``: None if it has few elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    preview: str
    low: str = ""
    high: str = ""
    note: str = ""
    difference: str = ""
    picture: Pictured | None = None


@dataclass(slots=True)
class BackendRun:
    """A launch on one backend. ``first``: seconds of the first launch. ``seconds``: the median of the others, 0 without
    any. ``lane_bytes``: of adstacks for one running iteration; ``heap_bytes``: of all adstacks. ``greatest``: the
    greatest difference from the home backend and its place, "" for the home backend. ``apart``: the greatest difference
    relative to the array's greatest value. ``note``: what to know of the times. ``problem``: why it did not run."""

    name: str
    first: float = 0.0
    seconds: float = 0.0
    lane_bytes: int = 0
    heap_bytes: int = 0
    arrays: list[ArrayView] = field(default_factory=list)
    greatest: str = ""
    note: str = ""
    problem: str = ""
    apart: float = 0.0

    @property
    def backend(self) -> str:
        return self.name.partition(",")[0]  # "metal, simulated" is a run of metal

    @property
    def took(self) -> float:
        """The seconds of a warm launch, if there was one, else of the first."""
        return self.seconds or self.first


@dataclass(slots=True)
class RooflineView:
    """How near a launch is to its device's limits. ``bytes``: that must move at least. ``operations``: floating
    point ones. ``seconds``: the time of the launch. ``bandwidth``, ``rate``: the device's measured bytes and operations
    per second, in ``dtype``. ``problem``: why they are unknown, else ""."""

    bytes: float = 0.0
    operations: float = 0.0
    seconds: float = 0.0
    bandwidth: float = 1.0
    rate: float = 1.0
    dtype: str = ""
    problem: str = ""

    @property
    def least(self) -> tuple[float, float]:
        """The least seconds for the bytes, and for the operations."""
        return self.bytes / self.bandwidth, self.operations / self.rate

    @property
    def share(self) -> float:
        """The least time relative to the time of the launch: 1 at the device's limit."""
        return max(self.least) / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class LaunchView:
    """One launch. ``mode``: "forward" or "gradient". ``warm``: the median of warm launches, or of those that compare
    backends, else ``seconds``. ``times``: of compilation and launches, by one clock. ``place``: the backend.
    ``compared``: the same launch on each backend of --arch, its own first. ``roofline``: None if the launch failed.
    ``schedule``: the place of each task, and what the device does with it. ``note``: on the arrays."""

    mode: str
    seconds: float
    arguments: list[tuple[str, str]] = field(default_factory=list)
    arrays: list[ArrayView] = field(default_factory=list)
    note: str = ""
    place: str = ""
    compared: list[BackendRun] = field(default_factory=list)
    times: list[tuple[str, float]] = field(default_factory=list)
    roofline: Lazy[RooflineView] | None = None
    schedule: list[tuple[str, str]] = field(default_factory=list)
    warm: float = 0.0

    def __post_init__(self) -> None:
        self.warm = self.warm or next((run.seconds for run in self.compared), 0.0) or self.seconds


@dataclass(slots=True)
class EditView:
    """One run of a cell in the history of a kernel. ``parts``: seconds of compilation by part. ``launches``: mode ->
    seconds of a launch, the median of several. ``code``, ``stacks``: bytes. ``error``: relative error of the gradient,
    None if it was not checked. ``near``: mode -> roofline, of the last two runs."""

    digest: str
    source: list[Line]
    parts: dict[str, float]
    launches: dict[str, float]
    code: int
    stacks: int
    error: float | None = None
    near: dict[str, Lazy[RooflineView]] = field(default_factory=dict)


@dataclass(slots=True)
class TaskGraphs:
    """The graphs of one task: control flow, and strongly connected components if it has stacks."""

    title: str
    cfg: GraphView
    scc: GraphView | None = None


@dataclass(slots=True)
class StepStatement:
    """A statement of a traced iteration. ``kind``: "value", "top" (of a stack), "push", "pop", "write" (to memory),
    "trip" (an iteration of a loop begins) or "end" (of a loop). ``name``: of the value or of the loop's index.
    ``carried``: names of the loop-carried values. ``stack``: index in `StepTrace.stacks`. ``back``: it is reverse
    code."""

    text: str
    line: int
    kind: str
    name: str = ""
    stack: int = -1
    carried: list[str] = field(default_factory=list)
    back: bool = False


@dataclass(slots=True)
class StepTrace:
    """A window of the events of one iteration. ``events``: (index in ``statements``, value as text, operands as text).
    The value of a trip and of the end of a loop is a list: the index ("" for none) and the carried values. ``stacks``:
    name, line, dtype. ``cut``: there are events after the window. ``first``: number of the first event, from 0.
    ``past``: summary of the events before it: (index of the statement, value, number of the event). ``below``: for each
    stack the number of slots that ``past`` leaves out. ``found``: number of the wanted event, -1 for none. ``turn``:
    number of the first event of reverse code, -1 if the window ends before. ``back``: the task has reverse code.
    ``hidden``: names that only the compiler uses. ``why``: why this iteration is shown, if nobody asked for it."""

    lane: str
    box: str
    statements: list[StepStatement]
    events: list[tuple[int, str | list[str], str]]
    stacks: list[tuple[str, int, str]]
    cut: bool = False
    first: int = 0
    past: list[tuple[int, str | list[str], int]] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    found: int = 0
    turn: int = -1
    hidden: list[str] = field(default_factory=list)
    back: bool = False
    why: str = ""


@dataclass(slots=True)
class LaunchSteps:
    """The traces of a launch. ``number``: of the launch in the program, from 1; a gradient has that of its launch.
    ``mode``: "forward" or "gradient". ``tasks``: titles. ``make(task, lane, where)``: traces an iteration (lane "": the
    one that adds most to a gradient, or the first) around a place (`notebook.step_trace.wanted`), or raises
    QuadrantsError. ``task``: shown first. ``task_of(line)``: the first task with a statement of that line."""

    number: int
    mode: str
    tasks: list[str]
    make: Callable[[int, str, str], StepTrace]
    task: int = 0
    task_of: Callable[[int], int] = lambda line: 0

    @property
    def id(self) -> str:
        """The id of the launch in requests."""
        return f"{self.number}{'f' if self.mode == 'forward' else ''}"


@dataclass(slots=True)
class StepsView:
    """Launches that can be traced, in the order of the program. ``at``, ``lane``, ``where``: the launch, iteration and
    place that are shown first."""

    launches: list[LaunchSteps]
    at: int = -1
    lane: str = ""
    where: str = ""

    @property
    def shown(self) -> LaunchSteps:
        return self.launches[self.at]

    def placed(self, at: int, lane: str = "", where: str = "", task: int = -1) -> StepsView:
        """The same launches, with another launch, iteration and place shown first."""
        launches = list(self.launches)
        launches[at] = replace(launches[at], task=launches[at].task if task < 0 else task)
        return StepsView(launches, at, lane, where)

    def trace(self) -> StepTrace:
        """The trace that is shown first. Without a place it opens where the reverse begins, if the window has that."""
        trace = self.shown.make(self.shown.task, self.lane, self.where)
        return trace if self.where or trace.turn <= 0 else replace(trace, found=trace.turn)


@dataclass(slots=True)
class KernelView:
    """One kernel of a cell. ``traces``: name ("forward", "gradient", ...) -> passes in the order in which they ran.
    ``source``: the text of the cell or function, with its line numbers in ``Line.span_line``."""

    name: str
    file: str
    source: list[Line]
    traces: dict[str, list[PassView]] = field(default_factory=dict)
    lowered: dict[str, Lazy[list[PassView]]] = field(default_factory=dict)  # traces of other backends' lowering
    graphs: list[TaskGraphs] = field(default_factory=list)
    stacks: list[StackView] = field(default_factory=list)
    kept: list[KeptRow] = field(default_factory=list)  # buffers whose overwritten values the launch saves
    free: list[Note] = field(default_factory=list)  # values that need no stack
    bytes_before: int | None = None  # bytes of its stacks without recomputation and narrowing
    code: dict[str, list[StageView]] = field(default_factory=dict)
    launches: list[LaunchView] = field(default_factory=list)
    steps: StepsView | str = ""  # a str says why there are none
    tapes: list[Report] = field(default_factory=list)  # of the whole cell
    check: tuple[CheckReport, list[str]] | None = None  # of the whole cell; a request for the step of each cause, or ""
    cost: str = ""  # what recording the whole cell cost, in words
    past: list[tuple[str, LaunchView]] = field(default_factory=list)  # (name, earlier launch)
    before: KernelView | None = None  # the last edit
    cell: list[KernelView] = field(default_factory=list, repr=False, compare=False)  # the kernels of its cell
    edits: list[EditView] = field(default_factory=list)  # the runs of its cell, the current one last
    devices: Callable[[], list[tuple[str, str]]] | None = None  # pairs: a backend, its devices or why it has none
    heap: tuple[int, int] = (0, 0)  # of the launch's stacks: its bytes, and for how many iterations at a time
    arrays: dict[str, tuple[list[int], tuple[int, ...]]] = field(default_factory=dict)  # read by sizes: values, shape
    texts: dict[int, list[Line]] = field(default_factory=dict)  # cache: id of a kernel in the traces -> its lines
    changes: dict[tuple[int, int], tuple[int, int] | None] = field(default_factory=dict)  # cache of `passes.changed`

    def trace(self, name: str) -> list[PassView]:
        """The passes of the trace, an empty list if there is no such trace."""
        return self.lowered[name].make() if name in self.lowered else self.traces.get(name, [])

    @property
    def no_gradient(self) -> str:
        """Why there is no gradient to show, if there is none, and what to do."""
        first = [passes[0].after.buffers.values() for passes in self.traces.values() if passes]
        if first and not any(buffer.grad for buffers in first for buffer in buffers):
            return f"{self.name} has no gradient: it uses no field or array that was made with needs_grad=True"
        return f"there is no gradient yet: call {self.name}.grad(), or give the cell --grad LOSS"

    @property
    def seconds(self) -> float:
        """The sum of the seconds of the kernel's launches."""
        return sum(x.seconds for x in self.launches)

    def later(self) -> Iterator[Lazy[Any]]:
        """All values that are made when they are first shown."""
        yield from self.lowered.values()
        for stages in self.code.values():
            yield from stages
        yield from (x.roofline for x in self.launches if x.roofline is not None)


@dataclass(slots=True)
class CellView:
    """Everything that one widget shows. ``open``: the pane that is shown first."""

    title: str
    kernels: list[KernelView]
    open: str = "source"

    def __post_init__(self) -> None:
        for kernel in self.kernels:
            kernel.cell = kernel.cell or self.kernels


def span_line(span: Span | None, file: str) -> int:
    """The line of a span in ``file``, or of the call there that inlined it; 0 if there is none."""
    while span is not None:
        if span.file == file:
            return span.line
        span = span.call
    return 0


def view_lines(view: KernelView, kernel: Kernel | None) -> list[Line]:
    """The IR text of a kernel of the view's traces, with the source line and statement of each line; cached."""
    if id(kernel) not in view.texts:
        view.texts[id(kernel)] = [
            Line(text) if s is None else Line(text, span_line(s.span, view.file), s.id, s.adjoint_of)
            for text, s in (statement_lines(kernel) if kernel is not None else ())
        ]
    return view.texts[id(kernel)]
