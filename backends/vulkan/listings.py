"""The stage of the Vulkan backend: SPIR-V as text, each line with its IR statement. It needs no device."""

from collections.abc import Callable

from quadrants_lab.backends._spirv.kernel import module
from quadrants_lab.backends._spirv.listing import listing
from quadrants_lab.backends._spirv.target import GENERIC, Target
from quadrants_lab.backends.stage import Stage
from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.options import CompileOptions


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    def spirv() -> Stage:
        target = _target()
        size = len(module(kernel, options, target).words())
        return listing(module(kernel, options, target, lines=True), size)

    return {"spirv": spirv}


def lowering(options: CompileOptions) -> tuple[Pass, ...]:
    """The passes for the device that kernels would run on."""
    return _target().lowering(options)


def _target() -> Target:
    """The capabilities of the device that kernels would run on, or typical ones where there is none."""
    from quadrants_lab.backends.vulkan import api, probe

    return GENERIC if probe() else api.choose().target
