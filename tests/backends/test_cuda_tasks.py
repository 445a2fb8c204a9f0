"""The tasks on CUDA."""

from __future__ import annotations

from typing import Any

import cuda_rig
import pytest
from conformance_tasks import *  # noqa: F403


@pytest.fixture
def rig() -> Any:
    return cuda_rig
