"""What the inspector shows, as plain data: `notebook.collect` fills it, the panes turn it into HTML.

The code of a backend, which costs time to make, is made when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from quadrants_lab.ir.nodes import Kernel, Stmt
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.text import statement_lines

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow
    from quadrants_lab.autodiff.explain import Note
    from quadrants_lab.runtime.tape.report import Report


@dataclass(slots=True)
class Line:
    """A line of text and what it belongs to: ``span_line`` is a line of the view's source (0: none known), ``stmt``
    the id of an IR statement (-1: none), ``adjoint_of`` that of the forward statement whose adjoint it computes."""

    text: str
    span_line: int = 0
    stmt: int = -1
    adjoint_of: int = -1


@dataclass(slots=True)
class PassView:
    """A step of the trace: the kernel before and after it."""

    name: str
    before: Kernel | None  # None for the front end, which starts from source
    after: Kernel
    seconds: float
    doc: str = ""


@dataclass(slots=True)
class NodeView:
    """A box of a graph: a title line and text lines."""

    id: str
    title: str
    lines: list[Line] = field(default_factory=list)
    kind: str = ""  # "entry", "exit", "branch", "loop", "push", ...: a CSS class
    line: int = 0
    note: str = ""


@dataclass(slots=True)
class EdgeView:
    src: str
    dst: str
    kind: str = ""  # "back" for a loop's back edge; "exit"
    label: str = ""


@dataclass(slots=True)
class ClusterView:
    """Parts drawn inside one labelled frame, which is a loop's: the first is its header."""

    label: str
    body: list[Part]


# of what is drawn below each other: a node, a loop, the arms of a branch
Part: TypeAlias = "str | ClusterView | tuple[list[Part], list[Part]]"


@dataclass(slots=True)
class GraphView:
    title: str
    nodes: list[NodeView]
    edges: list[EdgeView]
    body: list[Part]
    drawn: str = ""  # what the browser gets, once somebody looked


@dataclass(slots=True)
class SizeView:
    """A node of a SizeExpr with its value at the launch that is shown (None: depends on an enclosing index).
    ``role``: what it is to its parent. ``op``: "const", "arg", "shape", "load", "var", "counted", "sum", "greatest", or
    the name of a `SizeOp`; ``key`` names a leaf, or the index of a range."""

    text: str
    value: int | None
    children: list[SizeView] = field(default_factory=list)
    note: str = ""
    role: str = ""
    op: str = ""
    key: str = ""


@dataclass(slots=True)
class StackView:
    """A row of the launch report; ``bytes`` is what one iteration in flight takes, ``cure`` what would spare them,
    ``choice`` why it is kept rather than computed again."""

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
    """A stage's text, its lines and its measures, e.g. ``[("bytes", 1234), ("instructions", 120)]``; ``problem`` says
    why the backend makes none."""

    lines: list[Line]
    measures: list[tuple[str, int]]
    problem: str = ""


ONLY_KNOWN: ContextVar[bool] = ContextVar("only known", default=False)
"""Whether a pane is made of what is there alone: code that nobody has asked for yet raises `NotMade`."""


T = TypeVar("T")


class NotMade(Exception):
    """Something would have to be made first, which may take its time: ``make`` does it, on a thread; ``stop`` ends
    that, where it is not the compiler of `notebook.code_process` that works."""

    def __init__(self, what: str, make: Callable[[], object], stop: Callable[[], None] | None = None) -> None:
        super().__init__(what)
        self.make, self.stop = make, stop


@dataclass(slots=True)
class Later(Generic[T]):
    """What of ``backend`` is made by ``maker`` when somebody looks, and is then ``known``."""

    name: str
    backend: str
    maker: Callable[[], T]
    known: T | None = None

    def make(self) -> T:
        if self.known is None:
            if ONLY_KNOWN.get():
                raise NotMade(f"{self.name} of {self.backend}", self.make)
            self.known = self.maker()
        return self.known


@dataclass(slots=True)
class StageView(Later[CodeView]):
    """The code of a backend at a stage; ``language`` names a Pygments lexer; ``statements``: how many it is made of."""

    language: str = ""
    statements: int = 0


