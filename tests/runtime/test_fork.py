"""A forked child can launch kernels, whatever the parent's other threads did; use of a lost device is an error."""

import sys
from pathlib import Path
from typing import Any

import pytest
from child import run
from conftest import ROOT
from sessions import in_turn, skips

HEAD = """
import os, signal, sys, threading, time
from rigs import cuda_stand_in, hip_stand_in
import quadrants_lab as qd
from quadrants_lab.runtime import session
cuda_stand_in.install()
hip_stand_in.install()

def init(arch):
    qd.init(arch=getattr(qd, arch), simulate=True, enable_fallback=False, offline_cache=False)

def forked(act):
    '''Runs it in a child, and says how the child ended.'''
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        act()
        sys.exit(0)
    print("child's status", os.waitpid(pid, 0)[1])

def anew():
    '''A session of its own.'''
    init("cpu")
    y = qd.field(qd.i32, 4)

    @qd.kernel
    def three():
        for i in y:
            y[i] = 3

    three()
    print(y[1])

init(sys.argv[1])
x = qd.field(qd.i32, 64)

@qd.kernel
def add():
    for i in x:
        x[i] += 1
"""


def archs(*names: str) -> list[Any]:
    """Parameters, skipped where the backend cannot be used here."""
    return [pytest.param(name, id=name, marks=skips(name)) for name in names]


def output(program: str, folder: Path, arch: str = "cpu", head: str = HEAD) -> list[str]:
    """The lines that the program prints."""
    file = folder / "program.py"
    file.write_text(head + program)
    # From 3.12 on Python warns of every fork of a process with threads; these programs are about such forks.
    ignored = "ignore::DeprecationWarning,ignore:warning[QL2134]"  # and some drivers are told of
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PYTHONWARNINGS": ignored}
    done = run(sys.executable, "-X", "faulthandler", file, arch, env=env)
    return done.output.splitlines()


# --- what other threads do ----------------------------------------------------------------------------------------

SPIN = """
v = qd.field(qd.f32, 64)

@qd.kernel
def spin(n: qd.i32):
    for i in v:
        a = v[i]
        for _ in range(n):
            a = qd.sin(a) + 0.1
        v[i] = a

@qd.kernel
def hello(n: qd.i32):
    print("hello", n)

def for_long():
    try:
        spin(2_000_000_000)
    except qd.QuadrantsRuntimeError as e:
        print(e, flush=True)

def launching():
    '''Waits until a launch is under way.'''
    from quadrants_lab.backends.cpu import layout

    while not session.current().device._block.word(layout.RUNNING):
        time.sleep(0.001)

add()
hello(1)
spin(1)
"""

IN_A_LAUNCH = """
other = threading.Thread(target=for_long)
other.start()
launching()

def child():
    add()
    hello(2)
    spin(1)
    print(x[3])

forked(child)
session.current().device.cancel()
other.join()
add()
print(x[3])

from quadrants_lab.backends.cpu import device, jit, layout
import llvmlite.binding.ffi as ffi

session.current().device._block.set_word(layout.PRINT_LOCK, 1)
forked(lambda: hello(3))
session.current().device._block.set_word(layout.PRINT_LOCK, 0)
pid = None

def handler(number, frame):
    global pid
    pid = os.fork()
    if pid:
        print("child's status", os.waitpid(pid, 0)[1], flush=True)
        session.current().device.cancel()

signal.signal(signal.SIGUSR1, handler)
threading.Thread(target=lambda: (launching(), os.kill(os.getpid(), signal.SIGUSR1))).start()
sys.stdout.flush()
for_long()
add()
print(x[3])
"""
CANCELLED = "error[QL2071]: the launch of kernel spin was cancelled"


def test_during_launches(tmp_path: Path) -> None:
    """While another thread launches; while another one prints in a launch; and in a launch of one's own, whose child
    has lost the threads that ran parts of it."""
    launching = ["hello 1", "hello 2", "2", "child's status 0", CANCELLED, "2"]
    printing = ["hello 3", "child's status 0"]
    within = [CANCELLED, "3", "child's status 0", CANCELLED, "3"]
    assert output(SPIN + IN_A_LAUNCH, tmp_path) == [*launching, *printing, *within]


