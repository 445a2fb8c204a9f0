"""Tasks on the CPU: what holds on every backend, and launching in this process."""

import threading
from importlib import import_module

import numpy as np
import pytest
from child import Worker
from conformance.stage_kernels import FOREVER
from conformance.tasks import AXPY, serial
from rigs.cpu_rig import bind, load, run
from sessions import skips

from quadrants_lab.backends.launch import Status


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


def test_denormals_are_flushed_and_the_mode_restored() -> None:
    x, y = np.full(4, 1e-30, np.float32), np.zeros(4, np.float32)
    run(AXPY, {"x": x, "y": y}, {"a": 1e-10})
    assert not y.any()
    assert np.float32(1e-30) * np.float32(1e-10) > 0


@pytest.mark.parametrize("arch", ["cpu", pytest.param("c", marks=skips("c"))])
def test_cancel_from_another_thread(arch: str) -> None:
    rig = import_module(f"rigs.{arch}_rig")
    own, go = rig.fresh(), np.zeros((), np.int32)
    frame = rig.bind(rig.load(FOREVER), {"go": go}, on=own)
    over = threading.Event()
    def cancel() -> None:
        while not over.wait(0.01):  # a launch that has not begun yet is not cancelled
            own.cancel()
    canceller = Worker(cancel)
    assert frame.launch() == Status.CANCELLED
    over.set()
    canceller.end()
    go[...] = 1
    assert frame.launch() == 0