@dataclass(slots=True)
class ArrayView:
    """Values of a buffer after a launch: ``preview`` is short text, ``low``/``high`` its extremes; ``difference``: how
    far they are from those on the home backend; ``image``: the URI of a picture."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    preview: str
    low: str = ""
    high: str = ""
    note: str = ""
    difference: str = ""
    image: str = ""


@dataclass(slots=True)
class BackendRun:
    """A launch on one backend. ``first`` and ``seconds``: of its first launch, and the median of those after it (0:
    there was none). ``lane_bytes``: adstacks an iteration in flight; ``heap_bytes``: all of them;
    ``greatest``: the greatest difference from the home backend and where it is, "" for that itself. ``note``: what the
    numbers stand for; ``problem``: why it did not run."""

    name: str
    first: float = 0.0
    seconds: float = 0.0
    lane_bytes: int = 0
    heap_bytes: int = 0
    arrays: list[ArrayView] = field(default_factory=list)
    greatest: str = ""
    note: str = ""
    problem: str = ""


@dataclass(slots=True)
class RooflineView:
    """How near a launch is to its device's limits. ``bytes``: that have to move at least; ``operations``: floating
    point; ``seconds``: of a launch; ``bandwidth``, ``rate``: bytes and operations a second that the device was
    seen to reach, in ``dtype``; ``problem``: why that is not known."""

    bytes: float = 0.0
    operations: float = 0.0
    seconds: float = 0.0
    bandwidth: float = 1.0
    rate: float = 1.0
    dtype: str = ""
    problem: str = ""

    @property
    def least(self) -> tuple[float, float]:
        """Seconds for the bytes, and for the operations."""
        return self.bytes / self.bandwidth, self.operations / self.rate

    @property
    def share(self) -> float:
        """Of the device's limit: 1 where the launch takes no longer than it must."""
        return max(self.least) / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class LaunchView:
    """One launch: ``mode`` is "forward" or "gradient". ``times``: what is known of its seconds, part by part, by one
    clock; ``seconds`` are those of the launch itself; ``place``: on which backend.
    ``compared``: the same launch on several backends, first that on which it was made; empty where none was asked for.
    ``roofline``: None where it failed.
    """

    mode: str
    seconds: float
    arguments: list[tuple[str, str]] = field(default_factory=list)
    arrays: list[ArrayView] = field(default_factory=list)
    sizes: list[tuple[str, str]] = field(default_factory=list)
    place: str = ""
    compared: list[BackendRun] = field(default_factory=list)
    times: list[tuple[str, float]] = field(default_factory=list)
    roofline: Later[RooflineView] | None = None


@dataclass(slots=True)
class EditView:
    """What one run of a cell left of a kernel. ``parts``: seconds of its compilation, ``launches``: of a launch by
    mode, the median where there were several; ``code``, ``stacks``: bytes; ``error``: of the gradient, relative, where
    it was checked."""

    digest: str
    source: list[Line]
    parts: dict[str, float]
    launches: dict[str, float]
    code: int
    stacks: int
    error: float | None = None


@dataclass(slots=True)
class TaskGraphs:
    """The graphs of one task of the forward slice."""

    title: str
    cfg: GraphView
    scc: GraphView | None = None


@dataclass(slots=True)
class StepStatement:
    """A statement of the iteration that is followed. ``kind``: "value", "top" (of a stack), "push", "pop", "write" (to
    memory), "trip" (where an iteration of a loop begins) or "end" (of the loop). ``name``: of the value or the loop's
    index; ``carried``: of what the loop carries; ``stack``: its number in `StepTrace.stacks`; ``back``: it is reverse
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
    """One iteration, step by step, or a window of it. ``events``: (number of the statement, value as text, what it was
    made of) in order; the value of a trip and of the end of a loop are the texts of the index ("" for none) and of what
    is carried. ``stacks``: name, line, dtype. ``cut``: it goes on after the last of the events.

    ``first``: the number of the first event, from 0; ``past``: of those before it the ones that still count, as
    (number of the statement, value, number of the event); ``below``: of each stack how many slots are left out of
    these. ``found``: the event that was asked for, -1 for none; ``turn``: the first of the way back, -1 where it comes
    later. ``hidden``: names that are the compiler's own."""

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


@dataclass(slots=True)
class LaunchSteps:
    """The iterations of a launch to follow. ``number``: in the program, from 1, of the launch itself or of that whose
    gradient it is; ``mode``: "forward" or "gradient"; ``tasks`` by title; ``make(task, lane, where)`` follows one (lane
    "": the first) around a place (`notebook.step_trace.wanted`; "": its beginning) or raises QuadrantsError; ``task``:
    shown at first. ``task_of(line)``: the first task with a statement of that line, else ``task``."""

    number: int
    mode: str
    tasks: list[str]
    make: Callable[[int, str, str], StepTrace]
    task: int = 0
    task_of: Callable[[int], int] = lambda line: 0

    @property
    def id(self) -> str:
        """In requests."""
        return f"{self.number}{'f' if self.mode == 'forward' else ''}"


