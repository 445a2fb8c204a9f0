"""The cluster of this machine: a worker a core or a GPU, started when it is first needed, ended with the process."""

from __future__ import annotations

import atexit
import os
import signal
from contextlib import ExitStack
from functools import cache
from itertools import takewhile
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError

_PREFIX = "quadrants-lab-dask-"
_QUIET = {  # what Dask's servers do all the time to be watched takes a core that the workers want
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.profile.enabled": False,
}
_local: list[tuple[int, Any]] = []  # the process that made it, and its client
_lock = forks.lock()


def dask_client(given: Any) -> Any:
    """The client that was given; else Dask's current one, else that of this machine's own cluster."""
    distributed = _distributed()
    if given is not None:
        return given
    try:
        return distributed.default_client()
    except ValueError:
        pass
    with _lock:
        if not _local or _local[0][0] != os.getpid() or _local[0][1].status != "running":
            _local[:] = [(os.getpid(), local_client(as_default=False))]
        return _local[0][1]


def local_client(workers: int = 0, gpus: bool = False, *, as_default: bool = True, **options: Any) -> Any:
    """A Dask client of a new cluster on this machine, of so many processes; by default one a core, with one thread, or
    with ``gpus`` one a GPU, which sees that GPU alone. More workers than GPUs share them in turn.

    The cluster ends with ``client.cluster.close()``, and with this process. Its files lie in a temporary folder that
    goes with this process. ``options``: of Dask's worker, for instance ``memory_limit``. Ctrl-C does not reach the
    workers.
    """
    distributed = _distributed()
    from dask import config

    ids = visible_gpus() if gpus else []
    if gpus and not ids:
        raise QuadrantsRuntimeError("local_client: there is no GPU of NVIDIA's here", code="QL2205")
    workers = workers or len(ids) or _processors()
    folder = _folder()
    shared = {"nthreads": 1, "local_directory": folder, "dashboard": False, "silence_logs": 50, **options}
    spec = {
        n: {"cls": distributed.Nanny,
            "options": {**shared, "env": {"CUDA_VISIBLE_DEVICES": ids[n % len(ids)]} if ids else {}}}
        for n in range(workers)
    }  # fmt: skip
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}}
    with ExitStack() as made:  # what there is of a cluster goes where the rest fails
        made.callback(rmtree, folder, ignore_errors=True)
        with config.set({"temporary-directory": folder, **_QUIET}):
            cluster = distributed.SpecCluster(workers=spec, scheduler=scheduler, silence_logs=40, name=None)
        made.callback(cluster.close)
        client = distributed.Client(cluster, set_as_default=as_default)
        made.callback(client.close)
        client.register_plugin(_plugin()(), name="quadrants-lab")
        atexit.register(_close, os.getpid(), client, cluster, folder)
        made.pop_all()
    return client


def _processors() -> int:
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)  # that this process may use


def _folder() -> str:
    """A new temporary folder of this process; those of processes that were killed go."""
    for old in Path(gettempdir()).glob(f"{_PREFIX}*"):
        process = old.name.removeprefix(_PREFIX).partition("-")[0]
        if process.isdigit() and not _alive(int(process)):
            rmtree(old, ignore_errors=True)
    return mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, without opening one, as CUDA_VISIBLE_DEVICES names them."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    if said is not None:
        return list(takewhile(lambda name: name and name != "-1", (name.strip() for name in said.split(","))))
    return [str(n) for n, _ in enumerate(sorted(Path("/dev").glob("nvidia[0-9]*")))]


def _close(home: int, client: Any, cluster: Any, folder: str) -> None:
    if os.getpid() == home:
        client.close()
        cluster.close()
        rmtree(folder, ignore_errors=True)


def _distributed() -> Any:
    try:
        import cloudpickle  # noqa: F401  # comes with Dask
        import distributed
    except ImportError:
        raise QuadrantsRuntimeError(
            "map_gradients on other processes needs Dask, which is not installed",
            code="QL2206",
            help="pip install 'quadrants-lab[distributed]', or take client=False to run in this process",
        ) from None
    return distributed


@cache
def _plugin() -> Any:
    import distributed

    class Uninterrupted(distributed.WorkerPlugin):  # type: ignore[misc]  # it has no types
        """Ctrl-C in a terminal goes to all processes there; it is for the client, which tells the workers."""

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Uninterrupted
