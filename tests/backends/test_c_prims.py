"""The primitives in C."""

from __future__ import annotations

from typing import Any

import c_rig
import pytest
from conformance_prims import *  # noqa: F403
from sessions import skips

pytestmark = skips("c")


@pytest.fixture
def rig() -> Any:
    return c_rig
