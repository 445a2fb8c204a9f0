"""Functions whose module is imported with their first call: an import of the package brings no compiler."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(module: str, name: str) -> Callable[..., Any]:
    """A function of a module of this folder, such as "cpu.jit"."""

    def call(*args: Any, **named: Any) -> Any:
        return getattr(import_module(f"quadrants_lab.backends.{module}"), name)(*args, **named)

    return call
