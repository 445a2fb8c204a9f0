"""Runs IR on the C backend without the layers above it; its frames are the CPU's."""

from __future__ import annotations

from typing import Any

import cpu_rig
from cpu_rig import EXACT, FAST, TYPES
from rigs import Rig

from quadrants_lab.backends import c

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "run"]

RIG = Rig(c.load, c.open_device)
device, fresh, load = RIG.device, RIG.fresh, RIG.load


def bind(exe: Any, arrays: Any, args: Any = None, stacks: Any = None, on: Any = None) -> Any:
    return cpu_rig.bind(exe, arrays, args, stacks, on=on or device())


def run(source: Any, arrays: Any, args: Any = None, stacks: Any = None, options: Any = EXACT) -> Any:
    frame = bind(load(source, options), arrays, args, stacks)
    assert frame.launch() == 0
    return frame
