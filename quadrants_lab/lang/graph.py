"""Implements `qd.graph`: kernels with loops around several tasks and with checkpoints. Flags in memory control
both.

`graph_of` cuts the body of such a kernel where a loop or a checkpoint begins and ends. Each piece is compiled as a
kernel with the same parameters. On every backend, Python launches the pieces in order and reads the flags in between,
so that a Tape records the launches that actually ran.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from types import CodeType
from typing import Any, NamedTuple

from quadrants_lab.errors import Label, QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants_lab.frontend.diagnostics import names_in
from quadrants_lab.frontend.source import FunctionSource, value_of
from quadrants_lab.ir.record import dataclass


class GraphStatus(NamedTuple):
    """How a launch of a kernel with checkpoints ended: (True, the checkpoint), or (False, None) if it is complete."""

    yielded: bool
    checkpoint: Any


def do_while(condition: Any) -> bool:
    """``while qd.graph.do_while(flag):`` at the top level of a kernel with ``graph=True`` runs its body once, and then
    again as long as ``flag``, an argument or field of one integer, is not 0."""
    raise QuadrantsRuntimeError("qd.graph.do_while belongs into a kernel with graph=True", code="QL2131")


@contextmanager
def checkpoint(cp_id: int, yield_on: Any) -> Iterator[None]:
    """``with qd.checkpoint(cp_id, yield_on=flag):`` at the top level of a kernel with ``graph=True, checkpoints=True``.
    If ``flag`` is not 0 after the block, the launch ends and returns ``GraphStatus(True, cp_id)``.
    ``kernel.resume(..., from_checkpoint=cp_id)`` then continues with the same block."""
    yield


@contextmanager
def parallel_context() -> Iterator[None]:
    """``with qd.graph.parallel_context():`` in a kernel contains independent `parallel` sections. Here the sections run
    one after the other, and the loops of each section run in parallel."""
    yield


@contextmanager
def parallel() -> Iterator[None]:
    """One section of a `parallel_context`."""
    yield


parallel_context.__qd_section__ = "graph.parallel_context"  # type: ignore[attr-defined]
parallel.__qd_section__ = "graph.parallel"  # type: ignore[attr-defined]


class Flag:
    """The flag of a loop or checkpoint: an expression of parameters and free names of the kernel, whose value is a
    field or array of one integer."""

    def __init__(self, source: FunctionSource, node: ast.expr) -> None:
        self.text = ast.unparse(node)
        self.code: CodeType = compile(ast.fix_missing_locations(ast.Expression(node)), source.file, "eval")
        self.source = source

    def evaluate(self, given: Mapping[str, Any]) -> Any:
        """The value of the expression, given the arguments by name."""
        free: dict[str, Any] = {}
        for name in self.code.co_names:
            with suppress(KeyError):  # the name is an attribute or an argument
                free[name] = self.source.lookup(name)
        return value_of(self.code, free, given)

    def __call__(self, given: Mapping[str, Any]) -> bool:
        """Whether the integer is not 0."""
        value = self.evaluate(given)
        if getattr(value, "shape", None) != ():
            what = f"the flag {self.text} is not a field or array of one integer"
            raise QuadrantsRuntimeError(what, code="QL2131", help="give it the shape ()")
        return bool(value[()] if not hasattr(value, "_memory") else value[None])


@dataclass(slots=True)
class Step:
    """Either a launch of ``piece`` (a `FunctionSource`, later the kernel that is made from it), or a test of ``flag``
    after a loop or checkpoint that begins at step ``target``. If the flag is set, a loop goes on at ``target``, and a
    checkpoint, which has a ``label``, ends the launch."""

    piece: Any
    flag: Flag | None = None
    target: int = 0
    label: Any = None


Graph = list[Step]


def checkpoints_of(graph: Graph) -> dict[Any, int]:
    """The labels of the checkpoints, each with the index of the first step of its block."""
    return {step.label: step.target for step in graph if step.label is not None}


def graph_of(source: FunctionSource) -> Graph:
    """The steps of a kernel that has loops or checkpoints around tasks; none for other kernels."""
    if not any(_opening_call(source, s) for s in source.node.body):
        return []
    cut = _Cut(source)
    cut.statements(source.node.body)
    return cut.steps


def _opening_call(source: FunctionSource, node: ast.stmt) -> tuple[Any, ast.Call] | None:
    """`do_while` or `checkpoint`, and its call, if the statement is a while or with that begins with such a call; else
    None."""
    opening: Any
    match node:
        case ast.While(test=ast.Call(func=ast.Name() | ast.Attribute()) as call):
            opening = do_while
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=ast.Name() | ast.Attribute()) as call)]):
            opening = checkpoint
        case _:
            return None
    try:
        return (opening, call) if Flag(source, call.func).evaluate({}) is opening else None
    except Exception:  # the name is defined in the kernel
        return None


class _Cut:
    """Cuts a body into steps. ``constants`` has the assignments so far that do not read memory; later pieces repeat
    them. ``locals`` has the names of all other variables so far."""

    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self.steps: Graph = []
        self.constants: list[ast.Assign] = []
        self.locals: set[str] = set()
        self.stores = Counter(_stored(source.node))

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Appends the steps of the statements."""
        steps, piece = self.steps, list[ast.stmt]()
        constants_before = list(self.constants)
        for s in body:
            opened = _opening_call(self.source, s)
            if opened is None:
                piece.append(s)
                continue
            opening, call = opened
            self.piece(piece)
            piece, first = [], len(steps)
            if opening is do_while:
                self.statements(s.body)  # type: ignore[attr-defined]  # a while statement
                steps.append(Step(None, Flag(self.source, call.args[0]), first))
            else:
                names = ("cp_id", "yield_on")
                given = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
                if missing := [name for name in names if name not in given]:
                    help = "write with qd.checkpoint(1, yield_on=flag): flag is an argument, a 0-d array of i32"
                    raise _error(self.source, call, f"this checkpoint has no {' and no '.join(missing)}", help)
                label = Flag(self.source, given["cp_id"]).evaluate({})
                if label in checkpoints_of(steps):
                    raise _error(self.source, call, f"two checkpoints are called {label!r}", "give each its own number")
                self.piece(s.body)  # type: ignore[attr-defined]  # a with statement
                steps.append(Step(None, Flag(self.source, given["yield_on"]), first, label))
        self.piece(piece)
        if body is not self.source.node.body:
            self.constants = constants_before

    def piece(self, body: Sequence[ast.stmt]) -> None:
        """Appends a launch of these statements, preceded by the constants that they use."""
        if not body:
            return
        own, used = {*_stored(*body)}, _names(ast.Load, *body)
        repeated: list[ast.stmt] = []
        for constant in reversed(self.constants):
            if {n.id for n in used} & {*_stored(constant)}:
                repeated.insert(0, constant)
                used += _names(ast.Load, constant)
        for n in used:
            if n.id in self.locals - own:
                what = f"the local '{n.id}' does not outlive the launch that computes it"
                raise _error(self.source, n, what, "keep it in a field or array: a loop or checkpoint begins a launch")
        piece = copy(self.source)
        piece.assigned = {}
        piece.node = copy(self.source.node)
        piece.node.body = [*repeated, *body]
        self.steps.append(Step(piece))
        for s in body:
            match s:
                case ast.Assign() if _is_constant(s.value) and all(self.stores[n] == 1 for n in _stored(s)):
                    self.constants.append(s)
                case _:
                    self.locals.update(_stored(s))


