"""Manages sessions. A session has a device, options, a lock, and the objects that end with it. `qd.init` starts
one, `qd.reset` ends it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from quadrants_lab.backends import DEFAULT, forks
from quadrants_lab.backends.disk_cache import MOST_BYTES, DiskCache
from quadrants_lab.errors import QuadrantsRuntimeError, ended
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.temporary import holding
from quadrants_lab.runtime.backend import Backend, backend

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Device


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a session, from `qd.init`. ``backend``: the folder in backends/ for the ``arch``. ``device``: the
    index of one of its devices; None for the device that QD_VISIBLE_DEVICE names, or the backend's choice. ``threads``:
    the most threads of a launch, 0 for all that the process may use. ``cache_path``: the folder of the disk cache, None
    if nothing is stored on disk; ``cache_bytes``: its greatest size. ``ad_stack_budget``: the most bytes of adstacks of
    a launch, 0 for no limit. ``ad_stack_threshold``: if adstacks take more bytes, a launch runs the iterations that
    push separately. ``ad_unroll``: `CompileOptions.ad_unroll` for all floats, 0 for the backend's default. ``options``:
    name -> value of all options of `qd.init`, with defaults filled in."""

    arch: str = "x64"
    backend: str = DEFAULT
    device: int | None = None
    compile: CompileOptions = field(default_factory=CompileOptions)
    threads: int = 0
    random_seed: int = 0
    cache_path: str | None = None
    cache_bytes: int = MOST_BYTES
    ad_stack_budget: int = 0
    ad_stack_threshold: int = 100 << 20
    ad_unroll: int = 0
    log_level: str = "warn"
    options: dict[str, Any] = field(default_factory=dict, hash=False)


_serials = count()
_exchanging, _opening, _adding = forks.lock(), forks.lock(), forks.lock()


