"""Implements `python -m quadrants_lab opt`, which runs passes over the IR text of a kernel."""

import linecache
import sys
from inspect import getdoc
from pathlib import Path
from textwrap import fill

from quadrants_lab.errors import Label, QuadrantsError, render
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.parse import ParseError, parse_kernel
from quadrants_lab.ir.passes import written
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.verify import VerifyError
from quadrants_lab.passes.pipeline import pass_name, run
from quadrants_lab.pipelines.by_name import PASSES, PIPELINES, passes_by_name


def help_text() -> str:
    """One paragraph for each pass, then one for each pipeline with its passes."""
    rows = {name: (getdoc(fn) or "").split("\n\n")[0] for name, fn in PASSES.items()}
    rows |= {name: ", ".join(map(written, fns)) for name, fns in PIPELINES.items()}
    return "\n".join(fill(f"{name:25}{text}", 110, subsequent_indent=" " * 25) for name, text in rows.items())


@deeply_recursive
def opt(names: str, file: str, verify: bool) -> int:
    """Prints the kernel in ``file`` ("-": standard input) after these passes. Errors go to stderr with the line of
    the text, and the exit status is then 2."""
    if names == "help":
        print(help_text())
        return 0
    try:
        passes = passes_by_name(names) if names else ()
    except KeyError as e:
        print(f"no pass {e.args[0]!r}: there are {', '.join((*PASSES, *PIPELINES))}", file=sys.stderr)
        return 2
    except ValueError as e:
        print(e, file=sys.stderr)
        return 2
    shown = "<stdin>" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        print(f"{shown}: this is no text of a kernel: {e.reason} at byte {e.start}", file=sys.stderr)
        return 2
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    try:
        after, now = run(parse_kernel(text, shown, locate=True), (), verify=True), ""
        for fn in passes:
            now = pass_name(fn)
            after = run(after, (fn,), verify)
    except ParseError as e:
        print(f"{shown}: {e}", file=sys.stderr)
    except VerifyError as e:
        rule = f"invalid IR in kernel '{e.kernel}' {e.when}: {e.rule}"
        print(render("", rule, (Label(e.span),) if e.span is not None else ()), file=sys.stderr)
    except QuadrantsError as e:
        print(e, file=sys.stderr)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as e:
        why = f"({type(e).__name__}: {e})"
        cure = "'-p help' says which passes come before it, and --verify checks the kernel after each"
        print(f"{shown}: pass '{now}' does not take this kernel {why}: {cure}", file=sys.stderr)
    else:
        print(print_kernel(after), end="")
        return 0
    return 2