def _names(context: type[ast.expr_context], *nodes: ast.AST) -> list[ast.Name]:
    """All AST nodes that read names (`ast.Load`) or that assign names (`ast.Store`)."""
    return [n for n in names_in(*nodes) if type(n.ctx) is context]


def _stored(*nodes: ast.AST) -> list[str]:
    """The names that are assigned, once for each assignment."""
    return [n.id for n in _names(ast.Store, *nodes)]


def _is_constant(node: ast.expr) -> bool:
    """Whether the value cannot change during a launch: numbers, names, shapes, and arithmetic on them."""
    for n in ast.walk(node):
        match n:
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                continue
            case ast.Constant() | ast.Name() | ast.Attribute() | ast.BinOp() | ast.operator() | ast.expr_context():
                continue
        return False
    return True


def _error(source: FunctionSource, node: ast.AST, what: str, help: str) -> QuadrantsSyntaxError:
    return QuadrantsSyntaxError(what, code="QL2131", labels=(Label(source.span(node), "here"),), help=help)


def check_options(source: FunctionSource, steps: Graph, graph: bool, checkpoints: bool) -> None:
    """Raises an error if the decorator lacks an option that the body of the kernel needs."""
    has_checkpoints = bool(checkpoints_of(steps))
    if not graph or (has_checkpoints and not checkpoints):
        need = "graph=True, checkpoints=True" if has_checkpoints else "graph=True"
        raise _error(source, source.node, f"kernel {source.name} is a graph", f"write @qd.kernel({need})")


def run(graph: Graph, given: Mapping[str, Any], at: int) -> GraphStatus:
    """Runs the steps from index ``at`` on, with arguments by name, in the order of the parameters."""
    while at < len(graph):
        step = graph[at]
        at += 1
        if step.piece is not None:
            step.piece(*given.values())
        elif step.flag is not None and step.flag(given):
            if step.label is not None:
                return GraphStatus(True, step.label)
            at = step.target
    return GraphStatus(False, None)
