"""Which GPUs a cluster of this machine gives its workers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from quadrants_lab.distributed import cluster


def nvml(count: int) -> Callable[[str], Any]:
    """In the place of ctypes.CDLL: a management library that knows so many GPUs."""

    def counted(at: Any) -> int:
        at._obj.value = count
        return 0

    def load(name: str) -> Any:
        assert name == "libnvidia-ml.so.1"
        return SimpleNamespace(nvmlInit_v2=lambda: 0, nvmlDeviceGetCount_v2=counted, nvmlShutdown=lambda: 0)

    return load


def absent(name: str) -> Any:
    raise OSError(name)


@pytest.mark.parametrize(
    ("said", "load", "found"),
    [("3, 5", absent, ["3", "5"]), ("0,-1,2", absent, ["0"]), ("", nvml(2), []), (None, nvml(2), ["0", "1"])],
)
def test_what_the_environment_or_the_driver_says(said: Any, load: Any, found: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if said is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    assert cluster.visible_gpus() == found
