"""`quadrants_lab.distributed`: the same on two workers as in one process, whatever happens to the workers."""

import linecache
import os
import pwd
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from child import Child, interrupt_when, run
from programs import distributed as programs

import quadrants_lab as qd
from quadrants_lab.backends import disk_cache
from quadrants_lab.distributed import (
    Gradients,
    ShardError,
    cluster,
    gradients,
    kept,
    local_client,
    map_gradients,
    worker,
)
from quadrants_lab.distributed.sending import packed
from quadrants_lab.notebook import split
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.notebook.saved import Saved
from quadrants_lab.notebook.shards import Running, inspect_shard
from quadrants_lab.runtime.session import current

psutil = pytest.importorskip("psutil")
pytest.importorskip("dask")  # "distributed" would be found: this folder

K = np.full(programs.POINTS - 1, 0.25, np.float32)
THROW = np.array([0.5, 0.4], np.float32)
SQUARES = np.arange(1.0, 5.0)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QD_OFFLINE_CACHE_FILE_PATH", str(tmp_path_factory.mktemp("cache")))
        made = local_client(2, as_default=False)
        yield made
    workers = [psutil.Process(pid) for pid in made.run(os.getpid).values()]
    places = [Path(w["local_directory"]) for w in made.scheduler_info()["workers"].values()]
    made.close()
    made.cluster.close()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
    assert not any(place.exists() for place in places)


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    qd.init(arch=qd.cpu, cpu_max_num_threads=1, offline_cache=True)
    yield
    qd.reset()


def same(left: Gradients, right: Gradients) -> None:
    """Whether two results are equal to the last digit."""
    np.testing.assert_array_equal(left.losses, right.losses)
    np.testing.assert_array_equal(np.array(left.gradients), np.array(right.gradients))


# --- gradients ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("summed", [False, True])
def test_diffusivity_is_the_same_as_in_this_process(client: Any, summed: bool, together: int) -> None:
    rods = programs.rods(37)
    here = map_gradients(programs.diffusivity, K, rods, client=False, summed=summed)
    there = map_gradients(programs.diffusivity, K, iter(rods), client, summed=summed, together=together)
    same(here, there)
    slopes = [slope for _, slope in (programs.diffusivity(parameter(K), rod) for rod in rods)]
    if summed:
        np.testing.assert_allclose(here.gradients, np.sum(slopes, 0, np.float64), rtol=1e-5)
    else:
        np.testing.assert_array_equal(here.gradients, slopes)


def parameter(values: np.ndarray) -> Any:
    x = qd.field(qd.f32, values.shape)
    x.from_numpy(values)
    return x


def test_a_controller_of_mpm_is_the_same_as_in_this_process(client: Any) -> None:
    targets = list(np.random.default_rng(1).random((18, 2)).astype(np.float32))
    here = map_gradients(programs.controller, THROW, targets, client=False, summed=True)
    same(here, map_gradients(programs.controller, THROW, targets, client, summed=True))
    assert np.abs(here.gradients).max() > 0


def test_the_sum_does_not_depend_on_how_shards_are_put_together(client: Any) -> None:
    """There are more shards than a span of tasks holds, and than a span and a task hold."""
    shards = [(float(n) ** 0.5, "") for n in range(16 * 16 + 17)]
    x = np.random.default_rng(2).random(5).astype(np.float32)
    here = [map_gradients(programs.killed, x, shards, client=False, summed=True, together=n) for n in (1, 2, 64, 512)]
    for other in here[1:]:
        same(here[0], other)
    same(here[0], map_gradients(programs.killed, x, shards, client, summed=True))
    exact = 2.0 * sum(np.sqrt(np.arange(len(shards)))) * x.astype(np.float64)
    np.testing.assert_allclose(here[0].gradients, exact, rtol=1e-5)


def test_parameters_by_name_and_gradients_of_fields(client: Any) -> None:
    params = {"x": np.array([1.0, 2.0, 3.0]), "y": np.array([4.0, 5.0, 6.0])}
    for where in (False, client):
        found = map_gradients(programs.gradient_of_both, params, [0, 2, 2], where, summed=True)
        np.testing.assert_array_equal(found.losses, [17.0, 45.0, 45.0])
        np.testing.assert_array_equal(found.gradients["x"], [2.0, 0.0, 12.0])
        np.testing.assert_array_equal(found.gradients["y"], [8.0, 0.0, 24.0])


