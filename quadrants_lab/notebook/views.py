"""Turns the compiler's objects into what the panes show, by pure functions: graphs, trees of stack sizes, code."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from quadrants_lab.adstack.report import StackRow
from quadrants_lab.analysis.algebra import subexpressions, trips
from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.backends import Stage
from quadrants_lab.backends.lower import lower
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.sizeexpr import print_size
from quadrants_lab.ir.text import statement_lines
from quadrants_lab.ir.walk import find, of_kind, walk
from quadrants_lab.passes.pipeline import Step
from quadrants_lab.runtime.backend import Backend
from quadrants_lab.widgets import model

LANGUAGES = {
    "llvm": "llvm", "llvm-opt": "llvm", "asm": "gas", "spirv": "spirv", "msl": "cpp", "ptx": "ptx", "isa": "gas",
    "hsaco": "gas", "c": "c",
}  # fmt: skip
MOST_USES = 6  # the most uses of a stack's value that are named
Values = Callable[[S.SizeExpr], Mapping[int, int]]  # expression -> values of its parts, by position


def pass_views(steps: Sequence[Step], docs: Mapping[str, str]) -> list[model.PassView]:
    """The views of a trace's steps. ``docs``: name of a pass -> a text that says what the pass guarantees."""
    return [model.PassView(s.name, s.before, s.after, s.seconds, docs.get(s.name, "")) for s in steps]


# --- graphs -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """A basic block. ``loop``: the For or While of which it is the header."""

    label: str
    loop: N.Loop | None = None
    stmts: list[N.Stmt] = field(default_factory=list)

    def pushes(self) -> Counter[int]:
        """Number of pushes to each stack in the block."""
        return Counter(s.stack for s in of_kind(self.stmts, N.AdStackPush))

    @property
    def kind(self) -> str:
        if self.pushes():
            return "push"
        return self.label if self.label in ("entry", "exit") else "loop" if self.loop is not None else ""


class _Flow:
    """The control flow of a task without the reverse code under an AdStackGuard. ``edges``: (from, to, kind) with kind
    "next", "then", "else", "body", "exit" or "back". ``frame``: function from a loop to its label."""

    def __init__(self, task: N.Offload, frame: Callable[[N.Loop], str]) -> None:
        self.frame = frame
        self.nodes: list[_Node] = []
        self.edges: list[tuple[int, int, str]] = []
        self.body: list[model.Part] = []
        last = self.block(task.body, self.node("entry", self.body), self.body)
        self.edges.append((last, self.node("exit", self.body), "next"))

    def node(self, label: str, into: list[model.Part], loop: N.Loop | None = None) -> int:
        into.append(str(len(self.nodes)))
        self.nodes.append(_Node(label, loop))
        return len(self.nodes) - 1

    def block(self, block: N.Block, at: int, into: list[model.Part]) -> int:
        """Appends the block after node ``at``; returns the last node."""
        for stmt in block:
            if isinstance(stmt, N.Loop):
                at = self.loop(stmt, at, into)
            elif not isinstance(stmt, N.AdStackGuard):
                self.nodes[at].stmts.append(stmt)
                at = self.branch(stmt, at, into) if isinstance(stmt, N.If) else at
        return at

    def branch(self, stmt: N.If, at: int, into: list[model.Part]) -> int:
        arms: tuple[list[model.Part], list[model.Part]] = [], []
        ends = []
        for kind, block, arm in zip(("then", "else"), stmt.blocks(), arms, strict=True):
            first = self.node(kind, arm)
            self.edges.append((at, first, kind))
            ends.append(self.block(block, first, arm))
        into.append(arms)
        join = self.node("join", into)
        self.edges += [(end, join, "next") for end in ends]
        return join

    def loop(self, stmt: N.Loop, at: int, into: list[model.Part]) -> int:
        frame = model.ClusterView(self.frame(stmt), [])
        into.append(frame)
        where = f" line {stmt.span.line}" if stmt.span else ""
        header = self.node(f"{'for' if isinstance(stmt, N.For) else 'while'}{where}", frame.body, stmt)
        body = self.node("body", frame.body)
        self.edges += [(at, header, "next"), (header, body, "body")]
        self.edges.append((self.block(stmt.body, body, frame.body), header, "back"))
        after = self.node("after loop", into)
        self.edges.append((header, after, "exit"))
        return after


def texts(kernel: N.Kernel) -> dict[int, str]:
    """The first line of each statement, without the brace and id of a statement with blocks."""
    found = statement_lines(kernel)
    return {s.id: re.sub(r" \{( #\d+)?$", "", text.strip()) for text, s in reversed(found) if s is not None}


