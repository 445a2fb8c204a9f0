"""Whether the tests notice when the product is wrong: plants a mistake and runs the tests that should see it.

``python tests/mutations.py [-j 2] [WORD ...]`` (`make mutations`) works on copies of the tree and prints a row for each
mutation of `mutations.txt`; with words, for those whose row has one of them. It exits with 1 where a mistake goes
unnoticed. `tests/project/test_mutations.py` checks that every row still fits the code.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest
from child import Done, run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT = 900.0  # seconds of the tests of a mutation
EACH = "180"  # seconds of one of them
_LEFT_OUT = shutil.ignore_patterns(".*", "out", "__pycache__", "*.egg-info")
_FORM = re.compile(
    r"(?P<name>.+)\nin (?P<file>\S+)\n- (?P<text>(?s:.+?))\n\+ (?P<instead>(?s:.+?))"
    r"\nby (?P<tests>.+?)(?: with (?P<module>\w+))?"
)


class Mutation(NamedTuple):
    """A planted mistake: ``text``, which occurs once in the file, becomes ``instead``, and one of the ``tests``
    must fail. ``module``: of the library that they need, or None."""

    name: str
    file: str
    text: str
    instead: str
    tests: str
    module: str | None

    def planted(self, source: str) -> str:
        """The file's text with the mistake; ValueError where the row does not fit it."""
        if source.count(self.text) != 1:
            raise ValueError(
                f"mend the row {self.name!r} of tests/mutations.txt: {self.file} has {source.count(self.text)} times\n"
                f"{self.text}"
            )
        return source.replace(self.text, self.instead)


def mutations() -> list[Mutation]:
    """The rows of the table."""
    blocks = re.split(r"\n{2,}", (HERE / "mutations.txt").read_text().strip())
    rows = [_FORM.fullmatch(block) for block in blocks if not block.startswith("#")]
    return [Mutation(**row.groupdict()) for row in rows if row is not None]


class Tree:
    """A copy of the repository, in which mutations are planted one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, symlinks=True, ignore=_LEFT_OUT)
        run(sys.executable, "-m", "compileall", "-q", root, status=None)

    def pytest(self, *args: str, seconds: float = LIMIT) -> Done:
        cache = self.root / ".cache"
        shutil.rmtree(cache, ignore_errors=True)
        env = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(cache)}
        env["QL_ALL_DEVICES"] = "1"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={EACH}", *args]
        return run(*command, env=env, cwd=self.root, seconds=seconds, status=None)

    def verdict(self, m: Mutation) -> str:
        """How the tests end with the mutation: "caught by TEST", or else what happened."""
        file = self.root / m.file
        source, then = file.read_text(), file.stat()
        file.write_text(m.planted(source))
        try:
            done = self.pytest("-x", *m.tests.split())
        except pytest.fail.Exception:
            return "caught by the time limit"
        finally:
            file.write_text(source)
            os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))  # what was compiled of it is valid again
        if done.returncode == 0:
            return "NOT CAUGHT"
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        if done.returncode == 1 and failed:
            return f"caught by {failed[1]}"
        how = "a crash" if done.returncode < 0 else "the time limit" if "+ Timeout +" in done.output else ""
        return f"caught by {how}" if how else f"NOT RUN\n{done.output[-3000:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    rows = [m for m in mutations() if not given.words or any(word in " ".join(m[:5]) for word in given.words)]
    for m in [m for m in rows if m.module is not None and find_spec(m.module) is None]:
        rows.remove(m)
        print(f"{m.name}\n    left out: {m.module} is not installed")
    free: SimpleQueue[Tree] = SimpleQueue()

    def judge(m: Mutation) -> str:
        tree, began = free.get(), time.monotonic()
        try:
            verdict = tree.verdict(m)
        finally:
            free.put(tree)
        print(f"{m.name}\n    {time.monotonic() - began:.0f} s, {verdict}", flush=True)
        return verdict

    with tempfile.TemporaryDirectory(prefix="mutations") as folder, ThreadPoolExecutor(given.jobs) as pool:
        for n in range(given.jobs):
            free.put(Tree(Path(folder) / str(n)))
        tree = free.get()
        tests = sorted({test for m in rows for test in m.tests.split()})
        clean = tree.pytest("-n", str(given.jobs), *tests, seconds=LIMIT * len(tests))
        free.put(tree)
        if clean.returncode:
            print(f"{clean.output[-4000:]}\nthese tests fail without a mutation", file=sys.stderr)
            return 1
        verdicts = list(pool.map(judge, rows))
    missed = [m.name for m, verdict in zip(rows, verdicts, strict=True) if not verdict.startswith("caught")]
    print(f"{len(rows) - len(missed)} of {len(rows)} mutations are caught", *missed, sep="\nnot: ")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
