"""What holds on every backend: primitives, tasks, adstacks, failures and random draws, from IR text; and launches by a
frame's fast entry."""

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from child import together
from conformance.prims import *  # noqa: F403
from conformance.tasks import *  # noqa: F403
from conformance.tasks import AXPY, CHECKED, serial, stacked
from sessions import NIGHT, in_turn, skips

from quadrants_lab.backends.launch import ArrayParam, ConstParam, ScalarParam, Status

C = pytest.param("c", id="c", marks=skips("c"))
ELSE = [pytest.param(arch, id=arch) for arch in ("cpu", "cuda", "vulkan", "metal", "amdgpu", "wasm")]


# by day on the CPU, on one device whose code LLVM or a C compiler makes, and on one of the others
@pytest.fixture(params=in_turn(in_turn([C, *ELSE], ("c", "cuda", "amdgpu")), ("vulkan", "metal", "wasm")))
def rig(request: pytest.FixtureRequest) -> Any:
    """By day what has ten kernels for each dtype is only run, and not listed for several chips."""
    module = import_module(f"rigs.{request.param}_rig")
    listed = NIGHT or request.node.originalname != "test_rows_with_a_constant"
    return getattr(module, "LISTED", module) if listed else module


# --- launches through an entry ------------------------------------------------------------------------------------

@pytest.fixture(params=["cpu", C, "vulkan", "metal", "wasm"])
def near(request: pytest.FixtureRequest) -> Any:
    """A rig whose entries take the host's arrays."""
    return import_module(f"rigs.{request.param}_rig")


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_fast_math_keeps_one_over_a_root(near: Any, name: str) -> None:
    check_one_over_a_root(near, name)  # noqa: F405  # what stands in for other devices is LLVM's x86


def test_heap_grows_by_doubling_and_is_shared(near: Any) -> None:
    own = near.fresh()
    exe = near.load(stacked("f32", 10).replace("{OP}", "add %9, %9"))
    frames = [exe.frame(own) for _ in range(2)]
    sizes = []
    for cap in (1, 100, 10_000, 100_000, 110_000, 10):
        frames[cap % 2].set_stacks([cap])
        sizes.append(own.heap_bytes)
    assert sizes == sorted(sizes)
    assert sizes[4] in (sizes[3], sizes[3] * 2)
    assert sizes[-1] == sizes[-2]


def test_fast_entry(near: Any) -> None:
    frame = near.load(AXPY).frame(near.device())
    fast = frame.entry([ScalarParam("a"), ArrayParam("x"), ConstParam(), ArrayParam("y")])
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    assert fast(2.0, x, None, y) is None
    assert fast(1, x, "anything", y) is None
    assert np.array_equal(y, 3 * x)
    frozen = y.copy()
    frozen.flags.writeable = False
    assert fast(1.0, frozen, None, y) is None  # read only
    for bad in (
        (1.0, x, None), (1.0, x, None, y, y), ("1", x, None, y), (10**400, x, None, y), (1.0, x.astype("f8"), None, y),
        (1.0, x[::2], None, y), (1.0, x.reshape(2, 4), None, y), (1.0, list(x), None, y), (1.0, x, None, frozen),
        (np.float32(1), x, None, y), (True, x, None, y), (1.0, x.astype(">f4"), None, y), (1.0, None, None, y),
    ):  # fmt: skip
        assert fast(*bad) is NotImplemented


@pytest.mark.parametrize("name", ["vulkan", "metal"])
def test_atomics_on_bytes_that_begin_within_a_word(name: str) -> None:
    near = import_module(f"rigs.{name}_rig")
    source = """kernel count() forward {
      buffer @y: ndarray u8[?]
      offload range_for bounds {
        %0: i32 = const 0
        %1: i32 = const 64
        yield %0, %1
      } do (%2: i32) {
        %3: i32 = const 7
        %4: i32 = and %2, %3
        %5: u8 = const 1
        %6: u8 = atomic add @y[%4], %5
        yield
      }
    }"""
    device = near.device()
    memory = device.allocate((9,), np.dtype(np.uint8))
    if memory.array is None:
        pytest.skip("the host does not see the device's memory")
    memory.array[:] = 0
    frame = near.load(source).frame(device)
    fast = frame.entry([ArrayParam("y")])
    assert frame.bind_temp("y", memory.array) is None
    assert frame.bind_temp("y", memory.array[1:]) is not None  # a copy, which begins with one
    words = device.allocate((9,), np.dtype(np.uint32))
    assert frame.bind_temp("y", words.array[:8].view(np.int64)) is None
    assert frame.bind_temp("y", words.array[1:].view(np.int64)) is not None  # eight bytes need a multiple of eight
    frame.bind_temp("y", memory.array)
    for begin, want in ((0, [8] * 8 + [0]), (1, [8] + [16] * 7 + [8])):
        assert fast(memory.array[begin:]) is None
        device.finish()
        assert memory.array.tolist() == want


@pytest.mark.parametrize(("t", "good", "bad"), [
    ("i8", (-128, 127, 0), (128, -129, 1.0, "x", 2**70)),
    ("u32", (0, 2**32 - 1), (-1, 2**32)),
    ("i64", (-1, -(2**63)), (2**63,)),
    ("u64", (0, 2**63 - 1), (-1,)),
    ("f64", (1.5, 3, -1, float("inf")), ("x", None)),
    ("u1", (True, False), (1, 0)),
])
def test_fast_scalars_and_returns(near: Any, t: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    source = serial(f"%1: {t} = arg a\nstore @r[], %1", f"buffer @r: ret {t}[]", f"a: {t}")
    fast = near.load(source).frame(near.device()).entry([ScalarParam("a")], returns="r")
    for value in good:
        got = fast(value)
        assert got == value
        assert type(got) is (float if t[0] == "f" else bool if t == "u1" else int)
    for value in bad:
        assert fast(value) is NotImplemented


def test_fast_entry_reports_failures(near: Any) -> None:
    arrays = {"x": np.full(1000, -1, np.int32), "y": np.zeros(1000, np.int32), "after": np.zeros((), np.int32)}
    frame = near.bind(near.load(CHECKED, debug=True), arrays)
    assert frame.launch() == Status.ASSERT
    assert frame.entry([])() is Ellipsis
    assert frame.status == Status.ASSERT


def test_python_threads_on_their_own_devices(near: Any) -> None:
    exe = near.load(AXPY)
    errors: list[str] = []
    def work(seed: int) -> None:
        fast = exe.frame(near.fresh()).entry([ScalarParam("a"), ArrayParam("x"), ArrayParam("y")])
        x = np.full(20_000, seed, np.float32)
        for k in range(50):
            y = np.zeros_like(x)
            if fast(float(k), x, y) is not None or not (y == k * seed).all():
                errors.append(f"{seed}, {k}")
    together(*(partial(work, n) for n in range(4)))
    assert not errors