def test_no_shards(client: Any) -> None:
    for where in (False, client):
        assert map_gradients(programs.killed, SQUARES, [], where).gradients == []
        np.testing.assert_array_equal(map_gradients(programs.killed, SQUARES, [], where, summed=True).gradients, 0.0)


@pytest.mark.parametrize("summed", [False, True])
def test_progress_is_reported_for_each_shard(client: Any, summed: bool) -> None:
    shards = [(n, "") for n in range(20)]
    for where in (False, client):
        told: dict[int, float] = {}
        found = map_gradients(programs.killed, SQUARES, shards, where, summed=summed, progress=told.__setitem__)
        assert [told[n] for n in range(20)] == list(found.losses)


def test_shards_may_be_futures(client: Any) -> None:
    rods = programs.rods(3)
    same(map_gradients(programs.diffusivity, K, rods, client=False),
         map_gradients(programs.diffusivity, K, client.scatter(rods), client, together=2))  # fmt: skip


# --- workers --------------------------------------------------------------------------------------------------------

def test_a_worker_keeps_its_session_and_takes_the_clients_settings(client: Any) -> None:
    params = np.zeros(5)
    qd.init(arch=qd.cpu, default_fp=qd.f64, ad_stack_budget_bytes=1 << 20)
    seen = [map_gradients(programs.session_of, params, range(8), client).gradients for _ in range(2)]
    rows = {tuple(row) for found in seen for row in found}
    assert len({pid for _, pid, *_ in rows}) == len(rows)  # one session a process
    assert {row[2:] for row in rows} == {(1.0, 64.0, float(1 << 20))}
    other = map_gradients(programs.session_of, params, [0], client, init={"arch": qd.cpu, "cpu_max_num_threads": 2})
    assert list(other.gradients[0][2:]) == [2.0, 32.0, 0.0]


def test_a_cache_in_the_home_folder_is_in_that_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = current().settings
    mine, its = str(tmp_path / "mine"), str(tmp_path / "its")
    for below in ("", "/", "/.cache/x"):
        monkeypatch.setenv("HOME", mine)
        sent = worker.portable(replace(settings, cache_path=mine + below))
        monkeypatch.setenv("HOME", its)
        assert os.path.normpath(os.path.expanduser(str(sent.cache_path))) == os.path.normpath(its + below)
    elsewhere = replace(settings, cache_path=mine + "s")
    monkeypatch.setenv("HOME", mine)
    assert worker.portable(elsewhere) == elsewhere
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setattr(disk_cache, "_warned", {})
    monkeypatch.setattr(worker, "_setup", [])
    with pytest.warns(qd.QuadrantsWarning, match="QL2035"):
        assert worker._enter(sent).cache.folder is None  # and no folder of the name ~


def test_code_that_one_worker_compiled_another_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on different machines, each worker has its own folder for compiled code."""
    from quadrants_lab.backends.cpu import tasks
    from quadrants_lab.distributed import worker as W

    compiled: list[str] = []
    compile = tasks.machine_code

    def counted(kernel: Any, *args: Any) -> bytes:
        compiled.append(kernel.name)
        return compile(kernel, *args)

    monkeypatch.setattr(tasks, "machine_code", counted)

    def job(folder: str) -> Any:
        W._programs["digest"] = cell()["fn"]
        init = {"arch": qd.cpu, "cpu_max_num_threads": 1, "offline_cache_file_path": str(tmp_path / folder)}
        return W.Job("number", b"", "digest", init, {"": SQUARES}, False)

    monkeypatch.setattr(W, "_threads", lambda: 1)
    first, code = W.run_first(job("one"), (0, [1]))
    assert compiled
    compiled.clear()
    second = W.run(job("two"), code, (0, [1]))
    assert compiled == []
    assert second.losses == first.losses == [7.0]
    W.run(job("three"), None, (0, [1]))
    assert compiled


def test_warnings_of_the_language_come_back(client: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        map_gradients(programs.without_gradient, SQUARES, [0, 1], client)
    assert [str(w.message) for w in caught if w.category is qd.QuadrantsWarning].count("said on a worker") == 1


# --- what cannot be sent --------------------------------------------------------------------------------------------

def test_programs_of_a_notebook_go_with_their_source(client: Any) -> None:
    """Kernels, funcs and classes of a module that workers cannot import; the error of one shows its line."""
    qd.init(arch=qd.cpu, cpu_max_num_threads=1, debug=True)
    fn = cell()["fn"]
    same(map_gradients(fn, SQUARES, [1, 2], client=False), map_gradients(fn, SQUARES, [1, 2], client))
    with pytest.raises(ShardError) as caught:
        map_gradients(fn, SQUARES, [1, 4], client)
    assert "Cell In[7], line 14" in str(caught.value)
    assert 'assert at < 4, "too far"' in str(caught.value)


CELL = """
import quadrants_lab as qd
from quadrants_lab.distributed import kept

