"""The disk cache of IR: which changes of a program make another kernel, and which kernels come from the cache."""

import ast
import linecache
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np
import pytest
from child import run as in_a_process
from sessions import skips

import quadrants_lab as qd
from quadrants_lab.backends import cpu, disk_cache
from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.disk_cache import BEGIN
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.runtime import session
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile import compile as compiler, kernel_cache
from quadrants_lab.runtime.compile.specialisation import WATCHED, ir_key

OF_IR = disk_cache.of_ir  # `conftest.compiled_each_time` replaces it


class Program:
    """A program in a file. Each call starts it again as another process would, with new modules, sessions and kernels.
    ``compiled``: the kernels that the last call compiled; the others came from the cache."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.compiled: list[str] = []
        compile_kernel = compiler.compile_kernel

        def counted(source: Any, *more: Any) -> Any:
            self.compiled.append(source.name)
            return compile_kernel(source, *more)

        monkeypatch.setattr(compiler, "compile_kernel", counted)
        monkeypatch.setattr(disk_cache, "of_ir", OF_IR)
        monkeypatch.syspath_prepend(str(folder))

    def __call__(self, text: str, beside: str = "", **options: Any) -> Any:
        (self.folder / "beside.py").write_text(beside)
        path = self.folder / "program.py"
        path.write_text(text)
        linecache.cache.pop(str(path), None)
        linecache.cache.pop(str(self.folder / "beside.py"), None)
        sys.modules.pop("beside", None)
        rmtree(self.folder / "__pycache__", ignore_errors=True)
        self.compiled.clear()
        qd.init(arch=qd.cpu, offline_cache_file_path=str(self.cache), **options)
        space: dict[str, Any] = {"__name__": "program", "qd": qd, "np": np}
        exec(compile(text, str(path), "exec", dont_inherit=True), space)
        return space["result"]()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    yield Program(tmp_path, monkeypatch)
    qd.reset()


class Case(NamedTuple):
    """The program ``text`` returns the first of the ``results`` with ``before`` in place of CHANGE, and the second with
    ``after``; where it imports the module ``beside``, these are the text of that module. ``kept``: whether a second
    process takes the kernel from the cache; ``other``: whether the change makes another kernel."""

    text: str
    before: str = "3"
    after: str = "4"
    results: tuple[Any, Any] = (6, 8)
    kept: bool = True
    other: bool = True


def of(value: str, head: str = "", args: str = "", given: str = "", ret: str = "qd.f64", more: str = "") -> str:
    """A program whose kernel returns ``value``; ``head`` precedes the kernel."""
    kernel = f"@qd.kernel\ndef k({args}) -> {ret}:\n{more}    return {value}\n"
    return f"{head}\n{kernel}def result():\n    return k({given})\n"


def of_field(made: str, value: str, before: str = "pass", head: str = "") -> str:
    """A program with a field ``x`` whose kernel returns ``value``, computed in a loop."""
    kernel = f"@qd.kernel\ndef k() -> qd.f64:\n    s = qd.f64(0.0)\n    for i in range(1):\n        s += {value}\n"
    return f"x = qd.field({made})\n{head}\n{kernel}    return s\ndef result():\n    {before}\n    return k()\n"


def of_self(value: str, init: str = "pass", body: str = "pass") -> str:
    """A program whose kernel is a method."""
    kernel = f"    @qd.kernel\n    def k(self) -> qd.f64:\n        return {value}\n"
    head = f"@qd.data_oriented\nclass A:\n    {body}\n    def __init__(self):\n        {init}\n"
    return f"{head}{kernel}def result():\n    return A().k()\n"


BOX = "class Box:\n    {}\nbox = Box()\n"
EMPTY = BOX.format("pass")
FUNC = "@qd.func\ndef {}:\n    return {}\n"
QD = "import quadrants_lab as qd\n"
TWO = FUNC.format("a(x)", "x * 3") + FUNC.format("b(x)", "x * 4")
PI = np.float32(np.pi)
LONG = (1 << 24) + 1  # no f32

CASES = {
    # numbers and containers
    "a global number": Case(of("N * 2", "N = CHANGE")),
    "its type": Case(of("N // 2 * 2.0", "N = CHANGE"), "3", "3.5", (2, 2)),
    "the sign of zero": Case(of("qd.atan2(N, -1.0)", "N = CHANGE"), "0.0", "-0.0", (PI, -PI)),
    "a global of numpy": Case(of("N * 2", "N = np.CHANGE"), "float64(1.5)", "int32(2)", (3, 4)),
    "an array of numpy": Case(of("A[1] * 2", "A = np.array([1, CHANGE])")),
    "a list": Case(of("L[1] + len(L)", "L = [1, CHANGE]"), results=(5, 6)),
    "the length of a tuple": Case(of("len(L)", "L = (1, CHANGE)"), "3", "4, 5", (2, 3)),
    "a dict": Case(of("D['a'] * 2", "D = {'a': CHANGE, 'b': 1}")),
    "a named tuple": Case(of("p.n * 2", "from collections import namedtuple\np = namedtuple('P', 'm n')(1, CHANGE)")),
    "an enum": Case(of("E.A.value * 2", "import enum\nclass E(enum.Enum):\n    A = CHANGE")),
    "an enum of ints": Case(of("E.A * 2", "import enum\nclass E(enum.IntEnum):\n    A = CHANGE")),
    "a member of an enum": Case(
        of("M.value * 2", "import enum\nclass E(enum.Enum):\n    A = 3\n    B = 4\nM = E.CHANGE"), "A", "B"),
    "a number of a class of its own": Case(of("N * 2", "class Int(int):\n    pass\nN = Int(CHANGE)"), kept=False),
    "a vector": Case(of("v[1] * 2", "v = qd.Vector([1, CHANGE])")),
    # where names are found
    "a closure": Case(
        "def make(n):\n    @qd.kernel\n    def k() -> qd.f64:\n        return n * 2\n    return k\ndef result():\n"
        "    return make(CHANGE)()\n"),
    "what is in a module": Case(of("beside.N * 2", "import beside"), "N = 3", "N = 4"),
    "a name that hides a builtin": Case(of("max(3, 4) * 2", "CHANGE"), "", FUNC.format("max(a, b)", "a"), (8, 6)),
    "a test at compile time": Case(of("3 if qd.static(ON) else 4", "ON = CHANGE"), "True", "False", (3, 4)),
    "what one way alone reads": Case(
        of("s", "ON, N = True, CHANGE",
           more="    s = 1.0\n    if qd.static(ON):\n        s = N * 2.0\n    else:\n        s = M * 2.0\n")),
    # attributes
    "an attribute": Case(of("box.n * 2", EMPTY + "box.n = CHANGE")),
    "an attribute of an attribute": Case(of("box.a.n * 2", EMPTY + "box.a = Box()\nbox.a.n = CHANGE")),
    "a class attribute": Case(of("Box.n * 2", BOX.format("n = CHANGE"))),
    "a class attribute, of an object": Case(of("box.n * 2", BOX.format("n = CHANGE"))),
    "one that hides the class's": Case(of("box.n * 2", BOX.format("n = 3") + "CHANGE"), "", "box.n = 4"),
    "a slot": Case(of("box.n * 2", BOX.format("__slots__ = ('n',)") + "box.n = CHANGE")),
    "the class of an object": Case(
        of("box.n * 2", "class A:\n    n = 3\nclass B(A):\n    n = 4\nbox = CHANGE()"), "A", "B"),
    "a property": Case(
        of("box.n * 2", "N = CHANGE\n" + BOX.format("@property\n    def n(self):\n        return N")), kept=False),
    "an attribute that Python makes": Case(
        of("box.n * 2", BOX.format("def __getattr__(self, name):\n        return CHANGE")), kept=False),
    # objects that are more than their attributes
    "the length of an object": Case(
        of("len(box) * 2", BOX.format("def __len__(self):\n        return CHANGE")), kept=False),
    "that of one in a list": Case(
        of("len(L[0]) * 2", BOX.format("def __len__(self):\n        return CHANGE") + "L = [box]"), kept=False),
    "an entry of an object": Case(
        of("box[1] * 2", BOX.format("def __getitem__(self, k):\n        return CHANGE")), kept=False),
    "a func that gets an object": Case(
        of("f(box)", EMPTY + "box.n = CHANGE\n" + FUNC.format("f(b: qd.template())", "b.n * 2"))),
    # functions
    "a func": Case(of("f(2.0)", FUNC.format("f(x)", "x * CHANGE"))),
    "a func in a module": Case(
        of("beside.f(2.0)", "import beside"), QD + FUNC.format("f(x)", "x * 3"), QD + FUNC.format("f(x)", "x * 4")),
    "what a func reads": Case(of("f(2.0)", "N = CHANGE\n" + FUNC.format("f(x)", "x * N"))),
    "what a func of a func reads": Case(
        of("f(2.0)", "N = CHANGE\n" + FUNC.format("g()", "N") + FUNC.format("f(x)", "x * g()"))),
    "a default": Case(of("f(2.0)", "N = CHANGE\n" + FUNC.format("f(x, n=N)", "x * n"))),
    "another func of that name": Case(of("f(2.0)", TWO + "f = CHANGE"), "a", "b"),
    "the dtype of a func's argument": Case(
        of("f(2.5)", "T = CHANGE\n" + FUNC.format("f(x: T)", "x * 1.0")), "qd.i32", "qd.f64", (2, 2.5)),
    "a plain function": Case(of("f(x)", "def f(x):\n    return x * CHANGE", "x: qd.f64", "2.0")),
    "what a plain function reads": Case(of("f(x)", "N = CHANGE\ndef f(x):\n    return x * N", "x: qd.f64", "2.0")),
    "one of two lambdas in a line": Case(
        of("f(x)", "two = (lambda x: x * 3, lambda x: x * 4)\nf = two[CHANGE]", "x: qd.f64", "2.0"), "0", "1"),
    "what Python computes": Case(of("qd.static(f(2))", "def f(x):\n    return x * CHANGE"), kept=False),
    "what Python is given": Case(
        of("qd.static(sorted([1, 2], key=f)[0])", "def f(x):\n    return x * CHANGE"), "1", "-1", (1, 2), kept=False),
    "an operation under another name": Case(of("f(0.0)", "f = qd.CHANGE"), "sin", "cos", (0, 1)),
    "an operation that was put in the place of ours": Case(
        of("qd.sin(0.0)") + "sin = qd.sin\nqd.sin = CHANGE\nk_, result_ = k, result\ndef result():\n    try:\n"
        "        return result_()\n    finally:\n        qd.sin = sin\n", "sin", "qd.cos", (0, 1)),
    "a function of math": Case(of("f(0)", "import math\nf = math.CHANGE"), "sin", "cos", (0, 1)),
    # self
    "self": Case(of_self("self.n * 2", "self.n = CHANGE")),
    "the class of self": Case(of_self("self.n * 2", body="n = CHANGE")),
    "a list of self": Case(of_self("self.n[1] * 2", "self.n = [1, CHANGE]")),
    "a func of self": Case(
        of_self("self.f()", "self.n = 2", "@qd.func\n    def f(self):\n        return self.n * CHANGE")),
    "what a func of self reads": Case(
        of_self("self.f()", "self.n = CHANGE", "@qd.func\n    def f(self):\n        return self.n * 2")),
    # arguments and types
    "a template argument": Case(of("n * 2", args="n: qd.template()", given="CHANGE")),
    "its class": Case(
        of("n.a * 2", "class A:\n    a = 3\nclass B:\n    a = 4", "n: qd.template()", "CHANGE()"), "A", "B"),
    "a func as a template argument": Case(of("f(2.0)", TWO, "f: qd.template()", "CHANGE"), "a", "b"),
    "the dtype of an argument": Case(of("n // -2", "T = CHANGE", "n: T", "3"), "qd.i32", "qd.f64", (-2, -2)),
    "the axes of an array": Case(
        of("a.shape[0] + len(a.shape)", "", "a: qd.types.ndarray()", "np.ones(CHANGE)"), "3", "(3, 4)", (4, 5)),
    "the dtype of a value": Case(of("T(x)", "T = CHANGE", "x: qd.f64", "2.5"), "qd.i32", "qd.f64", (2, 2.5)),
    "the dtype of what is returned": Case(of("2.5", "T = CHANGE", ret="T"), "qd.i32", "qd.f64", (2, 2.5)),
    "a type of vectors": Case(of("V(2.5, 1.0)[0]", "V = qd.types.vector(2, CHANGE)"), "qd.i32", "qd.f64", (2, 2.5)),
    "a type of structs": Case(of("S(a=2.5).a", "S = qd.types.struct(a=CHANGE)"), "qd.i32", "qd.f64", (2, 2.5)),
    "a method of a dataclass": Case(
        of("S(a=2.0).f()", "@qd.dataclass\nclass S:\n    a: qd.f64\n    @qd.func\n    def f(self):\n"
           "        return self.a * CHANGE")),
    # fields
    "the shape of a field": Case(of_field("qd.f64, CHANGE", "x.shape[0] * 2")),
    "the dtype of a field": Case(of_field("CHANGE, 3", "x[0]", f"x[0] = {LONG}"), "qd.f32", "qd.f64", (LONG - 1, LONG)),
    "the placement of a field": Case(
        of_field("qd.f64", "x[0] + x.shape[0] * 2", head="qd.root.dense(qd.i, CHANGE).place(x)")),
    "a sparse layout": Case(
        of_field("qd.f64", "x[0] + x.shape[0]", head="qd.root.pointer(qd.i, CHANGE).dense(qd.i, 2).place(x)"),
        kept=False),
    "a node": Case(
        of_field("qd.f64", "x.parent().shape[0] * 2", head="qd.root.dense(qd.i, CHANGE).place(x)"), kept=False),
    "another field": Case(
        of_field("qd.f64, 1", "y[0] * 2", "x[0], z[0] = 3, 4", "z = qd.field(qd.f64, 1)\ny = CHANGE"), "x", "z",
        other=False),
    "two names of a field": Case(
        of_field("qd.f64, 1", "x[0] + z[0] + y[0]", "x[0], z[0] = 3, 4", "z = qd.field(qd.f64, 1)\ny = CHANGE"),
        "x", "z", (10, 11)),
    "an entry of a field": Case(
        of_field("qd.f64, 1", "y[0] * 2", "z[0] = [3, 4]",
                 "z = qd.Vector.field(2, qd.f64, 1)\ny = z.get_scalar_field(CHANGE)"), "0", "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_changes_a_kernel_is_seen(name: str, program: Program) -> None:
    """The text and position of the kernel itself do not change."""
    case = CASES[name]
    before, after = (
        (case.text, text) if "beside" in case.text else (case.text.replace("CHANGE", text), "")
        for text in (case.before, case.after)
    )
    assert program(*before) == case.results[0]
    assert program.compiled
    assert program(*before) == case.results[0]
    assert bool(program.compiled) is not case.kept
    assert program(*after) == case.results[1]
    assert bool(program.compiled) is case.other
    assert program(*before) == case.results[0]
    assert bool(program.compiled) is not case.kept


@pytest.mark.parametrize("options", [{"fast_math": False}, {"default_fp": qd.f64}, {"debug": True}])
def test_other_options_compile_again(options: dict[str, Any], program: Program) -> None:
    text = of("x / 3", args="x: float", given="1.0")
    assert program(text) == np.float32(1 / 3)
    assert program(text, **options) == pytest.approx(1 / 3)
    assert program.compiled
    assert program(text) == np.float32(1 / 3)
    assert not program.compiled


def test_warnings_are_given_again(program: Program) -> None:
    text = of_field("qd.f64, 1", "x[0]").replace("qd.f64(0.0)", "0.0")
    found = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            program(text)
        found.append([(str(w.message), w.category, w.filename, w.lineno) for w in given])
    assert not program.compiled
    assert found[0] == found[1]
    assert "QL1901" in found[0][0][0]


GRADIENT = """
x, y = (qd.field(qd.f64, 8, needs_grad=True) for _ in range(2))
loss = qd.field(qd.f64, (), needs_grad=True)
count = qd.field(qd.i32, 8)

