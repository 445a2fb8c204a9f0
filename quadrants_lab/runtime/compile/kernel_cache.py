"""Caches IR on disk: a kernel that another process has compiled needs neither the front end nor the passes, nor
their imports.

Two entries lead from a kernel to its IR; the machine code of the IR has a third. The key of the first entry consists of
what is known before the kernel is lowered: its text and position, its argument types, the options, and a hash of this
package's sources. This entry lists the names that the front end looked up in Python. The key of the second entry also
has what these names mean now (`frontend.fingerprint`). This entry holds the IR and the warnings, as a pickle of this
package's data classes. Only entries that this user wrote are trusted, as for machine code. A kernel whose fingerprint
is incomplete is compiled in each process.
"""

import io
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import Any

from quadrants_lab.backends import disk_cache
from quadrants_lab.errors import WARNED, Given, warn_at
from quadrants_lab.frontend.fingerprint import Fingerprint
from quadrants_lab.frontend.source import FINGERPRINT, FunctionSource
from quadrants_lab.frontend.specs import Spec
from quadrants_lab.ir.importing import importing
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.temporary import holding
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.compile.bytecode import imported_together
from quadrants_lab.runtime.compile.specialisation import (
    FORWARD,
    WATCHED,
    Clock,
    Compiled,
    Counter,
    SharedStages,
    load_cached,
)
from quadrants_lab.runtime.session import Session, compile_options

# how many lists of names an entry holds: which names are looked up can depend on values, as under qd.static
_MOST_LISTS = 8
_DATA = ("quadrants_lab.ir.", "quadrants_lab.frontend.specs")


def cached_kernel(
    source: FunctionSource, specs: Sequence[Spec], mode: str, session: Session, constant: bool = False,
    second: bool = False, other: Compiled | None = None,
) -> Compiled:  # fmt: skip
    """Compiles a kernel as `compile.compile_kernel` does, or takes the result from the disk cache. ``other``: the same
    kernel compiled in another mode. Then the first stages are not repeated, even if names in the source mean something
    else by now, so that a gradient belongs to its kernel."""
    how = mode, constant, second
    if session.settings.options.get("print_non_pure") and not source.pure and mode == FORWARD:
        print(f"[quadrants_lab] kernel {source.name} is not declared pure: fastcache=True is not given")
    recorded = WATCHED.get() is not None  # a trace can only be recorded if the passes run
    first, fingerprint = "", None if recorded else Fingerprint(source, specs)
    options = compile_options(session)
    shared = other.shared if other is not None else None
    if shared is not None:
        shared = shared if shared.settings == (options, constant, second) else None
    if fingerprint is not None and session.cache.folder is not None and disk_cache.of_ir():
        texts = repr(options), session.settings.backend, repr(how)
        first = disk_cache.key("asked", disk_cache.of_ir(), *texts, *fingerprint.texts)
    if shared is not None and fingerprint is not None:
        same = shared.fingerprint is not None and fingerprint.matches(shared.fingerprint)
        fingerprint = fingerprint if same else None
    if fingerprint is None or not fingerprint.complete:
        first, fingerprint = "", None
    if first and (found := _found(first, source, specs, how, options, session)) is not None:
        return found
    if (first or session.cache.folder is None) and hasattr(session.backend, "will_load"):
        session.backend.will_load()
    if shared is not None and recorded:
        # without ``tasks``, the passes that make them run again, so that the trace shows these too
        shared = replace(shared, tasks=None)
    warned: list[Given] = []
    with imported_together(session.settings.backend), holding(FINGERPRINT, fingerprint), holding(WARNED, warned):
        with importing():
            from quadrants_lab.runtime.compile.compile import compile_kernel

        for given in shared.warned if shared is not None else ():
            warn_at(*given)
        made = compile_kernel(source, specs, mode, session, constant, second, shared)
    if fingerprint is not None and fingerprint.complete:
        made.cached = "stored" if first and _keep(first, fingerprint, made, warned, session) else "asked"
    return made


