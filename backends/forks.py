"""Keeps locks, threads and devices usable when the process forks.

In the child only the thread that forked runs. If another thread holds a lock during the fork, nobody in the child would
ever release it, so the locks that `lock` makes are free again in the child. Work that other threads had begun is never
finished in the child. Where that would do harm, the fork waits until the work is done: for code inside `deferred`, for
calls of LLVM, and for threads that `start` started. A GPU driver's threads do not exist in the child, so a GPU that was
opened before the fork cannot be used there, not even to free its memory (`finalize`).
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, TypeVar

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import deep_recursion

T = TypeVar("T")
# the longest time that a fork waits for other threads, in seconds; after it the fork goes on, and the child may find
# work half done
_PATIENCE = 60.0

_locks: weakref.WeakSet[Any] = weakref.WeakSet([deep_recursion.lock])
_inside: dict[int, int] = {}  # id of a thread that is inside `deferred` -> how deeply its calls are nested
_gate = threading.RLock()  # held by a thread while it enters `deferred`, and during a fork: then no thread can enter
_threads: list[threading.Thread] = []
_children: list[Callable[[], None]] = []
_held = threading.local()  # locks that this thread holds while it forks


def lock() -> Any:
    """A `threading.RLock` that is free in the child of a fork, unless the thread that forked held it."""
    made = threading.RLock()
    _locks.add(made)
    return made


llvm = lock()  # held during every call of LLVM, so that a fork waits until the call has ended


@contextmanager
def deferred() -> Iterator[None]:
    """A context manager for work that a child must never find half done, for instance the import of a module: a fork in
    another thread waits until the block has ended, or happens before it begins."""
    me = threading.get_ident()
    outer = _inside.get(me, 0)
    try:
        with nullcontext() if outer else _gate:
            _inside[me] = outer + 1
        yield
    finally:
        if outer:
            _inside[me] = outer
        else:
            _inside.pop(me, None)


class lazy(cached_property[T]):
    """`functools.cached_property` with a lock, as it has up to Python 3.11; in the child of a fork the lock is free."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self.lock = lock()


def start(work: Callable[..., Any], *args: Any, name: str) -> threading.Thread | None:
    """Runs ``work`` on a new thread; a fork waits for its end. None if the system has no thread left."""
    # Freeing a thread object runs callbacks of weak references, which would swallow a Ctrl-C. So ended threads are
    # freed here, before a new one starts.
    _threads[:] = [t for t in _threads if t.is_alive()]
    thread = threading.Thread(target=work, args=args, name=f"quadrants_lab {name}")
    try:
        thread.start()
    except RuntimeError:
        return None
    _threads.append(thread)
    return thread


def in_child(act: Callable[[], None]) -> None:
    """Registers ``act``, to be called in the child of each fork, once the locks are free there."""
    _children.append(act)


def finalize(owner: Any, end: Callable[..., Any], *args: Any) -> None:
    """Calls ``end`` when ``owner`` is freed or the process ends, but not in a child of a fork, because the resources of
    a driver belong to the parent."""
    weakref.finalize(owner, _at_home, os.getpid(), end, *args)


def _at_home(home: int, end: Callable[..., Any], *args: Any) -> None:
    if os.getpid() == home:
        end(*args)


class Home:
    """Remembers which process opened a driver."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self, what: str) -> None:
        """Raises QuadrantsRuntimeError in a child of that process. ``what`` names the object that cannot be used."""
        if os.getpid() != self._process:
            raise forked(what)


def forked(what: str) -> QuadrantsRuntimeError:
    """The error for using a driver's object in a child of the process that opened the driver."""
    return QuadrantsRuntimeError(
        f"{what} was opened before this process was forked, and cannot be used in the child",
        code="QL2002",
        help="in the child, call qd.init(arch=qd.cpu); or start processes by multiprocessing's method 'spawn', or open "
        "the device in the children only",
    )


# --- the fork -------------------------------------------------------------------------------------------------------


def _before() -> None:
    _held.locks = []
    end = time.monotonic() + _PATIENCE
    for thread in _threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))
    _hold(_gate, end)
    while _others_inside() and time.monotonic() < end:
        time.sleep(1e-3)
    _hold(llvm, end)


def _others_inside() -> list[int]:
    return [thread for thread in list(_inside) if thread != threading.get_ident()]


def _hold(made: Any, end: float) -> None:
    if made.acquire(timeout=max(0.0, end - time.monotonic())):
        _held.locks.append(made)


def _release() -> None:
    for made in reversed(_held.locks):
        made.release()
    _held.locks = []


def _in_child() -> None:
    _release()
    for thread in _others_inside():
        del _inside[thread]
    for made in (*_locks, _gate):
        if not made._is_owned():
            made._at_fork_reinit()  # Python's own modules call this for their locks
    _threads.clear()
    for act in _children:
        act()


os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_in_child)