class Members(WeakSet[Any]):
    """A weak set that one thread may iterate over while another adds to it. ``known``: a cache of facts about its
    members; it is emptied when a member is added or ends."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Any, Any] = {}
        mine, remove = ref(self), self._remove  # type: ignore[has-type]  # which a weak set sets

        def removed(item: Any) -> None:
            members = mine()
            if members is not None:
                members.known = {}
            remove(item)

        self._remove = removed

    def add(self, item: Any) -> None:
        with _adding:
            super().add(item)
            self.known = {}

    def __iter__(self) -> Iterator[Any]:
        with _adding:
            found = list(super().__iter__())
        return iter(found)


class Session:
    """One open device with its memory. Launches hold ``lock``; ``alive`` becomes False for good when the session ends.
    ``field_observers`` are called with each field that Python reads or writes; ``tapes``: how many Tapes and FwdModes
    watch the numbers that Python reads; ``unobserved``: there are neither field observers nor tapes, and the session is
    alive. ``exported``: other libraries have received memory of fields or ndarrays, which may come back as arguments.

    ``fast_paths``: objects with a specialised launch path. Their ``take_path()`` removes and returns the path, also
    when the session ends. When launches are observed or another session becomes the default one, the paths are
    suspended; the next call that nobody watches installs its path again. ``awake``: some path is not suspended.
    ``epoch`` counts the tasks of launches that watch for races, and starts again with each ``generation`` of their
    marks. ``finds_lost``: the session looks for gradients that are lost, see `qd.init`. ``fields``: the fields that
    have memory, for `SNode.lazy_grad`; ``differentiable``: the fields whose gradients `qd.ad.clear_all_gradients`
    clears; ``plans``: the plans of all kernels; ``holders``: other objects that keep the device or its memory alive.
    The method ``session_ended`` of plans and holders lets go of it. ``placements`` grows when fields that kernels may
    have been compiled for get a gradient, or lose their memory. ``unreachable``: how many bytes of ended fields wait,
    at most, for Python to free them. ``before_end``: functions to call before the session ends. ``ended_error`` makes
    the error for using an object, described in words, of a session that has ended.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = forks.lock()
        self.alive = self.unobserved = True
        self.exported, self.finds_lost = False, settings.options.get("check") == "gradients"
        self.field_observers: list[Callable[[object], None]] = []
        self.serial = next(_serials)
        self.ended_error: Callable[[str], QuadrantsRuntimeError] = ended
        self.fast_paths, self.awake = Members(), False
        # the fast paths that each active `other_fast_paths` has removed
        self.set_aside: list[list[tuple[Any, Any]]] = []
        self.fields, self.differentiable, self.plans, self.holders = Members(), Members(), Members(), Members()
        self.placements = self.tapes = self.unreachable = 0
        self.before_end: list[Callable[[], None]] = []
        self.epoch = self.generation = 0
        self.cache = DiskCache(settings.cache_path, settings.cache_bytes)
        self._device: Device | None = None
        _sessions.add(self)

    @contextmanager
    def observing_fields(self, observer: Callable[[object], None]) -> Iterator[None]:
        """Makes a ``with`` in which ``observer`` is called with each field or ndarray that Python reads or writes.
        """
        try:
            with self.lock:  # other threads may do the same
                self.field_observers.append(observer)
                self.unobserved = False
            yield
        finally:
            with self.lock:
                self.field_observers.remove(observer)
                self.unobserved = self.alive and not self.field_observers and not self.tapes

    def must_live(self) -> None:
        """Raises an error if the session has ended. Hold the lock, without which the session could end at any time."""
        if not self.alive:
            raise self.ended_error(f"the session on {self.settings.arch}")

    @property
    def device(self) -> Device:
        """The device. It is opened at first use, because that loads the code generator or a driver. Hold the lock while
        you use it."""
        device = self._device
        if device is not None:
            return device
        with self.lock, _opening:  # drivers are opened one after the other
            self.must_live()
            if self._device is None:
                try:
                    device = self._opened()
                except Exception:
                    # a driver may refuse another device until Python has freed the devices of ended sessions
                    gc.collect()
                    device = self._opened()
                device.set_seed(self.settings.random_seed)
                self._device = device
            return self._device

    def _opened(self) -> Device:
        which = {} if self.settings.device is None else {"number": self.settings.device}
        return self.backend.open_device(self.settings.threads, self.cache, **which)

    @property
    def backend(self) -> Backend:
        return backend(self.settings.backend)

    def finish(self) -> None:
        """Waits until every launch is done."""
        with self.lock:
            if self._device is not None:
                self._device.finish()

    def forget_fast_paths(self) -> None:
        with self.lock:
            for paths in self.set_aside:
                paths.clear()
            self._take_fast_paths()

    def _take_fast_paths(self) -> list[tuple[Any, Any]]:
        """Removes all fast paths and returns them, each with its `Specialised`, whose `use_path` sets it again."""
        found = [(one, one.take_path()) for one in self.fast_paths]
        self.fast_paths.clear()
        return found

    def recompile(self) -> None:
        """Makes kernels look for their plans again, because fields got gradients or lost their memory, or options
        changed."""
        self.placements += 1
        changed()
        self.differentiable.known = {}
        self.forget_fast_paths()

    def suspend_fast_paths(self) -> None:
        with self.lock:
            self.awake = False
            for one in self.fast_paths:
                one.suspend()

    @contextmanager
    def other_fast_paths(self) -> Iterator[None]:
        """Makes a ``with`` that has fast paths of its own; those from before are set again afterwards."""
        before: list[tuple[Any, Any]] = []
        try:
            with self.lock:
                self.set_aside.append(before)
                before += self._take_fast_paths()
            yield
        finally:
            with self.lock:
                # `remove` may find an equal list instead, which does no harm; a comprehension could be interrupted by a
                # signal
                self.set_aside.remove(before)
                self._take_fast_paths()
                for one, path in before:
                    one.use_path(path)

    def end(self) -> None:
        """Waits for all launches and ends the session; raises errors of launches that nobody has waited for."""
        with self.lock:
            for run in self.before_end:
                run()
            self.alive = self.unobserved = False
            self.forget_fast_paths()
            device, self._device = self._device, None
            try:
                if device is not None:
                    device.finish()
            finally:
                self._tell(device)

    def _tell(self, device: Device | None) -> None:
        """Tells all objects that have to know of it that the session has ended. From then on nobody launches on its
        device."""
        for one in [*self.plans, *self.holders, *([] if device is None else [device])]:
            one.session_ended()

    def forked(self) -> None:
        """Call this in the child of a fork: there the session of a GPU ends, because its driver does not work."""
        if self._device is not None and not self._device.forked():
            self.alive = self.unobserved = False
            self.ended_error = forks.forked
            self.forget_fast_paths()
            device, self._device = self._device, None
            self._tell(device)