def task_graphs(kernel: N.Kernel, file: str, values: Values | None = None) -> list[model.TaskGraphs]:
    """The graphs of each task of a sized reverse kernel: control flow and strongly connected components."""
    text = texts(kernel)
    out = []
    for n, task in enumerate(kernel.tasks, 1):
        flow = _Flow(task, lambda loop: f"loop at line {model.span_line(loop.span, file)}")
        names = {s.id: s.name or f"%{s.primal}" for s in of_kind(task.body, N.AdStackAlloca)}
        # without stacks there is no guard between the forward slice and the reverse code, and the graph shows both
        title = f"{'Forward slice' if names else 'Forward slice and reverse'} of "
        title += f"task {n} of {len(kernel.tasks)}" if len(kernel.tasks) > 1 else "the task"
        if line := model.span_line(task.span, file):
            title += f" at line {line}"
        title += f" ({task.kind})"
        boxes = [_box(n, node, text, file) for n, node in enumerate(flow.nodes)]
        edges = [model.EdgeView(str(a), str(b), kind, "" if kind == "next" else kind) for a, b, kind in flow.edges]
        scc = _condensed(kernel, task, names, file, values) if names else None
        out.append(model.TaskGraphs(title, model.GraphView(f"Control flow of {title}", boxes, edges, flow.body), scc))
    return out


def _box(n: int, node: _Node, text: Mapping[int, str], file: str) -> model.NodeView:
    lines = [
        model.Line(text.get(s.id, ""), model.span_line(s.span, file), s.id, s.adjoint_of)
        for s in node.stmts
        if not isinstance(s, N.Yield) or s.values
    ]
    at = 0
    if node.loop is not None:
        at = model.span_line(node.loop.span, file)
        lines.insert(0, model.Line(text.get(node.loop.id, ""), at, node.loop.id))
    return model.NodeView(str(n), node.label, lines, node.kind, at)


def _condensed(
    kernel: N.Kernel, task: N.Offload, names: Mapping[int, str], file: str, values: Values | None
) -> model.GraphView:
    """The strongly connected components: blocks that push or branch, with a frame for each loop and no back edges."""
    symbols = Symbols(task, kernel.buffers)
    flow = _Flow(task, lambda loop: _loop_label(loop, symbols, values))
    nodes = []
    for n, node in enumerate(flow.nodes):
        stmts = list(of_kind(node.stmts, N.AdStackPush))
        loop = [node.loop] if node.loop is not None else []
        at = next((line for s in (*stmts[:1], *loop) if (line := model.span_line(s.span, file))), 0)
        pushes = node.pushes()
        parts = ", ".join(f"{name} +{pushes[stack]}" for stack, name in names.items() if pushes[stack])
        nodes.append(model.NodeView(str(n), node.label, [], node.kind, at, f"pushes {parts}" if parts else ""))
    kinds = ((a, b, "exit" if kind == "exit" else "") for a, b, kind in flow.edges if kind != "back")
    edges = [model.EdgeView(str(a), str(b), kind, kind) for a, b, kind in kinds]
    return model.GraphView("Strongly connected components", nodes, edges, flow.body)


def _loop_label(loop: N.Loop, symbols: Symbols, values: Values | None) -> str:
    where = f"line {loop.span.line}" if loop.span else ""
    if not isinstance(loop, N.For):
        return f"while {where}: trips are counted"
    begin, end = symbols.size(loop.begin), symbols.size(loop.end)
    if begin is None or end is None:
        return f"for {where}: trips are counted"
    count = trips(begin, end)
    label = f"for {where}: {readable(count)} trips"
    if values is not None and (known := values(count)) and not isinstance(count, S.SizeConst) and 0 in known:
        label += f" = {known[0]:,}"
    return label


# --- sizes --------------------------------------------------------------------------------------------------------

_WORDS = {"sum": "sum of", "max": "greatest of"}
_PARTS = ("from", "below", "each")  # the parts of a SizeRange: its bounds, and the size per value


def readable(e: S.SizeExpr) -> str:
    """The expression in the user's syntax: ``n[None]`` for ``@n[]``, ``j`` for ``j%8``, ``n`` for ``arg n``."""
    if isinstance(e, S.SizeRange):
        begin = "" if e.begin == S.SizeConst(0) else f"{readable(e.begin)}, "
        return f"{_WORDS[e.op]} {readable(e.body)} for {e.var.name or 'k'} in range({begin}{readable(e.end)})"
    if isinstance(e, S.SizeCounted):
        return "pushes"
    text = re.sub(r"([A-Za-z_]\w*)%\d+|\barg (?=\w)", r"\1", print_size(e))
    return re.sub(r"(?<![\w.])%\d+", "k", text).replace("[]", "[None]").replace("@", "")


