"""Random kernels that stay: written once by ``python tests/generate.py``, then read, kept and run like any program.

`GENERATED` is their table. What such a kernel may say, and which fields there are, is in tests/strategies.py.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np
from programs import F, I, Program
from strategies import ELEMENTS, FLOATS, SIZE

GENERATED: dict[str, Program] = {}
Launch = tuple[int, tuple[int, ...], tuple[int, ...]]  # what is in n, in m and in at


def _specs(fns: tuple[Callable, ...]) -> dict[str, F | I]:
    """The fields that the functions name."""
    named = {name for fn in fns for name in fn.__code__.co_names}
    specs: dict[str, F | I] = {}
    for name, whole in FLOATS.items():
        if name in named:
            element = ELEMENTS.get(name, ())
            specs[name] = F(whole[: len(whole) - len(element)], element=element)
    integers = {"n": I(), "m": I((SIZE,)), "at": I((SIZE,), 0, SIZE - 1), "o": I((SIZE,), 0, 0)}
    return specs | {name: spec for name, spec in integers.items() if name in named}


def generated(*launches: Launch, funcs: tuple[Callable, ...] = ()) -> Callable[[Callable], Callable]:
    """Puts a kernel on the table."""

    def add(fn: Callable) -> Callable:
        cases = tuple({"n": n, "m": np.array(m), "at": np.array(at)} for n, m, at in launches)
        GENERATED[fn.__name__] = Program(fn, _specs((fn, *funcs)), funcs=funcs, cases=cases)
        return fn

    return add


for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
