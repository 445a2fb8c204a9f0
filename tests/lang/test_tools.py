"""`qd.profiler`, `qd.perf_dispatch` and `qd.tools`: what is counted, chosen and written."""

import re
import time

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.lang import perf_dispatch

session = session_of(EVERYWHERE, kernel_profiler=True)
P = qd.profiler


@qd.kernel
def doubled(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = 2 * x[i]


def test_launches_are_counted(capsys):
    x, y = (qd.field(qd.f32, 8, needs_grad=True) for _ in range(2))
    for _ in range(3):
        doubled(x, y)
    doubled.grad(x, y)
    found = P.query_kernel_profiler_info("doubled")
    assert found.counter == 3
    assert 0 < found.min <= found.avg <= found.max
    assert found.bytes == 2 * 8 * 4
    assert P.query_kernel_profiler_info("doubled (reverse)").counter == 1
    assert P.query_kernel_profiler_info("halved").counter == 0
    assert P.get_kernel_profiler_total_time() >= found.total / 1e3
    for mode, lines in ("count", 3), ("trace", 5):
        P.print_kernel_profiler_info(mode)
        assert len(capsys.readouterr().out.splitlines()) == lines
    assert P._profile.trace.maxlen == 65_536
    P.print_memory_profiler_info()
    assert capsys.readouterr().out.splitlines()[-1].split() == ["128", "bytes", "in", "4", "fields"]
    P.clear_kernel_profiler_info()
    assert P.query_kernel_profiler_info("doubled").counter == 0


def test_counting_ends_with_the_session():
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, 8), qd.field(qd.f32, 8)
    P.clear_kernel_profiler_info()
    doubled(x, y)
    assert P.get_kernel_profiler_total_time() == 0
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2056"):
        P.collect_kernel_profiler_metrics()
    with pytest.raises(ValueError, match="neither 'count' nor 'trace'"):
        P.print_kernel_profiler_info("all")


def test_the_fastest_is_called(monkeypatch):
    clock, ran = [0.0], []
    monkeypatch.setattr(perf_dispatch, "perf_counter", lambda: clock[0])

    @qd.perf_dispatch(get_geometry_hash=lambda x: x.shape, first_warmup=1, active=2, repeat_after_count=3)
    def work(x): ...

    for name, seconds, can in ("slow", 3, None), ("fast", 1, None), ("tiny", 0, lambda x: x.shape[0] < 4):

        def run(x, name=name, seconds=seconds):
            ran.append(name)
            clock[0] += seconds
            return name

        work.register(is_compatible=can)(run)
    x = qd.field(qd.f32, 8)
    assert [work(x) for _ in range(9)] == ["slow"] * 3 + ["fast"] * 6
    assert [work(x) for _ in range(5)] == ["slow", "slow", "fast", "fast", "fast"]  # measured again, without a warmup
    small = qd.field(qd.f32, 2)
    assert [work(small) for _ in range(10)][-1] == "tiny"
    with pytest.raises(qd.QuadrantsRuntimeError, match="no implementation of alone"):
        qd.perf_dispatch(get_geometry_hash=lambda: 0)(_alone)()


def test_one_that_fails_is_called_no_more():
    @qd.perf_dispatch(get_geometry_hash=lambda fails: 0, first_warmup=0, active=2)
    def work(fails): ...

    for name in ("first", "second"):

        def run(fails, name=name):
            if name in fails:
                raise fails[name]
            return name

        work.register(run)
    assert work({}) == "first"
    with pytest.raises(KeyboardInterrupt):
        work({"first": KeyboardInterrupt()})
    assert work({}) == "first"
    with pytest.raises(ZeroDivisionError):
        work({"first": ZeroDivisionError()})
    assert [work({}) for _ in range(5)] == ["second"] * 5
    with pytest.raises(ZeroDivisionError):
        work({"second": ZeroDivisionError()})
    with pytest.raises(ZeroDivisionError):  # both are tried again
        work({"first": ZeroDivisionError()})
    assert work({}) == "second"


@pytest.mark.parametrize(
    ("given", "want"),
    [("work:slow", ["slow"] * 3), ("other:x, work:fast", ["fast"] * 3), ("slow", "names no implementation"),
     ("work:none", "no implementation 'none'")],
)  # fmt: skip
def test_the_environment_chooses(given, want, monkeypatch):
    monkeypatch.setenv("QD_PERFDISPATCH_FORCE", given)

    @qd.perf_dispatch(get_geometry_hash=lambda: 0)
    def work(): ...

    @work.register
    def slow():
        return "slow"

    @work.register
    def fast():
        return "fast"

    if isinstance(want, list):
        assert [work() for _ in want] == want
    else:
        with pytest.raises(qd.QuadrantsRuntimeError, match=f"QL2057.*{want}"):
            work()