@qd.kernel
def k(a: qd.types.ndarray(), scale: qd.f64):
    for i in x:
        v = x[i] * scale
        for j in range(count[i]):
            v = qd.sin(v) + a[i]
        y[i] = v
        loss[None] += v * v

def result():
    a = np.arange(8.0)
    for i in range(8):
        x[i], count[i] = i / 8, i % 3
    with qd.ad.Tape(loss):
        k(a, 2.0)
    rows = [(r.name, r.depth) for r in k.sizes()] if hasattr(k.sizes(), "__iter__") else str(k.sizes())
    return x.grad.to_numpy().tolist(), y.to_numpy().tolist(), loss[None], rows, k.ir(), k.grad.ir(), k.ir("front end")
"""


def test_gradients_and_what_is_shown_are_the_same(program: Program) -> None:
    """The IR is that of the compiled kernel, and stages that are made on request are those that lead to it."""
    first = program(GRADIENT)
    assert program.compiled
    assert program(GRADIENT) == first
    assert not program.compiled
    x, step = np.arange(8) / 8, 1e-6
    def loss(x: Any) -> Any:
        v = x * 2.0
        for j in range(2):
            v = np.where(j < np.arange(8) % 3, np.sin(v) + np.arange(8.0), v)
        return v * v
    np.testing.assert_allclose(first[0], (loss(x + step) - loss(x - step)) / (2 * step), rtol=1e-6)


def test_stages_are_those_of_what_ran(program: Program) -> None:
    text = of("x * N", "N = 3", "x: qd.f64", "2.0")
    text = text.replace("return k(2.0)", "return k(2.0), k.ir(), k.ir('simplify'), k.code()")
    first = program(text)
    assert program(text) == first
    assert not program.compiled


def test_stages_of_what_ran_when_its_globals_have_changed(program: Program) -> None:
    text = of("x * N", "N = 3", "x: qd.f64", "2.0")
    shown = "k.ir(), k.ir('simplify'), k.ir('front end')"
    text = text.replace("return k(2.0)", f"global N; N = 3; v = k(2.0); N = 4; return v, {shown}")
    first = program(text)
    assert program.compiled
    assert program(text) == first
    assert not program.compiled
    assert all(" 3" in stage for stage in first[1:])
    assert not any(" 4" in stage for stage in first[1:])


def test_names_in_an_annotation_are_read_for_each_kernel(program: Program) -> None:
    text = f"from __future__ import annotations\n{QD}T = CHANGE\n@qd.func\ndef f(x: T):\n    x += 1.0\n"
    for name in ("first", "k"):
        text += f"@qd.kernel\ndef {name}() -> qd.f64:\n    y = 5.0\n    f(y)\n    return y\n"
    text += "def result():\n    first()\n    return k()\n"
    assert program(text.replace("CHANGE", "qd.template()")) == 6
    assert program(text.replace("CHANGE", "qd.f64")) == 5
    assert program.compiled == ["first", "k"]


def test_a_trace_compiles_again_and_sees_the_passes(program: Program) -> None:
    text = of("N * 2", "N = 3")
    program(text)
    told: list[str] = []
    token = WATCHED.set(told.append)
    try:
        assert program(text) == 6
    finally:
        WATCHED.reset(token)
    assert "k, forward: simplify" in told
    assert told[-2:] == ["k, forward: machine code", ""]
    assert program.compiled == ["k"]


def test_what_is_damaged_is_not_read(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is compiled again, which replaces the damaged entry."""
    text = of("N * 2", "N = 3")
    program(text)
    records = {path: path.read_bytes() for path in program.cache.iterdir() if pickled(path.read_bytes())}
    assert len(records) == 2
    monkeypatch.setattr(kernel_cache._Reader, "find_class", lambda *a: pytest.fail("it was read"))
    for path, whole in records.items():
        path.write_bytes(whole[:-1])
    assert program(text) == 6
    assert program.compiled
    assert {path: path.read_bytes() for path in records} == records
    monkeypatch.undo()


