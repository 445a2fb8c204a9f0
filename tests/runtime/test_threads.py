"""If the system cannot start threads, work continues without them."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from child import run
from conftest import ROOT
from sessions import skips

from quadrants_lab.backends import forks
from quadrants_lab.runtime.backend import backend

# A thread's stack is as large as the limit at the program's start says; there is no room for one of 128 TiB.
ALONE = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_STACK)[1]
if most not in (resource.RLIM_INFINITY, 1 << 47):
    sys.exit("limited")
resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, most))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
PROGRAM = """
import sys, threading
from rigs import cuda_stand_in
import quadrants_lab as qd
cuda_stand_in.install()
try:
    threading.Thread(target=int).start()
    print("there are threads")
except RuntimeError:
    pass
qd.init(arch=getattr(qd, sys.argv[1]), simulate=True, enable_fallback=False, offline_cache=False)
x = qd.field(qd.i32, 1_000_000)

@qd.kernel
def add():
    for i in x:
        x[i] += i

for _ in range(3):
    add()
print(x[999_999])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="takes threads away as Linux allows it")
@pytest.mark.parametrize("arch", [pytest.param(a, marks=skips(a)) for a in ("cpu", "cuda", "metal", "wasm")])
def test_a_session_without_threads(arch: str, tmp_path: Path) -> None:
    if arch == "cuda" and not backend(arch).probe():
        pytest.skip("NVIDIA's driver starts threads of its own")
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = run(sys.executable, "-c", ALONE, file, arch, env=env, status=None)
    if done.stderr == "limited\n":
        pytest.skip("the stack of a process is limited here")
    assert (done.output, done.returncode) == ("2999997\n", 0)


def test_warming_up_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any) -> None:
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", refused)
    from quadrants_lab.backends.cuda import driver
    from quadrants_lab.lang.arch import _load_compiler as load_compiler
    load_compiler.__wrapped__()
    driver.begin_imports.__wrapped__()
    driver.warm_up.__wrapped__(None)
    assert not [t for t in forks._threads if not t.is_alive() and t.ident is None]
