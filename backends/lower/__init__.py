"""Lowering passes, which replace statements that a device lacks by statements that it has. They depend on the IR
alone. `devices` says which of them run for each device, in order."""

from collections.abc import Iterable

from quadrants_lab.ir.nodes import Exit, Kernel, Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import find
from quadrants_lab.passes import pipeline


def lower(kernel: Kernel, passes: Iterable[Pass], options: CompileOptions) -> Kernel:
    """Runs the passes, and records and verifies the kernel after each; returns the kernel in the form that an emitter
    takes."""
    made = pipeline.run(kernel, passes, options.verify)
    if any(find(made.body, Exit)):
        raise TypeError(f"kernel {kernel.name} has exits, which must be structured before emission")
    return made
