"""Functions whose module is imported by their first call, so that importing the package imports no compiler."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from quadrants_lab.ir.importing import importing


def lazily(module: str, name: str) -> Callable[..., Any]:
    """The function ``name`` of a module of this folder, such as "cpu.jit"."""

    def call(*args: Any, **named: Any) -> Any:
        with importing():
            found = import_module(f"quadrants_lab.backends.{module}")
        return getattr(found, name)(*args, **named)

    return call
