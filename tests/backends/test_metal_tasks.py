"""Tasks on the simulated Metal device: names, errors, undefined behaviour."""

import numpy as np
import pytest
from conformance.prims import check, pairs, typed_rows, values
from conformance.tasks import AXPY, serial
from rigs import metal_rig

from quadrants_lab.backends import metal
from quadrants_lab.backends.metal import simulator
from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsTypeError
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import DType


def test_names_that_msl_or_the_emitter_has_taken() -> None:
    """Every buffer and argument gets a variable of its own, and none shadows a function."""
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


# --- launching --------------------------------------------------------------------------------------------------

def test_memory_of_another_device_is_refused() -> None:
    frame = metal_rig.load(AXPY).frame(metal_rig.fresh())
    x = np.zeros(4, np.float32)
    for name in ("x", "y"):
        frame.set_buffer(name, x.ctypes.data)
        frame.set_extents(name, (4,))
    frame.set_arg("a", 1.0)
    with pytest.raises(QuadrantsRuntimeError, match="'x' of kernel 'axpy' does not lie in memory of simulated"):
        frame.launch()


# --- what does not work ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("source", "what"), [
    (serial("%1: f32 = const 1.0\n%2: f64 'speed' = cast %1\n%3: f32 = cast %2\nstore @r[], %3",
            "buffer @r: ret f32[]"), "variable 'speed' of kernel 'k'"),
    (serial("%1: f64 = load @mass[]\n%2: f32 = cast %1\nstore @r[], %2",
            "buffer @r: ret f32[]\nbuffer @mass: field f64[]"), "field 'mass' of kernel 'k'"),
    (serial("%1: f64 = arg dt\n%2: f32 = cast %1\nstore @r[], %2", "buffer @r: ret f32[]", "dt: f64"),
     "argument 'dt' of kernel 'k'"),
])  # fmt: skip
def test_f64_is_refused_by_name(source: str, what: str) -> None:
    with pytest.raises(QuadrantsTypeError, match=f"{what} is f64, which Metal does not have"):
        metal.load(parse_kernel(source), metal_rig.EXACT)


@pytest.mark.parametrize("t", metal_rig.TYPES, ids=str)
def test_nothing_that_c_leaves_undefined(
    t: DType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """MSL has C++'s rules for signed overflow, shifts by the width, division by zero, and float to integer."""
    checks = "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,bounds,alignment"
    monkeypatch.setattr(simulator, "_FLAGS", (*simulator._FLAGS, checks))
    monkeypatch.setattr(simulator, "_version", lambda: checks)
    monkeypatch.setattr(simulator, "_loaded", {})
    a = values(t, 200, 6)
    check(metal_rig, [("cast", u, (t,)) for u in metal_rig.TYPES], a, a, ulps=0)
    check(metal_rig, typed_rows(t, math=False), *pairs(t, 1), ulps=0)
    assert "runtime error" not in capfd.readouterr().err
