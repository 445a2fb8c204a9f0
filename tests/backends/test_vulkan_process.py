"""Vulkan's devices, memory, launches, Ctrl-C, loops that the driver ends, and caches."""

import gc
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from child import interrupt_when, run
from conformance.tasks import AXPY, serial, stacked
from rigs import parallel, vulkan_rig
from rigs.vulkan_rig import bind, device, fresh, load
from sessions import NIGHT

from quadrants_lab.backends import vulkan
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.backends.vulkan import api, executable, queue
from quadrants_lab.backends.vulkan.device import Device

ROOT = Path(__file__).resolve().parents[2]


def ones(n: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.ones(n, np.float32), "y": np.zeros(n, np.float32)}


# --- devices --------------------------------------------------------------------------------------------------

def test_visible_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QD_VISIBLE_DEVICE", "0")
    assert api.choose() is api.physical_devices()[0]
    monkeypatch.setenv("QD_VISIBLE_DEVICE", "99")
    with pytest.raises(RuntimeError, match="'99'; Vulkan's devices are\n  0: "):
        api.choose()
    assert "'99'" in vulkan.probe()


def test_without_a_driver() -> None:
    """The probe returns the reason, and code can still be shown."""
    code = (
        "from quadrants_lab.backends import vulkan\n"
        "from quadrants_lab.ir.parse import parse_kernel\n"
        "from quadrants_lab.ir.options import CompileOptions\n"
        "print(vulkan.probe())\n"
        "k = parse_kernel('kernel k() forward {\\noffload serial bounds {\\nyield\\n} do () {\\nyield\\n}\\n}')\n"
        "print(vulkan.stages(k, CompileOptions())['spirv']().instructions)\n"
    )
    env = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
    done = run(sys.executable, "-c", code, env=env, cwd=ROOT)
    assert "no device" in done.stdout
    assert done.stdout.split()[-1] == "1"


FAULTS = {
    "missing": "cannot be read (No such file or directory)",
    "empty": "is no JSON",
    "junk": "is no JSON",
    "list": "names no library (ICD.library_path)",
    "no library": "/nowhere.so, which cannot be read (No such file or directory)",
    "empty library": "library.so, which is no shared library",
    "junk library": "library.so, which is no shared library",
    "cut library": "library.so, which was cut short (",
}
ASKED = """
import quadrants_lab as qd
from quadrants_lab.__main__ import main
main(["backends"])
try:
    qd.init(arch=qd.vulkan, enable_fallback=False)
except qd.QuadrantsRuntimeError as e:
    print(e)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="damages a driver as Linux has it")
@pytest.mark.parametrize(
    ("fault", "variable"),
    [*((f, "VK_DRIVER_FILES") for f in list(FAULTS)[:: 1 if NIGHT else 3]), ("cut library", "VK_ICD_FILENAMES")],
)
def test_a_damaged_driver_is_a_reason(fault: str, variable: str, tmp_path: Path) -> None:
    manifest, library = tmp_path / "icd.json", tmp_path / "library.so"
    junk = np.random.default_rng(1).bytes(3000)
    library.write_bytes({"junk library": junk, "cut library": Path(sys.executable).read_bytes()[:5000]}.get(fault, b""))
    about = {"ICD": {"library_path": "/nowhere.so" if fault == "no library" else str(library)}}
    text = {"empty": b"", "junk": junk, "list": b"[]"}.get(fault, json.dumps(about).encode())
    if fault != "missing":
        manifest.write_bytes(text)
    env = {"VK_DRIVER_FILES": "", "VK_ICD_FILENAMES": "", variable: str(manifest)}
    said = run(sys.executable, "-c", ASKED, cwd=ROOT, env=env).stdout
    assert said.count(f"{manifest} (from {variable})") == 2
    assert said.count(FAULTS[fault]) == 2


# --- memory ---------------------------------------------------------------------------------------------------

def test_arrays_keep_their_memory() -> None:
    own = fresh()
    array = own.pool.take(32).array((4,), np.float64)
    del own
    array[:] = 7
    other = fresh()
    assert not other.allocate((4,), np.float64).read().any()
    assert (array == 7).all()


def test_small_arrays_share_blocks_and_are_reused() -> None:
    own = fresh()
    first = own.allocate((3,), np.float32)
    again = [own.allocate((3,), np.float32).address for _ in range(5000)]
    assert len(set(again)) < 10
    assert first.address not in again
    assert own.locate(np.zeros(3, np.float32)) == 0
    if first.array is not None:
        assert own.locate(first.array[1:]) == first.address + 4


def test_buffers_above_the_storage_range() -> None:
    n = (160 << 20) // 4
    source = serial(f"%1: i32 = const {n - 1}\n%2: f32 = const 5.0\nstore @x[%1], %2", f"buffer @x: field f32[{n}]")
    memory = device().allocate((n,), np.float32)
    frame = load(source).frame(device())
    frame.set_buffer("x", memory.address)
    assert frame.launch() == 0
    assert memory.read()[-1] == 5.0


def test_out_of_memory_is_an_error() -> None:
    with pytest.raises((MemoryError, RuntimeError), match="Vulkan"):
        device().allocate((1 << 50,), np.float64)
    assert bind(load(AXPY), ones(10), {"a": 1.0}).launch() == 0


# --- launching ------------------------------------------------------------------------------------------------

def test_heap_budget_means_fewer_threads() -> None:
    own = Device(heap_budget=1 << 16)
    n = 3000
    y = np.zeros((n, 8), np.float32)
    arrays = {"x": np.ones(n, np.float32), "count": np.full(n, 8, np.int32), "y": y}
    bound = bind(load(stacked("f32", n).replace("{OP}", "add %9, %9")), arrays, stacks=[64], on=own)
    assert bound.launch() == 0
    assert bound.frame.stack_bytes() == 256
    assert bound.frame.stack_threads == 256
    assert (y == 2.0 ** np.arange(8)).all()


def test_pipelines_are_kept_on_disk(tmp_path: Path) -> None:
    store = DiskCache(tmp_path)
    own = Device(cache=store)
    assert bind(load(AXPY), ones(10), {"a": 1.0}, on=own).launch() == 0
    del own
    gc.collect()
    (path,) = tmp_path.iterdir()
    kept = store.get(path.stem)
    assert kept is not None
    assert kept[:8] == b"\x20\0\0\0\1\0\0\0"
    whole = path.read_bytes()
    for content in (whole, whole[:20], b"", bytes(100), whole[:-92] + os.urandom(92)):
        path.write_bytes(content)
        own = Device(cache=store)
        assert bind(load(AXPY), ones(10), {"a": 1.0}, on=own).launch() == 0
        del own
        gc.collect()
        assert store.get(path.stem) == kept


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_mesa_keeps_no_shaders_where_the_disk_is_full(free: int, tmp_path: Path) -> None:
    """Mesa's cache would map a file that the disk has no room for, which ends the process."""
    code = f"""
import os
from types import SimpleNamespace
asked = []
os.statvfs = lambda path: asked.append(path) or SimpleNamespace(f_bavail={free}, f_frsize=1)
from quadrants_lab.backends.vulkan import api
api.instance()
assert asked == [{str(tmp_path)!r}]
print(os.environ.get("MESA_SHADER_CACHE_DISABLE"))
"""
    env = {"XDG_CACHE_HOME": str(tmp_path / "not there")}
    mesa = dict.fromkeys(name for name in os.environ if name.startswith("MESA_"))
    done = run(sys.executable, "-c", code, cwd=ROOT, env={**mesa, **env})
    assert done.stdout.strip() == ("None" if free else "true")


