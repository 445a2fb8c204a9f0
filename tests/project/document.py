"""A Markdown page as a program: its ```python blocks are the cells of one notebook, run in order in one namespace.

    python tests/project/document.py page.md        # prints, as JSON, what each cell shows

What a cell shows is what it prints, its warnings, and the error of the language that ends it; any other exception ends
the run. On the page that stands in an ```output block right below the cell; a cell without one shows nothing.
"""

import io
import json
import linecache
import re
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

_CELL = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\s*^```output\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def cells(text: str) -> list[tuple[str, str]]:
    """(code, what the page says that it shows) of each cell."""
    return [(m["code"], m["shown"] or "") for m in _CELL.finditer(text)]


def shown_again(text: str, shown: list[str]) -> str:
    """The page, with the outputs that its cells have now."""
    outputs = iter(shown)

    def cell(m: re.Match[str]) -> str:
        output = next(outputs)
        return f"```python\n{m['code']}```\n" + (f"\n```output\n{output}```\n" if output else "")

    return _CELL.sub(cell, text)


def run(text: str) -> list[str]:
    """Runs the cells; returns what each cell shows."""
    space: dict[str, Any] = {"__name__": "__main__"}
    return [_run(code, f"cell {n}", space) for n, (code, _) in enumerate(cells(text), 1)]


def _run(code: str, name: str, space: dict[str, Any]) -> str:
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name
    out = io.StringIO()
    with redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_: print(message if "[QL" in str(message) else
                                                                   f"{category.__name__}: {message}")
        try:
            exec(compile(code, name, "exec", dont_inherit=True), space)
        except Exception as e:
            if not type(e).__module__.startswith("quadrants_lab."):
                raise
            print(f"{type(e).__name__}: {e}")
    text = out.getvalue()
    return text if text.endswith("\n") or not text else text + "\n"


if __name__ == "__main__":
    json.dump(run(Path(sys.argv[1]).read_text()), sys.stdout)
