"""A plugin (`pytest -p apart`): Vulkan devices are taken for discrete ones, whose memory the host does not see and
where threads run short iterations in step and look whether they change the same element, so that lavapipe runs what is
made for those."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import Logical

usual, chosen = Logical.__init__, api.choose


def apart(self: Logical, *arguments: Any) -> None:
    usual(self, *arguments)
    self.apart = True


@cache
def choose() -> api.Physical:
    physical = chosen()
    return replace(physical, target=replace(physical.target, in_step=True, meets=True))


def pytest_configure() -> None:
    Logical.__init__ = apart  # type: ignore[method-assign]
    api.choose = choose
