"""Every diagnostic of the front end, as text: what is wrong, where, why, and what to do."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from frontend.rig import Case, fixture, load

import quadrants_lab as qd
from quadrants_lab.autodiff import diagnostics as autodiff
from quadrants_lab.errors import QuadrantsSyntaxError
from quadrants_lab.frontend.diagnostics import TABLE
from quadrants_lab.frontend.source import function_source
from quadrants_lab.frontend.values import context
from quadrants_lab.runtime.memory import refusals

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_text(path: Path, golden: Callable[[Path, str], None]) -> None:
    golden(path, fixture(path, Case.diagnostics))


def test_source_errors() -> None:
    with pytest.raises(QuadrantsSyntaxError, match="QL1101"):
        qd.kernel(lambda: None)
    names: dict[str, object] = {}
    exec("def f():\n    pass\n", names)
    with pytest.raises(QuadrantsSyntaxError, match=r"QL1102.*'f' cannot be found \(<string>\)"):
        function_source(names["f"])  # type: ignore[arg-type]


def test_a_kernel_that_grows_beyond_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the kernel's loops alone is short enough."""
    monkeypatch.setattr(context, "MOST_OPERATIONS", 1000)
    (tmp_path / "grows.py").write_text("""\
def grows():
    for i in qd.static(range(100)):
        for j in qd.static(range(100)):
            z[0] += 1.0
""")
    said = load(tmp_path / "grows.py")["grows"].diagnostics()
    assert "error[QL1213]: this kernel has become longer than 1,000 operations\n --> grows, line 4" in said


def test_every_code_is_shown() -> None:
    shown = "".join(p.read_text() for p in (Path(__file__).parent / "cases").glob("*.txt"))
    # the last three need memory or options: lang/test_python_in_kernels.py, runtime/test_kernel_cache.py
    elsewhere = {"QL1101", "QL1102", "QL1213", "QL1905", "QL1307", "QL1908"}
    assert set(TABLE) - set(re.findall(r"QL\d{4}", shown)) == elsewhere


def test_a_code_of_the_table_has_no_second_meaning() -> None:
    """Elsewhere, a code stands beside the text of its message."""
    files = [f for folder in (ROOT / "quadrants_lab", ROOT / "backends") for f in folder.rglob("*.py")]
    written = {code for f in files for code in re.findall(r'code="(QL\d{4})"', f.read_text())}
    assert len(written) > 50
    assert not written & set(TABLE)


# codes outside of the table that several files raise, in one meaning -> the number of these files
SHARED = {
    **dict.fromkeys((
        "QL0409", "QL0410", "QL0417", "QL0719", "QL2001", "QL2013", "QL2014", "QL2016", "QL2025", "QL2028", "QL2029",
        "QL2030", "QL2032", "QL2036", "QL2091", "QL2097", "QL2131", "QL3012",
    ), 2),
    **dict.fromkeys(("QL0707", "QL2010", "QL2019", "QL2022", "QL2049", "QL2092", "QL2099", "QL2103", "QL3011"), 3),
    **dict.fromkeys(("QL2012", "QL3010"), 5),
}  # fmt: skip


def test_a_code_that_a_further_file_takes_has_one_meaning() -> None:
    """QL0720 was both a page that cannot compute and an unknown name beside a kernel. Whoever gives a code to a further
    file says here that it means the same there."""
    files = [f for folder in (ROOT / "quadrants_lab", ROOT / "backends") for f in folder.rglob("*.py")]
    taken = Counter(code for f in files for code in set(re.findall(r'"(QL\d{4})"', f.read_text())))
    tables = {*TABLE, *autodiff.TABLE, *refusals.TABLE}
    assert {code: n for code, n in taken.items() if n > 1 and code not in tables} == SHARED


# targets whose letters name an element twice, and writes that name each element once or only read it
LETTERS = {
    "v.xx = [3.0, 4.0]": True, "v.yxy += 1.0": True, "v.xx *= 2.0": True, "v.xx.y = 3.0": True,
    "qd.atomic_add(v.zz, 1.0)": True, "changed(v.xx)": True, "p[0].xx = [1.0, 2.0]": True, "p[1].zz += 1.0": True,
    "qd.atomic_max(p[0].xx, 1.0)": True, "p[0].bgb *= 2.0": True,
    "for i in range(3): p[i].xyx = v": True, "for i in x: v.xx += x[i]": True,
    "ball.pos.xx = [1.0, 2.0]": True, "balls[1].pos.yy = [1.0, 2.0]": True,
    "v.xy = v.xx": False, "v.zyx = v": False, "p[0].xyz = v.xxx": False, "z[0] = summed(v.xx)": False,
    "ball.xx = [1.0, 2.0]": False, "ball.xx.yx += 1.0": False,
}  # fmt: skip


@pytest.mark.parametrize(("statement", "refused"), LETTERS.items(), ids=LETTERS)
def test_letters_that_name_an_element_twice_are_not_assigned(tmp_path: Path, statement: str, refused: bool) -> None:
    (tmp_path / "letters.py").write_text(f"""\
Named = qd.types.struct(pos=vec3, xx=qd.types.vector(2, f32))

@qd.func
def changed(t: qd.template()):
    t[0] = 5.0

@qd.func
def summed(t: qd.template()):
    return t[0] + t[1]

def letters():
    v = qd.Vector([1.0, 2.0, 3.0])
    ball = Named(pos=v, xx=v.xy)
    {statement}
    z[1] = v.x + ball.xx.x
""")
    said = load(tmp_path / "letters.py")["letters"].diagnostics()
    assert ("error[QL1514]" in said) == refused, said
    assert refused or not said