def test_the_environment_asks_for_names_and_for_the_choice(monkeypatch, capsys):
    @qd.perf_dispatch(get_geometry_hash=lambda: 0, first_warmup=0)
    def work(): ...

    @work.register
    def slow():
        time.sleep(0.01)

    @work.register
    def fast(): ...

    monkeypatch.setenv("QD_PERFDISPATCH_FORCE", "?")
    monkeypatch.setenv("QD_PERFDISPATCH_PRINT_DEBUG", "1")
    for _ in range(3):
        work()
    said = capsys.readouterr().out
    assert "perf_dispatch 'work': available implementations: ['slow', 'fast']" in said
    assert "perf_dispatch 'work': 'fast' is the fastest of 2" in said


def test_kernels_that_are_not_declared_pure_are_named(capsys):
    qd.init(arch=qd.cpu, print_non_pure=True)

    @qd.kernel
    def plain() -> qd.i32:
        return 1

    @qd.kernel(fastcache=True)
    def declared() -> qd.i32:
        return 1

    for kernel in (plain, plain, declared):
        kernel()
    assert capsys.readouterr().out == "[quadrants_lab] kernel plain is not declared pure: fastcache=True is not given\n"


def test_times_of_the_compiler_s_parts(capsys):
    qd.init(arch=qd.cpu, offline_cache=False)
    qd.profiler.clear_scoped_profiler_info()

    @qd.kernel
    def timed() -> qd.i32:
        return 1

    timed()
    qd.profiler.print_scoped_profiler_info()
    head, total, one = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "kernel"
    assert [total.split()[-1], one.split()[-1]] == ["all", "timed"]
    assert float(one.split()[3]) > 0
    assert qd.interop.get_mps_command_queue() == 0
    with pytest.raises(NotImplementedError, match="cpu"):
        qd.clock_freq_hz()


def test_addresses_of_elements():
    qd.init(arch=qd.cpu)
    x, y = qd.Vector.field(2, qd.f32, shape=(3, 4), offset=(1, 0)), qd.field(qd.u64, shape=3)

    @qd.kernel
    def k():
        y[0] = qd.get_addr(x, [1, 0])
        y[1] = qd.get_addr(x, [3, 2])
        y[2] = qd.get_addr(y, 1)

    k()
    assert y[0] == x.to_numpy(copy=False).ctypes.data
    assert y[1] - y[0] == 8 * (2 * 4 + 2)
    assert y[2] == y.to_numpy(copy=False).ctypes.data + 8


def _alone(): ...


_alone.__name__ = "alone"


def test_a_mesh_is_written(tmp_path):
    writer = qd.tools.PLYWriter(num_vertices=4, num_faces=2)
    points = np.arange(12.0).reshape(3, 4)
    with pytest.raises(ValueError, match="positions"):
        writer.export(tmp_path / "mesh.ply")
    writer.add_vertex_pos(*points)
    writer.add_vertex_id()
    writer.add_vertex_channel("mass", "double", np.full(4, 0.5))
    with pytest.raises(ValueError, match="faces are missing"):
        writer.export(tmp_path / "mesh.ply")
    writer.add_faces([0, 1, 2, 1, 2, 3])
    writer.add_face_piece([7, 8])
    with pytest.raises(ValueError, match="3 values of 'int' for 4"):
        writer.add_vertex_piece([1, 2, 3])
    for kind, value in ("uchar", 300), ("uchar", -1), ("int", 0.5), ("short", np.nan), ("int", 2**31), ("uint", 1e300):
        with pytest.raises(ValueError, match=rf"channel 'shade': {re.escape(str(np.ravel(value)[0]))} does not fit"):
            writer.add_vertex_channel("shade", kind, [0, 1, value, 2])
    with pytest.raises(ValueError, match="faces: 1.5 does not fit"):
        writer.add_faces([0, 1, 2, 1, 1.5, 3])
    writer.export_ascii(tmp_path / "mesh.ply")
    head, _, body = (tmp_path / "mesh.ply").read_text().partition("end_header\n")
    assert "element vertex 4" in head
    assert "property double mass" in head
    rows = [list(map(float, line.split())) for line in body.splitlines()]
    assert rows[:4] == [[*points[:, k], k, 0.5] for k in range(4)]
    assert rows[4:] == [[3, 0, 1, 2, 7], [3, 1, 2, 3, 8]]
    writer.export_frame(3, tmp_path / "mesh.ply")
    data = (tmp_path / "mesh_000003.ply").read_bytes()
    vertices = np.frombuffer(data.partition(b"end_header\n")[2], "<f4,<f4,<f4,<i4,<f8", count=4)
    assert vertices["f0"].tolist() == points[0].tolist()
    assert vertices["f4"].tolist() == [0.5] * 4


def test_a_grid_is_written(tmp_path):
    x = qd.field(qd.f32, (2, 3))
    x.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    qd.tools.write_vtk(x, tmp_path / "grid")
    head, _, data = (tmp_path / "grid.vtk").read_bytes().partition(b"default\n")
    assert b"DIMENSIONS 2 3 1" in head
    assert np.frombuffer(data, ">f8").tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(ValueError, match="two or three axes"):
        qd.tools.write_vtk(np.zeros(3), tmp_path / "line")
    with pytest.raises(ValueError, match="numbers, not the vectors"):
        qd.tools.write_vtk(qd.Vector.field(3, qd.f32, (2, 2)), tmp_path / "vectors")
