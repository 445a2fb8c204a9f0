"""Golden tests: text in, passes, text out.

A ``.qlir`` file holds the input, a line ``// run: pass, pass, ...`` and, after ``// expect:``, the output. What stands
in front of the input as ``//`` lines says what the case shows. Both kernels are verified.
"""

from functools import cache
from pathlib import Path

import pytest
from brief import brief

from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.passes.pipeline import run
from quadrants_lab.pipelines.by_name import PASSES, PIPELINES, passes_by_name

RUN, EXPECT = "// run:", "// expect:"
ABOUT_CONSTANTS = ("fold", "dce", "cse", "licm", "front")  # passes that make, move and drop them
FILES = sorted(Path(__file__).parents[1].glob("*/*.qlir"))


def parts(path):
    """The input, the names of the passes, and the output."""
    head, _, rest = path.read_text().partition(RUN)
    names, _, expected = rest.partition(EXPECT)
    return head, names.split("\n", 1)[0], expected


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden(path, golden):
    head, names, _ = parts(path)
    after = run(parse_kernel(head), passes_by_name(names), verify=True)
    text = print_kernel(after)
    assert print_kernel(parse_kernel(text)) == text
    shown = text if names.split(",")[0].strip() in ABOUT_CONSTANTS else brief(text)
    golden(path, f"{head}{RUN}{names}\n{EXPECT}\n{shown}")


@cache
def changing():
    """The passes that change a kernel where a golden test runs them."""
    found, known = set(), {fn: name for name, fn in PASSES.items()}
    for head, names, _ in map(parts, FILES):
        kernel = parse_kernel(head)
        for fn in passes_by_name(names):
            after = fn(kernel)
            if print_kernel(after) != print_kernel(kernel):
                found.add(known.get(fn, fn.__name__))
            kernel = after
    return found


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_changes_a_golden_kernel(name):
    assert PASSES[name].__name__ in changing(), f"write a .qlir file whose kernel {name} changes"


def test_pipelines_are_made_of_the_passes_of_the_table():
    known = {fn.__name__ for fn in PASSES.values()}
    assert {fn.__name__ for passes in PIPELINES.values() for fn in passes} <= known
