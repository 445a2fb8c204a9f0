"""Starts a Dask cluster on this machine, with a worker per core or GPU, on demand; it ends with the process."""

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
_QUIET = {  # settings for less monitoring by Dask's servers, which would take a core from the workers
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.profile.enabled": False,
}
_local: list[tuple[int, Any]] = []  # id of the process that made the cluster, and its client
_lock = forks.lock()


def dask_client(given: Any) -> Any:
    """The given client, else Dask's current one, else the client of this machine's cluster."""
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
    """A Dask client of a new cluster on this machine with ``workers`` worker processes of one thread each. The default
    is one worker per core. With ``gpus`` the default is one worker per GPU, each worker sees one GPU alone, and more
    workers than GPUs share them.

    The cluster ends with ``client.cluster.close()`` or with this process, and so does its temporary folder.
    ``options``: of Dask's worker, for instance ``memory_limit``. Ctrl-C does not reach the workers.
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
    with ExitStack() as made:  # closes what was started if a later step fails
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

    return int(CPU_COUNT)  # only the cores that this process may use


def _folder() -> str:
    """A new temporary folder for this process. Removes the folders of processes that are no longer alive."""
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
    except PermissionError:  # of another user
        pass
    return True


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as names for CUDA_VISIBLE_DEVICES. Does not open a GPU."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return list(takewhile(lambda name: name and name != "-1", (name.strip() for name in listed.split(","))))
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
        """Ignores Ctrl-C in workers: a terminal sends it to all processes, but the client stops the workers itself."""

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Uninterrupted