def _read(name: str, objects: Sequence[Any], session: Session) -> Any:
    """The content of an entry of the disk cache; None if there is none. Numbers in it are replaced by the entries of
    ``objects``."""
    kept = session.cache.get(name)
    with suppress(pickle.UnpicklingError, EOFError, LookupError):
        return _Reader(kept, objects).load() if kept is not None else None


def _second_key(first: str, fingerprint: Fingerprint) -> str:
    return disk_cache.key("answered", first, *fingerprint.texts)


def _found(
    first: str, source: FunctionSource, specs: Sequence[Spec], how: tuple[str, bool, bool], asked: CompileOptions,
    session: Session,
) -> Compiled | None:  # fmt: skip
    start, (mode, constant, second) = perf_counter(), how
    for reads in _read(first, [], session) or ():
        now = Fingerprint(source, specs)
        record = _read(_second_key(first, now), now.objects, session) if now.replay(reads) else None
        if record is not None:
            options, lowered, kernel, key, returns, counting, warned = record
            for given in warned:
                warn_at(*given)
            counter = None
            if counting is not None:
                counting_slice, results, its_key = counting
                executable = load_cached(counting_slice, options, session, its_key)
                counter = Counter(counting_slice, executable, results, its_key)
            executable = load_cached(kernel, options, session, key)
            seconds = perf_counter() - start
            clock = Clock(code=seconds, whole=seconds)
            shared = SharedStages((asked, constant, second), lowered, None, tuple(warned), now.snapshot())
            return Compiled(
                mode, source, tuple(specs), options, lowered, kernel, executable, returns, counter, clock, key=key,
                shared=shared, cached="loaded",
            )  # fmt: skip
    return None


def _keep(first: str, fingerprint: Fingerprint, made: Compiled, warned: list[Given], session: Session) -> bool:
    """Stores both entries; returns whether that was possible."""
    counter = made.counter
    counting = None if counter is None else (counter.kernel, counter.results, counter.key)
    record = made.options, made.taken_back(), made.kernel, made.key, made.returns, counting, warned
    out = io.BytesIO()
    with suppress(_NotDataError, RecursionError):
        _Writer(out, fingerprint).dump(record)
        session.cache.put(_second_key(first, fingerprint), out.getvalue())
        known, reads = _read(first, [], session) or [], tuple(fingerprint.reads)
        if reads not in known[:1]:
            lists = [reads, *(other for other in known if other != reads)][:_MOST_LISTS]
            session.cache.put(first, pickle.dumps(lists))
        return True
    return False


class _NotDataError(Exception):
    """Raised for an object that cannot be pickled here: it is neither data of this package nor numbered by the
    fingerprint."""


def _numbered(number: int) -> Any:
    """Stands, in a pickle, for the object to which the fingerprint gave this number; a `_Reader` replaces the call by
    that object."""
    raise LookupError(number)


class _Writer(pickle.Pickler):
    """A pickler that writes an object as its number in the fingerprint, if it has one."""

    def __init__(self, out: io.BytesIO, fingerprint: Fingerprint) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.fingerprint = fingerprint

    def reducer_override(self, value: Any) -> Any:
        """Python calls this for every object but numbers, texts and containers."""
        number = self.fingerprint.number(value)
        if number is not None:
            return _numbered, (number,)
        if value is not _numbered and not (value if type(value) is type else type(value)).__module__.startswith(_DATA):
            raise _NotDataError
        return NotImplemented


class _Reader(pickle.Unpickler):
    """An unpickler that makes only data of this package, and no other objects."""

    def __init__(self, content: bytes, objects: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(content))
        self.objects = objects

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _numbered.__name__):
            return self.objects.__getitem__
        found = getattr(import_module(module), name) if module.startswith(_DATA) else None
        if isinstance(found, (type, DType)) and getattr(found, "__module__", "").startswith(_DATA):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no data of ours")
