"""The counts of scripts/figures.py."""

from pathlib import Path

import pytest
from conftest import ROOT


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import figures
    return figures


def test_code_proper_is_neither_blank_nor_comment_nor_docstring_nor_import(figures, tmp_path: Path) -> None:
    python, script = tmp_path / "a.py", tmp_path / "a.js"
    python.write_text('"""Two\nlines."""\n\nimport os\nfrom os import (\n    path,\n)\n\n# why\nx = """a\nb"""\n')
    script.write_text("/* two\nlines */\n// one\n\nimport x from y\nlet x = 1 // one\n")
    assert (figures.code_proper(python), figures.code_proper(script)) == (2, 1)


def test_a_circle_is_a_group_that_reaches_itself(figures) -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d", "f"}, "f": {"e"}}
    assert sorted(figures._groups(edges)) == [["a", "b", "c"], ["e", "f"]]


def test_the_page_has_the_rows_of_the_script(figures) -> None:
    assert figures.rows_of(figures.PAGE.read_text()) == [(name, aim) for name, _, aim in figures.FIGURES]
