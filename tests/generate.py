"""Writes tests/generated/: random kernels from fixed seeds, those that are short enough to be read and say enough.

``python tests/generate.py`` (from the root) makes the corpus anew; what is committed is what the tests run.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from oracle import Budget  # noqa: E402
from strategies import Source, kernels  # noqa: E402
from test_hypothesis import jobs_for  # noqa: E402

FILES, EACH = 15, 10
COMMON = settings(database=None, deadline=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
HEAD = '''"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated
'''


def judged(source: Source) -> bool:
    """Whether the oracle can tell what it computes."""
    try:
        outcomes = [job.oracle(limit=20_000) for job in jobs_for(source)]
    except Budget:
        return False
    return all(o.finite and o.margin > 1e-6 and o.largest < 1e3 for o in outcomes)


def readable(text: str) -> bool:
    """Short lines, not too many of them, and a loop in a loop or in a func."""
    lines = text.splitlines()
    loops = any(re.match(r" {8,}(for|while) ", line) for line in lines)
    return 9 <= len(lines) <= 32 and max(map(len, lines)) <= 116 and loops


def entry(source: Source, number: str) -> str:
    """The kernel with its funcs under names of their own, as it stands in a file."""
    text = ast.unparse(ast.parse(source.text))
    text = re.sub(r"\bf(\d)\b", rf"f\1_{number}", text)
    launches = [
        "({}, {}, {})".format(ints["n"].item(), tuple(ints["m"].tolist()), tuple(ints["at"].tolist()))
        for ints in source.ints
    ]
    funcs = [f"{name}_{number}" for name in source.funcs]
    given_ = ", ".join([*launches, *([f"funcs=({', '.join(funcs)},)"] if funcs else [])])
    text = text.replace("def k():", f"@generated({given_})\ndef kernel_{number}():")
    parts = re.split(r"\n+(?=def f|@)", text)
    return "".join(f"\n\n{part}\n" for part in parts)


class Found(Exception):
    """The kernel that a seed was to give."""


def chosen(number: int) -> Source | None:
    """The first kernel of a seed that is worth keeping."""

    @seed(number)
    @settings(COMMON, max_examples=20)
    @given(kernels())
    def search(source: Source) -> None:
        if readable(ast.unparse(ast.parse(source.text))) and judged(source):
            raise Found(source)

    try:
        search()
    except Found as found:
        return found.args[0]
    return None


def main() -> None:
    folder, number = HERE / "generated", 0
    for file in range(FILES):
        entries: list[str] = []
        while len(entries) < EACH:
            source = chosen(number)
            if source is not None:
                entries.append(entry(source, f"{number:03}"))
            number += 1
        (folder / f"kernels_{file:02}.py").write_text(HEAD + "".join(entries))


if __name__ == "__main__":
    main()
