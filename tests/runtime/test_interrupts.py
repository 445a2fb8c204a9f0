"""Ctrl-C leaves no state behind: each piece of work is interrupted at every place at which Python looks for signals.

Python looks for signals at the end of a call of C, when it jumps back, when a generator goes on, and when it enters a
function. The last is left out, because no code could undo what an interrupt leaves at the entry of ``__exit__``.
"""

import gc
import inspect
import opcode
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import quadrants_lab as qd
from quadrants_lab.backends import forks
from quadrants_lab.frontend.names import NAMES, Names, recalling
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.lang.config import AnotherSession
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.observe import observers as W
from quadrants_lab.runtime.record.recorder import WATCHED, recording

PACKAGE = str(Path(qd.__file__).parent)  # backends and widgets are links in it
MOST = 3  # of the turns of a loop, such as one over all plans of the process
NAMES_OF_LOOKS = "RESUME CALL CALL_KW CALL_FUNCTION CALL_METHOD CALL_FUNCTION_KW CALL_FUNCTION_EX JUMP_BACKWARD".split()
LOOKS = {opcode.opmap[name] for name in NAMES_OF_LOOKS if name in opcode.opmap}  # of this version of Python


class _Trace:
    """Raises KeyboardInterrupt at the place number ``at``, counted from 1; ``seen``: the places so far."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen: list[str] = []
        self._last: dict[int, int] = {}  # the last instruction of each frame, by the id, since a frame has references

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "call":
            if not frame.f_code.co_flags & inspect.CO_GENERATOR:  # which goes on after a yield
                self._last.pop(id(frame), None)
            frame.f_trace_lines = False
            frame.f_trace_opcodes = frame.f_code.co_filename.startswith(PACKAGE)
        elif event == "return" and frame.f_back is not None:
            self._last.pop(id(frame.f_back), None)  # at the end of a call of Python it does not look
        elif event == "opcode":
            now = frame.f_code.co_code[frame.f_lasti]
            last, self._last[id(frame)] = self._last.get(id(frame)), now
            if last in LOOKS:
                self.seen.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}, {now}")
                if len(self.seen) == self.at:
                    raise KeyboardInterrupt
        return self


def interrupted(work: Callable[[], object], at: int) -> list[str]:
    """Runs ``work`` with Ctrl-C at the place number ``at``, or with none for 0. The places up to there."""
    trace = _Trace(at)
    try:
        sys._getframe().f_trace_opcodes = True  # Python 3.12 traces instructions only if a frame has asked before
        sys.settrace(trace)
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return trace.seen


def state() -> dict[str, Any]:
    """All state that a piece of work changes temporarily."""
    now = S.default()
    assert now is not None
    variables = (W.OBSERVERS, W.SCOPE, W.MODE, W.CONSTANT, W.HIDDEN, W.PUT_BACK, S.CHECKS, WATCHED, NAMES)
    return {
        **{v.name: v.get() for v in variables},
        "session": now, "tapes": now.tapes, "field observers": [*now.field_observers], "aside": [*now.set_aside],
        "locked": now.lock._is_owned(), "hiding": W.hiding(), "watching": W.watching(), "recording": W.open_recording(),
        "within": [*AnotherSession._within], "collects": gc.isenabled(), "deferred": dict(forks._inside),
    }  # fmt: skip


class Program:
    """A kernel, its loss and what is done with them."""

    def __init__(self) -> None:
        x, loss = (qd.field(qd.f32, n, needs_grad=True, needs_dual=True) for n in (4, ()))

        @qd.kernel
        def total():
            for i in x:
                loss[None] += x[i] * x[i]

        @qd.ad.grad_replaced
        def by_hand():
            total()

        @qd.ad.grad_for(by_hand)
        def by_hand_grad():
            total.grad()

        self.x, self.loss, self.total, self.by_hand = x, loss, total, by_hand
        self.other = qd.another_session(arch=qd.cpu, offline_cache=False)
        x.fill(3.0)

    def tape(self) -> None:
        with qd.ad.Tape(self.loss):
            self.total()

    def custom(self) -> None:
        with qd.ad.Tape(self.loss):
            self.by_hand()

    def validated(self) -> None:
        with qd.ad.Tape(self.loss, validation=True):
            self.total()

    def forward(self) -> None:
        with qd.ad.FwdMode(self.loss, self.x, seed=[1.0] * 4):
            self.total()

    def recorded(self) -> None:
        with recording():
            self.total()

    def hidden_from_a_recording(self) -> None:
        with recording(), W.unwatched():
            self.total()

    def another_session(self) -> None:
        with self.other:
            pass

    def check(self) -> None:
        self.x.grad.fill(0)
        self.tape()
        assert self.x.grad.to_numpy().tolist() == [6.0] * 4


WORKS: dict[str, Callable[[Program], Any]] = {
    "a Tape": Program.tape,
    "a Tape that validates": Program.validated,
    "a custom gradient": Program.custom,
    "a recording": Program.recorded,
    "launches hidden from a recording": Program.hidden_from_a_recording,
    "another session": Program.another_session,
    "forward mode": Program.forward,
    "reading and writing": lambda p: p.x.from_numpy(p.x.to_numpy()),
    "an observer of fields": lambda p: _within(S.current().observing_fields(lambda x: None)),
    "other fast paths": lambda p: _within(S.current().other_fast_paths()),
    "hidden launches": lambda p: _within(W.unwatched()),
    "constants": lambda p: _within(W.constants()),
    "a mode": lambda p: _within(W.launching("reverse")),
    "checks": lambda p: _within(S.checking("asserts")),
    "recalled names": lambda p: _within(recalling(Names())),
    "a deferred fork": lambda p: _within(forks.deferred()),
    "a syntax tree": lambda p: syntax_tree("x = 1"),
}


def _within(block: Any) -> None:
    with block:
        pass


@pytest.mark.parametrize("name", WORKS)
def test_ctrl_c_at_any_place_leaves_no_state_behind(name: str):
    qd.init(arch=qd.cpu, offline_cache=False)
    program = Program()
    for _ in range(3):
        program.check()
        WORKS[name](program)
    before, turns = state(), Counter[str]()
    for at, place in enumerate(interrupted(lambda: WORKS[name](program), 0), 1):
        turns[place] += 1
        if turns[place] > MOST:
            continue
        where = interrupted(lambda: WORKS[name](program), at)[-1]
        assert state() == before, where
        for memory in (program.x._memory, program.loss._memory):
            memory.watchers = ()  # one that was about to be taken away stays, which costs no more than time
        program.check()
        assert state() == before, where
    assert turns
