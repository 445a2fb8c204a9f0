"""A plugin (`pytest -p apart`): Vulkan devices are taken for discrete ones, whose memory the host does not see and
where threads run short iterations in step, look whether they change the same element, and have sines of their own, so
that lavapipe runs what is made for those."""

from __future__ import annotations

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
    target = physical.target
    return replace(physical, target=replace(target, in_step=True, aggregates=True, unit=True, together=target.block))


def patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test."""
    monkeypatch.setattr(Logical, "__init__", apart)
    monkeypatch.setattr(api, "choose", choose)


def start(how: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """A session: of these options of `qd.init`, or for "apart" on such a device."""
    if how == "apart":
        patch(monkeypatch)
        how = {"arch": qd.vulkan, "enable_fallback": False, "offline_cache": False}
    qd.init(**how, **options)


def pytest_configure() -> None:
    Logical.__init__ = apart  # type: ignore[method-assign]
    api.choose = choose
