"""Forward, every program of the table does what the peer does (the pip package `quadrants`, as a black box).

What the peer refuses or means otherwise on purpose is listed here with the reason; gradients are settled by
mathematics (test_gradients), never by the peer.
"""

from __future__ import annotations

import ast
import inspect
import json
import selectors
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, peer_python
from programs import PROGRAMS, Program
from running import Bench, f64, job_of

# program -> words of the peer's refusal
REFUSED = {
    "early_returns": "Return inside non-static if/for is not supported",
    "tasks_under_a_branch_and_in_a_loop": "struct_for cannot be nested inside a kernel",
}
# program -> why its values are not the peer's
DIFFERENT: dict[str, str] = {}

PARTS = 8  # processes of the peer, one after the other in each process of the suite
SECONDS = 30  # for one program, after which the peer is taken to hang


def module_text(program: Program) -> str:
    """The program as a module: the numbers that it captures, its funcs and the kernel."""
    functions = (*program.funcs, program.fn)
    names = {name for fn in functions for name in fn.__code__.co_names}
    numbers = {k: v for k, v in program.fn.__globals__.items() if k in names and isinstance(v, (int, float))}
    lines = [f"{name} = {value!r}\n" for name, value in numbers.items()]
    lines += [f"\n\n@qd.func\n{_definition(fn)}" for fn in program.funcs]
    return "".join([*lines, f"\n\n@qd.kernel\n{_definition(program.fn)}"])


def _definition(fn: Callable) -> str:
    """The function's source without its decorators."""
    text = textwrap.dedent(inspect.getsource(fn))
    return "".join(text.splitlines(keepends=True)[ast.parse(text).body[0].lineno - 1 :])


def request(program: Program) -> dict[str, Any]:
    drawn = program.inputs({})
    fields = {
        name: {"kind": drawn[name].dtype.kind, "shape": spec.shape, "arg": spec.arg}
        | {"grad": spec.grad or f"{name}.grad" in drawn}
        for name, spec in program.fields.items()
        if "." not in name
    }
    cases = [
        {"values": {n: a.tolist() for n, a in program.inputs(c).items()}, "given": program.arguments(c)}
        for c in program.cases
    ]
    parameters = list(inspect.signature(program.fn).parameters)
    text = module_text(program)
    return {"text": text, "kernel": program.name, "parameters": parameters, "fields": fields, "cases": cases}


class Peer:
    """A process that answers one program after another; a new one after a crash or a hang."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None

    def ask(self, program: Program) -> dict[str, Any]:
        if self.process is None:
            self.process = subprocess.Popen(
                [peer_python(), str(ROOT / "tests" / "peer_forward.py")], text=True, bufsize=1,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self.process.stdin.write(json.dumps(request(program)) + "\n")
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if ready.select(SECONDS) else "hangs"
        if line.startswith("{"):
            return json.loads(line)
        self.end()
        return {"refused": line or "the process ended"}

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.end()


def disagreements(program: Program, theirs: list[dict[str, Any]]) -> Iterator[str]:
    bench = Bench(f64)
    for case, their in zip(program.cases, theirs, strict=True):
        ours, returned = bench.run(job_of(program, case), gradient=False)
        pairs = [(name, ours[name], values) for name, values in their["values"].items()]
        for name, a, b in [*pairs, ("returned", returned, their["returned"])]:
            if a is None and b is None:
                continue
            b = np.asarray(b)
            scale = np.maximum(1.0, np.abs(b)) if b.dtype.kind == "f" else 0
            if not (np.abs(a - b) <= 1e-11 * scale).all():
                yield f"{program.name} {case}: {name} is {a}, the peer's is {b}"


@pytest.mark.peer
@pytest.mark.parametrize("part", range(PARTS))
def test_values_are_the_peers(part: int, peer: Peer) -> None:
    wrong = []
    for program in list(PROGRAMS.values())[part::PARTS]:
        answer = peer.ask(program)
        refused = answer.get("refused", "")
        if refused or program.name in REFUSED:
            if not refused or REFUSED.get(program.name, "not listed") not in refused:
                wrong.append(f"{program.name}: the peer says {refused!r}")
            continue
        found = list(disagreements(program, answer["cases"]))
        if bool(found) != (program.name in DIFFERENT):
            wrong += found or [f"{program.name} is listed as different and is not"]
    assert not wrong, "\n".join(wrong)


def test_few_programs_are_left_out() -> None:
    assert {*REFUSED, *DIFFERENT} <= {*PROGRAMS}
    assert len(PROGRAMS) - len(REFUSED) - len(DIFFERENT) >= 120
