"""The linker of `linker.py`; a process whose code comes from the disk cache loads no LLVM."""

import ctypes
import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path

import child
import pytest

from quadrants_lab.backends import linker
from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.disk_cache import DiskCache

pytestmark = pytest.mark.skipif(not linker.usable(jit.architecture()), reason="other systems have LLVM's linker")

PROGRAM = """
import sys
import quadrants_lab as qd

qd.init(arch=qd.cpu, offline_cache_file_path=sys.argv[1], random_seed=7)
x, y = qd.field(qd.f32, 100, needs_grad=True), qd.field(qd.f64, 100, needs_grad=True)
n, loss = qd.field(qd.i32, 100), qd.field(qd.f64, (), needs_grad=True)

@qd.kernel
def fill(a: qd.f32):
    for i in x:
        x[i], y[i], n[i] = a * i + qd.random() * 0.01, qd.tan(0.01 * i) + qd.pow(1.01, qd.cast(i, qd.f64)), 7 % (i + 1)

@qd.kernel
def much() -> qd.f64:
    for i in x:
        v = y[i]
        for j in range(n[i] + 2):
            v = qd.sin(v * x[i]) + qd.atan2(v, 2.0)
        loss[None] += v
    return 2.5

@qd.kernel
def says():
    print("said", n[3], x[0])

fill(0.01)
says()
print(much(), loss[None])
loss.grad[None] = 1.0
much.grad()
print(x.grad.to_numpy().tolist(), y.grad.to_numpy().sum())
print("libllvmlite" in open("/proc/self/maps").read(), file=sys.stderr)
"""


def ran(folder: Path, tmp_path: Path, head: str = "") -> child.Done:
    file = tmp_path / "program.py"
    file.write_text(head + PROGRAM)
    return child.run(sys.executable, str(file), str(folder))


def test_a_process_with_all_code_from_the_disk_loads_no_llvm(tmp_path: Path) -> None:
    first, second = (ran(tmp_path / "cache", tmp_path) for _ in range(2))
    assert (first.stderr.split()[-1], second.stderr.split()[-1]) == ("True", "False")
    assert first.stdout == second.stdout


def test_llvm_is_loaded_while_the_front_end_is(tmp_path: Path) -> None:
    """If the disk has no entry for the kernel, another thread loads LLVM."""
    head = """
import sys
from quadrants_lab.backends import forks
start = forks.start
def told(*what, name):
    print(name, "quadrants_lab.frontend.lower" in sys.modules, file=sys.stderr)
    return start(*what, name=name)
forks.start = told
"""
    first, second = (ran(tmp_path / "cache", tmp_path, head) for _ in range(2))
    assert (first.stderr.split(), second.stderr.split()) == (["LLVM", "False", "True"], ["False"])


def test_it_links_as_llvm_does(tmp_path: Path) -> None:
    without = "from quadrants_lab.backends import linker\nlinker.usable = lambda machine: False\n"
    assert ran(tmp_path / "a", tmp_path).stdout == ran(tmp_path / "b", tmp_path, without).stdout


def object_of(text: str) -> bytes:
    triple, layout = jit.triple_and_layout()
    return jit.object_code(jit.parse(f'target triple = "{triple}"\ntarget datalayout = "{layout}"\n{text}'))


def function(address: int) -> ctypes._CFuncPtr:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


WHOLE = """
@kept = internal global i64 5
@zeros = internal global [100 x i64] zeroinitializer
@table = internal constant [2 x ptr] [ptr @double, ptr @other]
declare i64 @other(i64)
declare i64 @labs(i64)
define i64 @double(i64 %x) {
  %y = mul i64 %x, 2
  ret i64 %y
}
define i64 @entry(i64 %x) {
  %a = load i64, ptr @kept
  %b = add i64 %a, %x
  store i64 %b, ptr @kept
  %slot = getelementptr [100 x i64], ptr @zeros, i64 0, i64 99
  %z = load i64, ptr %slot
  %which = and i64 %x, 1
  %at = getelementptr [2 x ptr], ptr @table, i64 0, i64 %which
  %f = load ptr, ptr %at
  %c = call i64 %f(i64 %b)
  %d = sub i64 %z, %c
  %e = call i64 @labs(i64 %d)
  ret i64 %e
}
"""


