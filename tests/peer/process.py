"""The peer (the pip package `quadrants`, as a black box) in a process of its own, asked for one program at a time."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from child import Child, run
from conftest import ROOT, peer_python, the_peer
from once import Once
from programs import Program

SECONDS = 150  # limit of one program, generous because the machine may be busy


def module_text(program: Program) -> str:
    """The program as a module: the numbers that it captures, its funcs and the kernel."""
    functions = (*program.funcs, program.fn)
    names = {name for fn in functions for name in fn.__code__.co_names}
    numbers = {k: v for k, v in program.fn.__globals__.items() if k in names and isinstance(v, (int, float, list))}
    lines = [f"{name} = {value!r}\n" for name, value in numbers.items()]
    lines += [f"\n\n@qd.func\n{_definition(fn)}" for fn in program.funcs]
    return "".join([*lines, f"\n\n@qd.kernel\n{_definition(program.fn)}"])


def _definition(fn: Callable) -> str:
    """The function's source without its decorators."""
    text = textwrap.dedent(inspect.getsource(fn))
    return "".join(text.splitlines(keepends=True)[ast.parse(text).body[0].lineno - 1 :])


def request(program: Program, gradient: bool = False) -> dict[str, Any]:
    """What `run.py` is asked for: every case of the program, and its gradient from the program's seeds."""
    drawn = program.inputs({})
    fields = {
        name: {"dtype": "f64" if drawn[name].dtype.kind == "f" else "i32", "shape": spec.shape}
        | {"element": spec.element, "grad": spec.grad or f"{name}.grad" in drawn, "arg": spec.arg}
        for name, spec in program.fields.items()
        if not name.endswith(".grad")
    }
    seeds = {f"{name}.grad": seed for name, seed in program.seeds().items()} if gradient else {}
    cases = [
        {"values": {n: a.tolist() for n, a in {**program.inputs(c), **seeds}.items()}, "given": program.arguments(c)}
        for c in program.cases
    ]
    parameters = list(inspect.signature(program.fn).parameters)
    return {
        "text": module_text(program), "kernel": program.name, "parameters": parameters, "fields": fields,
        "cases": cases, "definitions": program.definitions, "structs": program.structs, "gradient": gradient,
    }  # fmt: skip


def printed(kept: Once, *command: str | Path, of: Iterable[Path] = ()) -> Any:
    """The JSON that a program prints last, run by the peer's interpreter. It is kept for as long as the text of the
    program, the first word of the command, and that of the files ``of`` which it imports stay."""
    texts = [path.read_text() for path in (Path(command[0]), *of)]
    make = lambda: run(peer_python(), *command).stdout.splitlines()[-1].encode()
    return json.loads(kept(make, *the_peer(), *map(str, command[1:]), *texts))


class _Ended(Exception):
    """Raised if the process ended without an answer. This is an accident, so the result is not stored."""


class Peer:
    """A process that answers one program after another; a new one after a crash or a hang. ``kept``: where its answers
    stay, if anywhere."""

    def __init__(self, kept: Once | None = None) -> None:
        self.process: Child | None = None
        self._kept = kept or (lambda make, *parts: make())

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        program, question = ROOT / "tests" / "peer" / "run.py", json.dumps(job)

        def answer() -> bytes:
            if self.process is None:
                self.process = Child(peer_python(), program, given=None)
            line = ""
            if self.process.say(question, SECONDS):
                line = self.process.line(SECONDS, late="hangs")
            if not line.startswith("{"):
                raise _Ended(line or "the process ended")
            return line.encode()

        try:
            return json.loads(self._kept(answer, *the_peer(), program.read_text(), question))
        except _Ended as e:
            self.end()
            return {"refused": str(e)}

    def end(self) -> None:
        if self.process is not None:
            self.process.end()
            self.process = None
