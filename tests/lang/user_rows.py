"""Runs programs of users: `ROWS` and `GUIDE`, which the modules beside this one fill by `row` and by `page`.

    python user_rows.py PACKAGE MODULE TABLE [PAGE]    prints what the rows of a table, or of a page, return with a
                                                       package, as JSON; a word where it refuses the program
"""

import importlib
import inspect
import json
import linecache
import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A program of users. ``want``: the numbers that it returns. ``peer``: the peer's result, if it differs: other
    numbers, or "" if the peer refuses the program. ``page``: the page of the user guide whose meaning it shows.
    ``options``: those of `qd.init`. ``needs``: "f64" for programs that a device without f64 cannot run, or the name
    of a Python package."""

    program: Callable[[Any], Iterable[float]]
    want: tuple[float, ...]
    peer: tuple[float, ...] | str | None
    page: str = ""
    options: dict[str, Any] = {}
    needs: str = ""


ROWS: list[Row] = []
GUIDE: list[Row] = []
_texts = count()


def defined(qd, text, **names):
    """The kernel ``k`` that the text defines over ``qd`` and the names; `inspect` finds its source."""
    file = f"<row {next(_texts)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"qd": qd, "math": math, **names}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space["k"]


class Page:
    """Adds programs of a page of the user guide to a table, or those of no page. Each of its methods takes ``peer``,
    ``needs`` and the options of `qd.init`, see `Row`."""

    def __init__(self, table: list[Row], name: str = "") -> None:
        self.table, self.name = table, name

    def __call__(self, *want, peer=None, needs="", **options):
        """A decorator of a program: a function of ``qd`` that returns the numbers ``want``."""
        def add(program):
            self.table.append(Row(program, want, peer, self.name, options, needs))
            return program

        return add

    def filled(self, *want, given=None, **more):
        """A decorator of the body of a kernel, as a function of ``qd``, ``y`` and the kernel's arguments, which are
        ``given`` by name. After it the field y holds ``want``."""
        def add(fn):
            _, body = re.split(r"(?<=\):)(?=\n)", inspect.getsource(fn).partition("\ndef ")[2], maxsplit=1)
            self._kernel(fn.__name__, body, want, given or {}, **more)
            return fn

        return add

    def values(self, name, *parts, given=None, **more):
        """Expressions by what they come to: the last one of the parts. The others are statements before them."""
        *statements, results = parts
        lines = [*statements, *(f"y[{n}] = {expression}" for n, expression in enumerate(results))]
        body = "".join(f"\n    {line}" for line in lines)
        self._kernel(name, body, tuple(results.values()), given or {}, **more)

    def _kernel(self, name, body, want, given, dtype="f32", digits=9, **more):
        """``digits``: to which the numbers of y are rounded."""
        parameters = ", ".join(f"{arg}: qd.{'i32' if isinstance(v, int) else 'f32'}" for arg, v in given.items())

        def program(qd):
            y = qd.field(getattr(qd, dtype), shape=len(want))
            defined(qd, f"@qd.kernel\ndef k({parameters}):{body}\n", y=y)(*given.values())
            return y.to_numpy().round(digits)

        program.__name__ = name
        self(*want, **more)(program)


row = Page(ROWS)


def page(name):
    return Page(GUIDE, name)


def refused(error, call, *args, **options):
    """1 where the call ends with an error of that type, and 0 where it returns."""
    try:
        call(*args, **options)
    except error:
        return 1
    return 0


def numbers(values):
    """The result of a program as a flat list of floats."""
    return [float(v) for v in values]


def answer(qd: Any, row: Row) -> Any:
    """What a package makes of a program: numbers, or the name of its error. A process of its own runs the program,
    because the peer may end the process."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            qd.init(arch=qd.cpu, log_level=qd.ERROR, **{"offline_cache": False, **row.options})
            said: Any = numbers(row.program(qd))
        except BaseException as error:
            said = f"{type(error).__name__}: {str(error).strip()[:300]}"
        os.write(writes, json.dumps(said).encode())
        os._exit(0)
    os.close(writes)
    with open(reads, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else "the process ended"


def main(name: str, module: str, table: str, page: str = "") -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is no answer
    sys.path.insert(0, str(Path(__file__).parents[1]))
    qd = importlib.import_module(name)
    importlib.import_module(f"lang.{module}")
    rows = getattr(importlib.import_module("lang.user_rows"), table)
    said = {row.program.__name__: answer(qd, row) for row in rows if page in ("", row.page)}
    print(json.dumps(said), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
