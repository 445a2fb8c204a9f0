"""Runs programs of users: `ROWS` and `GUIDE`, which the modules beside this one fill by `row` and by `page`.

    python user_rows.py PACKAGE MODULE TABLE    prints what the rows of a table return with a package, as JSON; a word
                                                where it refuses the program
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """``want``: the numbers that the program returns. ``peer``: what the peer makes of it, if that differs: other
    numbers, or "" where it refuses the program. ``page``: the page of the user guide whose meaning it shows.
    ``options``: those of `qd.init`. ``needs``: "f64" of programs that a device without it cannot run, or the name of a
    Python package."""

    program: Callable[[Any], Iterable[float]]
    want: tuple[float, ...]
    peer: tuple[float, ...] | str | None
    page: str = ""
    options: dict[str, Any] = {}
    needs: str = ""


ROWS: list[Row] = []
GUIDE: list[Row] = []


def row(*want, peer=None):
    def add(program):
        ROWS.append(Row(program, want, peer))
        return program

    return add


def page(name):
    """A decorator like `row`, for programs of a page of the user guide."""

    def row(*want, peer=None, needs="", **options):
        def add(program):
            GUIDE.append(Row(program, want, peer, name, options, needs))
            return program

        return add

    return row


def numbers(values):
    """What a program returned, as a flat list of floats."""
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


def main(name: str, module: str, table: str) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is no answer
    sys.path.insert(0, str(Path(__file__).parents[1]))
    qd = importlib.import_module(name)
    importlib.import_module(f"lang.{module}")
    rows = getattr(importlib.import_module("lang.user_rows"), table)
    print(json.dumps({row.program.__name__: answer(qd, row) for row in rows}), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
