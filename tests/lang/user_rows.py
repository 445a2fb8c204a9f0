"""Runs programs of users: `ROWS`, which the modules beside this one fill by `row`.

    python user_rows.py PACKAGE    prints what they return with a package, as JSON; a word where it refuses the program
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
    numbers, or "" where it refuses the program."""

    program: Callable[[Any], Iterable[float]]
    want: tuple[float, ...]
    peer: tuple[float, ...] | str | None


ROWS: list[Row] = []


def row(*want, peer=None):
    def add(program):
        ROWS.append(Row(program, want, peer))
        return program

    return add


def main(name: str) -> None:
    answers, out = {}, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is no answer
    sys.path.insert(0, str(Path(__file__).parents[1]))
    qd = importlib.import_module(name)
    rows = importlib.import_module("lang.user_programs").ROWS
    for program, *_ in rows:
        qd.init(arch=qd.cpu, log_level=qd.ERROR, offline_cache=False)
        try:
            answers[program.__name__] = [float(v) for v in program(qd)]
        except Exception as error:
            answers[program.__name__] = type(error).__name__
    print(json.dumps(answers), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
