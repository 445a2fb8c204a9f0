"""The documents tell the truth where a machine can check it: paths, make targets, every program and what it shows."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from child import run
from project.document import cells, shown_again

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.text import form_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=str)
PROGRAMS = [p for p in DOCUMENTS if cells(p.read_text())]
FOLDERS = ("quadrants_lab", "backends", "widgets", "kernels", "tests", "notebooks", "benchmarks", "docs", "scripts")
MADE = ("out/",)


@pytest.fixture(params=DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def document(request: pytest.FixtureRequest) -> str:
    return str(request.param.read_text())


def test_paths_exist(document: str) -> None:
    quoted = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:md|toml|py|sh|ipynb))`", document)
    for path in quoted:
        if path.split("/")[0] in FOLDERS or path.endswith((".md", ".toml")):
            assert (ROOT / path).exists() or (ROOT / "docs" / path).exists() or "NAME" in path, path


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("sphinx.application")
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return import_module("tables")


def test_the_grammar_has_every_word_and_field_of_every_statement(tables: ModuleType) -> None:
    rules = dict(zip(N.STATEMENTS, tables.grammar.rules()[1:], strict=False))
    for cls in N.STATEMENTS:
        for piece in form_of(cls):
            words = [piece] if isinstance(piece, str) else [piece.word] if piece.word else piece.fields[:1]
            shown = piece if isinstance(piece, str) else piece.kind
            assert shown in ("DType", "str", "Number", "Pieces") or all(w in rules[cls] for w in words), cls
    assert all(cls.__doc__ != cls.__name__ for cls in (*N.STATEMENTS, *tables.grammar.TRAITS))
    bases = {b for cls in N.STATEMENTS for b in cls.__mro__[1:] if issubclass(b, N.Stmt)}
    assert bases - {N.Stmt, *N.STATEMENTS} == set(tables.grammar.TRAITS)


def test_the_page_of_codes_has_every_code_and_a_row_of_a_table_has_its_own(tables: ModuleType) -> None:
    files = [f for folder in ("quadrants_lab", "backends") for f in (ROOT / folder).rglob("*.py")]
    shown = set(tables.messages())
    assert {m.code for m in shown} == {code for f in files for code in re.findall(r'"(QL\d{4})"', f.read_text())}
    for code in {**tables.TABLE, **tables.diagnostics.TABLE}:
        assert len([m for m in shown if m.code == code]) == 1, code


def test_make_targets_exist(document: str) -> None:
    rules = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", document, re.MULTILINE))
    assert named <= rules


COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def test_lessons_are_as_many_as_a_document_says(document: str) -> None:
    lessons = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    said = set(re.findall(rf"\b({'|'.join(COUNTS)}) (?:lessons|notebooks)\b", document.lower()))
    assert said <= {COUNTS[len(lessons)]}


def test_the_gradient_in_the_readme_is_the_closed_form() -> None:
    (cell,) = cells((ROOT / "README.md").read_text())
    gradient, closed_form = cell[1].splitlines()
    assert gradient == closed_form


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda p: str(p.relative_to(ROOT)))
def test_cells_show_what_the_page_says(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if "import torch" in page.read_text():
        pytest.importorskip("torch")
    env = {"PYTHONPATH": str(ROOT), "QD_OFFLINE_CACHE": "0"}
    done = run(sys.executable, ROOT / "tests" / "project" / "document.py", page, cwd=tmp_path, env=env)
    text = page.read_text()
    right = shown_again(text, json.loads(done.stdout))
    if request.config.getoption("--update-golden"):
        page.write_text(right)
        text = right
    assert text == right