def _leaf(e: S.SizeExpr) -> tuple[str, str]:
    """The kind of a node of a size expression for the browser, and the name that it shows, "" for none."""
    match e:
        case S.SizeOp(op):
            return op, ""
        case S.SizeRange(op, var):
            return "greatest" if op == "max" else op, f"%{var.id}"
        case S.SizeVar(id):
            return "var", f"%{id}"
        case S.SizeLoad(buffer):
            return "load", buffer
    kinds = {S.SizeConst: "const", S.SizeArg: "arg", S.SizeShape: "shape", S.SizeCounted: "counted"}
    return kinds[type(e)], print_size(e)


def size_tree(e: S.SizeExpr, known: Mapping[int, int]) -> model.SizeView:
    """The expression as a tree; ``known``: position in `subexpressions` -> value."""
    place = {id(part): n for n, part in reversed(list(enumerate(subexpressions(e))))}

    def node(part: S.SizeExpr, role: str = "") -> model.SizeView:
        note = ""
        inner = _PARTS if isinstance(part, S.SizeRange) else ("",) * len(part.children())
        children = [node(c, role) for c, role in zip(part.children(), inner, strict=True)]
        if isinstance(part, S.SizeCounted):
            note = "counted by the counting slice"
        elif isinstance(part, S.SizeVar):
            note = "takes every value of the range"
        value = None if isinstance(part, S.SizeConst) else known.get(place[id(part)])
        op, key = _leaf(part)
        return model.SizeView(readable(part), value, children, note, role, op, key)

    return node(e)


def stack_views(
    kernel: N.Kernel, rows: Sequence[StackRow], file: str, values: Values, uses: Mapping[int, Sequence[str]]
) -> list[model.StackView]:
    """Rows of the launch report with their size trees. ``uses``: id of the value on a stack -> reasons to keep it."""
    allocas = {s.id: s for s in find(kernel.body, N.AdStackAlloca)}
    alike = Counter((row.name, row.line) for row in rows)  # more than 1 if the line was unrolled
    seen: Counter[tuple[str, int]] = Counter()
    out = []
    for row in rows:
        seen[row.name, row.line] += 1
        of, n = alike[row.name, row.line], seen[row.name, row.line]
        name = row.name if of == 1 else f"{row.name} (copy {n} of {of})"
        alloca = allocas[row.stack]
        tree = size_tree(alloca.size, values(alloca.size)) if alloca.size is not None else None
        line = model.span_line(alloca.span, file) or row.line
        needed = uses.get(alloca.primal, ())
        reason, cure = row.reason, row.cure
        if len(needed) > 1:
            reason = ", ".join(needed[:MOST_USES])
            reason += f" and {len(needed) - MOST_USES} more" if len(needed) > MOST_USES else ""
            every = "both uses" if len(needed) == 2 else f"all {len(needed)} uses"
            cure += f"; without {every} there is no stack, which saves {row.bytes_per_lane:,} bytes per thread"
        seen_as = row.dtype, row.depth, row.how, row.bytes_per_lane
        out.append(model.StackView(row.stack, name, line, *seen_as, reason, tree, alloca.primal, cure))
    return out


# --- code ---------------------------------------------------------------------------------------------------------


def lines_of(
    kernel: N.Kernel, backend: Backend, options: CompileOptions, file: str
) -> dict[int, tuple[int, int]]:
    """Each statement of the kernel lowered for the backend -> its source line, and the statement whose adjoint it
    computes."""
    lowered = lower(kernel, backend.lowering(options), options)
    return {s.id: (model.span_line(s.span, file), s.adjoint_of) for s in walk(lowered.body)}


def code_view(stage: Stage, lines: Mapping[int, tuple[int, int]]) -> model.CodeView:
    """The code of a stage, tied to source lines. ``lines``: result of `lines_of`."""
    text = stage.text.splitlines()
    ids = (*stage.ids, *(-1 for _ in text))  # some stages do not say to which statement a line belongs
    measures = [("lines", stage.lines), ("instructions", stage.instructions), ("phis", stage.phis)]
    measures += [("bytes of text", stage.bytes), ("bytes of code", stage.code_bytes)]
    measures = [(name, n) for name, n in measures if n or name not in ("phis", "bytes of code")]
    measures += stage.registers
    tied = ((t, i, *lines.get(i, (0, N.NO_ID))) for t, i in zip(text, ids, strict=False))
    return model.CodeView([model.Line(t, line, i, twin) for t, i, line, twin in tied], measures)
