"""Names of Python files in docs/ are names of files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"(?<![\w./-])(?:[\w-]+/)*([\w-]+\.py)\b")

USERS = {"case.py", "file.py", "length.py"}  # files that a user of the examples writes


def test_python_files_that_docs_name_exist() -> None:
    names = ("quadrants_lab", "docs", "backends", "benchmarks", "kernels", "scripts", "tests", "widgets")
    known = {path.name for name in names for path in (ROOT / name).rglob("*.py")} | USERS
    lost = [
        f"{page.relative_to(ROOT)}:{number}: {name}"
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for name in NAME.findall(line)
        if name not in known
    ]
    assert not lost, "docs name files that do not exist:\n" + "\n".join(lost)
