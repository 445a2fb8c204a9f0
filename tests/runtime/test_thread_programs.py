"""Threads that launch, compile and differentiate at the same time, each with its own data; see `thread_programs`."""

from pathlib import Path
from typing import Any

import pytest
from apart import start
from sessions import ended, sessions, skips
from thread_programs import run_together

__all__ = ["ended"]
EVERYWHERE = [*sessions("cpu", "c", "cuda", "vulkan", "metal", "amdgpu"), pytest.param("apart", marks=skips("vulkan"))]


@pytest.mark.parametrize("how", EVERYWHERE)
def test_eight_threads(how: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if how != "apart" and how["arch"] != "cpu":  # elsewhere code comes from the disk, to save time
        how = {**how, "offline_cache": True, "offline_cache_file_path": str(tmp_path)}
    start(how, monkeypatch)
    assert not run_together(8, 50)
