"""Implements `map_gradients`, which computes losses and gradients of a program for many shards, in this process or
on Dask's workers."""

import hashlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from itertools import count, islice
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

import numpy as np

from quadrants_lab.distributed import worker
from quadrants_lab.distributed.cluster import dask_client
from quadrants_lab.distributed.sending import packed
from quadrants_lab.distributed.shards import (
    UNNAMED,
    Array,
    Part,
    ShardError,
    failed,
    joined,
    named,
    run_group,
    total,
)
from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsWarning
from quadrants_lab.lang.config import init as init_session
from quadrants_lab.runtime import session
from quadrants_lab.runtime.session import Settings

# The type of the argument ``progress``: it is called with the number and the loss of each shard that has ended. If it
# has a method `begin`, this is called first, with a function that stops the shards; that function may be called in
# another thread.
Progress = Callable[[int, float], object]
# Number of gradients that one task adds up. Workers add up the sums of a span, which is ARITY**2 tasks; the client
# adds up spans.
ARITY = 16
MOST_CODE = 8  # the most programs of a client whose compiled code is kept on the cluster


class Gradients(NamedTuple):
    """The result of `map_gradients`. ``losses``: an array of f64 of shape (shards,). ``gradients``: a list with the
    gradient of each shard, or the sum of all gradients. A gradient is a dict of arrays by name if the parameters are a
    dict, else an array."""

    losses: Array
    gradients: Any