@dataclass(slots=True)
class StepsView:
    """Launches to follow, in the order of the program; ``at``: which is shown at first, in which iteration and
    where."""

    launches: list[LaunchSteps]
    at: int = -1
    lane: str = ""
    where: str = ""

    @property
    def shown(self) -> LaunchSteps:
        return self.launches[self.at]

    def placed(self, at: int, lane: str = "", where: str = "", task: int = -1) -> StepsView:
        """The same launches; another one, iteration and place is shown at first."""
        launches = list(self.launches)
        launches[at] = replace(launches[at], task=launches[at].task if task < 0 else task)
        return StepsView(launches, at, lane, where)

    def trace(self) -> StepTrace:
        """What is shown at first."""
        return self.shown.make(self.shown.task, self.lane, self.where)


@dataclass(slots=True)
class KernelView:
    """One kernel of a cell.

    ``traces`` maps "forward" and "gradient" to the passes in the order in which they ran; ``source`` is the text of
    the cell or function with its real line numbers in ``Line.span_line``.
    """

    name: str
    file: str
    source: list[Line]
    traces: dict[str, list[PassView]] = field(default_factory=dict)
    lowered: dict[str, Later[list[PassView]]] = field(default_factory=dict)  # those of other backends
    graphs: list[TaskGraphs] = field(default_factory=list)
    stacks: list[StackView] = field(default_factory=list)
    kept: list[KeptRow] = field(default_factory=list)  # what the launch keeps of buffers that it overwrites
    free: list[Note] = field(default_factory=list)  # values that no stack keeps
    bytes_before: int | None = None  # what its stacks would take if everything were kept as it is
    code: dict[str, list[StageView]] = field(default_factory=dict)
    launches: list[LaunchView] = field(default_factory=list)
    steps: StepsView | str = ""  # why there are none
    tapes: list[Report] = field(default_factory=list)  # of the cell
    edits: list[EditView] = field(default_factory=list)  # of the runs of its cell, this one last
    devices: Callable[[], list[tuple[str, str]]] | None = None  # of each backend what it runs on, or why it does not
    threads: int = 0  # that the launch's heap of stacks has room for
    arrays: dict[str, tuple[list[int], tuple[int, ...]]] = field(default_factory=dict)  # that sizes read: values, shape
    texts: dict[int, list[Line]] = field(default_factory=dict)  # of the kernels of the traces, by identity
    changes: dict[tuple[int, int], tuple[int, int] | None] = field(default_factory=dict)  # of pairs of them

    def trace(self, name: str) -> list[PassView]:
        """The passes of that name, none where there are none."""
        return self.lowered[name].make() if name in self.lowered else self.traces.get(name, [])

    def later(self) -> Iterator[Later[Any]]:
        """All that is made when somebody looks."""
        yield from self.lowered.values()
        for stages in self.code.values():
            yield from stages
        yield from (x.roofline for x in self.launches if x.roofline is not None)


@dataclass(slots=True)
class CellView:
    """Everything that one widget shows; ``open``: the pane that it shows first; ``findings``: of a check, as text and
    the request for the step that it is about."""

    title: str
    kernels: list[KernelView]
    open: str = "source"
    findings: list[tuple[str, str]] = field(default_factory=list)


def span_line(span: Span | None, file: str) -> int:
    """The line of ``file`` that a span belongs to: of the span itself or of the call that inlined it; 0 if neither."""
    while span is not None:
        if span.file == file:
            return span.line
        span = span.call
    return 0


def kernel_lines(kernel: Kernel | None, file: str) -> list[Line]:
    """The kernel's IR text with the source line and statement of each line."""
    if kernel is None:
        return []

    def line(text: str, stmt: Stmt | None) -> Line:
        return Line(text) if stmt is None else Line(text, span_line(stmt.span, file), stmt.id, stmt.adjoint_of)

    return [line(text, stmt) for text, stmt in statement_lines(kernel)]


def view_lines(view: KernelView, kernel: Kernel | None) -> list[Line]:
    """`kernel_lines` of a kernel of the view's traces, made once."""
    if id(kernel) not in view.texts:
        view.texts[id(kernel)] = kernel_lines(kernel, view.file)
    return view.texts[id(kernel)]
