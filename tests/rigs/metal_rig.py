"""Runs IR on the simulated Metal device without the layers above it.

Metal has no f64: tests that need it are skipped.
"""

from collections.abc import Iterable

import pytest

from quadrants_lab.backends import metal
from quadrants_lab.backends.metal import simulator
from quadrants_lab.backends.metal.device import Device
from quadrants_lab.backends.metal.executable import Executable
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DTYPES, f64
from quadrants_lab.ir.walk import types_of
from rigs import EXACT, FAST, Rig

__all__ = ["EXACT", "FAST", "TYPES", "bind", "build", "device", "fresh", "load", "run"]

TYPES = tuple(t for t in DTYPES.values() if t is not f64)


def _made(kernel: N.Kernel, options: CompileOptions) -> Executable:
    if simulator.probe():
        pytest.skip(simulator.probe())
    if any(t is f64 for t in types_of(kernel.body).values()):
        pytest.skip("Metal has no f64")
    return metal.load(kernel, options)


RIG = Rig(_made, lambda: Device(simulator.Simulator()))
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run


def build(executables: Iterable[Executable]) -> None:
    """Compiles all kernels at once, for later launches."""
    simulator.build([e.source for e in executables])
