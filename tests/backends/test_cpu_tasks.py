"""Tasks on the CPU: what holds on every backend, and launching in this process."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import cpu_rig
import numpy as np
import pytest
from child import together
from conformance_tasks import *  # noqa: F403
from conformance_tasks import AXPY, CHECKED, serial, stacked
from cpu_rig import EXACT, FAST, bind, device, load, run

from quadrants_lab.backends.cpu.device import Device
from quadrants_lab.backends.launch import ArrayParam, ConstParam, ScalarParam, Status


@pytest.fixture
def rig() -> Any:
    return cpu_rig


def test_long_loops_in_strips() -> None:
    for way in ("", "reversed "):
        source = serial(
            f"""%1: i64 = const 0
            %2: i32 = const -7
            %3: i32 = arg n
            for {way}%4: i32 in %2..%3 carry (%5: i64 = %1, %6: i64 = %1) {{
              %7: i64 = cast %4
              %8: i64 = add %5, %7
              yield %8, %7
            }} -> (%10: i64, %11: i64)
            store @r[], %10
            store @last[], %11""",
            "buffer @r: ret i64[]\nbuffer @last: ret i64[]",
            "n: i32",
        )
        exe = load(source)
        for n in (-7, -6, 16376, 16377, 16378, 32761, 32762, 100_000):
            frame = bind(exe, {}, {"n": n})
            assert frame.launch() == 0
            assert frame.ret("r") == sum(range(-7, n))
            if n > -7:
                assert frame.ret("last") == (-7 if way else n - 1)


def test_heap_grows_by_doubling_and_is_shared() -> None:
    own = Device(2)
    exe = load(stacked("f32", 10).replace("{OP}", "add %9, %9"))
    frames = [exe.frame(own) for _ in range(2)]
    sizes = []
    for cap in (1, 100, 10_000, 100_000, 110_000, 10):
        frames[cap % 2].set_stacks([cap])
        sizes.append(own.heap_bytes)
    assert sizes == sorted(sizes)
    assert sizes[4] == sizes[3] * 2 or sizes[4] == sizes[3]
    assert sizes[-1] == sizes[-2]


def test_fast_entry() -> None:
    exe = load(AXPY)
    frame = exe.frame(device(2))
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


@pytest.mark.parametrize(
    ("t", "good", "bad"),
    [
        ("i8", (-128, 127, 0), (128, -129, 1.0, "x", 2**70)),
        ("u32", (0, 2**32 - 1), (-1, 2**32)),
        ("i64", (-1, -(2**63)), (2**63,)),
        ("u64", (0, 2**63 - 1), (-1,)),
        ("f64", (1.5, 3, -1, float("inf")), ("x", None)),
        ("u1", (True, False), (1, 0)),
    ],
)
def test_fast_scalars_and_returns(t: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    source = serial(f"%1: {t} = arg a\nstore @r[], %1", f"buffer @r: ret {t}[]", f"a: {t}")
    fast = load(source).frame(device(2)).entry([ScalarParam("a")], returns="r")
    for value in good:
        got = fast(value)
        assert got == value
        assert type(got) is (float if t[0] == "f" else bool if t == "u1" else int)
    for value in bad:
        assert fast(value) is NotImplemented


def test_fast_entry_reports_failures() -> None:
    exe = load(CHECKED, debug=True)
    x = np.full(1000, -1, np.int32)
    frame = bind(exe, {"x": x, "y": np.zeros(1000, np.int32), "after": np.zeros((), np.int32)})
    fast = frame.entry([])
    assert fast() is Ellipsis
    assert frame.status == Status.ASSERT


def test_denormals_are_flushed_and_the_mode_restored() -> None:
    x, y = np.full(4, 1e-30, np.float32), np.zeros(4, np.float32)
    run(AXPY, {"x": x, "y": y}, {"a": 1e-10})
    assert not y.any()
    assert np.float32(1e-30) * np.float32(1e-10) > 0


def test_ten_thousand_launches_without_growth() -> None:
    import resource

    exe = load(stacked("f32", 64).replace("{OP}", "add %9, %9"))
    arrays = {
        "x": np.ones(64, np.float32),
        "count": np.full(64, 5, np.int32),
        "y": np.zeros((64, 8), np.float32),
    }
    frame = bind(exe, arrays, stacks=[5])
    fast = frame.entry([])
    for _ in range(1000):
        fast()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        assert fast() is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000


def test_many_python_threads_on_their_own_devices() -> None:
    exe = load(AXPY)
    errors: list[str] = []

    def work(seed: int) -> None:
        own = Device(2)
        frame = exe.frame(own)
        fast = frame.entry([ScalarParam("a"), ArrayParam("x"), ArrayParam("y")])
        x = np.full(60_000, seed, np.float32)
        for k in range(100):
            y = np.zeros_like(x)
            if fast(float(k), x, y) is not None or not (y == k * seed).all():
                errors.append(f"{seed}, {k}")

    together(*(partial(work, n) for n in range(4)))
    assert not errors


FOREVER = serial(
    """%1: i32 = const 0
    while carry (%2: i32 = %1) {
      %3: i32 = load @go[]
      %4: u1 = eq %3, %1
      yield %4
    } do {
      %5: i32 = const 1
      %6: i32 = add %2, %5
      yield %6
    } -> (%7: i32)""",
    "buffer @go: field i32[]",
)


def test_cancel_from_another_thread() -> None:
    own = Device(2)
    frame = load(FOREVER).frame(own)
    go = np.zeros((), np.int32)
    frame.set_buffer("go", go.ctypes.data)
    timer = threading.Timer(0.1, own.cancel)
    timer.start()
    begin = time.perf_counter()
    assert frame.launch() == Status.CANCELLED
    assert time.perf_counter() - begin < 5
    timer.join(60)
    go[...] = 1
    assert frame.launch() == 0


def test_exact_and_fast_agree_on_structure() -> None:
    """Both optimisation settings run the same control flow."""
    for options in (EXACT, FAST):
        y = np.zeros((30, 8), np.float32)
        exe = load(stacked("f32", 30).replace("{OP}", "add %9, %9"), options)
        frame = bind(
            exe,
            {"x": np.ones(30, np.float32), "count": np.full(30, 8, np.int32), "y": y},
            stacks=[8],
            threads=1,
        )
        assert frame.launch() == 0
        assert (y == 2.0 ** np.arange(8)).all()