_sessions: WeakSet[Session] = WeakSet()
_default: Session | None = None
changes = 0  # counts changes of the default session, launch modes, checks, and placements
_changes = count(1)
CHECKS: ContextVar[frozenset[str]] = ContextVar("quadrants_lab_checks", default=frozenset())


def all_sessions() -> list[Session]:
    """The sessions that have not ended."""
    return [s for s in _sessions if s.alive]


def compile_options(session: Session) -> CompileOptions:
    """The session's compile options in this context: the options that `CHECKS` names are turned on."""
    settings = session.settings
    able = session.backend.CAPABILITIES
    trips = (settings.ad_unroll,) * 2 if settings.ad_unroll else able.ad_unroll
    turned_on: dict[str, Any] = dict.fromkeys(CHECKS.get(), True)
    if able.checks_bounds:
        turned_on["check_out_of_bound"] = True
    return replace(settings.compile, ad_unroll=trips, suspect_races=able.suspects_races, **turned_on)


@contextmanager
def checking(*names: str) -> Iterator[None]:
    """Makes a ``with`` in which kernels are compiled with these checks, too: ``asserts``, ``check_out_of_bound``,
    ``check_races``."""
    try:
        with holding(CHECKS, CHECKS.get() | frozenset(names)):
            changed()
            yield
    finally:
        changed()


def changed() -> None:
    """Records that a call may now need another launch than before."""
    global changes
    changes = next(_changes)


def _exchange(other: Session | None) -> Session | None:
    """Makes ``other`` the default session; returns the previous one."""
    global _default
    with _exchanging:
        before, _default = _default, other
        changed()
        return before


def start(settings: Settings) -> Session:
    """Ends the default session, if there is one, and starts another."""
    try:
        stop()
    finally:
        made = Session(settings)
        beside = _exchange(made)
    if beside is not None:  # another thread has started a session meanwhile
        beside.end()
    return made


def _forked() -> None:
    for session in list(_sessions):
        session.forked()


forks.in_child(_forked)


def swap(other: Session | None) -> Session | None:
    """Makes ``other`` the default session, without ending either; returns the previous default."""
    before = _exchange(other)
    if before is not None and before.awake:
        before.suspend_fast_paths()
    return before


@contextmanager
def as_default(other: Session) -> Iterator[None]:
    """Makes a ``with`` in which ``other`` is the default session. A session that is started within it is ended
    afterwards."""
    before = _default
    try:
        before = swap(other)
        yield
    finally:
        try:
            if _default not in (other, before):
                stop()
        finally:
            swap(before)


def stop() -> None:
    """Ends the default session, its fields and compiled kernels. It stays the default until this is done, so that
    launches of other threads fail in the meantime with an error that names its end."""
    global _default
    before = _default
    try:
        if before is not None:
            before.end()
    finally:
        with _exchanging:
            if _default is before:
                _default = None
                changed()


def all_plans() -> list[Any]:
    """The plans of all sessions, as far as they are not freed yet."""
    return [plan for session in list(_sessions) for plan in list(session.plans)]


def default() -> Session | None:
    """The default session, or None."""
    return _default


def current() -> Session:
    """The default session; raises an error if there is none, or if a fork ended it."""
    now = _default  # another thread may end it
    if now is None:
        raise QuadrantsRuntimeError(
            "there is no session",
            code="QL2000",
            help="call qd.init() first, for example qd.init(arch=qd.cpu)",
        )
    if not now.alive:
        now.must_live()
    return now


def wrong_session(of: Session, what: str) -> QuadrantsRuntimeError:
    """The error for using an object of the session ``of``, described by ``what``, in another session."""
    if not of.alive:
        return of.ended_error(what)
    return QuadrantsRuntimeError(
        f"{what} belongs to another session, on {of.settings.arch}",
        code="QL2003",
        help="use it within the `with` of its session; to_numpy and from_numpy carry values from one to another",
    )
