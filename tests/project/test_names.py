"""The table of the names of Quadrants (scripts/names.py), which the page docs/quadrants.md shows."""

import importlib.util
import re
import sys
from collections import Counter

import pytest
from child import run
from conftest import ROOT, peer_python

spec = importlib.util.spec_from_file_location("names", ROOT / "scripts" / "names.py")
assert spec is not None
assert spec.loader is not None
names = importlib.util.module_from_spec(spec)
spec.loader.exec_module(names)

MOST = 20  # names may be absent


def test_few_names_are_absent() -> None:
    absent = [row.name for row in names.table() if row.verdict == "absent"]
    assert len(absent) <= MOST, absent


def test_the_page_names_tests_that_there_are() -> None:
    named = re.findall(r"`(tests/[a-z_/]+\.py)::(\w+)`", (ROOT / "docs" / "quadrants.md").read_text())
    assert len(named) > 40
    assert not [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]


def test_the_status_page_counts_them() -> None:
    found = Counter(row.verdict for row in names.table())
    text = " ".join((ROOT / "docs" / "status.md").read_text().split())
    shares = f"{found['same']} are the same, {found['different']} differ and {found['absent']} are absent"
    assert f"Of the {found.total()} public names of Quadrants {shares}" in text


def test_a_name_that_is_absent_has_a_reason() -> None:
    assert not [row.name for row in names.table() if row.verdict == "absent" and not row.note]


def test_rows_say_what_is_different() -> None:
    class Package:
        class Thing:
            def fill(self, value: int) -> None: ...
        @staticmethod
        def same(c: int, *, b: int) -> None: ...
    lines = ("qd.same(b, c)", "qd.same(b, d)", "qd.Thing.fill(val)", "qd.gone(x)")
    rows = [names.compare(line, Package) for line in lines]
    assert [row.verdict for row in rows] == ["same", "different", "different", "absent"]
    assert [row.note for row in rows[1:3]] == ["takes (c, b): no d", "takes (value): no val"]


@pytest.mark.peer
def test_the_list_is_the_packages() -> None:
    said = run(peer_python(), names.__file__, "--walk", "quadrants").stdout.splitlines()
    listed = [line for line in said if line.startswith(("qd.", "from ", "import "))]
    assert listed == names.LIST.read_text().splitlines()


def test_the_command_prints_the_table() -> None:
    done = run(sys.executable, names.__file__)
    assert "qd.kernel" in done.stdout
