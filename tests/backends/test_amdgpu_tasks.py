"""The tasks on AMDGPU."""

from __future__ import annotations

from typing import Any

import amdgpu_rig
import pytest
from conformance_tasks import *  # noqa: F403


@pytest.fixture
def rig() -> Any:
    return amdgpu_rig
