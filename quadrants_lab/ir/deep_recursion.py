"""Runs work on deeply nested programs in a thread with a large stack.

Source and IR are trees, and the functions that lower, rewrite, print and emit them are recursive. Python stops
recursion after a thousand frames, too early for an `if` with 140 arms. `run_deep` runs such work in the current
thread. If the stack is too small, it runs the work again in a thread with a large stack and a high recursion limit.
Few programs are that deep; all others only pay for measuring the depth of the stack.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from ast import AST, BoolOp, Compare, PyCF_ONLY_AST, iter_child_nodes
from collections.abc import Callable
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quadrants_lab.errors import QuadrantsCompilationError
from quadrants_lab.ir.temporary import uncollected

if TYPE_CHECKING:
    from quadrants_lab.ir.nodes import Block

T = TypeVar("T")
P = ParamSpec("P")

_STACK = 512 << 20  # bytes of a thread's stack, of which the system provides only what is used
_BYTES = 5 << 10  # most bytes of a frame: a call of Python through C takes more than one of Python alone
_LEVEL = 12  # most frames that any function here takes for a level of a program
_REST = 200  # frames of functions that are not recursive
_ONE_COUNT = sys.version_info[:2] == (3, 11)  # see `syntax_tree`

# The recursion limit belongs to the process: while a thread here needs a high one, all threads have it.
lock = threading.RLock()
_raised: list[int] = []  # the limit before each raise


def run_deep(work: Callable[[], T], held: Any = None) -> T:
    """Calls ``work`` and returns its result, or raises its error. The work may be started twice. ``held`` is an RLock
    that this thread holds and that ``work`` may acquire again. Raises QuadrantsCompilationError if even the large stack
    is too small."""
    if isinstance(threading.current_thread(), _LargeStackThread):
        return work()
    try:
        return work()
    except RecursionError:
        pass
    return _elsewhere(work, held)


def deeply_recursive(fn: Callable[P, T]) -> Callable[P, T]:
    """The function, run by `run_deep`."""

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_deep(lambda: fn(*args, **kwargs))

    return run


def check_depth(levels: int) -> None:
    """Raises RecursionError if this stack is too small for a program with ``levels`` levels. Called before work that
    must not be interrupted half-way."""
    left = sys.getrecursionlimit() - _LEVEL * levels - _REST
    if left > 0 and isinstance(threading.current_thread(), _LargeStackThread):
        return
    frame = sys._getframe() if left > 0 else None
    while frame is not None and left > 0:
        frame, left = frame.f_back, left - 1
    if left <= 0:
        raise RecursionError(f"the stack is too small for {levels} levels")


def syntax_tree(text: str, mode: str = "exec", file: str = "<unknown>", flags: int = 0) -> Any:
    """`ast.parse`, for threads that call it at the same time. Python 3.11 counts the levels of a tree in one place for
    all threads, and raises a SystemError if the garbage collector lets another thread make a tree in between."""
    if not _ONE_COUNT:
        return compile(text, file, mode, flags | PyCF_ONLY_AST, dont_inherit=True)
    with lock, uncollected():
        return compile(text, file, mode, flags | PyCF_ONLY_AST, dont_inherit=True)


def depth_of_source(tree: AST) -> int:
    """The number of levels of the tree. An operand of `and`, `or` or a chain of comparisons counts as nested in the one
    before it, as it is in the IR."""
    depth, todo = 0, [(tree, 1)]
    while todo:
        node, level = todo.pop()
        depth = max(depth, level)
        chained = isinstance(node, (BoolOp, Compare))
        todo += [(part, level + 1 + n * chained) for n, part in enumerate(iter_child_nodes(node))]
    return depth


def depth_of_block(block: Block) -> int:
    """The nesting depth of blocks."""
    depth, level = 0, list(block)
    while level:
        depth += 1
        level = [s for stmt in level for inner in stmt.blocks() for s in inner]
    return depth


# --- the thread -----------------------------------------------------------------------------------------------------


class _Stop(SystemExit):
    """Raised in the thread to end its work after the waiting thread was interrupted. A thread that it ends prints no
    message."""


class _LargeStackThread(threading.Thread):
    """A thread that runs ``work`` with the context variables of its creator, holding the lock ``held``."""

    def __init__(self, work: Callable[[], Any], held: Any) -> None:
        super().__init__(name="quadrants_lab large stack", daemon=True)
        self.work = work
        self.held = held
        self.context = copy_context()
        self.value: Any = None
        self.failed: list[BaseException] = []  # what the work raised
        self.done = threading.Event()
        self.stopped = False

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
            self.failed.append(e)
        finally:
            self.done.set()

    def stop(self) -> None:
        """Ends the work of this thread, and waits until the thread has ended."""
        self.stopped = True  # read by a thread that has not started its work yet
        if self.ident is not None and not self.done.is_set():
            ident, stop = ctypes.c_ulong(self.ident), ctypes.py_object(_Stop)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, stop)
            self.done.wait()


def _elsewhere(work: Callable[[], T], held: Any) -> T:
    """Calls ``work`` in a new thread with a deeper stack, and returns its result. The lock ``held``, if any, passes
    from this thread to that one meanwhile."""
    state = held._release_save() if held is not None else None  # as threading.Condition does
    try:
        thread = _finished(work, held)
    finally:
        if held is not None:
            held._acquire_restore(state)
    if any(isinstance(e, RecursionError) for e in thread.failed):
        raise QuadrantsCompilationError(
            "this program is nested too deeply to be compiled", code="QL1211",
            help="put a part of it into a loop, or write a long expression in several statements",
        ) from None  # fmt: skip
    if thread.failed:
        raise thread.failed.pop()  # so that no variable here keeps the error, whose traceback keeps this frame
    value: T = thread.value
    return value


def _finished(work: Callable[[], Any], held: Any) -> _LargeStackThread:
    """Starts a thread for the work, waits until it is done, and returns the thread. An exception that interrupts the
    waiting, such as Ctrl-C, ends the work."""
    thread = _LargeStackThread(work, held)
    _raise_limit(_STACK // _BYTES)
    try:
        with lock:
            before = threading.stack_size(_STACK)
            try:
                thread.start()
            finally:
                threading.stack_size(before)
        while not thread.done.wait(0.2):  # an interrupted Thread.join would take a live thread for ended
            pass
    except BaseException:
        thread.stop()
        raise
    finally:
        _lower_limit()
    return thread


def _raise_limit(frames: int) -> None:
    with lock:
        _raised.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(frames, _raised[-1]))


def _lower_limit() -> None:
    """Ends one raise of the recursion limit. When no raise is left, the limit becomes again what it was before the
    first."""
    with lock:
        first = _raised[0]
        _raised.pop()
        if not _raised:
            sys.setrecursionlimit(first)
