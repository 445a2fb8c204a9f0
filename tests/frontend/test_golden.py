"""Source to IR, as text: every case file has its expected kernels beside it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from brief import brief
from frontend.rig import load

from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.walk import walk

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))

@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_ir(path: Path, golden: Callable[[Path, str], None]) -> None:
    texts = []
    for case in load(path).values():
        kernel = case.lower().kernel
        text = print_kernel(kernel)
        assert print_kernel(parse_kernel(text)) == text
        assert all(s.span is not None and s.span.file == path.name for s in walk(kernel.body)), kernel.name
        texts.append(brief(text))
    golden(path.with_suffix(".qlir"), "\n".join(texts))
