"""Runs `map_gradients`' tasks on a worker. A worker keeps a session, the programs that it received, and code that
another worker compiled."""

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends.disk_cache import DiskCache, default_path
from quadrants_lab.distributed.sending import unpacked
from quadrants_lab.distributed.shards import Array, Part, failed, run_group
from quadrants_lab.lang.config import init
from quadrants_lab.runtime import session
from quadrants_lab.runtime.session import Session, Settings

MOST_PROGRAMS = 16  # a worker keeps the latest programs
Setup = Settings | Mapping[str, Any]
Code = dict[str, bytes]  # entries of the disk cache: name -> content

_lock = forks.lock()  # one shard at a time, because shards share the session and its fields
_programs: OrderedDict[str, Callable[..., Any]] = OrderedDict()
_setup: list[object] = []  # the `Setup` of the session
_tried: set[tuple[str, int]] = set()  # (number of the call, first shard) of tasks that ran out of memory


@dataclass(frozen=True)
class Job:
    """The data that all shards of a call share. ``number``: an id of the call. ``program``: the pickled function,
    ``digest``: its hash. ``setup``: the settings of the worker's session."""

    number: str
    program: bytes
    digest: str
    setup: Setup
    params: dict[str, Array]
    summed: bool


class HandedOn(DiskCache):
    """A disk cache that remembers which entries were used, to hand them to the cache of another machine."""

    def __init__(self, of: DiskCache) -> None:
        super().__init__(of.folder, of.max_bytes, of.below)
        self.used: Code = {}

    def get(self, name: str) -> bytes | None:
        found = super().get(name)
        if found is not None:
            self.used[name] = found
        return found

    def put(self, name: str, content: bytes) -> None:
        self.used[name] = content
        super().put(name, content)

    def take(self, code: Code) -> None:
        """Puts code that another worker compiled into the disk cache. The worker trusts this code as it trusts the
        program, which has the same sender."""
        for name in code.keys() - self.used.keys():
            if self.get(name) is None:
                self.put(name, code[name])


def run(job: Job, code: Code | None, group: tuple[int, Sequence[Any]]) -> Part:
    """A task of Dask: runs the shards ``group[1]``, of which the first has the number ``group[0]``."""
    first, shards = group
    with entered(job, code) as fn, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            part = run_group(fn, job.params, first, [_aligned(shard) for shard in shards], job.summed)
        except MemoryError as error:
            _elsewhere(job, first, error)
    return replace(part, warned=tuple(dict.fromkeys(str(w.message) for w in caught)))


def _aligned(shard: Any) -> Any:
    """Returns the shard with copies of its unaligned arrays: arrays from the network may be unaligned, and kernels
    cannot take those."""
    if isinstance(shard, np.ndarray) and not shard.flags.aligned:
        return shard.copy()
    if type(shard) in (list, tuple):
        return type(shard)(map(_aligned, shard))
    return {name: _aligned(value) for name, value in shard.items()} if type(shard) is dict else shard


@contextmanager
def entered(job: Job, code: Code | None = None) -> Iterator[Callable[..., Any]]:
    """Makes a context in which the worker's session is the current one; one thread at a time is inside. Its value
    is the job's function."""
    with _lock:
        cache = _enter(job.setup).cache
        if code and isinstance(cache, HandedOn):
            cache.take(code)
        yield _program(job)


def run_first(job: Job, group: tuple[int, Sequence[Any]]) -> tuple[Part, Code]:
    """Like `run`, but also returns the entries of the disk cache that the shards used."""
    part = run(job, None, group)
    cache = session.current().cache
    return part, dict(cache.used) if isinstance(cache, HandedOn) else {}


def losses(part: Part) -> Part:
    """A copy of ``part`` (the result of a task) without its gradients, which are large."""
    return replace(part, gradients=[])


def _enter(setup: Setup) -> Session:
    """Makes the worker's session the current one; starts a new session if the setup has changed."""
    now = session.default()
    if now is not None and now.alive and _setup == [setup]:
        return now
    if isinstance(setup, Settings):
        folder = default_path(setup.cache_path) if setup.cache_path else None
        made = session.start(replace(setup, threads=setup.threads or _threads(), cache_path=folder))
    else:
        init(**{"cpu_max_num_threads": _threads(), **setup})
        made = session.current()
    made.cache = HandedOn(made.cache)
    _setup[:] = [setup]
    return made


def portable(settings: Settings) -> Settings:
    """Changes the settings for another machine, whose home folder may have another path."""
    path = settings.cache_path
    home = os.path.expanduser("~")
    if path is not None and os.path.join(path, "").startswith(os.path.join(home, "")):
        return replace(settings, cache_path=os.path.join("~", os.path.relpath(path, home)))
    return settings


def _threads() -> int:
    """The number of threads that Dask gives the worker."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)


def _program(job: Job) -> Callable[..., Any]:
    if job.digest not in _programs:
        _programs[job.digest] = unpacked(job.program)
        while len(_programs) > MOST_PROGRAMS:
            _programs.popitem(last=False)
    _programs.move_to_end(job.digest)
    return _programs[job.digest]


def _elsewhere(job: Job, first: int, error: MemoryError) -> None:
    """Frees all fields of the session and lets Dask run the task again; raises the error if the task was repeated
    before."""
    from distributed import Reschedule

    session.stop()
    if (job.number, first) in _tried:
        raise failed(first, error) from error
    _tried.add((job.number, first))
    raise Reschedule
