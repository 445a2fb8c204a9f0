"""`qd.graph`: kernels whose launch is several, steered by what is in memory: loops around tasks, checkpoints.

`graph_of` cuts the body of such a kernel where a loop or a checkpoint begins and ends. Each piece is a kernel of its
own, of the same parameters; Python launches them in order and reads the flags in between, on every backend. So a Tape
records the launches that there were.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from types import CodeType
from typing import Any, NamedTuple

from quadrants_lab.errors import Label, QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants_lab.frontend.source import FunctionSource


class GraphStatus(NamedTuple):
    """How a launch of a kernel with checkpoints ended: ``yielded`` at ``checkpoint``, or (False, None) at its end."""

    yielded: bool
    checkpoint: Any


def do_while(condition: Any) -> bool:
    """``while qd.graph.do_while(flag):`` at the statement level of a kernel with ``graph=True`` runs its body, and
    again while ``flag``, an argument or field of one integer, is not 0."""
    raise QuadrantsRuntimeError("qd.graph.do_while belongs into a kernel with graph=True", code="QL2131")


@contextmanager
def checkpoint(cp_id: int, yield_on: Any) -> Iterator[None]:
    """``with qd.checkpoint(cp_id, yield_on=flag):`` at the statement level of a kernel with ``graph=True,
    checkpoints=True``: where ``flag`` is not 0 after the block, the launch ends, and returns
    ``GraphStatus(True, cp_id)``. ``kernel.resume(..., from_checkpoint=cp_id)`` goes on with the block."""
    yield


@contextmanager
def parallel_context() -> Iterator[None]:
    """``with qd.graph.parallel_context():`` in a kernel holds `parallel` sections that may run at the same time. They
    run one after the other, the loops of each in parallel."""
    yield


@contextmanager
def parallel() -> Iterator[None]:
    """One section of a `parallel_context`."""
    yield


parallel_context.__qd_section__ = "graph.parallel_context"  # type: ignore[attr-defined]
parallel.__qd_section__ = "graph.parallel"  # type: ignore[attr-defined]


class Flag:
    """An expression over parameters and what is around the kernel, whose value is a field or array of one integer."""

    def __init__(self, source: FunctionSource, node: ast.expr) -> None:
        self.text = ast.unparse(node)
        self.code: CodeType = compile(ast.fix_missing_locations(ast.Expression(node)), source.file, "eval")
        self.source = source

    def evaluate(self, given: Mapping[str, Any]) -> Any:
        """What the expression is for arguments by name."""
        free: dict[str, Any] = {}
        for name in self.code.co_names:
            with suppress(KeyError):  # an attribute, or an argument
                free[name] = self.source.lookup(name)
        return eval(self.code, {**free, **given})

    def __call__(self, given: Mapping[str, Any]) -> bool:
        held = self.evaluate(given)
        if getattr(held, "shape", None) != ():
            raise QuadrantsRuntimeError(
                f"the flag {self.text} is no field or array of one integer", code="QL2131", help="give it the shape ()"
            )
        return bool(held[()] if not hasattr(held, "_memory") else held[None])


class Step(NamedTuple):
    """A launch of ``piece``, then, where the ``flag`` is set, on at ``target``, or, of a checkpoint, an end with its
    ``label``."""

    piece: FunctionSource | None
    flag: Flag | None = None
    target: int = 0
    label: Any = None


class Graph(NamedTuple):
    """``resume``: the number of the step that a checkpoint begins with, by label."""

    steps: list[Step]
    resume: dict[Any, int]


def graph_of(source: FunctionSource) -> Graph | None:
    """The steps of a kernel that has loops or checkpoints around tasks; None for any other."""
    if not any(_opens(source, s) for s in source.node.body):
        return None
    cut = _Cut(source)
    cut.statements(source.node.body)
    return cut.made


def _opens(source: FunctionSource, node: ast.stmt) -> ast.Call | None:
    """The call of `do_while` or `checkpoint` that a statement begins with."""
    call: Any = node.test if isinstance(node, ast.While) else None
    if isinstance(node, ast.With) and len(node.items) == 1:
        call = node.items[0].context_expr
    if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Name, ast.Attribute)):
        return None
    try:
        found = Flag(source, call.func).evaluate({})
    except Exception:  # a name that only the kernel knows
        return None
    return call if found is (do_while if isinstance(node, ast.While) else checkpoint) else None


class _Cut:
    """Cuts a body: ``constants``, assignments so far that read no memory, which later pieces repeat,
    and the names of other ``locals``."""

    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self.made = Graph([], {})
        self.constants: list[ast.Assign] = []
        self.locals: set[str] = set()
        self.stores = Counter(_stored(source.node))

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Appends the steps of the statements."""
        piece: list[ast.stmt] = []
        known = list(self.constants)
        for s in body:
            call = _opens(self.source, s)
            if call is None:
                piece.append(s)
                continue
            self.piece(piece)
            piece, first = [], len(self.made.steps)
            if isinstance(s, ast.While):
                self.statements(s.body)
                self.made.steps.append(Step(None, Flag(self.source, call.args[0]), first))
            else:
                assert isinstance(s, ast.With)
                names = ("cp_id", "yield_on")
                given = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
                label = Flag(self.source, given["cp_id"]).evaluate({})
                if label in self.made.resume:
                    raise _wrong(self.source, call, f"two checkpoints are called {label!r}", "give each its own number")
                self.made.resume[label] = first
                self.piece(s.body)
                self.made.steps.append(Step(None, Flag(self.source, given["yield_on"]), label=label))
        self.piece(piece)
        if body is not self.source.node.body:
            self.constants = known

    def piece(self, body: Sequence[ast.stmt]) -> None:
        """Appends a launch of a kernel of these statements, and of the constants that they use."""
        if not body:
            return
        own, used = {*_stored(*body)}, [*_read(*body)]
        first: list[ast.stmt] = []
        for constant in reversed(self.constants):
            if {n.id for n in used} & {*_stored(constant)}:
                first.insert(0, constant)
                used += _read(constant)
        for n in used:
            if n.id in self.locals - own:
                what = f"the local '{n.id}' does not outlive the launch that computes it"
                raise _wrong(self.source, n, what, "keep it in a field or array: a loop or checkpoint begins a launch")
        made = copy(self.source)
        made.assigned = {}
        made.node = copy(self.source.node)
        made.node.body = [*first, *body]
        self.made.steps.append(Step(made))
        for s in body:
            if isinstance(s, ast.Assign) and _constant(s.value) and all(self.stores[n] == 1 for n in _stored(s)):
                self.constants.append(s)
            else:
                self.locals.update(_stored(s))


