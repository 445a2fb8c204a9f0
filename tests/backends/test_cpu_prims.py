"""The primitives on the CPU."""

from __future__ import annotations

from typing import Any

import cpu_rig
import pytest
from conformance_prims import *  # noqa: F403


@pytest.fixture
def rig() -> Any:
    return cpu_rig