def test_data_zeros_tables_and_functions_of_the_process_are_found() -> None:
    other = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x + 1000)
    imports = {"other": ctypes.cast(other, ctypes.c_void_p).value or 0}
    held, address = linker.linked(object_of(WHOLE), ("entry", "double"), imports)
    assert function(address["double"])(21) == 42
    entry = function(address["entry"])
    assert [entry(10), entry(1), entry(0)] == [2 * 15, 1016, 2 * 16]
    del held


@pytest.mark.parametrize("text, why", [
    ("declare i64 @none(i64)\ndefine i64 @entry(i64 %x) {\n  %y = call i64 @none(i64 %x)\n  ret i64 %y\n}",
     "none, which this process has not"),
    ("@t = thread_local global i64 1\ndefine i64 @entry(i64 %x) {\n  %y = load i64, ptr @t\n  ret i64 %y\n}",
     "memory of threads"),
    ("define i64 @another(i64 %x) {\n  ret i64 %x\n}", "what it defines"),
])  # fmt: skip
def test_unsupported_objects_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        linker.linked(object_of(text), ("entry",), {})


def test_unloading_code_unmaps_its_memory() -> None:
    held, address = linker.linked(object_of("define i64 @entry(i64 %x) {\n  ret i64 %x\n}"), ("entry",), {})
    def rights(at: int) -> list[str]:
        lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        ends = [([int(end, 16) for end in where.split("-")], r) for where, r, *_ in lines]
        return [r for (begin, end), r in ends if begin <= at < end]
    assert rights(address["entry"]) == ["r-xp"]
    base = held.base
    del held
    assert "r-xp" not in rights(base)


def test_the_processor_description_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = jit.target()
    cache, name = DiskCache(tmp_path), jit._system()
    assert name
    other = asked._replace(features="+other")
    monkeypatch.setattr(jit, "_target", [])
    cache.put(name, repr(tuple(other)).encode())
    assert jit.target(cache) == other
    monkeypatch.setattr(jit, "_target", [])
    monkeypatch.setattr(jit, "_system", lambda: None)
    assert jit.target(cache) == asked


def test_another_start_of_the_system_or_another_llvm_has_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {jit._system()}
    llvm = tmp_path / "llvmlite.py"
    llvm.write_text("")
    monkeypatch.setattr(jit, "find_spec", lambda name: type("Spec", (), {"origin": str(llvm)}))
    names.add(jit._system())
    llvm.write_text("\n")
    names.add(jit._system())
    monkeypatch.setattr(jit, "_text", lambda path: "another start")
    names.add(jit._system())
    assert len(names) == 4


def test_the_runtime_is_kept_beside_bytecode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If Python may not write bytecode, the session's cache has the runtime; a damaged file is made anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    mine = DiskCache(tmp_path / "mine")

    def kept(below: Path) -> list[Path]:
        return list(below.rglob("*.qlc"))

    folder = Path(cache_from_source(jit.__file__)).parent
    folder.mkdir(parents=True)
    made = jit._runtime_object(mine)
    (file,) = kept(folder)
    assert jit._runtime_object(mine) == made
    file.write_bytes(b"\0" * file.stat().st_size)
    assert jit._runtime_object(mine) == made
    assert kept(folder)
    assert not kept(tmp_path / "mine")
    for forbid in (lambda: folder.chmod(0o777), lambda: monkeypatch.setattr(sys, "dont_write_bytecode", True)):
        shutil.rmtree(tmp_path / "mine", ignore_errors=True)
        forbid()
        assert jit._runtime_object(mine) == made
        assert kept(tmp_path / "mine")
