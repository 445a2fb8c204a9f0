"""Runs IR on Vulkan without the layers above it."""

import os
import shutil

import child
import pytest

from quadrants_lab.backends import vulkan
from rigs import EXACT, FAST, TYPES, Rig

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "run", "validate"]

why_not = vulkan.probe()
if why_not and not os.environ.get("QL_REQUIRE_ALL"):
    pytest.skip(why_not, allow_module_level=True)

from quadrants_lab.backends.vulkan.device import Device  # noqa: E402

RIG = Rig(vulkan.load, Device)
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run


def validate(code: bytes) -> None:
    """spirv-val finds nothing."""
    if shutil.which("spirv-val"):
        child.run("spirv-val", "--target-env", "vulkan1.2", "-", given=code)
