"""Code objects of every kernel of the conformance suites: they read as they should, and, where LLVM's linker is found,
link. By day for one chip, by night for all three. The kernels run too: on what stands in for a device."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import amdgpu_objects
import amdgpu_rig
import pytest
from conformance_prims import *  # noqa: F403
from conformance_tasks import *  # noqa: F403

from quadrants_lab.backends.amdgpu import listings
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

CHIPS = ("gfx90a", "gfx942", "gfx1100") if os.environ.get("QL_NIGHTLY") else ("gfx1100",)


def load(source: str | N.Kernel, options: CompileOptions = amdgpu_rig.EXACT, **changes: Any) -> Any:
    """Makes code objects besides what runs."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    changed = replace(options, **changes)
    for chip in CHIPS:
        amdgpu_objects.check(listings.object_of(kernel, changed, chip), kernel, chip)
    return amdgpu_rig.load(kernel, changed)


def run(
    source: str | N.Kernel, arrays: Any, args: Any = None, stacks: Any = None,
    options: CompileOptions = amdgpu_rig.EXACT, on: Any = None,
) -> Any:  # fmt: skip
    bound = amdgpu_rig.bind(load(source, options), arrays, args, stacks, on)
    assert bound.launch() == 0
    return bound


@pytest.fixture
def rig() -> Any:
    return SimpleNamespace(**{**vars(amdgpu_rig), "load": load, "run": run})
