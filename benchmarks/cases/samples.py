"""Cases that run a program of tests/samples, which resemble other people's code bases: a whole run, with its gradient
under a Tape or in torch. The first run, which compiles, is reported in a table of its own."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import partial

from benchmarks.cases import Case, Timed
from benchmarks.engine import qd, sample

STEPS = {
    "plasticine_tool": "200 steps", "four_materials": "60 steps", "splatting": "a picture", "hash_grid": "a batch",
    "porous_flow": "40 steps", "topology": "two solutions", "arm_contact": "30 steps",
}  # fmt: skip


def whole(name: str) -> Timed:
    module = sample(name, "tests/samples")
    if any(importlib.util.find_spec(package) is None for package in getattr(module, "NEEDS", ())):
        sys.path.append(os.environ["QL_PACKAGES"])
    program, losses = module.make(qd), [0.0]

    def run() -> None:
        losses[0] = float(program(**module.PARAMS)["loss"])

    return Timed(run, lambda: losses[0])


CASES = [Case("samples", f"{name.replace('_', ' ')}, {steps}", partial(whole, name)) for name, steps in STEPS.items()]
