"""The session: device, options, locks, and what must end with it. `qd.init` makes one, `qd.reset` ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from quadrants_lab.backends import DEFAULT, forks
from quadrants_lab.backends.disk_cache import MOST_BYTES, DiskCache
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.backend import Backend, backend

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Device


@dataclass(frozen=True, slots=True)
class Settings:
    """What `qd.init` settles for a session. ``backend``: the folder in backends/ of the ``arch``. ``device``: which of
    its devices, by number; None for the one that QD_VISIBLE_DEVICE names, or a good one. ``threads``: most threads of a
    launch, 0 for all that the process may use. ``cache_path`` None: nothing is kept on disk; ``cache_bytes``: most
    bytes that stay there. ``ad_stack_budget``: most bytes of adstacks of a launch, 0 for as many as there are.
    ``ad_stack_threshold``: bytes of adstacks beyond which a launch counts the iterations that push. ``ad_unroll``: that
    of `CompileOptions` for all floats, 0 for what is good on the backend. ``options``: what `qd.init` was given, by
    name, and the defaults of the others."""

    arch: str = "x64"
    backend: str = DEFAULT
    device: int | None = None
    compile: CompileOptions = field(default_factory=CompileOptions)
    threads: int = 0
    random_seed: int = 0
    cache_path: Path | None = None
    cache_bytes: int = MOST_BYTES
    ad_stack_budget: int = 0
    ad_stack_threshold: int = 100 << 20
    ad_unroll: int = 0
    log_level: str = "warn"
    options: dict[str, Any] = field(default_factory=dict, hash=False)


_serials = count()


class Session:
    """One live device with its memory. Launches hold ``lock``; ``alive`` turns False once and for all at the end.
    ``quiet``: it is alive, and nobody wants to be told (``touched``) of fields that Python reads or writes.

    ``fast_paths`` are objects whose ``forget()`` drops a launch path that was specialised for how things stood; it is
    called whenever that changes: at the end of the session, and when somebody starts or stops to watch launches.
    ``epoch`` counts the tasks of launches that watched for races, and begins anew with each ``generation`` of marks.
    ``fields``: those that have memory, for `SNode.lazy_grad`. ``differentiable`` are the fields whose gradients
    `qd.ad.clear_all_gradients` clears. ``plans``: those of all kernels. ``placements`` grows when fields that kernels
    may have been compiled for get a gradient, or lose their memory. ``over`` makes the error for using what belonged to
    it when it is over, from a word for that.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = forks.lock()
        self.alive = self.quiet = True
        self.touched: tuple[Callable[[object], None], ...] = ()
        self.serial = next(_serials)
        self.over: Callable[[str], QuadrantsRuntimeError] = ended
        self.fast_paths: WeakSet[Any] = WeakSet()
        self.fields: WeakSet[Any] = WeakSet()
        self.differentiable: WeakSet[Any] = WeakSet()
        self.plans: WeakSet[Any] = WeakSet()
        self.placements = 0
        self.epoch = self.generation = 0
        self.cache = DiskCache(settings.cache_path, settings.cache_bytes)
        self._device: Device | None = None
        _sessions.add(self)

    @contextmanager
    def telling(self, touched: Callable[[object], None]) -> Iterator[None]:
        """Within the with, ``touched`` is called with each field or ndarray that Python reads or writes."""
        with self.lock:  # other threads may ask for the same
            self.touched = (*self.touched, touched)
            self.quiet = False
        try:
            yield
        finally:
            with self.lock:
                self.touched = tuple(t for t in self.touched if t is not touched)
                self.quiet = self.alive and not self.touched

    @property
    def device(self) -> Device:
        """Made when it is first needed, because it loads the code generator or a driver."""
        if self._device is None:
            which = {} if self.settings.device is None else {"number": self.settings.device}
            self._device = self.backend.open_device(self.settings.threads, self.cache, **which)
            self._device.set_seed(self.settings.random_seed)
        return self._device

    def begin(self) -> None:
        """Begins what the device will wait for, where a caller has other work to do meanwhile."""
        begin = getattr(self.backend, "begin", None)
        if begin is not None and self._device is None:
            begin(self.cache)

    @property
    def backend(self) -> Backend:
        return backend(self.settings.backend)

    def finish(self) -> None:
        """Waits until every launch is done."""
        with self.lock:
            if self._device is not None:
                self._device.finish()

    def forget_fast_paths(self) -> None:
        for path in list(self.fast_paths):
            path.forget()
        self.fast_paths.clear()

    def end(self) -> None:
        """Ends it, when every launch is done; raises what launches ended with that nobody waited for."""
        with self.lock:
            self.alive = self.quiet = False
            self.forget_fast_paths()
            device, self._device = self._device, None
            if device is not None:
                device.finish()

    def forked(self) -> None:
        """To be called in the child of a fork: the session of a GPU is over there, because its driver is."""
        if self._device is not None and not self._device.forked():
            self.alive = self.quiet = False
            self.over = forks.forked
            self.forget_fast_paths()
            self._device = None


