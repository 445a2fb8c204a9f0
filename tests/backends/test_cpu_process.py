"""What needs a process of its own: Ctrl-C, interpreter exit, fork."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from child import Child

TESTS = Path(__file__).resolve().parent.parent

HEAD = f"""
import os, signal, sys, threading, time
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]
import numpy as np
from rigs.cpu_rig import bind, device, load
from quadrants_lab.backends.cpu.device import CpuDevice
from quadrants_lab.backends.launch import Status
from conformance.stage_kernels import FOREVER

PARALLEL = '''kernel k() forward {{
  buffer @go: field i32[]
  buffer @x: field f64[64]
  offload range_for bounds {{
    %10: i32 = const 0
    %11: i32 = const 64
    yield %10, %11
  }} do (%12: i32) {{
    %1: i32 = const 0
    %15: f64 = const 0.5
    %20: i32 = load @go[]
    %21: i32 = const 2147483647
    %22: i32 = mul %20, %21
    %23: i32 = sub %21, %22
    for %13: i32 in %1..%23 {{
      for %14: i32 in %1..%23 carry (%16: f64 = %15) {{
        %17: f64 = mul %16, %15
        %18: f64 = cos %17
        yield %18
      }} -> (%19: f64)
      store @x[%12], %19
      yield
    }}
    yield
  }}
}}'''
go = np.zeros((), np.int32)
x = np.zeros(64)
serial = bind(load(FOREVER), {{"go": go}})
parallel = bind(load(PARALLEL), {{"go": go, "x": x}})
"""


def start(program: str, interactive: bool = False) -> Child:
    # From 3.12 on Python warns of every fork of a process with threads, and one of these programs forks.
    env = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
    command = sys.executable, "-X", "faulthandler", "-u", "-c", HEAD + program
    return Child(*command, env=env, given=None if interactive else "")


def finish(process: Child) -> str:
    """Waits for the end of the process and returns its whole output."""
    return process.finish(60).output


CALLS = """
LONG = '''kernel k() forward {
  buffer @y: field f64[]
  offload range_for bounds {
    %0: i32 = const 0
    %2: i32 = const 1048576
    yield %0, %0, %2, %2
  } do (%5: i32, %6: i32) {
    %7: i32 = add %5, %6
    %8: f64 = cast %7
    %9: f64 = cos %8
    %10: f64 = atomic add @y[], %9
    yield
  }
}'''
result = []

def handler(number, frame):
    print("handled")
    go[...] = 1

def later():
    time.sleep(0.2)
    go[...] = 1

def sum_of_hours():
    bind(load(LONG), {"y": np.zeros(())}).launch()

def handled():
    signal.signal(signal.SIGUSR1, handler)
    result.append(serial.launch())

def beside_a_thread_of_python():
    threading.Thread(target=later).start()
    result.append(serial.launch())

def on_another_thread():
    worker = threading.Thread(target=lambda: result.append(serial.launch()))
    worker.start()
    try:
        time.sleep(1000)
    finally:
        print("still", worker.is_alive())
        go[...] = 1
        worker.join()

calls = {f.__name__: f for f in (sum_of_hours, handled, beside_a_thread_of_python, on_another_thread)}
calls |= {f"{name} {way}": f for name, one in (("serial", serial), ("parallel", parallel))
          for way, f in (("launch", one.launch), ("entry", one.entry([])))}
for line in sys.stdin:
    go[...] = 0
    result.clear()
    try:
        print("started")
        calls[line.strip()]()
        print("came back", result)
    except KeyboardInterrupt:
        print("interrupted", result)
    go[...] = 1
    print("then", parallel.launch())
"""


def test_signals_reach_python_during_launches() -> None:
    """Ctrl-C returns to the prompt, also from a sum a share of whose iterations would take hours; handlers that do not
    raise let a launch go on, other threads run meanwhile, and one on another thread is not disturbed. One process."""
    with start(CALLS, interactive=True) as process:
        for name, number, *says in (
            *((f"{one} {way}", signal.SIGINT, "interrupted []") for one in ("serial", "parallel")
              for way in ("launch", "entry") for _ in range(2)),
            ("sum_of_hours", signal.SIGINT, "interrupted []"),
            ("handled", signal.SIGUSR1, "handled", "came back [0]"),
            ("beside_a_thread_of_python", None, "came back [0]"),
            ("on_another_thread", signal.SIGINT, "still True", "interrupted [0]"),
        ):
            assert process.say(name)
            assert process.line() == "started\n"
            if number is not None:
                time.sleep(0.3)
                process.send(number)
            for line in (*says, "then 0"):
                assert process.line() == f"{line}\n", name


@pytest.mark.parametrize("after", ["", "time.sleep(0.01)", "time.sleep(0.2)", "import gc; gc.collect()"])
def test_exit(after: str) -> None:
    """The interpreter ends at once and without a crash, with workers spinning or asleep."""
    out = finish(start(f"""
go[...] = 1
own = [CpuDevice(n) for n in (1, 2, 4)]
for _ in range(50):
    parallel.launch()
{after}
print("done")
"""))
    assert out == "done\n"


def test_exit_while_a_daemon_thread_launches() -> None:
    out = finish(start("""
threading.Thread(target=parallel.launch, daemon=True).start()
time.sleep(0.2)
print("done")
"""))
    assert out == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork() -> None:
    out = finish(start("""
go[...] = 1
parallel.launch()
print("parent", parallel.launch(), flush=True)
pid = os.fork()
if pid == 0:
    print("child", parallel.launch(), parallel.launch(), flush=True)
    if sys.platform == "linux":  # this thread, a worker and the monitor
        assert len(os.listdir("/proc/self/task")) == 3
    sys.exit(0)
_, status = os.waitpid(pid, 0)
print("child's exit", status)
print("parent", parallel.launch())
"""))
    assert out == "parent 0\nchild 0 0\nchild's exit 0\nparent 0\n"


def test_exit_where_the_first_launch_is_a_handler_of_atexit(tmp_path: Path) -> None:
    """Python does not call handlers that are registered while it calls handlers."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import atexit, sys
sys.path[:0] = [{str(TESTS.parent)!r}]
import numpy as np
import quadrants_lab as qd

qd.init(arch=qd.cpu, offline_cache=False)

@qd.kernel
def double(x: qd.types.ndarray()):
    for i in x:
        x[i] *= 2.0

@atexit.register
def launch():
    x = np.ones(3)
    double(x)
    print(x)
""")
    assert finish(Child(sys.executable, "-X", "faulthandler", "-u", str(program))) == "[2. 2. 2.]\n"
