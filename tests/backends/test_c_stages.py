"""The C of two kernels, as it should read; lines and names; a compiler that is not there, refuses, crashes or hangs."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conformance.stage_kernels import BRANCHES, LOOP
from rigs.c_rig import load, run
from sessions import sessions, skips

import quadrants_lab as qd
from quadrants_lab.backends import c
from quadrants_lab.backends.c import compiler, emitter
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk

HERE = Path(__file__).resolve().parent
OPTIONS = CompileOptions()
compiled = pytest.mark.parametrize("arch", [pytest.param("c", marks=skips("c"))])


def stage(ir: N.Kernel) -> tuple[list[str], tuple[int, ...]]:
    made = c.stages(ir, OPTIONS)["c"]()
    return made.text.split("\n"), made.ids


@pytest.mark.parametrize(("name", "source"), [("loop", LOOP), ("branches", BRANCHES)])
def test_text(name: str, source: str, golden: Callable[[Path, str], None]) -> None:
    golden(HERE / f"{name}.c", "\n".join(stage(parse_kernel(source))[0]) + "\n")


def test_lines_lead_to_statements_and_to_the_program() -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    x = qd.field(qd.f32, 4)

    @qd.kernel
    def doubled(n: qd.i32):
        for i in x:
            for j in range(n):
                x[i] = x[i] * 2.0

    doubled(2)
    lines = doubled.code("c").split("\n")
    (store,) = (n for n, line in enumerate(lines) if line.endswith("x[i] *= 2.0f;"))
    assert lines[store - 1].lstrip().startswith("// line ")
    assert lines[store - 1].endswith(": x[i] = x[i] * 2.0")
    made = doubled.dispatcher.last.compiled.kernel
    _, ids = stage(made)
    (statement,) = (s for s in walk(made.body) if isinstance(s, N.Store))
    assert ids[store] == statement.id
    assert {i for i in ids if i != N.NO_ID} <= {s.id for s in walk(made.body)}


@compiled
def test_names_that_c_or_the_emitter_has_taken(arch: str) -> None:
    used = ["frame", "double", "float", "sinf", "x.grad", "x_grad", "t", "qd_", "NAN", "INT32_MAX", "9", "end12_"]
    buffers = "\n".join(f"buffer @b{k}.{n}: field f32[4]" for k, n in enumerate(used))
    reads = "".join(
        f"%{50 + 3 * k}: f32 '{n}' = load @b{k}.{n}[%4]\n%{51 + 3 * k}: f32 '{n}' = sin %{50 + 3 * k}\n"
        f"%{100 + k}: f32 'entry' = add %{99 + k}, %{51 + 3 * k}\n"
        for k, n in enumerate(used)
    )
    source = f"""kernel while(return: f32) forward {{
      {buffers}
      buffer @y: field f32[4]
      offload range_for bounds {{
        %1: i32 = const 0
        %2: i32 = const 4
        yield %1, %2
      }} do (%4: i32 'int') {{
        %99: f32 'static' = arg return
        {reads}
        store @y[%4], %{99 + len(used)}
        yield
      }}
    }}"""
    arrays = {f"b{k}.{n}": np.full(4, 0.0, np.float32) for k, n in enumerate(used)} | {"y": np.zeros(4, np.float32)}
    run(source, arrays, {"return": 0.5})
    assert (arrays["y"] == 0.5).all()


# --- the compiler ---------------------------------------------------------------------------------------------------

def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C source can be shown without a compiler, too."""
    monkeypatch.setattr(compiler, "compiler", lambda: "")
    with pytest.raises(QuadrantsRuntimeError, match=r"c: The c backend needs a C compiler: apt install gcc"):
        qd.init(arch=qd.c, enable_fallback=False)
    with pytest.raises(QuadrantsRuntimeError, match=r"QL3030.*apt install gcc"):
        c.load(parse_kernel(LOOP), OPTIONS)
    assert "= sinf(" in "\n".join(stage(parse_kernel(LOOP))[0])


@compiled
def test_a_source_that_is_refused(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "emitted", lambda *_: [("void entry(void) { nonsense }", N.NO_ID)])
    with pytest.raises(QuadrantsRuntimeError, match=r"(?s)QL3031.*ended with 1: .*nonsense.*kernel.code\('c'\)"):
        load(LOOP)


def pretend(monkeypatch: pytest.MonkeyPatch, path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(compiler, "compiler", lambda: str(path))


def test_a_compiler_that_crashes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path / "cc", "echo about to fall; kill -SEGV $$")
    with pytest.raises(QuadrantsRuntimeError, match=r"QL3031.*ended with -11: about to fall"):
        load(LOOP)


def test_a_compiler_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processes that the compiler has started end with it."""
    pid, new = tmp_path / "pid", tmp_path / "new"
    pretend(monkeypatch, tmp_path / "cc", f"sleep 1000 & echo $! >{new}; mv {new} {pid}; wait")
    monkeypatch.setattr(compiler, "_MOST_SECONDS", 0.3)
    with pytest.raises(QuadrantsRuntimeError, match=r"QL3031.*was still at work after 0.3 s"):
        load(LOOP)
    if pid.exists() and Path("/proc/self").exists():
        state = Path("/proc", pid.read_text().strip(), "stat")
        while state.exists() and " Z " not in state.read_text():
            time.sleep(0.05)


@compiled
def test_truncated_code_on_disk_is_not_used(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, kept = parse_kernel(LOOP), []
    monkeypatch.setattr(compiler, "compiled", lambda text, make=compiler.compiled: kept.append("made") or make(text))
    made_of = c.load(small, OPTIONS, None, kept.append).object
    obj = kept[-1]
    assert kept == ["made", obj]
    assert obj.endswith(made_of)
    for cached, made in ((obj, 0), (obj[:40], 1)):
        kept.clear()
        c.load(small, OPTIONS, cached, kept.append)
        assert kept.count("made") == made == len(kept) - made


# --- running --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", sessions("c"))
def test_memory_is_the_hosts(options: dict[str, object]) -> None:
    qd.init(**options)
    x = qd.ndarray(qd.f32, 4)
    view = x.to_numpy(copy=False)
    @qd.kernel
    def count(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in a:
            a[i] += i
            b[i] = a[i]
    b = np.zeros(4, np.float32)
    count(x, b)
    assert view.tolist() == b.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("options", sessions("c"))
def test_bits_as_f16_are_all_of_f16_in_the_kernel(options: dict[str, object]) -> None:
    """No declaration names the type then, but the union of bits needs it."""
    qd.init(**options)
    bits, y = qd.field(qd.u16, 1), qd.field(qd.f32, 1)
    @qd.kernel
    def read():
        y[0] = qd.bit_cast(bits[0], qd.f16)
    bits[0] = 0x3E00
    read()
    assert y[0] == 1.5
