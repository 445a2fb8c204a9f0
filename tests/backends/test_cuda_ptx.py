"""PTX of every kernel of the conformance suites, for the oldest and for a recent chip; ptxas, where it is found,
accepts it. The kernels run too: on the device, or on what stands in for one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cuda_rig
import pytest
from conformance_prims import *  # noqa: F403
from conformance_tasks import *  # noqa: F403

from quadrants_lab.backends.cuda import listings, toolkit
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

if toolkit.missing_libdevice():
    pytest.skip(toolkit.missing_libdevice(), allow_module_level=True)

CHIPS = (75, 90)


def load(source: str | N.Kernel, options: CompileOptions = cuda_rig.EXACT, **changes: Any) -> Any:
    """Makes PTX besides what runs."""
    kernel = parse_kernel(source) if isinstance(source, str) else source
    for chip in CHIPS:
        text = listings.ptx_of(kernel, replace(options, **changes), chip)
        assert f".target sm_{chip}" in text
        assert ".extern" not in text
        if toolkit.tool("ptxas"):
            programs = listings.assembled(text, chip).programs
            assert all(p.registers <= 255 for p in programs)
    return cuda_rig.load(kernel, options, **changes)


def run(
    source: str | N.Kernel, arrays: Any, args: Any = None, stacks: Any = None,
    options: CompileOptions = cuda_rig.EXACT, on: Any = None,
) -> Any:  # fmt: skip
    bound = cuda_rig.bind(load(source, options), arrays, args, stacks, on)
    assert bound.launch() == 0
    return bound


@pytest.fixture
def rig() -> Any:
    return SimpleNamespace(**{**vars(cuda_rig), "load": load, "run": run})
