"""A plugin (`pytest -p rigs.apart`) that makes lavapipe run the code for discrete GPUs: the host cannot access their
memory, threads run several short iterations at once, atomics are aggregated, and sines are the device's own."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import quadrants_lab as qd
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import Logical

usual, chosen = Logical.__init__, api.choose


def apart(self: Logical, *arguments: Any) -> None:
    usual(self, *arguments)
    self.discrete = True


@cache
def choose() -> api.Physical:
    physical = chosen()
    block = physical.target.block
    target = replace(physical.target, in_step=True, aggregates=True, native_sine=True, subgroup=block)
    return replace(physical, target=target)


def patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applies the changes for the time of a test."""
    monkeypatch.setattr(Logical, "__init__", apart)
    monkeypatch.setattr(api, "choose", choose)


def start(how: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """A session with these options of `qd.init`, or, for "apart", a session on a device with memory of its own."""
    if how == "apart":
        patch(monkeypatch)
        how = {"arch": qd.vulkan, "enable_fallback": False, "offline_cache": False}
    qd.init(**how, **options)


def pytest_configure() -> None:
    Logical.__init__ = apart  # type: ignore[method-assign]
    api.choose = choose