def map_gradients(
    fn: Callable[[Any, Any], Any],
    params: Any,
    shards: Iterable[Any],
    client: Any = None,
    *,
    summed: bool = False,
    together: int = 1,
    init: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Gradients:
    """Computes the loss ``fn(params, shard)`` of each shard, and the gradient with respect to ``params`` of each shard,
    or the sum of these gradients.

    ``params``: a float array, or a dict of float arrays by name. ``fn`` gets them as fields with a gradient, launches
    its kernels under a `Tape`, and returns the loss; or it returns the loss and the gradients, as arrays or fields with
    the names and shapes of the parameters. It makes its own fields with `kept`. ``shards``: anything that can be
    pickled, best numpy arrays; an iterator is read as shards are needed.

    ``client``: a Dask client. None: Dask's current one, else one of a cluster on this machine with a worker per core.
    False: run in this process and its session. ``init``: arguments of `qd.init` for the workers' sessions; without it
    they have the settings of this process's session, and by default as many threads as Dask gives a worker.

    ``summed``: add up the gradients, on the workers, in an order that only depends on the number of shards.
    ``together``: number of shards per task, a power of two; for shards that take a few milliseconds. ``progress`` is
    called with the number and the loss of each shard as it ends; if it has a method ``begin``, that is called first
    with a function that stops the shards.

    A shard whose worker dies runs again on another, up to Dask's ``distributed.scheduler.allowed-failures`` times. If a
    shard fails, no more shards are begun and `ShardError` is raised. Ctrl-C also lets no more shards begin; running
    ones end by themselves.
    """
    if together < 1 or together & (together - 1):
        raise QuadrantsRuntimeError(f"together must be a power of two, not {together}", code="QL2207")
    arrays = named(params)
    groups = _groups(iter(shards), together)
    if client is False:
        found = _here(fn, arrays, groups, summed, init, progress)
    else:
        run = _Run(dask_client(client), fn, arrays, summed, init, progress)
        if (begin := getattr(progress, "begin", None)) is not None:
            begin(run.stop)
        found = run.result(groups)
    for message in found.warned:
        warnings.warn(message, QuadrantsWarning, stacklevel=2)
    if summed:
        found.gradients = found.gradients or [{name: np.zeros_like(array) for name, array in arrays.items()}]
    gradients = [g[UNNAMED] if UNNAMED in arrays else g for g in found.gradients]
    return Gradients(np.array(found.losses, np.float64), gradients[0] if summed else gradients)


Group = tuple[int, list[Any]]  # number of the first shard, shards


def _groups(shards: Iterator[Any], together: int) -> Iterator[Group]:
    for first in count(0, together):
        if not (group := list(islice(shards, together))):
            return
        yield first, group


def _here(
    fn: Callable[..., Any], arrays: dict[str, Array], groups: Iterator[Group], summed: bool,
    init: Mapping[str, Any] | None, progress: Progress | None,
) -> Part:  # fmt: skip
    if session.default() is None:
        init_session(**(init or {}))
    elif init is not None:
        raise QuadrantsRuntimeError(
            "map_gradients with client=False runs in the current session and takes no init",
            code="QL2208",
            help="leave out init, or call qd.reset() first",
        )
    collected = _Collected(summed)
    for first, group in groups:
        part = run_group(fn, arrays, first, group, summed)
        for n, loss in enumerate(part.losses, first):
            if progress is not None:
                progress(n, loss)
        collected.add(part)
    return collected.result()


class _Collected:
    """Collects the results of shards (parts), which arrive in order. If gradients are summed, two neighbouring parts of
    equal length are added as soon as both have arrived. So few parts are held in memory, and additions happen in the
    order that `total` defines."""

    def __init__(self, summed: bool) -> None:
        self.summed = summed
        self.parts: list[Part] = []

    def add(self, part: Part) -> None:
        parts = self.parts
        parts.append(part)
        while self.summed and len(parts) > 1 and len(parts[-2].losses) == len(parts[-1].losses):
            parts[-2:] = [total(parts[-2:])]

    def result(self) -> Part:
        while self.summed and len(self.parts) > 1:
            self.parts[-2:] = [total(self.parts[-2:])]
        return joined(self.parts) if self.parts else Part(0, [], [])


def job_of(
    fn: Callable[..., Any], arrays: dict[str, Array], summed: bool = False, init: Mapping[str, Any] | None = None
) -> worker.Job:
    """The data that a call sends to the workers."""
    now = session.default()
    setup = init if init is not None else worker.portable(now.settings if now is not None else Settings())
    program = packed(fn, getattr(fn, "__name__", repr(fn)))
    digest = hashlib.sha256(program + repr(setup).encode()).hexdigest()
    return worker.Job(uuid4().hex[:12], program, digest, setup, arrays, summed)


class _Run:
    """One call of `map_gradients` on Dask.

    While the workers have too little to do, it submits `ARITY` tasks at a time. When the result of a task, or the sum
    of the results of a span of shards, has arrived, Dask forgets the tasks that led to it. So the memory, apart from
    that of the final result, is bounded for any number of shards.
    """

    stopped = False

    def __init__(
        self, client: Any, fn: Callable[..., Any], arrays: dict[str, Array], summed: bool,
        init: Mapping[str, Any] | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.client, self.summed, self.progress = client, summed, progress
        self.job = job_of(fn, arrays, summed, init)
        self.number = self.job.number
        # key of a future -> the future, the consumer of its value, and the futures that it adds up
        self.awaited: dict[str, tuple[Any, Callable[[Part], None] | None, list[Any]]] = {}
        self.open = 0  # unfinished tasks with shards
        self.parts: dict[int, Part] = {}  # number of the first shard -> its part
        self.ready: Any = None
        self.enough = 4 * max(ARITY, sum(client.nthreads().values()))  # open tasks that keep the workers busy

    def stop(self) -> None:
        """Lets no more shards begin; running ones end by themselves. May be called in another thread."""
        self.stopped = True
        self._cancel()

    def _cancel(self) -> None:
        self.client.cancel([future for future, *_ in [*self.awaited.values()]], force=True)

    def result(self, groups: Iterator[Group]) -> Part:
        from dask import config
        from distributed import as_completed

        self.ready = as_completed(loop=self.client.loop)
        try:
            with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
                return self._result(groups)
        except BaseException as error:
            self._cancel()
            if self.stopped and isinstance(error, CancelledError):  # cancelled while results were being fetched
                raise self._was_stopped() from None
            raise

    def _was_stopped(self) -> ShardError:
        return ShardError("the shards were stopped", code="QL2211")

    def _result(self, groups: Iterator[Group]) -> Part:
        job = self._submit("job", _same, self.job)
        code, leaves = self._compiled(job, groups)
        nodes: list[Any] = []
        collected, reached = _Collected(self.summed), 0
        more = True
        while more or self.awaited:
            while more and self.open < self.enough:
                chunk = list(islice(groups, ARITY - len(leaves)))
                more = len(leaves) + len(chunk) == ARITY
                leaves += self._leaves(job, code, chunk)
                if self.summed and leaves:
                    nodes.append(self._submit(f"node-{uuid4().hex}", total, leaves))
                if nodes and (len(nodes) == ARITY or not more):
                    self._await(self._submit(f"span-{uuid4().hex}", total, nodes), self._take, nodes)
                    nodes = []
                leaves = []
            self._settle()
            while reached in self.parts:
                collected.add(part := self.parts.pop(reached))
                reached += len(part.losses)
        return collected.result()

    # --- tasks --------------------------------------------------------------------------------------------------

    def _submit(self, name: str, act: Callable[..., Any], *args: Any) -> Any:
        return self.client.submit(act, *args, key=f"{name}-{self.number}", pure=False, priority=1)

    def _compiled(self, job: Any, groups: Iterator[Group]) -> tuple[Any, list[Any]]:
        """The code that the first task of this program compiled, for the other tasks; and the first task, if this call
        starts it."""
        codes: OrderedDict[str, Any] = vars(self.client).setdefault("_quadrants_lab_code", OrderedDict())
        digest = self.job.digest
        if digest in codes and codes[digest].status in ("pending", "finished"):
            codes.move_to_end(digest)
            return codes[digest], []
        group = next(groups, None)
        if group is None:
            return None, []
        both = self._submit(f"shard-{group[0]}-first", worker.run_first, job, group)
        codes[digest] = self._submit("code", itemgetter(1), both)
        if len(codes) > MOST_CODE:
            codes.popitem(last=False)
        return codes[digest], [self._watched(self._submit(f"shard-{group[0]}", itemgetter(0), both))]

    def _leaves(self, job: Any, code: Any, groups: list[Group]) -> list[Any]:
        keys = [f"shard-{first}-{self.number}" for first, _ in groups]
        made = self.client.map(worker.run, [job] * len(groups), [code] * len(groups), groups, key=keys, pure=False)
        return [self._watched(future) for future in made]

    def _watched(self, leaf: Any) -> Any:
        """Arranges that the end of the task is counted and its losses are reported. Returns the same future."""
        self.open += 1
        if not self.summed:
            self._await(leaf, self._done)
        elif self.progress is not None:
            self._await(self._submit(f"losses-{leaf.key}", worker.losses, leaf), self._done)
        else:
            self._await(leaf, None)
        return leaf

    # --- their results ------------------------------------------------------------------------------------------

    def _await(self, future: Any, take: Callable[[Part], None] | None, summands: list[Any] | None = None) -> None:
        """Waits for a future; ``take`` then gets its value. The futures ``summands`` are held until then, because
        Dask's scheduler drops a client that cancels a task whose dependents nobody wants (an assertion in
        `Scheduler.stimulus_cancel`)."""
        self.awaited[future.key] = future, take, summands or []
        self.ready.add(future)

    def _settle(self) -> None:
        """Waits for futures, and passes their values to the consumers."""
        if not self.awaited:
            return
        batch = []
        for future in self.ready.next_batch():
            if self.stopped:
                raise self._was_stopped()
            status = future.status  # read once: a thread of Dask changes it when a worker is lost
            if status in ("pending", "lost"):  # its worker was lost, and Dask computes it again
                self.ready.add(future)
            elif status == "finished":
                batch.append(future)
            else:
                raise_error(future)
        wanted = [future for future in batch if self.awaited[future.key][1] is not None]
        values = self.client.gather(wanted)
        takers = [self.awaited[future.key][1] for future in wanted]
        for future in batch:
            self.open -= self.awaited.pop(future.key)[1] != self._take
        for take, part in zip(takers, values, strict=True):
            if take is not None:
                take(part)

    def _done(self, part: Part) -> None:
        """Reports the losses of a task with shards."""
        for n, loss in enumerate(part.losses, part.first):
            if self.progress is not None:
                self.progress(n, loss)
        if not self.summed:
            self._take(part)

    def _take(self, part: Part) -> None:
        self.parts[part.first] = part


def _same(thing: Any) -> Any:
    return thing


def raise_error(future: Any) -> NoReturn:
    """Raises the error of a Dask task as an error that names the shard."""
    error = future.exception()
    if isinstance(error, ShardError):
        raise error from error.error
    key = str(getattr(error, "task", future.key))
    shard = int(key.split("-")[1]) if key.startswith("shard-") else -1
    if type(error).__name__ == "KilledWorker":
        made = ShardError(
            f"shard {shard} ended {error.allowed_failures + 1} workers one after the other: they were killed, or had "
            "not enough memory",
            code="QL2209",
            help="smaller shards, or more memory for each worker (memory_limit of local_client)",
        )
    elif isinstance(error, CancelledError):
        made = ShardError(f"{key} was cancelled: the cluster was closed, restarted or lost it", code="QL2210")
    else:
        made = failed(shard, error)
    made.shard, made.error = shard, error
    raise made from error
