"""A plugin (`pytest -p apart`): Vulkan devices are taken for discrete ones, whose memory the host does not see, so that
lavapipe runs what copies to and from such memory."""

from __future__ import annotations

from typing import Any

from quadrants_lab.backends.vulkan.logical import Logical

usual = Logical.__init__


def apart(self: Logical, *arguments: Any) -> None:
    usual(self, *arguments)
    self.apart = True


def pytest_configure() -> None:
    Logical.__init__ = apart  # type: ignore[method-assign]
