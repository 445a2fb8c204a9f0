"""Every row of tests/mutations.txt matches the code; `make mutations` plants the mistakes and runs the tests."""

import ast

import pytest
from mutations import HERE, ROOT, Mutation, mutations

ROWS = mutations()


def test_every_row_is_read() -> None:
    text = (HERE / "mutations.txt").read_text()
    assert len(ROWS) == text.count("\nin ") >= 40
    assert len({m.name for m in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", [pytest.param(m, id=m.name) for m in ROWS])
def test_a_row_fits_the_code(row: Mutation) -> None:
    assert (ROOT / row.file).exists(), "mend the row: the file has another name"
    mistaken = row.planted((ROOT / row.file).read_text())
    if row.file.endswith(".py"):
        ast.parse(mistaken)
    for test in row.tests.split():
        assert (ROOT / test.split("::")[0]).exists(), test
