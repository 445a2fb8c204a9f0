"""Runs IR in wasmtime without the layers above it."""

import os

import pytest

from quadrants_lab.backends import wasm
from rigs import EXACT, FAST, TYPES, Rig

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "run"]

if wasm.probe() and not os.environ.get("QL_REQUIRE_ALL"):
    pytest.skip(wasm.probe(), allow_module_level=True)

RIG = Rig(wasm.load, wasm.open_device)
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run
