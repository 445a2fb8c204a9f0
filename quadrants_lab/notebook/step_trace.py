"""Turns the trace of an iteration into plain data for the stepper: statements, values as text, and a summary of the
events before the first that is shown."""

import math
from collections.abc import Mapping, Sequence, Set

from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.text import statement_lines
from quadrants_lab.notebook.values import number
from quadrants_lab.runtime.interpret.interpreter import Trip
from quadrants_lab.runtime.interpret.interpreter_trace import Event, TraceWindow, Wanted, reverse_code
from quadrants_lab.widgets.model import StepStatement, StepTrace, span_line
from quadrants_lab.widgets.steps import MOST_SLOTS

PRIME = "\N{PRIME}"
_KINDS = {N.AdStackPush: "push", N.AdStackPop: "pop", N.AdStackLoadTop: "top", N.Store: "write", N.Atomic: "write"}
_WRITTEN = {"add": "+=", "sub": "-=", "mul": "*=", "and": "&=", "or": "|=", "xor": "^="}


def wanted(where: str, file: str, stacks: Sequence[int]) -> Wanted:
    """A test for the event at a place ``where`` in an iteration. ``where`` is "" for the first event, "last" for the
    last one, "turn" for the first event of reverse code, or "step-7" for event 7, counted from 0. Other names are for
    events after event 7: "line-12-7" for the first event of line 12, "back-12-7" for the first of the derivative of
    line 12, "push-0-7" for the first push onto the first of the ``stacks``, "pop--7" for the first pop of any stack,
    "lost-7" for the first value that is NaN or infinite."""
    what, *rest = where.split("-", 2)
    try:
        arg, after = (int(x) if x else -1 for x in (rest if len(rest) == 2 else ["", *rest, ""][:2]))
    except ValueError:
        what = "?"

    def uses(e: Event, kind: type[N.Stmt]) -> bool:
        return isinstance(e.stmt, kind) and (arg < 0 or stacks[arg : arg + 1] == [e.stmt.stack])  # type: ignore[attr-defined]  # a use of a stack

    rules: dict[str, Wanted] = {
        "": lambda e: True,
        "last": lambda e: False,
        "turn": lambda e: e.back,
        "step": lambda e: e.number == after,
        "line": lambda e: e.number > after and span_line(e.stmt.span, file) == arg,
        "back": lambda e: e.number > after and e.back and span_line(e.stmt.span, file) == arg,
        "push": lambda e: e.number > after and uses(e, N.AdStackPush),
        "pop": lambda e: e.number > after and uses(e, N.AdStackPop),
        "lost": lambda e: e.number > after and _lost(e),
    }
    if what not in rules:
        raise QuadrantsRuntimeError(f"{where!r} is no place in an iteration", code="QL0707")
    return rules[what]


def _lost(e: Event) -> bool:
    value = e.operands[0] if e.stmt.atomic else e.value
    values = value.carried if isinstance(value, Trip) else value if isinstance(value, tuple) else (value,)
    return any(not math.isfinite(v) for v in values if v is not None and not isinstance(v, str))


class Statements:
    """The statements of a task's events, numbered as they come. ``compilers``: names that only the compiler uses, which
    the stepper hides."""

    def __init__(self, kernel: N.Kernel, task: N.Offload, file: str, compilers: Set[str]) -> None:
        self.file, self.compilers = file, compilers
        self.texts: dict[int, str] = {}
        for shown, stmt in statement_lines(kernel):
            if stmt is not None:
                self.texts.setdefault(stmt.id, shown.strip().removesuffix(" {"))
        self.stacks = [s for s in stack_allocas(kernel) if any(s is t for t in task.body)]
        self.column = {s.id: n for n, s in enumerate(self.stacks)}
        self.numbers: dict[tuple[int, str], int] = {}
        self.rows: list[StepStatement] = []

    def number(self, e: Event) -> int:
        kind = _kind(e)
        at = self.numbers.setdefault((e.stmt.id, kind), len(self.rows))
        if at == len(self.rows):
            self.rows.append(_statement(e, kind, self.texts.get(e.stmt.id, ""), self.file, self.column))
        return at

    def columns(self) -> list[tuple[str, int, str]]:
        """Name, line and dtype of each stack."""
        return [(s.name or f"%{s.primal}", span_line(s.span, self.file), s.type.name) for s in self.stacks]

    def hidden(self) -> list[str]:
        names = {n for s in self.rows for n in (s.name, *s.carried)}
        return sorted(n for n in names if n.partition(".")[0].rstrip(PRIME) in self.compilers)


