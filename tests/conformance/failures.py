"""Random draws, failures and prints, on every backend; part of `tasks`."""

from typing import Any

import numpy as np
import pytest
from rigs import parallel

from quadrants_lab.backends.launch import AssertFailed, Status
from quadrants_lab.ir import draws
from quadrants_lab.ir.types import f16, f32, f64, i16, u64

# --- random draws -----------------------------------------------------------------------------------------------

def test_draws(rig: Any) -> None:
    """A draw depends on its counters: another launch draws other numbers, a replay the same."""
    types = [t for t in (f32, f16, f64, i16, u64) if t in rig.TYPES]
    sites = [(t, f"%{10 + n}: {t} = random {n}") for n, t in enumerate(types)]
    source = f"""kernel draws() forward {{
      {"".join(f"buffer @{t}: field {t}[20x2x3]{chr(10)}" for t in types)}
      buffer @d: ret f32[]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const 20
        %3: i32 = const 2
        yield %1, %1, %2, %3
      }} do (%4: i32, %5: i32) {{
        %6: i32 = const 0
        %7: i32 = const 3
        for %8: i32 in %6..%7 {{
          {"".join(f"{draw}{chr(10)}store @{t}[%4, %5, %8], {draw[:3]}{chr(10)}" for t, draw in sites)}
          yield
        }}
        yield
      }}
      offload serial bounds {{
        yield
      }} do () {{
        %30: f32 = random 9
        store @d[], %30
        yield
      }}
    }}"""
    own = rig.fresh()
    own.set_seed(-5)
    arrays = {t.name: np.zeros((20, 2, 3), t.numpy) for t in types}
    frame = rig.bind(rig.load(source), arrays, on=own)
    for number in (1, 2, 2, 4):
        frame.replay(2 if number == 2 else 0)
        assert frame.launch() == 0
        assert frame.launch_number == number
        for n, t in enumerate(types):
            want = [[draws.value(t, draws.draw(-5, number, i, n, k)) for k in range(3)] for i in range(40)]
            assert np.array_equal(arrays[t.name].reshape(40, 3), want), t
        assert frame.ret("d") == draws.value(f32, draws.draw(-5, number, 0, 9, 0))


# --- failures and prints ----------------------------------------------------------------------------------------

CHECKED = """kernel checked() forward {
  buffer @x: field i32[1000]
  buffer @y: field i32[1000]
  buffer @after: field i32[]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 1000
    yield %1, %2
  } do (%3: i32) {
    %4: i32 = load @x[%3]
    %5: i32 = const 0
    %6: u1 = ge %4, %5
    %7: f32 = const 0.25
    assert assert %6, "negative {} at {}, {}" (%4, %3, %7)
    store @y[%3], %4
    yield
  }
  offload serial bounds {
    yield
  } do () {
    %8: i32 = const 1
    store @after[], %8
    yield
  }
}"""


def test_assert(rig: Any) -> None:
    exe = rig.load(CHECKED, debug=True)
    x, y, after = np.ones(1000, np.int32), np.zeros(1000, np.int32), np.zeros((), np.int32)
    frame = rig.bind(exe, {"x": x, "y": y, "after": after})
    assert frame.launch() == 0
    assert after == 1
    after[...] = 0
    x[321] = -5
    assert frame.launch() == Status.ASSERT
    failed = frame.failure()
    assert isinstance(failed, AssertFailed)
    assert failed.stmt.message == "negative {} at {}, {}"
    assert failed.values == (-5, 321, 0.25)
    assert after == 0
    bounds = rig.load(CHECKED.replace("assert assert", "assert bounds"))
    assert rig.bind(bounds, {"x": x, "y": y, "after": after}).launch() == Status.ASSERT
    x[321] = 1
    assert frame.launch() == 0


def test_print(rig: Any) -> None:
    source = """kernel talk() forward {
      offload range_for bounds {
        %1: i32 = const 0
        %2: i32 = const 50
        yield %1, %2
      } do (%3: i32) {
        %4: f32 = cast %3
        %5: f32 = const 0.1
        %6: f32 = mul %4, %5
        %7: u1 = gt %4, %5
        print "i=", %3, " x=", %6, " ", %7, "\\n"
        yield
      }
    }"""
    frame = rig.bind(rig.load(source), {})
    for _ in range(2):
        assert frame.launch() == Status.PRINTED
        lines = frame.take_prints()
        want = {f"i={i} x={np.float32(i) * np.float32(0.1)!s} {i > 0}\n" for i in range(50)}
        assert set(lines) == want
        assert len(lines) == 50
    assert frame.take_prints() == []


@pytest.mark.parametrize("t", ["i32", "u8", "i8", "u32", "i64", "u16"])
def test_compare_and_swap(rig: Any, t: str) -> None:
    """The first thread finds 0, all others the value that it stored."""
    source = parallel(
        "const 90",
        f"""%4: i32 = const 3
        %5: i32 = mod %3, %4
        %6: {t} = cast %3
        %7: {t} = const 0
        %8: {t} = atomic cas @y[%5], %6 expected %7
        store @old[%3], %8""",
        f"buffer @y: field {t}[3]\nbuffer @old: field {t}[90]",
    )
    dtype = {"i": f"int{t[1:]}", "u": f"uint{t[1:]}"}[t[0]]
    y, old = np.zeros(3, dtype), np.zeros(90, dtype)
    rig.run(source, {"y": y, "old": old})
    for k in (1, 2):
        assert y[k] % 3 == k
        assert sorted(old[k::3]) == [0, *[y[k]] * 29]