# --- long kernels ---------------------------------------------------------------------------------------------

NESTED = serial(
    """%1: i64 = const 0
    %2: i32 = const 0
    %3: i32 = arg n
    %4: i64 = const 1
    for %5: i32 in %2..%3 carry (%6: i64 = %1) {
      for %7: i32 in %2..%3 carry (%8: i64 = %6) {
        %9: i64 = add %8, %4
        yield %9
      } -> (%10: i64)
      yield %10
    } -> (%11: i64)
    store @r[], %11""",
    "buffer @r: ret i64[]",
    "n: i32",
)


@pytest.mark.parametrize("source", [NESTED, NESTED.replace("for %7", "for reversed %7")])
def test_loops_that_the_driver_ends_are_an_error(source: str) -> None:
    exe = load(source)
    assert vulkan_rig.bind(exe, {}, {"n": 200}).launch() == 0
    frame = bind(exe, {}, {"n": 1000})
    if not device().physical.target.cuts_loops:
        assert frame.launch() == 0
        assert frame.ret("r") == 1_000_000
        return
    with pytest.raises(RuntimeError, match="kernel k went round its loops more than 65535 times"):
        frame.launch()
    frame.set_arg("n", 10)
    assert frame.launch() == 0
    assert frame.ret("r") == 100


SLOW = parallel(
    "const 262144",
    """%4: i32 = const 0
    %5: i32 = load @n[]
    %6: f64 = load @x[%3]
    for %7: i32 in %4..%5 carry (%8: f64 = %6) {
      %9: f64 = tanh %8
      yield %9
    } -> (%10: f64)
    store @x[%3], %10""",
    "buffer @x: field f64[262144]\nbuffer @n: field i32[]",
)


def test_ctrl_c_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    own = fresh()
    arrays = {"x": np.ones(262144), "n": np.array(500, np.int32)}
    bound = bind(load(SLOW), arrays, on=own)
    for name, array in arrays.items():
        bound.memory[name].write(array)
    assert bound.frame.launch() == 0
    waiting, wait = threading.Event(), api.lib().vkWaitForFences

    def not_yet(*args: Any) -> int:
        """Keeps the device busy until the interrupt, however fast the device is."""
        waiting.set()
        wait(*args)
        return queue._TIMEOUT

    interrupt_when(waiting.is_set)
    with monkeypatch.context() as patch:
        patch.setattr(own.logical.queue, "_fence_status", lambda *fence: queue._NOT_READY)
        patch.setattr(api, "lib", lambda: SimpleNamespace(vkWaitForFences=not_yet))
        with pytest.raises(KeyboardInterrupt):
            own.finish()
    assert own.busy
    own.finish()
    bound.memory["n"].write(np.array(1, np.int32))
    bound.memory["x"].write(np.ones(262144))
    assert bound.frame.launch() == 0
    assert np.allclose(bound.memory["x"].read(), np.tanh(1.0))


def test_a_shader_that_does_not_build_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The RuntimeError names the kernel, the size and the device."""
    monkeypatch.setattr(executable, "emit", lambda *args: b"\x03\x02\x23\x07" + bytes(16))
    exe = load(AXPY)
    with pytest.raises(RuntimeError, match=r"kernel axpy.*: 20 bytes, 0 lines of SPIR-V, on .*VK_ERROR"):
        exe.frame(device())
