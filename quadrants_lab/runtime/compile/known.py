"""Kernels that another process compiled: neither front end nor passes run for them, nor are they imported.

Two entries of the disk cache lead from a kernel to its IR, whose code has an entry of its own. The first is named by
what is known of the kernel before it is looked at: its text and place, its arguments' types, the options, our sources.
It lists which names the front end asked Python for. The second is named by that and by the answers, see
`frontend.seen`; it holds the IR and the warnings, as a pickle of our data classes alone. Both are believed only with
the seal of a process of this user, as code is. What cannot be told for certain is compiled in each process.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from time import perf_counter
from typing import Any

from quadrants_lab.backends import disk_cache, sources
from quadrants_lab.errors import WARNED, Given, warn_at
from quadrants_lab.frontend.seen import Seen
from quadrants_lab.frontend.source import SEEN, FunctionSource
from quadrants_lab.frontend.specs import Spec
from quadrants_lab.ir.importing import importing
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.compile.compiled import Clock, Compiled, Counter, load_cached
from quadrants_lab.runtime.session import Session, compile_options

_MOST_LISTS = 8  # of names: values decide which ways a kernel's source goes
_DATA = ("quadrants_lab.ir.", "quadrants_lab.frontend.specs")
_PLAIN = (type(None), bool, int, float, str, tuple, list, dict, frozenset)


def compiled_kernel(
    source: FunctionSource, specs: Sequence[Spec], mode: str, session: Session, constant: bool = False,
    second: bool = False, other: Compiled | None = None,
) -> Compiled:  # fmt: skip
    """See `compile.compile_kernel`; from the disk cache where that knows the kernel. ``other``: the kernel in another
    mode, whose beginning is this one's where Python's answers are what they were."""
    how = mode, constant, second
    first, seen = "", None if _recorded() else Seen(source, specs)
    options = compile_options(session)
    if seen is not None and session.cache.folder is not None and sources.of_ir():
        texts = repr(options), session.settings.backend, repr(how)
        first = disk_cache.key("asked", sources.of_ir(), *texts, *seen.texts)
        if seen.sure and (found := _found(first, source, specs, mode, session)) is not None:
            return found
    session.begin()
    with importing():
        from quadrants_lab.runtime.compile.compile import compile_kernel

    if seen is None or not seen.sure:
        return compile_kernel(source, specs, mode, session, constant, second)
    begun = other.begun if other is not None else None
    if begun is not None:
        answers = begun.answers if begun.of == (options, constant, second) else None
        if answers is None or not seen.repeats(answers):
            begun, seen = None, Seen(source, specs)
    warned: list[Given] = []
    tokens = SEEN.set(seen), WARNED.set(warned)
    try:
        for given in begun.warned if begun is not None else ():
            warn_at(*given)
        made = compile_kernel(source, specs, mode, session, constant, second, begun)
    finally:
        SEEN.reset(tokens[0])
        WARNED.reset(tokens[1])
    if first and seen.sure:
        _keep(first, seen, made, warned, session)
    return made


def _recorded() -> bool:
    """Whether somebody wants to see the passes at work."""
    pipeline = sys.modules.get("quadrants_lab.passes.pipeline")
    recorder = getattr(pipeline, "RECORDER", None)  # another thread may be in the midst of importing the module
    return recorder is not None and recorder.get() is not None


def _lists(first: str, session: Session) -> list[tuple[tuple[int, str], ...]]:
    return _read(first, [], session) or []


def _read(name: str, objects: Sequence[Any], session: Session) -> Any:
    """What was kept, with objects for their numbers; None where nothing was."""
    kept = session.cache.get(name)
    with suppress(pickle.UnpicklingError, EOFError, LookupError):
        return _Reader(kept, objects).load() if kept is not None else None


def _found(
    first: str, source: FunctionSource, specs: Sequence[Spec], mode: str, session: Session
) -> Compiled | None:
    start = perf_counter()
    for asked in _lists(first, session):
        seen = Seen(source, specs)
        record = _read(_second(first, seen), seen.objects, session) if seen.again(asked) else None
        if record is not None:
            options, lowered, kernel, key, returns, counting, warned = record
            for given in warned:
                warn_at(*given)
            counter = None
            if counting is not None:
                slice_, results, of_slice = counting
                counter = Counter(slice_, load_cached(slice_, options, session, of_slice), results, of_slice)
            executable = load_cached(kernel, options, session, key)
            seconds = perf_counter() - start
            clock = Clock(code=seconds, whole=seconds)
            return Compiled(
                mode, source, tuple(specs), options, lowered, kernel, executable, returns, counter, clock, key=key
            )
    return None


def _second(first: str, seen: Seen) -> str:
    return disk_cache.key("answered", first, *seen.texts)


def _keep(first: str, seen: Seen, made: Compiled, warned: list[Given], session: Session) -> None:
    counter = made.counter
    counting = None if counter is None else (counter.kernel, counter.results, counter.key)
    record = made.options, made.lowered, made.kernel, made.key, made.returns, counting, warned
    out = io.BytesIO()
    with suppress(_ForeignError, RecursionError):
        _Writer(out, seen).dump(record)
        session.cache.put(_second(first, seen), out.getvalue())
        known, asked = _lists(first, session), tuple(seen.asked)
        if asked not in known[:1]:
            lists = [asked, *(other for other in known if other != asked)][:_MOST_LISTS]
            session.cache.put(first, pickle.dumps(lists))


class _ForeignError(Exception):
    """There is an object in a record that is no data of ours."""


class _Writer(pickle.Pickler):
    """Objects that have a number in `Seen` are written as that."""

    def __init__(self, out: io.BytesIO, seen: Seen) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.seen = seen

    def persistent_id(self, value: Any) -> int | None:
        kind = type(value)
        if kind in _PLAIN:
            return None
        number = self.seen.number(value)
        if number is None and not (value if kind is type else kind).__module__.startswith(_DATA):
            raise _ForeignError
        return number


class _Reader(pickle.Unpickler):
    """Makes nothing but our data."""

    def __init__(self, content: bytes, objects: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(content))
        self.objects = objects

    def persistent_load(self, number: int) -> Any:
        return self.objects[number]

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(import_module(module), name) if module.startswith(_DATA) else None
        if isinstance(found, (type, DType)) and getattr(found, "__module__", "").startswith(_DATA):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no data of ours")
