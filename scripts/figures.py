"""Measures the size and the shape of the project. `make figures`, or python3 scripts/figures.py --write, prints a
table and writes it into docs/architecture.md.

It reads the files that git lists, as text, and needs nothing beside Python and git. "Code proper" leaves out blank
lines, comments, docstrings and imports. A circle is a largest group in which each module imports each
other one, directly or through others.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PRODUCT = ("quadrants_lab", "backends", "widgets", "kernels")
LAUNCH = ("launch", "arguments")  # folders of quadrants_lab/runtime
CRUMB = 60  # lines
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@cache
def files(*folders: str) -> tuple[Path, ...]:
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    return tuple(p for p in paths if p.is_file() and not p.is_symlink())


def product(*endings: str) -> list[Path]:
    return [p for p in files(*PRODUCT) if p.suffix in endings]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def nodes(*kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for path in product(".py") for node in ast.walk(tree(path)) if isinstance(node, kinds))


def lines(paths: list[Path]) -> int:
    return sum(len(p.read_text().splitlines()) for p in paths)


# --- code proper --------------------------------------------------------------------------------------------------


def _left_out(path: Path) -> set[int]:
    """The numbers of the lines of a file that are docstrings or imports."""
    found: set[int] = set()
    for node in ast.walk(tree(path)):
        text = node.value if isinstance(node, ast.Expr) else None
        docstring = isinstance(text, ast.Constant) and isinstance(text.value, str)
        if docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def code_proper(path: Path) -> int:
    text = path.read_text()
    if path.suffix == ".py":
        skipped, mark = _left_out(path), "#"
    else:
        text, skipped, mark = _BLOCK_COMMENT.sub("", text), set(), "//"
    kept = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in skipped]
    return sum(1 for line in kept if line and not line.startswith((mark, "#include", "import ")))


# --- imports ------------------------------------------------------------------------------------------------------


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "quadrants_lab" else ("quadrants_lab", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _edges() -> dict[str, set[str]]:
    """By module: the modules that it imports when it is loaded or for type checking. Imports in functions do not
    count."""
    paths = {_module(p): p for p in product(".py")}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        functions = (f for f in ast.walk(tree(path)) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)))
        inside = {id(n) for f in functions for n in ast.walk(f)}
        wanted: set[str] = set()
        for node in ast.walk(tree(path)):
            if id(node) in inside:
                continue
            if isinstance(node, ast.Import):
                wanted.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                wanted.update(sub if (sub := f"{base}.{alias.name}") in paths else base for alias in node.names)
        found[name] = {w for w in wanted if w in paths and w != name}
    return found


def _groups(edges: dict[str, set[str]]) -> list[list[str]]:
    """The largest groups of modules in which each imports every other, directly or through others, by Tarjan's
    algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(v: str) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges[v]):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            group = stack[stack.index(v) :]
            del stack[stack.index(v) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


def circles() -> list[list[str]]:
    return _groups(_edges())


# --- the rows -----------------------------------------------------------------------------------------------------


def _calls(*names: str) -> int:
    return sum(1 for n in nodes(ast.Call) if isinstance(n.func, ast.Name) and n.func.id in names)


def _orders() -> int:
    """The number of backend files that place, among other passes, the pass that every device runs."""
    placed = re.compile(r"(?<!class )\bLowerAdstacks\(")
    return sum(bool(placed.search(p.read_text())) for p in product(".py") if p.is_relative_to(ROOT / "backends"))


def _launch() -> str:
    runtime = ROOT / "quadrants_lab" / "runtime"
    found = [p for p in product(".py") if p.parent in [runtime / name for name in LAUNCH] and code_proper(p)]
    return f"{len(found)} ({lines(found):,} lines)"


def _small() -> str:
    python = product(".py")
    return f"{sum(len(p.read_text().splitlines()) < CRUMB for p in python)} of {len(python)}"


def _tables() -> int:
    """The number of files with a table of handlers that make LLVM IR of statements."""
    tables = [p for p in product(".py") if re.search(r"^HANDLERS\b.*=", p.read_text(), re.MULTILINE)]
    return sum(not {"_spirv", "_msl", "_clike"} & set(p.parts) for p in tables)


# rows: name of the figure, function that counts it, aim
FIGURES: tuple[tuple[str, Callable[[], int | str], str], ...] = (
    ("code proper, product", lambda: sum(map(code_proper, product(".py", ".js", ".c", ".h"))), "42,000"),
    ("files to read to understand a launch and its gradient", _launch, "8 (2,600 lines)"),
    ("calls of exec and eval in the product", lambda: _calls("exec", "eval"), "4"),
    ("import circles, type imports counted", lambda: len(circles()), "0"),
    ("`isinstance` in the product", lambda: _calls("isinstance"), "1,200"),
    (f"files under {CRUMB} lines", _small, "60"),
    ("places where the order of a device's passes stands", _orders, "1"),
    ("tables of handlers that make LLVM IR of statements", _tables, "1"),
    ("lines of tests", lambda: lines([p for p in files("tests") if p.suffix == ".py"]), "48,000"),
)
_HEAD = "| figure | now | aim |\n| --- | ---: | ---: |\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")


def table() -> str:
    counted = ((name, count(), aim) for name, count, aim in FIGURES)
    shown = ((name, n if isinstance(n, str) else f"{n:,}", aim) for name, n, aim in counted)
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in shown)


def rows_of(page: str) -> list[tuple[str, str]]:
    """Name and aim of each row of the table on a page."""
    (found,) = _TABLE.findall(page)
    cells = (line.strip("| ").split(" | ") for line in found.splitlines()[2:])
    return [(name, aim) for name, _, aim in cells]


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--circles", action="store_true", help="the modules of each circle")
    p.add_argument("--write", action="store_true", help="also write the table into docs/architecture.md")
    args = p.parse_args()
    if args.circles:
        for group in circles():
            print(" ".join(group))
        return 0
    made = table()
    print(made, end="")
    if args.write:
        PAGE.write_text(_TABLE.sub(lambda _: made, PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
