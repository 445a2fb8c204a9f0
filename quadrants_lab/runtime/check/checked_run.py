"""Runs a program with all checks on first: without them, an index out of bounds could damage other data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.runtime import session
from quadrants_lab.runtime.check.differences import writable
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import Observer, unwatched, watch

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class _Written(Observer):
    """An observer that saves all memory that launches of any mode write to, before the first write."""

    def __init__(self) -> None:
        self.before_any: dict[int, tuple[Any, Any, bool]] = {}  # id -> memory or array, copy, if Python wrote it last

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        for name, touched in plan.backing(args).items():
            if name in plan.writes and id(touched) not in self.before_any:
                filled = isinstance(touched, Memory) and touched.python_wrote == touched.version
                self.before_any[id(touched)] = touched, touched.copy(), filled

    def put_back(self) -> None:
        for touched, values, filled in self.before_any.values():
            writable(touched)[...] = values
            if isinstance(touched, Memory):
                touched.version += 1
                touched.python_wrote = touched.version if filled else touched.python_wrote


def checked_run(program: Callable[[], object]) -> QuadrantsError | None:
    """The error of a run with all checks: a race between iterations, an index out of bounds or a failed assert; None
    if there is none. Prints and warnings are dropped, and what launches wrote is restored."""
    written = _Written()
    with warnings.catch_warnings(), redirect_stdout(StringIO()), unwatched(), watch(written):
        warnings.simplefilter("ignore")
        try:
            with session.checking("asserts", "check_out_of_bound", "check_races"):
                program()
        except QuadrantsError as e:
            return e
        finally:
            written.put_back()
    return None
