"""The C backend of quadrants_lab as an engine: gcc compiles its loops."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from benchmarks import others
from benchmarks.others import DIVERGENT, Run


def program(key: str) -> Run:
    os.environ["QL_ENGINE"] = "quadrants_lab"
    from benchmarks import engine
    from benchmarks.cases import all_cases

    engine.init("c")
    timed = all_cases()[key].setup()

    def run() -> Callable[[], float]:
        timed.run()
        return timed.value

    return run


PROGRAMS = {key: partial(program, key) for key in (f"divergent/{name}" for name in DIVERGENT)}

if __name__ == "__main__":
    others.serve(PROGRAMS)
