"""Runs IR on a CUDA device or its stand-in, without the layers above. `LISTED` also makes PTX for the oldest and for a
recent chip, by day for one of them in turn; ptxas, where it is found, must accept it."""

import os
from typing import Any

from quadrants_lab.backends import cuda
from quadrants_lab.backends.cuda import listings, toolkit
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from rigs import EXACT, FAST, TYPES, Rig, cuda_stand_in
from rigs.calls import ptx_misfits

__all__ = ["EXACT", "FAST", "LISTED", "TYPES", "bind", "device", "fresh", "load", "run"]

CHIPS = (75, 90)
cuda_stand_in.install()
RIG = Rig(cuda.load, cuda.open_device)
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run


def _listed(kernel: N.Kernel, options: CompileOptions) -> Any:
    chips = CHIPS if os.environ.get("QL_NIGHTLY") else CHIPS[kernel.next_id % 2 :][:1]
    for chip in () if toolkit.missing_libdevice() else chips:
        text = listings.ptx_of(kernel, options, chip)
        assert f".target sm_{chip}" in text
        assert not ptx_misfits(text)
        if toolkit.tool("ptxas"):
            assert all(p.registers <= 255 for p in listings.assembled(text, chip).programs)
    return cuda.load(kernel, options)


LISTED = Rig(_listed, cuda.open_device)
