"""Tasks, control flow, memory, adstacks and failures on the simulated Metal device."""

from __future__ import annotations

from functools import partial
from typing import Any

import metal_rig
import numpy as np
import pytest
from child import together
from conformance_tasks import *  # noqa: F403
from conformance_tasks import AXPY, serial, stacked

from quadrants_lab.backends import metal
from quadrants_lab.backends._msl.kernel import Module
from quadrants_lab.backends.launch import ArrayParam, ConstParam, ScalarParam
from quadrants_lab.backends.metal import executable
from quadrants_lab.backends.metal.device import Device
from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsTypeError
from quadrants_lab.ir import draws
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import f16, f32, i16, u64


@pytest.fixture
def rig() -> Any:
    return metal_rig


def test_temporaries_and_bounds_that_a_task_leaves() -> None:
    """The second task runs as often as the first one counted; temporaries are zero at each launch."""
    source = """kernel select() forward {
      buffer @x: ndarray f32[?]
      buffer @count: temp i32[]
      buffer @sum: ret f32[]
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = shape @x 0
        yield %1, %2
      } do (%3: i32) {
        %4: f32 = load @x[%3]
        %5: f32 = const 0.5
        %6: u1 = gt %4, %5
        %7: i32 = cast %6
        %8: i32 = atomic add @count[], %7
        yield
      }
      offload range_for bounds {
        %9: i32 = const 0
        %10: i32 = const 3
        %11: i32 = load @count[]
        yield %9, %9, %11, %10
      } do (%12: i32, %13: i32) {
        %14: i32 = add %12, %13
        %15: f32 = cast %14
        %16: f32 = atomic add @sum[], %15
        yield
      }
    }"""
    exe = metal_rig.load(source)
    for n in (1, 10, 3000):
        x = np.random.default_rng(n).random(n).astype(np.float32)
        count = int((x > 0.5).sum())
        bound = metal_rig.bind(exe, {"x": x})
        for _ in range(2):
            assert bound.launch() == 0
            assert bound.ret("sum") == sum(i + j for i in range(count) for j in range(3))


def test_draws_of_every_dtype() -> None:
    types = (f32, f16, i16, u64)
    buffers = "\n".join(f"buffer @{t}: field {t}[40]" for t in types)
    body = "\n".join(f"%{10 + n}: {t} = random {n}\nstore @{t}[%3], %{10 + n}" for n, t in enumerate(types))
    source = f"""kernel draws() forward {{
      {buffers}
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const 40
        yield %1, %2
      }} do (%3: i32) {{
        {body}
        yield
      }}
    }}"""
    own = metal_rig.fresh()
    own.set_seed(-5)
    arrays = {t.name: np.zeros(40, t.numpy) for t in types}
    bound = metal_rig.bind(metal_rig.load(source), arrays, on=own)
    for number in (1, 2, 1):
        bound.replay(1 if number == 1 else 0)
        assert bound.launch() == 0
        for n, t in enumerate(types):
            assert bound.launch_number == number
            want = [draws.value(t, draws.draw(own.seed, number, i, n, 0)) for i in range(40)]
            assert np.array_equal(arrays[t.name], want), t


def test_heap_grows_by_doubling_and_is_shared() -> None:
    own = metal_rig.fresh()
    exe = metal_rig.load(stacked("f32", 10).replace("{OP}", "add %9, %9"))
    frames = [exe.frame(own) for _ in range(2)]
    sizes = []
    for cap in (1, 100, 10_000, 100_000, 110_000, 10):
        frames[cap % 2].set_stacks([cap])
        sizes.append(own.heap_bytes)
    assert sizes == sorted(sizes)
    assert sizes[4] in (sizes[3], sizes[3] * 2)
    assert sizes[-1] == sizes[-2]
    assert frames[0].stack_bytes() == 40


def test_names_that_msl_or_the_emitter_has_taken() -> None:
    """Every buffer and argument gets a variable of its own, and none hides a function."""
    used = ["f", "it", "top", "end12", "float", "s0", "half", "lane", "floor", "x.grad", "x_grad", "v7", "j_9"]
    buffers = "\n".join(f"buffer @{n}: field f32[4]" for n in used)
    adds = "".join(
        f"%{50 + 3 * k}: f32 = load @{n}[%4]\n%{51 + 3 * k}: f32 = floor %{50 + 3 * k}\n"
        f"%{100 + k}: f32 = add %{99 + k}, %{51 + 3 * k}\n"
        for k, n in enumerate(used)
    )
    source = f"""kernel names(device: f32, record: i32) forward {{
      {buffers}
      buffer @y: field f32[4]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const 4
        yield %1, %2
      }} do (%4: i32 'kernel') {{
        %99: f32 'while' = arg device
        %5: i32 = arg record
        {adds}
        %13: i32 = load @y_count[]
        for %9: i32 'end' in %13..%5 carry (%7: f32 'top' = %{99 + len(used)}, %8: f32 'next' = %99) {{
          %10: f32 = add %7, %8
          yield %8, %10
        }} -> (%11: f32, %12: f32)
        store @y[%4], %11
        yield
      }}
    }}""".replace("buffer @y:", "buffer @y_count: field i32[]\n      buffer @y:")
    arrays = {n: np.full(4, k + 0.5, np.float32) for k, n in enumerate(used)}
    arrays |= {"y": np.zeros(4, np.float32), "y_count": np.zeros((), np.int32)}
    metal_rig.run(source, arrays, {"device": 0.25, "record": 5})
    a, b = 0.25 + sum(range(len(used))), 0.25
    for _ in range(5):
        a, b = b, a + b
    assert (arrays["y"] == np.float32(a)).all()