def step_trace(kernel: N.Kernel, window: TraceWindow, file: str, compilers: Set[str]) -> StepTrace:
    """The data for the stepper. ``compilers``: see `Statements`."""
    statements = Statements(kernel, window.task, file, compilers)

    def encoded(e: Event) -> tuple[int, str | list[str], str]:
        return statements.number(e), _value(e), _read(e)

    below = window.unseen(MOST_SLOTS)
    past = [(*encoded(e)[:2], e.number) for e in window.past.events(below)]
    events = [encoded(e) for e in window.events]
    return StepTrace(
        ", ".join(map(str, window.lane)),
        " x ".join(f"{axis.start} .. {axis.stop - 1}" for axis in window.box),
        statements.rows, events, statements.columns(),
        window.cut, window.events[0].number if window.events else 0, past,
        [below.get(s.id, 0) for s in statements.stacks], window.found, window.turn, statements.hidden(),
        bool(reverse_code(window.task)),
    )  # fmt: skip


def _kind(e: Event) -> str:
    if isinstance(e.stmt, N.Loop):
        return "trip" if isinstance(e.value, Trip) else "end"
    return _KINDS.get(type(e.stmt), "value")


def _statement(e: Event, kind: str, text: str, file: str, column: Mapping[int, int]) -> StepStatement:
    s, name, carried = e.stmt, "", []
    if isinstance(s, N.Loop):
        name = s.index.name if isinstance(s, N.For) else ""
        carried = _distinct([p.name for p in (s.carried if kind == "trip" else s.results)])
    elif isinstance(s, N.Value):
        name = s.name
    stack = column.get(s.stack, -1) if isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop)) else -1
    return StepStatement(text, span_line(s.span, file), kind, name, stack, carried, e.back)


def _distinct(names: Sequence[str]) -> list[str]:
    """Makes the names distinct: each name gets a prime for every earlier entry of the same name, such as a variable's
    value before the loop."""
    out: list[str] = []
    for name in names:
        while name and name in out:
            base, dot, rest = name.partition(".grad")
            name = f"{base}{PRIME}{dot}{rest}"
        out.append(name)
    return out


def _value(e: Event) -> str | list[str]:
    if isinstance(e.value, Trip):
        return ["" if e.value.index is None else number(e.value.index), *map(number, e.value.carried)]
    if isinstance(e.value, tuple):
        return ["", *map(number, e.value)]
    if isinstance(e.stmt, (N.Store, N.Atomic)):
        value, old = (number(v) for v in (*e.operands, e.value, e.value)[:2])
        return element(e.stmt.buffer, e.at) + written(e.stmt, value, old)
    return number(e.value)


def _read(e: Event) -> str:
    """The operands of the event's operation, or the element that it read."""
    if isinstance(e.stmt, N.Load):
        return element(e.stmt.buffer, e.at)
    return ", ".join(map(number, e.operands)) if e.stmt.prim else ""


def element(buffer: str, at: Sequence[int]) -> str:
    return f"{buffer}[{', '.join(map(str, at)) or 'None'}]"


def written(s: N.Store | N.Atomic, value: str, old: str = "") -> str:
    """The text that follows the element's name in the stepper: what the statement does to the element, for example "=
    3.0"."""
    if isinstance(s, N.Store):
        return f" = {value}"
    sign = _WRITTEN.get(s.op)
    return f" {sign} {value}" if sign else f" = {s.op}({old}, {value})"