def _stored(*nodes: ast.AST) -> list[str]:
    """The names that are assigned in it, each as often as it is."""
    names = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return [n.id for n in names if isinstance(n.ctx, ast.Store)]


def _read(*nodes: ast.AST) -> list[ast.Name]:
    names = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return [n for n in names if isinstance(n.ctx, ast.Load)]


def _constant(node: ast.expr) -> bool:
    """Whether the value is the same at any time: numbers, names, shapes, and arithmetic on them."""
    allowed = (ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.operator, ast.expr_context, ast.Subscript)
    parts = list(ast.walk(node))
    shapes = [n for n in parts if isinstance(n, ast.Subscript)]
    return all(isinstance(n, allowed) for n in parts) and all(
        isinstance(n.value, ast.Attribute) and n.value.attr == "shape" for n in shapes
    )


def _wrong(source: FunctionSource, node: ast.AST, what: str, cure: str) -> QuadrantsSyntaxError:
    return QuadrantsSyntaxError(what, code="QL2131", labels=(Label(source.span(node), "here"),), help=cure)


def check_asked(source: FunctionSource, made: Graph, graph: bool, checkpoints: bool) -> None:
    """An error where the kernel was not decorated for what it has."""
    if not graph or (made.resume and not checkpoints):
        need = "graph=True, checkpoints=True" if made.resume else "graph=True"
        raise _wrong(source, source.node, f"kernel {source.name} is a graph", f"write @qd.kernel({need})")


def run(made: Graph, launch: Callable[[FunctionSource], Any], given: Mapping[str, Any], at: int) -> GraphStatus:
    """Runs the steps from number ``at`` on."""
    while at < len(made.steps):
        step = made.steps[at]
        at += 1
        if step.piece is not None:
            launch(step.piece)
        elif step.flag is not None and step.flag(given):
            if step.label is not None:
                return GraphStatus(True, step.label)
            at = step.target
    return GraphStatus(False, None)