def test_a_serial_task_has_stacks_too() -> None:
    source = serial(
        """adstack_alloca $1: u1 primal %2 reason "test"
        adstack_alloca $20: i8 primal %2 reason "test"
        %2: i32 = const 0
        %3: i32 = const 100
        %4: i32 = const 3
        for %5: i32 in %2..%3 {
          %6: i32 = mod %5, %4
          %7: u1 = eq %6, %2
          adstack_push $1, %7
          %8: i8 = cast %5
          adstack_push $20, %8
          yield
        }
        adstack_guard {
          for reversed %9: i32 in %2..%3 carry (%10: i32 = %2) {
            %11: u1 = adstack_load_top $1
            adstack_pop $1
            %12: i8 = adstack_load_top $20
            adstack_pop $20
            %13: i32 = cast %12
            %14: i32 = select %11, %13, %2
            %15: i32 = add %10, %14
            yield %15
          } -> (%16: i32)
          store @r[], %16
          yield
        }""",
        "buffer @r: ret i32[]",
    )
    exe = metal_rig.load(source)
    assert metal_rig.bind(exe, {}, stacks=[100, 100]).frame.launch() == 0
    assert metal_rig.run(source, {}, stacks=[100, 100]).ret("r") == sum(range(0, 100, 3))


# --- launching --------------------------------------------------------------------------------------------------


def test_fast_entry() -> None:
    own = metal_rig.device()
    frame = metal_rig.load(AXPY).frame(own)
    fast = frame.entry([ScalarParam("a"), ArrayParam("x"), ConstParam(), ArrayParam("y")])
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    assert fast(2.0, x, None, y) is None
    assert fast(1, x, "anything", y) is None
    assert np.array_equal(y, 3 * x)
    assert fast(1.0, x[::2], None, y) is NotImplemented
    memory = own.allocate((8,), np.float32)  # the device's own memory is used where it lies
    assert fast(2.0, x, None, memory.array) is None
    assert np.array_equal(memory.read(), 2 * x)
    assert own.locate(memory.array[2:4]) == memory.address + 8
    assert own.locate(x) == 0


def test_memory_of_another_device_is_refused() -> None:
    frame = metal_rig.load(AXPY).frame(metal_rig.fresh())
    x = np.zeros(4, np.float32)
    for name in ("x", "y"):
        frame.set_buffer(name, x.ctypes.data)
        frame.set_extents(name, (4,))
    frame.set_arg("a", 1.0)
    with pytest.raises(
        QuadrantsRuntimeError, match="'x' of kernel 'axpy' does not lie in memory of simulated"
    ):
        frame.launch()


def test_ten_thousand_launches_without_growth() -> None:
    import resource

    exe = metal_rig.load(stacked("f32", 64).replace("{OP}", "add %9, %9"))
    arrays = {
        "x": np.ones(64, np.float32),
        "count": np.full(64, 5, np.int32),
        "y": np.zeros((64, 8), np.float32),
    }
    bound = metal_rig.bind(exe, arrays, stacks=[5])
    fast = bound.frame.entry([])
    for _ in range(1000):
        fast()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        assert fast() is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000


def test_threads_on_their_own_devices() -> None:
    exe = metal_rig.load(AXPY)
    errors: list[str] = []

    def work(seed: int) -> None:
        fast = exe.frame(metal_rig.fresh()).entry([ScalarParam("a"), ArrayParam("x"), ArrayParam("y")])
        x = np.full(6000, seed, np.float32)
        for k in range(20):
            y = np.zeros_like(x)
            if fast(float(k), x, y) is not None or not (y == k * seed).all():
                errors.append(f"{seed}, {k}")

    together(*(partial(work, n) for n in range(3)))
    assert not errors


# --- what does not work ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (serial("%1: f32 = const 1.0\n%2: f64 'speed' = cast %1\n%3: f32 = cast %2\nstore @r[], %3",
                "buffer @r: ret f32[]"), "variable 'speed' of kernel 'k'"),
        (serial("%1: f64 = load @mass[]\n%2: f32 = cast %1\nstore @r[], %2",
                "buffer @r: ret f32[]\nbuffer @mass: field f64[]"), "field 'mass' of kernel 'k'"),
        (serial("%1: f64 = arg dt\n%2: f32 = cast %1\nstore @r[], %2", "buffer @r: ret f32[]", "dt: f64"),
         "argument 'dt' of kernel 'k'"),
    ],
)  # fmt: skip
def test_f64_is_refused_by_name(source: str, what: str) -> None:
    with pytest.raises(QuadrantsTypeError, match=f"{what} is f64, which Metal does not have"):
        metal.load(parse_kernel(source), metal_rig.EXACT)


def test_a_build_that_fails_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Module(("#include <metal_stdlib>", "kernel void task0() { nonsense; }"), (-1, -1), 1)
    monkeypatch.setattr(executable, "emit", lambda *args: wrong)
    exe = metal.load(parse_kernel(AXPY), metal_rig.EXACT)
    with pytest.raises(QuadrantsRuntimeError) as caught:
        exe.frame(metal_rig.fresh())
    text = str(caught.value)
    assert "kernel 'axpy' does not build on metal (simulated Metal GPU): 57 bytes, 2 lines of MSL" in text
    assert "nonsense" in text


def test_the_device_says_that_it_is_simulated() -> None:
    own: Device = metal_rig.fresh()
    assert own.simulated
    assert own.name == "simulated Metal GPU"
    assert metal.probe_simulation() == ""
