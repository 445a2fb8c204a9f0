"""Every line of generated code leads to the source line that it came from, on each backend, forward and adjoint.

Twelve lines of a kernel each multiply by a number of their own. Wherever that number stands in the code, the line with
it leads to that source line and to no other; and each of the twelve has such a line.
"""

import re
import struct
from collections.abc import Callable, Iterator

import pytest

import quadrants_lab as qd
from quadrants_lab.notebook import show
from quadrants_lab.widgets.model import KernelView, Line

OPERATIONS = (
    "qd.sin({})", "qd.cos({})", "qd.exp({})", "qd.sqrt(abs({}))", "qd.log(abs({}))", "qd.tanh({})",
    "abs({}) ** v0", "v0 / {}", "qd.atan2({}, v0)", "qd.max({}, v0)", "qd.tan({})", "{} * v0",
)  # fmt: skip
MARKS = tuple(1 + (2 * n + 1) / 64 for n in range(len(OPERATIONS)))
FIRST = 6  # line of the first of them

Texts = Callable[[float], str]


def _f32(value: float) -> str:
    return struct.pack(">f", value).hex()


TEXTS: dict[tuple[str, str], Texts] = {
    ("cpu", "llvm"): lambda v: f"0x{struct.pack('>d', v).hex()}",
    ("amdgpu", "llvm-opt"): lambda v: f"0x{struct.pack('>d', v).hex()}",
    ("cuda", "ptx"): lambda v: f"0f{_f32(v)}",
    ("metal", "msl"): lambda v: f"{v!r}f",
    ("c", "c"): lambda v: f"{v!r}f",
    ("vulkan", "spirv"): lambda v: f"%f32_{v!r}",
}


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> KernelView:
    lines = ["import quadrants_lab as qd", "@qd.kernel", "def twelve(x: qd.types.ndarray(), y: qd.types.ndarray()):"]
    lines += ["    for i in x:", "        v0 = x[i]"]
    for n, (operation, mark) in enumerate(zip(OPERATIONS, MARKS, strict=True)):
        lines.append(f"        v{n + 1} = {operation.format(f'v{n}')} * {mark}")
    lines.append(f"        y[i] = v{len(OPERATIONS)}")
    file = tmp_path_factory.mktemp("lines") / "twelve.py"
    file.write_text("\n".join(lines))
    made: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), made)
    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = (qd.ndarray(qd.f32, 8, needs_grad=True) for _ in "xy")
    made["twelve"](x, y)
    made["twelve"].grad(x, y)
    return show(made["twelve"]).view.kernels[0]


def holding(lines: list[Line], text: str) -> Iterator[Line]:
    """The lines of code in which the number occurs."""
    for line in lines:
        if re.search(rf"(?<![\w.]){re.escape(text)}(?![\w.])", line.text, re.IGNORECASE) and line.stmt >= 0:
            yield line


@pytest.mark.filterwarnings("ignore::quadrants_lab.QuadrantsWarning")
@pytest.mark.parametrize("mode", ["forward", "gradient"])
@pytest.mark.parametrize(("backend", "stage"), TEXTS, ids=lambda x: x)
def test_the_line_of_an_operation_leads_to_its_source(view: KernelView, backend: str, stage: str, mode: str) -> None:
    (shown,) = [s for s in view.code[mode] if (s.backend, s.name) == (backend, stage)]
    lines = shown.make().lines
    assert not shown.make().problem
    for n, mark in enumerate(MARKS):
        found = {line.span_line for line in holding(lines, TEXTS[backend, stage](mark))}
        assert found == {FIRST + n}, (OPERATIONS[n], found)
