"""Launches through a library with HIP's functions, written after AMD's documentation, whose launches execute a chip's
assembly on `gcn_machine`."""

import ctypes
import gc
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import child
import numpy as np
import pytest
from conformance.tasks import AXPY
from rigs import amdgpu_rig
from rigs.gcn_machine import Machine

import quadrants_lab as qd
from quadrants_lab.backends import amdgpu
from quadrants_lab.backends._simt.driver import DriverError
from quadrants_lab.backends.amdgpu import gcn, hip, hsaco, listings, toolkit
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions

TESTS = Path(__file__).resolve().parent.parent
_HOOK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p)
)
pytestmark = [
    pytest.mark.skipif(not hip.probe(), reason="a device is here; the library is for machines without"),
    pytest.mark.needs("ld.lld"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler is here")
    made = tmp_path_factory.mktemp("hip") / "libamdhip64.so"
    child.run(compiler, "-shared", "-fPIC", "-O1", "-o", made, TESTS / "rigs" / "fake_hip.c")
    return made


@pytest.fixture
def fake(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a fresh copy of the library the HIP runtime. ``launches``: name, groups and threads of a group."""
    mine = shutil.copy(library, tmp_path / f"{tmp_path.name}.so")  # a copy has state of its own
    calls = ctypes.CDLL(mine)
    calls.fake_used.restype = ctypes.c_size_t
    texts: dict[bytes, str] = {}
    loaded: list[bytes] = []
    launches: list[tuple[str, int, int]] = []

    def code_of(kernel: Kernel, options: CompileOptions, chip: str) -> bytes:
        made = gcn.optimised("\n".join(gcn.emitted(kernel, options, chip).lines()[0]), chip)
        code = hsaco.linked(gcn.object_code(made, chip))
        texts[code] = gcn.assembly(made, chip)
        return code

    load = hip.Driver.load

    def recorded(self: hip.Driver, code: bytes, what: str) -> Any:
        module = load(self, code, what)
        loaded.append(code)
        return module

    def run(number: int, name: bytes, groups: int, group: int, params: Any) -> int:
        code, program = loaded[number], name.decode()
        launches.append((program, groups, group))
        (about,) = (k for k in hsaco.CodeObject(code).metadata["amdhsa.kernels"] if k[".name"] == program)
        block = ctypes.create_string_buffer(about[".kernarg_segment_size"] + 64)
        start = -(-ctypes.addressof(block) // 64) * 64
        for argument, at in zip(about[".args"], params, strict=False):
            ctypes.memmove(start + argument[".offset"], at, argument[".size"])
        Machine(texts[code], about[".wavefront_size"], lambda at, n: True).run(program, groups, group, start)
        return 0

    hook = _HOOK(run)
    calls.fake_hook(hook)
    monkeypatch.setattr(listings, "code_of", code_of)
    monkeypatch.setattr(hip.Driver, "load", recorded)
    monkeypatch.setattr(toolkit, "runtimes", lambda: (str(mine),))
    monkeypatch.setattr(hip._driver, "_drivers", {})
    hip._library.cache_clear()
    amdgpu.target_key.cache_clear()
    yield SimpleNamespace(calls=calls, launches=launches, hook=hook)
    qd.reset()
    hip._library.cache_clear()
    amdgpu.target_key.cache_clear()


def test_the_device(fake: Any) -> None:
    assert amdgpu.probe() == ""
    assert amdgpu.devices() == ["AMD Instinct (gfx942), 1 GiB"]
    assert hip.shown() == "gfx942"
    driver = hip.current()
    assert (driver.version, driver.multiprocessors, driver.threads_at_once) == (60342134, 2, 4096)
    assert amdgpu.target_key().startswith("amdgpu/gfx942/llvm")


@pytest.mark.parametrize("by_value", [True, False])
def test_saxpy(fake: Any, by_value: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not by_value:
        monkeypatch.setattr(amdgpu.SHAPE, "by_value", 8)
    x, y = np.arange(3000, dtype=np.float32), np.ones(3000, np.float32)
    amdgpu_rig.run(AXPY, {"x": x, "y": y}, {"a": 2.0}, on=amdgpu_rig.fresh())
    assert np.array_equal(y, 1 + 2 * x)
    assert fake.launches == [("task0", 3, 256)]


def powers_of_a_field() -> None:
    n = qd.field(qd.i32, shape=())
    x = qd.field(qd.f32, shape=(70,), needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def powers() -> qd.i32:
        for i in x:
            v = 1.0
            for _ in range(n[None]):
                v = v * x[i]
            loss[None] += v
        print("trips", n[None])
        return n[None] + 1

    x.fill(1.5)
    for trips in (3, 5, 1):
        n[None] = trips
        x.grad.fill(0.0)
        loss[None], loss.grad[None] = 0.0, 1.0
        assert powers() == trips + 1
        powers.grad()
        assert loss[None] == pytest.approx(70 * 1.5**trips)
        assert np.allclose(x.grad.to_numpy(), trips * 1.5 ** (trips - 1))


def test_a_session(fake: Any, capsys: Any) -> None:
    """Fields, a gradient whose stack depths depend on data, a returned value, and freed memory."""
    qd.init(arch=qd.amdgpu, enable_fallback=False, offline_cache=False)
    before = fake.calls.fake_used()
    powers_of_a_field()
    assert capsys.readouterr().out == "trips 3\ntrips 5\ntrips 1\n"
    qd.reset()
    gc.collect()
    assert fake.calls.fake_used() <= before
    assert fake.calls.fake_modules() == 0


def test_waiting(fake: Any) -> None:
    driver = hip.current()
    fake.calls.fake_busy(50)
    driver.wait("running")
    assert not driver.running()


def test_errors(fake: Any) -> None:
    driver = hip.current()
    with pytest.raises(MemoryError, match=r"allocating 2147483648 bytes: out of memory \(hipErrorOutOfMemory\)"):
        driver.allocate(1 << 31)
    with pytest.raises(QuadrantsRuntimeError, match="loading kernel 'k', 5 bytes of code object on AMD Instinct"):
        driver.load(b"no el", "kernel 'k'")
    fake.calls.fake_lose(700)
    with pytest.raises(DriverError, match="an illegal memory access") as caught:
        driver.wait("running kernel k")
    assert caught.value.number == 700
    assert "restart" in str(caught.value)


def test_no_device(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.calls.fake_devices(0)
    assert "found no device" in amdgpu.probe()
    fake.calls.fake_devices(1)
    monkeypatch.setenv("QD_VISIBLE_DEVICE", "3")
    assert "HIP has 1 devices; there is none with number 3" in amdgpu.probe()