def pickled(raw: bytes) -> bool:
    return raw[BEGIN:].startswith(b"\x80")


def test_a_record_makes_nothing_but_data() -> None:
    import os
    import pickle
    for harm in (os.system, eval, kernel_cache.import_module, qd.init):
        with pytest.raises(pickle.UnpicklingError, match="no data of ours"):
            kernel_cache._Reader(pickle.dumps(harm), []).load()


PROCESS = """
import sys
import quadrants_lab as qd
qd.init(arch=qd.cpu, offline_cache_file_path=sys.argv[1])
x = qd.field(qd.f32, 8)
y = qd.field(qd.f32, 8, needs_grad=True)
z = qd.field(qd.f32, (), needs_grad=True)
@qd.func
def f(a):
    return qd.sin(a) + 2
@qd.kernel
def k(scale: qd.f32):
    for i in x:
        x[i] = scale * f(y[i])
        z[None] += y[i] * y[i]
k(2.0)
late = {"json", "llvmlite", *("quadrants_lab." + name for name in (
    "passes", "pipelines", "autodiff.reverse", "adstack", "frontend.lower", "frontend.ops", "backends.lower",
    "backends._llvm", "ir.text", "ir.prims", "runtime.compile.compile", "runtime.launch.gradient_plan"))}
print(x.to_numpy().tolist(), sorted(late & set(sys.modules)))
"""


