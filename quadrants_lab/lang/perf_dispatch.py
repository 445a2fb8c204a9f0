"""Implements `qd.perf_dispatch`, which chooses the fastest of several equivalent functions for the arguments of a
call."""

import os
from collections.abc import Callable, Hashable, Iterator
from functools import update_wrapper
from statistics import fmean
from time import perf_counter
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.config import sync

_CALLS = 300  # the default number of calls after which functions are measured again
Implementation = Callable[..., Any]
_Turn = tuple[Implementation, Implementation]  # (implementation, function that calls it and may time the call)


class PerfDispatch:
    """Calls one of the registered functions. For each geometry of the arguments, the first calls run the compatible
    functions in turn and measure their times. Later calls run the fastest one, until it is time to measure again. The
    body of the decorated function never runs. If a function raises an error, so does the call; the function is then not
    called again for that geometry, unless all have failed, and the others are measured again."""

    def __init__(
        self, fn: Implementation, geometry: Callable[..., Hashable], first_warmup: int, warmup: int, active: int,
        count: int, seconds: float,
    ) -> None:  # fmt: skip
        self.geometry, self.first_warmup, self.warmup, self.active = geometry, first_warmup, warmup, active
        self.count, self.seconds = count, seconds
        self.implementations: list[tuple[Implementation, Callable[..., bool] | None]] = []
        self.turns: dict[Hashable, Iterator[_Turn]] = {}
        self.failed: dict[Hashable, list[Implementation]] = {}
        self.name = getattr(fn, "__name__", "it")
        update_wrapper(self, fn)

    def register(
        self, implementation: Implementation | None = None, *, is_compatible: Callable[..., bool] | None = None
    ) -> Any:
        """Registers a kernel or function. ``is_compatible(*args)`` says whether it can run with these arguments."""

        def add(fn: Implementation) -> Implementation:
            self.implementations.append((fn, is_compatible))
            return fn

        return add if implementation is None else add(implementation)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = self.geometry(*args, **kwargs)
        if key not in self.turns:
            fit = [f for f, can in self.implementations if can is None or can(*args, **kwargs)]
            fit = self._forced() or fit
            if not fit:
                raise QuadrantsRuntimeError(
                    f"no implementation of {self.name} can run with these arguments",
                    code="QL2057",
                    help=f"decorate one with @{self.name}.register",
                )
            failed = self.failed.setdefault(key, [])
            if all(f in failed for f in fit):
                failed.clear()
            self.turns[key] = self._turns([f for f in fit if f not in failed])
        fn, run = next(self.turns[key])
        try:
            return run(*args, **kwargs)
        except BaseException as e:  # also Ctrl-C, which leaves a measurement incomplete
            self.turns.pop(key, None)
            if isinstance(e, Exception):
                self.failed[key].append(fn)
            raise

    def _forced(self) -> list[Implementation]:
        """The implementation that the environment variable QD_PERFDISPATCH_FORCE names for this dispatcher; None if it
        names none. The variable has pairs "dispatcher:implementation", separated by commas; "?" prints the known
        names."""
        given = os.environ.get("QD_PERFDISPATCH_FORCE", "")
        if given == "?":
            known = [_name(f) for f, _ in self.implementations]
            print(f"perf_dispatch {self.name!r}: available implementations: {known}")
            return []
        names = {getattr(f, "__name__", ""): f for f, _ in self.implementations}
        for pair in filter(None, given.split(",")):
            dispatcher, colon, name = pair.strip().partition(":")
            if not colon:
                raise QuadrantsRuntimeError(
                    f"QD_PERFDISPATCH_FORCE={given}: {pair!r} names no implementation", code="QL2057",
                    help="write dispatcher:implementation, several with commas between them",
                )  # fmt: skip
            if dispatcher == self.name:
                if name not in names:
                    what = f"QD_PERFDISPATCH_FORCE={given}: {self.name} has no implementation {name!r}"
                    raise QuadrantsRuntimeError(what, code="QL2057", help=f"it has {', '.join(names)}")
                return [names[name]]
        return []

    def _turns(self, fit: list[Implementation]) -> Iterator[_Turn]:
        """Yields, call after call, the implementation to run."""
        warmup = self.first_warmup
        while len(fit) > 1:
            times: dict[int, list[float]] = {k: [] for k in range(len(fit))}
            for k, fn in enumerate(fit):
                yield from [(fn, fn)] * warmup
                yield from [(fn, _timed(fn, times[k]))] * self.active
            fastest = fit[min(times, key=lambda k: fmean(times[k]))]
            if os.environ.get("QD_PERFDISPATCH_PRINT_DEBUG", "0") not in ("", "0"):
                print(f"perf_dispatch {self.name!r}: {_name(fastest)!r} is the fastest of {len(fit)}")
            begin, calls = perf_counter(), 0
            while not (0 < self.count <= calls or 0 < self.seconds <= perf_counter() - begin):
                yield fastest, fastest
                calls += 1
            warmup = self.warmup
        while True:
            yield fit[0], fit[0]


def _name(fn: Implementation) -> str:
    return getattr(fn, "__name__", "") or repr(fn)


def _timed(fn: Implementation, times: list[float]) -> Implementation:
    def run(*args: Any, **kwargs: Any) -> Any:
        sync()
        begin = perf_counter()
        value = fn(*args, **kwargs)
        sync()
        times.append(perf_counter() - begin)
        return value

    return run


def perf_dispatch(
    *, get_geometry_hash: Callable[..., Hashable], first_warmup: int = 1, warmup: int = 0, active: int = 1,
    repeat_after_count: int | None = None, repeat_after_seconds: float | None = None,
) -> Callable[[Implementation], PerfDispatch]:  # fmt: skip
    """Makes a function that calls the fastest of the functions that are registered with it (see `PerfDispatch`). Calls
    with equal ``get_geometry_hash(*args)`` are measured together, each function by ``active`` calls after
    ``first_warmup`` calls, or ``warmup`` calls in later measurements. ``repeat_after_count`` and
    ``repeat_after_seconds`` say when to measure again, 0 for never; the default is after 300 calls."""
    count = repeat_after_count if repeat_after_count is not None else _CALLS if repeat_after_seconds is None else 0

    def decorate(fn: Implementation) -> PerfDispatch:
        seconds = repeat_after_seconds or 0.0
        return PerfDispatch(fn, get_geometry_hash, first_warmup, warmup, max(1, active), count, seconds)

    return decorate