HOLDING = """
from quadrants_lab.backends import forks
from quadrants_lab.backends.cpu import device, jit

def while_held(lock):
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(0.5)

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    forked(anew)
    other.join()
    anew()

add()
for lock in (jit._lock, device._lock, forks.llvm):
    while_held(lock)
"""


def test_while_another_thread_has_a_lock(tmp_path: Path) -> None:
    assert output(HOLDING, tmp_path) == ["3", "child's status 0", "3"] * 3


# Importing a module of the runtime takes a second.
SLOW = """
import importlib.abc, sys, threading, time
held = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "quadrants_lab.runtime.launch.plan":
            held.set()
            time.sleep(1)

sys.meta_path.insert(0, Slow())
"""
LAUNCHING = "threading.Thread(target=add).start()\n"


@pytest.mark.parametrize("arch", archs("cpu", "metal", "wasm"))
def test_while_another_thread_imports(arch: str, tmp_path: Path) -> None:
    """On a GPU `qd.init` starts a thread that imports."""
    program = f"{LAUNCHING if arch == 'cpu' else ''}held.wait()\nforked(lambda: (add(), print(x[3] > 0)))\n"
    assert output(program, tmp_path, arch, head=SLOW + HEAD) == ["True", "child's status 0"]


POOL = """
import multiprocessing

def work(n):
    init("cpu")
    y = qd.field(qd.i32, 100)

    @qd.kernel
    def fill():
        for i in y:
            y[i] = n * i

    fill()
    return y[99]

add()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(3)))
add()
print(x[3])
"""


@pytest.mark.parametrize("arch", in_turn(archs("cpu", "cuda", "vulkan", "metal", "amdgpu", "wasm")))
def test_a_pool_of_processes(arch: str, tmp_path: Path) -> None:
    assert output(POOL, tmp_path, arch) == ["[0, 99, 198]", "2"]


# --- GPUs ---------------------------------------------------------------------------------------------------------

FORKED = (
    "error[QL2002]: the session on {arch} was opened before this process was forked, and cannot be used in the child\n"
    "  = help: in the child, call qd.init(arch=qd.cpu); or start processes by multiprocessing's method 'spawn', "
    "or open the device in the children only"
)

ON_A_GPU = """
def said(act):
    try:
        act()
        return "nothing"
    except Exception as e:
        return str(e)

def child():
    ways = {
        "launch": add, "read": lambda: x[3], "write": lambda: x.fill(1), "copy": x.to_numpy,
        "make": lambda: qd.field(qd.i32, 3), "wait": qd.sync, "old": old,
    }
    for name, act in ways.items():
        print(name, said(act).split(":")[0])
    print(said(add))
    if sys.argv[1] == "vulkan":  # whose driver is not opened again
        print("before this process was forked" in said(lambda: init("vulkan")))
    anew()

for n in range(100):
    add()
old = add._dispatch.call
forked(child)
add()
print(x[3])
"""


def survives_a_fork(arch: str) -> None:
    """Skips where what Vulkan's driver does when a forked process ends hangs: NVIDIA's and llvmpipe of Mesa 26 do."""
    if arch == "vulkan":
        from quadrants_lab.backends.vulkan import api

        if api.choose().target.native_sine or api.choose().runs_both_arms:
            pytest.skip("this driver for Vulkan ends no forked process")


@pytest.mark.parametrize("arch", archs("cuda", "vulkan", "amdgpu"))
def test_a_gpu_is_the_parents(arch: str, tmp_path: Path) -> None:
    survives_a_fork(arch)
    ways = [f"{way} error[QL2002]" for way in ("launch", "read", "write", "copy", "make", "wait", "old")]
    message = FORKED.format(arch=arch).splitlines() + ["True"] * (arch == "vulkan")
    assert output(ON_A_GPU, tmp_path, arch) == [*ways, *message, "3", "child's status 0", "101"]


@pytest.mark.parametrize("arch", archs("metal"))
def test_a_simulated_gpu_goes_on(arch: str, tmp_path: Path) -> None:
    assert output("add()\nforked(lambda: (add(), print(x[3])))\n", tmp_path, arch) == ["2", "child's status 0"]