@qd.func
def square(v):
    return v * v

@qd.data_oriented
class Sum:
    @qd.kernel
    def add(self, x: qd.template(), at: qd.i32, loss: qd.template()):
        for i in range(1):
            assert at < 4, "too far"
            loss[None] += square(x[at]) + scale * x[0]

scale = 3.0

def loss():
    return qd.field(float, (), needs_grad=True)

def fn(x, at):
    total = kept(loss)
    with qd.ad.Tape(total):
        kept(Sum).add(x, at, total)
    return total
"""


def cell() -> dict[str, Any]:
    """The namespace of a notebook in which the cell ran."""
    linecache.cache["Cell In[7]"] = len(CELL), None, CELL.splitlines(keepends=True), "Cell In[7]"
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, "Cell In[7]", "exec"), space)
    return space


def test_a_program_is_the_same_bytes_after_it_ran() -> None:
    """If the bytes differed, workers would compile the program again for each call."""
    fn = cell()["fn"]
    before = packed(fn, "fn")
    map_gradients(fn, SQUARES, [1], client=False)
    assert packed(fn, "fn") == before


def test_objects_that_cannot_be_sent_are_named(client: Any) -> None:
    x = qd.field(float, 3, needs_grad=True)
    lock = threading.Lock()

    @qd.kernel
    def touch():
        for i in x:
            x[i] += 1.0

    def uses_a_field(params: Any, shard: Any) -> Any:
        touch()

    def uses_a_lock(params: Any, shard: Any) -> Any:
        return lock.locked()

    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2204.*send uses_a_field -> touch -> x: .*belongs to the ses"):
        map_gradients(uses_a_field, SQUARES, [1], client)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2204.*send uses_a_lock -> lock: .*pickle"):
        map_gradients(uses_a_lock, SQUARES, [1], client)


# --- faults ---------------------------------------------------------------------------------------------------------

def test_workers_that_are_killed_cost_nothing_but_time(client: Any, tmp_path: Path) -> None:
    markers = {5: tmp_path / "first", 11: tmp_path / "second"}
    for marker in markers.values():
        marker.touch()
    shards = [(n, str(markers.get(n, ""))) for n in range(16)]
    there = map_gradients(programs.killed, SQUARES, shards, client, summed=True)
    assert not any(marker.exists() for marker in markers.values())
    same(there, map_gradients(programs.killed, SQUARES, shards, client=False, summed=True))


def test_a_result_that_is_lost_before_it_is_fetched_is_waited_for() -> None:
    class Lost:
        key, status = "shard-0", "lost"

        def add(self, future: Any) -> None:  # as_completed's: when Dask has made it again
            self.status = "finished"

        next_batch = lambda self: [self]
        gather = staticmethod(list)

    found: list[Any] = []
    run, lost = object.__new__(gradients._Run), Lost()
    run.awaited, run.open, run.ready, run.client = {lost.key: (lost, found.append)}, 1, lost, lost
    run._settle()
    assert (found, run.open) == ([], 1)
    run._settle()
    assert (found, run.open) == ([lost], 0)


def test_a_result_that_is_lost_while_its_state_is_looked_at_is_no_error() -> None:
    class Losing:
        key, states = "shard-0", iter(("finished", "lost"))
        status = property(lambda self: next(self.states))
        next_batch = lambda self: [self]
        gather = staticmethod(list)

    found: list[Any] = []
    run, losing = object.__new__(gradients._Run), Losing()
    run.awaited, run.open, run.ready, run.client = {losing.key: (losing, found.append)}, 1, losing, losing
    run._settle()
    assert (found, run.open) == ([losing], 0)


def test_a_shard_that_has_no_memory_is_tried_again(client: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    found = map_gradients(programs.no_memory, SQUARES, [str(tmp_path / "none"), str(marker)], client)
    np.testing.assert_array_equal(found.losses, 1.0)
    with pytest.raises(ShardError, match="shard 0 failed\nMemoryError"):
        map_gradients(programs.never_memory, SQUARES, [0], client)


@pytest.mark.parametrize("summed", [False, True])
def test_the_error_of_a_kernel_has_its_line_and_its_shard(client: Any, summed: bool) -> None:
    qd.init(arch=qd.cpu, debug=True)
    for where in (False, client):
        with pytest.raises(ShardError) as caught:
            map_gradients(programs.asserts, SQUARES, [0, 1, 2, 3, 1], where, summed=summed)
        assert caught.value.shard == 3
        assert isinstance(caught.value.__cause__, qd.QuadrantsAssertionError)
        assert "shard 3 failed" in str(caught.value)
        assert 'assert at < 3, "the shard is too large"' in str(caught.value)
        assert "^^^" in str(caught.value)


def test_ctrl_c_leaves_the_cluster_usable(client: Any) -> None:
    """SIGINT goes to this process and, as from a terminal, to the workers."""
    pids = set(client.run(os.getpid).values())
    def interrupt(shard: int, loss: float) -> None:
        for pid in (*pids, os.getpid()):
            os.kill(pid, signal.SIGINT)
    shards = [(n, "") for n in range(200)]
    with pytest.raises(KeyboardInterrupt):
        map_gradients(programs.killed, SQUARES, shards, client, progress=interrupt)
    same(map_gradients(programs.killed, SQUARES, shards, client),
         map_gradients(programs.killed, SQUARES, shards, client=False))  # fmt: skip
    assert set(client.run(os.getpid).values()) == pids


def test_ctrl_c_before_a_sum_is_there_leaves_other_work_of_the_client(client: Any) -> None:
    other = client.submit(slowly, 3.0)
    began = time.monotonic()
    interrupt_when(lambda: time.monotonic() > began + 1.0)
    with pytest.raises(KeyboardInterrupt):
        map_gradients(programs.waits, SQUARES, [0.2] * 60, client, summed=True)
    assert other.result(60) == 3.0
    same(map_gradients(programs.asserts, SQUARES, [1], client), map_gradients(programs.asserts, SQUARES, [1], False))


def slowly(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_a_cell_over_shards_is_compared_with_the_whole(client: Any) -> None:
    times = np.random.default_rng(0).random(30).astype(np.float32)
    x, data = np.array([0.5, 1.0], np.float32), (times, 2 * times)
    with client.as_current():
        says = split.compared(programs.line, x, data, 4)
        assert says.startswith("4 shards: the sum of their gradients is the gradient of the whole, to ")
        named = dict(zip(("times", "heights"), data, strict=True))
        says = split.compared(programs.mean_of_line, x, named, 3)
    assert "DIFFERS from the gradient of the whole" in says
    assert "it is 3 times as large: a loss that is a mean must divide" in says


def test_shards_in_the_background_can_be_stopped(client: Any) -> None:
    run = Running(programs.waits, SQUARES, [0.0], client=client, summed=True)
    assert run.result(60).gradients.tolist() == [0.0, 4.0, 0.0, 0.0]
    assert run.done()
    assert run._button.disabled
    run = Running(programs.waits, SQUARES, [0.05] * 4000, client=client)
    while not run.losses:
        time.sleep(0.01)
    run.stop()
    with pytest.raises(ShardError, match="QL2211.*the shards were stopped"):
        run.result(60)
    assert 0 < len(run.losses) < 4000
    assert "the shards were stopped" in run._picture.value
    same(map_gradients(programs.asserts, SQUARES, [1], client), map_gradients(programs.asserts, SQUARES, [1], False))


def test_shards_can_be_stopped_while_results_are_on_their_way(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(futures: Any) -> Any:
        (stop,) = progress.begin.call_args.args
        stop()
        raise CancelledError

    progress = Mock()
    monkeypatch.setattr(client, "gather", gather)
    with pytest.raises(ShardError, match="QL2211.*the shards were stopped"):
        map_gradients(programs.waits, SQUARES, [0.0], client, progress=progress)


def test_nothing_is_left_of_a_client_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = ("import os, sys\nfrom quadrants_lab.distributed import local_client\n"
            "if __name__ == '__main__':\n    print(*local_client(1).run(os.getpid).values(), flush=True)\n"
            "    sys.stdin.readline()\n")  # fmt: skip
    with Child(sys.executable, "-c", code, given=None, env={"TMPDIR": str(tmp_path)}) as child:
        worker = psutil.Process(int(child.line(120)))
        assert os.listdir(tmp_path) != []
        child.send(signal.SIGKILL)
        child.process.wait(60)
        assert psutil.wait_procs([worker], timeout=60)[1] == []
    monkeypatch.setattr(cluster, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cluster, "mkdtemp", lambda prefix: prefix)
    assert cluster._folder().startswith("quadrants-lab-dask-")  # the next cluster takes the files away
    assert os.listdir(tmp_path) == []


# --- the notebook ---------------------------------------------------------------------------------------------------

def test_a_shard_has_an_inspector_wherever_it_ran(client: Any) -> None:
    for where, kind in ((False, Inspection), (client, Saved)):
        seen = inspect_shard(programs.asserts, SQUARES, 2, where)
        assert isinstance(seen, kind)
        assert "loss[None] += x[at] ** 2" in repr(seen)
        assert "not exported" not in seen.answer("0/run")
        with pytest.raises(ShardError, match="the shard is too large"):
            inspect_shard(programs.asserts, SQUARES, 3, where)


# --- wrong calls ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("fn, params, more, says", [
    (programs.asserts, np.arange(3), {}, "QL2201.*params has dtype int64"),
    (programs.asserts, {"n": [1]}, {}, "QL2201.*parameter n has dtype int64"),
    (programs.without_tape, SQUARES, {}, "QL2202.*no gradient was run"),
    (lambda x, shard: x, SQUARES, {}, "QL2203.*a loss is one number"),
    (lambda x, shard: (0.0, np.zeros(3)), SQUARES, {}, r"QL2203.*one of shape \(3,\) for the gradient by params"),
    (lambda x, shard: (0.0, {"b": x["a"]}), {"a": SQUARES}, {}, "QL2203.*none for the gradient by a"),
    (programs.asserts, SQUARES, {"together": 3}, "QL2207.*power of two, not 3"),
    (programs.asserts, SQUARES, {"init": {}}, "QL2208.*takes no init"),
])
def test_wrong_calls(fn: Any, params: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="(?s)" + says):
        map_gradients(fn, params, [0], client=False, **more)


def test_what_is_kept_ends_with_the_session() -> None:
    first = kept(programs.number)
    assert kept(programs.number) is first
    qd.init(arch=qd.cpu)
    assert kept(programs.number) is not first


def test_a_shard_that_kills_every_worker_ends_the_call(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(ShardError, match="QL2209.*shard 0 ended 1 workers"):
        map_gradients(programs.always_killed, SQUARES, [0], client)


def test_without_dask_this_process_does() -> None:
    code = (
        "import sys\nsys.modules.update(distributed=None, dask=None, cloudpickle=None)\n"
        "import numpy as np\nfrom quadrants_lab.distributed import map_gradients\n"
        "fn = lambda x, shard: (2.0, x)\n"
        "print(*map_gradients(fn, np.ones(1), [1, 2], client=False, summed=True).gradients)\n"
        "try:\n    map_gradients(fn, np.ones(1), [1])\n"
        "except RuntimeError as e:\n    print(e.code)\n"
    )
    assert run(sys.executable, "-c", code).stdout.split() == ["2.0", "QL2206"]
