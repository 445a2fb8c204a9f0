"""The primitives on Vulkan."""

from __future__ import annotations

from typing import Any

import pytest
import vulkan_rig
from conformance_prims import *  # noqa: F403


@pytest.fixture
def rig() -> Any:
    return vulkan_rig
