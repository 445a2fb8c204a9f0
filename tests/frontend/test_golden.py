"""Source to IR, as text: the fixtures in `cases` have kernels with their IR."""

from collections.abc import Callable
from pathlib import Path

import pytest
from brief import brief
from frontend.rig import Case, fixture

from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.walk import walk

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


def shown(case: Case) -> str:
    kernel = case.lower().kernel
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    assert all(s.span is not None and s.span.file for s in walk(kernel.body)), kernel.name
    return brief(text)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_ir(path: Path, golden: Callable[[Path, str], None]) -> None:
    golden(path, fixture(path, shown))