def test_a_process_imports_no_compiler(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROCESS)
    first, second = (in_a_process(sys.executable, program, tmp_path / "cache").stdout for _ in range(2))
    assert "quadrants_lab.frontend.lower" in first
    assert "autodiff.reverse" not in first  # and no derivatives, for which this launch keeps nothing
    assert second == f"{[4.0] * 8} []\n"


def test_the_key_has_every_folder_that_makes_ir() -> None:
    package = Path(qd.__file__).parent
    makers = ("ir", "analysis", "passes", "pipelines", "autodiff", "adstack", "frontend")
    found = {p.parent.relative_to(package) for folder in makers for p in (package / folder).rglob("*.py")}
    assert {str(folder) for folder in found} <= set(disk_cache._OF_IR)


def test_code_depends_on_all_sources_of_lowerings() -> None:
    """`lower/local_arrays` was in no key: code of an older version would have been found again."""
    lower = disk_cache._LOWER[0]
    assert {f.parent for f in lower.rglob("*.py")} == {folder.resolve() for folder in disk_cache._LOWER}


CODE = {  # the modules that schedule, lower and emit
    "cpu": ("cpu.tasks", "cpu.jit", "cpu.lanes"), "c": ("c.emitter",), "metal": ("_msl.kernel",),
    "cuda": ("_simt.body", "cuda.nvptx"), "amdgpu": ("_simt.body", "amdgpu.gcn"), "wasm": ("wasm.emitter",),
    "vulkan": ("_spirv.kernel", "_spirv.target"),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=skips(name)) for name in CODE])