_sessions: WeakSet[Session] = WeakSet()
_default: Session | None = None
CHECKS: ContextVar[frozenset[str]] = ContextVar("quadrants_lab_checks", default=frozenset())


def compile_options(session: Session) -> CompileOptions:
    """The session's options for what is launched in this context: with those that `CHECKS` names turned on."""
    settings = session.settings
    able = session.backend.CAPABILITIES
    trips = (settings.ad_unroll,) * 2 if settings.ad_unroll else able.ad_unroll
    options = replace(settings.compile, ad_unroll=trips, suspect_races=able.suspects_races)
    turned_on: dict[str, Any] = dict.fromkeys(CHECKS.get(), True)
    return replace(options, **turned_on)


@contextmanager
def checking(*names: str) -> Iterator[None]:
    """Kernels that are launched inside are compiled with these checks too: ``asserts``, ``check_out_of_bound``,
    ``check_races``."""
    token = CHECKS.set(CHECKS.get() | frozenset(names))
    try:
        yield
    finally:
        CHECKS.reset(token)


def start(settings: Settings) -> Session:
    """Ends the default session, if there is one, and starts the next."""
    global _default
    try:
        stop()
    finally:
        _default = Session(settings)
    return _default


def _forked() -> None:
    for session in list(_sessions):
        session.forked()


forks.in_child(_forked)


def swap(other: Session | None) -> Session | None:
    """Makes a session the default one; returns the one that was. Neither ends."""
    global _default
    before = _default
    for one in (before, other):
        if one is not None:
            with one.lock:
                one.forget_fast_paths()
    _default = other
    return before


def stop() -> None:
    """Ends the default session, its fields and compiled kernels."""
    global _default
    over, _default = _default, None
    if over is not None:
        over.end()


def default() -> Session | None:
    """The default session, None where there is none."""
    return _default


def current() -> Session:
    """The default session; an error that says what to do where there is none, or where a fork ended it."""
    if _default is None:
        raise QuadrantsRuntimeError(
            "there is no session",
            code="QL2000",
            help="call qd.init() first, for example qd.init(arch=qd.cpu)",
        )
    if not _default.alive:
        raise _default.over(f"the session on {_default.settings.arch}")
    return _default


def elsewhere(of: Session, what: str) -> QuadrantsRuntimeError:
    """The error for using something that belongs to session ``of`` in another one."""
    if not of.alive:
        return of.over(what)
    return QuadrantsRuntimeError(
        f"{what} belongs to another session, on {of.settings.arch}",
        code="QL2003",
        help="use it within the `with` of its session; to_numpy and from_numpy carry values from one to another",
    )


def ended(what: str) -> QuadrantsRuntimeError:
    """The error for using something that belonged to a session that is over."""
    return QuadrantsRuntimeError(
        f"{what} was made before qd.reset() or a second qd.init(), which ended it",
        code="QL2001",
        help="make it again after qd.init()",
    )
