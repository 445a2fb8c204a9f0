"""Submodules that programs for Quadrants import: each can be imported as such, with what is public in it."""

import pickle
import sys
from pathlib import Path

import child
import pytest

import quadrants_lab as qd
import quadrants_lab.math as tm
from quadrants_lab.math import vec3
from quadrants_lab.types.enums import Format

LIST = Path(__file__).resolve().parents[2] / "docs" / "quadrants_names.txt"
ABSENT = ("lang.mesh", "sparse")
LACKS = {
    "lang.misc": {"mesh_local", "mesh_patch_idx", "python"},
    "lang.ops": {"volatile_load"},
    "types.enums": {"AutodiffMode", "BoundaryMode", "SNodeGradType"},
}  # what is outside of quadrants_lab, or internal


def modules() -> dict[str, list[str]]:
    """The submodules of Quadrants that quadrants_lab has, each with its public names that quadrants_lab has."""
    lines = [line.replace(",", "").split() for line in LIST.read_text().splitlines() if not line.startswith("qd.")]
    named = {line[1].removeprefix("qd."): {*line[3:]} for line in lines}
    extra = {"simt": {"block"}, "lang.matrix": {"MatrixType", "VectorType"}, "lang.struct": {"StructType"}}
    for name, more in extra.items():
        named[name] = named.get(name, set()) | more
    return {name: sorted(known - LACKS.get(name, set())) for name, known in named.items() if name not in ABSENT}


def test_every_public_submodule_can_be_imported():
    """Each form of import works in a process in which nothing else has imported the submodule before."""
    assert {"ad", "algorithms", "lang.exception", "linalg", "math", "profiler", "tools", "types"} <= {*modules()}
    lines = ["import sys"]
    for name, known in modules().items():
        full = f"quadrants_lab.{name}"
        lines += [f"import {full} as m, {full}", f"assert m is sys.modules[{full!r}] is {full}, {full!r}", "dir(m)"]
        lines += [f"from {full} import {', '.join(known)}"] if known else []
    child.run(sys.executable, "-c", "\n".join(lines))


@pytest.mark.parametrize("name, known", modules().items())
def test_names_of_submodules_are_those_of_qd(name, known):
    module = sys.modules.get(f"quadrants_lab.{name}") or __import__(f"quadrants_lab.{name}", fromlist=["*"])
    for one in known:
        if hasattr(qd, one) and name not in ("types", "types.compound_types", "types.ndarray_type", "math.mathimpl"):
            assert getattr(module, one) is getattr(qd, one), one
    with pytest.raises(ImportError):
        exec(f"from quadrants_lab.{name} import nothing_of_this_name")


def test_objects_of_submodules_work():
    assert tm.vec3 is vec3 is qd.math.vec3
    assert pickle.loads(pickle.dumps(Format.rgba8)) is qd.Format.rgba8
    assert qd.lang.exception.QuadrantsSyntaxError is qd.QuadrantsSyntaxError
    names: dict[str, object] = {}
    exec("from quadrants_lab.math import *", names)
    assert names["vec3"] is vec3
    assert names["mix"] is tm.mix
    qd.init(arch=qd.cpu)
    x = qd.Vector.field(3, qd.f32, 2)

    @qd.kernel
    def k():
        for i in x:
            x[i] = tm.normalize(vec3(3.0, 0.0, 4.0))

    k()
    assert x[1].to_list() == pytest.approx([0.6, 0.0, 0.8])
