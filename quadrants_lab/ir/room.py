"""Room for recursion: what walks deep programs runs on a thread with a large stack.

Source and IR are trees, and what lowers, rewrites, prints and emits them goes down them by recursion. Python stops that
after a thousand frames, so that an `if` with 140 arms would be too much. `call` runs such work where it is; where that
has no room, it starts anew on a thread with a large stack and a high limit. Few programs are that deep, and the others
pay for a look at the depth of the stack.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from ast import AST, BoolOp, Compare, iter_child_nodes
from collections.abc import Callable
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quadrants_lab.errors import QuadrantsCompilationError

if TYPE_CHECKING:
    from quadrants_lab.ir.nodes import Block

T = TypeVar("T")
P = ParamSpec("P")

_STACK = 512 << 20  # bytes of a thread's stack; the system provides what is used of it
_BYTES = 5 << 10  # at most, of a call of Python through C, which takes more than one of Python alone
_LEVEL = 12  # frames at most, that anything here takes for a level of a program
_REST = 200  # frames of what is not recursive

# The limit of frames is the whole process's: while a thread here needs a high one others have it too.
lock = threading.RLock()
_raised: list[int] = []  # the limit before each raise


def call(work: Callable[[], T], held: Any = None) -> T:
    """What ``work`` returns or raises; it may be begun twice. ``held``: an RLock that this thread holds and ``work``
    may take again. QuadrantsCompilationError where there is no stack that is large enough."""
    if isinstance(threading.current_thread(), _Room):
        return work()
    try:
        return work()
    except RecursionError:
        pass
    return _elsewhere(work, held)


def roomy(fn: Callable[P, T]) -> Callable[P, T]:
    """The function, run by `call`."""

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return call(lambda: fn(*args, **kwargs))

    return run


def need(levels: int) -> None:
    """RecursionError where this stack has no room for a program of so many levels: before anything is half done."""
    left = sys.getrecursionlimit() - _LEVEL * levels - _REST
    if left > 0 and isinstance(threading.current_thread(), _Room):
        return
    frame = sys._getframe() if left > 0 else None
    while frame is not None and left > 0:
        frame, left = frame.f_back, left - 1
    if left <= 0:
        raise RecursionError(f"no room for {levels} levels")


def depth_of_source(tree: AST) -> int:
    """Levels of the tree. The operands of `and` and `or`, and of a chain of comparisons, are each within the one
    before, as they are when it is lowered."""
    depth, todo = 0, [(tree, 1)]
    while todo:
        node, level = todo.pop()
        depth = max(depth, level)
        chained = isinstance(node, (BoolOp, Compare))
        todo += [(part, level + 1 + n * chained) for n, part in enumerate(iter_child_nodes(node))]
    return depth


def depth_of_block(block: Block) -> int:
    """Blocks within each other."""
    depth, level = 0, list(block)
    while level:
        depth += 1
        level = [s for stmt in level for inner in stmt.blocks() for s in inner]
    return depth


# --- the thread -----------------------------------------------------------------------------------------------------


class _Stop(SystemExit):
    """Ends the thread's work where the thread that waits for it was interrupted; a thread ends by it silently."""


class _Room(threading.Thread):
    """Runs ``work`` with the context variables of the creating thread, holding the lock ``held``."""

    def __init__(self, work: Callable[[], Any], held: Any) -> None:
        super().__init__(name="quadrants_lab room", daemon=True)
        self.work = work
        self.held = held
        self.context = copy_context()
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self.stopped = False

    def over(self) -> bool:
        """Whether the work is done, or will not be."""
        return self.done.is_set() or (self.stopped and not self.is_alive())

    def run(self) -> None:
        try:
            if self.stopped:
                raise _Stop
            if self.held is not None:
                self.held.acquire()
            try:
                self.value = self.context.run(self.work)
            finally:
                if self.held is not None:
                    self.held.release()
        except BaseException as e:
            self.error = e
        finally:
            self.done.set()

    def stop(self) -> None:
        self.stopped = True
        if self.ident is not None and not self.done.is_set():
            ident, stop = ctypes.c_ulong(self.ident), ctypes.py_object(_Stop)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, stop)


def _elsewhere(work: Callable[[], T], held: Any) -> T:
    state = held._release_save() if held is not None else None  # as threading.Condition does
    try:
        room = _finished(work, held)
    finally:
        if held is not None:
            held._acquire_restore(state)
    if isinstance(room.error, RecursionError):
        raise QuadrantsCompilationError(
            "this program is nested too deeply to be compiled", code="QL1210",
            help="put a part of it into a loop, or write a long expression in several statements",
        ) from None  # fmt: skip
    if room.error is not None:
        raise room.error
    value: T = room.value
    return value


def _finished(work: Callable[[], Any], held: Any) -> _Room:
    """The thread that has done the work. What interrupts this thread, as Ctrl-C does, ends the work and goes on from
    here."""
    size = _STACK
    interrupted: BaseException | None = None
    while True:
        room = _Room(work, held)
        _raise_limit(size // _BYTES)
        try:
            while not room.over():
                try:
                    if interrupted is None and room.ident is None:
                        _start(room, size)
                    room.done.wait(0.2)  # Thread.join takes a thread for dead when it is interrupted
                except RuntimeError:  # the system has no such stack
                    if room.ident is not None or size <= 1 << 24:
                        raise
                    break
                except BaseException as e:  # anywhere here, also while the thread was being started
                    interrupted = e
                    room.stop()
        finally:
            _lower_limit()
        if interrupted is not None:
            raise interrupted
        if room.ident is not None:
            return room
        size //= 2


def _start(room: _Room, size: int) -> None:
    with lock:
        before = threading.stack_size(size)
        try:
            room.start()
        finally:
            threading.stack_size(before)


def _raise_limit(frames: int) -> None:
    with lock:
        _raised.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(frames, _raised[-1]))


def _lower_limit() -> None:
    """What the limit was before the first of those that are raised now."""
    with lock:
        first = _raised[0]
        _raised.pop()
        if not _raised:
            sys.setrecursionlimit(first)