def test_the_key_of_machine_code_has_every_folder_that_makes_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code would be found again although `ir/prims.py`, the schedule or a lowering makes other code by now."""
    found: set[Path] = set()
    monkeypatch.setattr(disk_cache, "stamp", lambda folder: found.add(Path(folder).resolve()))
    module: Any = backend(name)
    module.target_key.__wrapped__()
    package = Path(qd.__file__).parent
    kept = {package, package / "passes"}  # `errors`, and the loop over passes
    assert {f.parent for f in imports(*(f"quadrants_lab.backends.{m}" for m in CODE[name]))} <= found | kept


def imports(*modules: str) -> set[Path]:
    """The files of the package that these modules import, now or later."""
    package, todo = Path(qd.__file__).parent, list(modules)
    found: set[Path] = set()
    while todo:
        path = package.joinpath(*todo.pop().split(".")[1:])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file() and file.resolve() not in found:
                found.add(file.resolve())
                for node in ast.walk(ast.parse(file.read_text())):
                    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quadrants_lab."):
                        inner = [f"{node.module}.{a.name}" for a in node.names]
                        files = any(package.joinpath(*m.split(".")[1:]).with_suffix(".py").is_file() for m in inner)
                        todo += inner if files else [str(node.module)]
    return found


def test_the_key_of_machine_code_has_the_schedule_and_the_width_of_vectors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = jit.target()
    keys: set[str] = set()
    widths: set[int] = set()
    for features in ("", "+avx2", "+avx2,+avx512f,+avx512dq,+avx512vl"):
        monkeypatch.setattr(jit, "target", lambda features=features: known._replace(features=features))
        keys.add(cpu.target_key.__wrapped__())
        widths.add(jit.vector_bytes.__wrapped__())
    assert widths == {0, 32, 64}
    assert len(keys) == 3
    qd.init(arch=qd.cpu, offline_cache=True, offline_cache_file_path=str(tmp_path))
    kernel = parse_kernel("kernel k() forward {\n offload serial bounds {\n yield\n } do () {\n yield\n }\n}\n")
    others = [replace(kernel, body=(replace(kernel.tasks[0], **how),)) for how in ({}, {"in_step": 4}, {"lanes": 8})]
    assert len({ir_key(k, session.current()) for k in others}) == 3


PURE = """
small, LARGE = 4, 3
@qd.kernel(fastcache=True)
def bad(): print(small)
@qd.kernel(fastcache=True)
def k() -> qd.i32: return LARGE
def result():
    try:
        bad()
    except SyntaxError as error: found = [str(error), k()]
    o = k._primal.src_ll_cache_observations
    return [*found, o.cache_key_generated, o.cache_validated, o.cache_loaded, o.cache_stored]
"""


@pytest.mark.filterwarnings("ignore:warning.QL1908")
def test_a_kernel_with_fastcache_reads_its_arguments_alone(program: Program) -> None:
    for loaded in (False, True):
        said, *found = program(PURE)
        assert "error[QL1307]: 'small' is of type int and comes from outside of bad" in said
        assert found == [3, True, loaded, loaded, not loaded]
