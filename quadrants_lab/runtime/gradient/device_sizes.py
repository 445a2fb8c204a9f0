"""Evaluates stack sizes that depend on many elements of arrays on the device, where the host cannot access its
memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.adstack import device_reduction as DR
from quadrants_lab.analysis.algebra import INT64_MAX
from quadrants_lab.backends import forks
from quadrants_lab.ir import sizeexpr as SE
from quadrants_lab.runtime.compile.compiled import Counter, load_cached
from quadrants_lab.runtime.gradient.pre_launch import PreLaunch

if TYPE_CHECKING:
    from quadrants_lab.runtime.gradient.plan import GradientPlan

LEAST_BYTES = 1 << 16  # of arrays; copying fewer to the host is as fast as a kernel


class DeviceSizes:
    """``work``: the ranges that the device evaluates, and what is left for the host."""

    def __init__(self, plan: GradientPlan, work: DR.DeviceReduction) -> None:
        self.plan = plan
        self.work = work

    @forks.lazy
    def pre_launch(self) -> PreLaunch:
        """Compiled at first use."""
        from quadrants_lab.passes import pipeline
        from quadrants_lab.pipelines.derivatives import COUNTING

        plan = self.plan
        options = plan.compiled.options
        kernel = pipeline.run(DR.sizing_kernel(plan.kernel, self.work), COUNTING, options.verify)
        results = {k: f"{DR.SIZE}{k}" for k in range(len(self.work.ranges))}
        return PreLaunch(plan, Counter(kernel, load_cached(kernel, options, plan.session), results))

    def wanted(self, operands: dict[str, Any]) -> bool:
        """Whether the arrays are too large to copy them to the host."""
        return sum(int(operands[name].nbytes) for name in self.work.data) >= LEAST_BYTES

    def values(
        self, args: Sequence[Any], operands: dict[str, Any], value: Callable[[SE.SizeExpr], int]
    ) -> dict[int, int] | None:
        """The values of the ranges, by the number of their `SizeCounted`; None where the arguments do not match.
        ``value`` evaluates expressions on the host."""
        pre = self.pre_launch
        for arg in pre.counter.kernel.args:
            if arg.name in self.work.given:
                most = (1 << (arg.type.bits - 1)) - 1
                pre.frame.set_arg(arg.name, max(-most - 1, min(most, value(self.work.given[arg.name]))))
        found = pre.counts(args, operands)
        if found is None:
            return None
        for k, e in enumerate(self.work.ranges):
            if e.op == "sum" and pre.frame.ret(f"{DR.ROUGH}{k}") >= INT64_MAX:
                found[k] = INT64_MAX
        return {-1 - k: n for k, n in found.items()}


def device_sizes(plan: GradientPlan, sizes: Sequence[SE.SizeExpr]) -> DeviceSizes | None:
    """None where no size depends on ranges of elements, or the host can access the device's memory."""
    if not getattr(plan.session.device, "remote", False):
        return None
    work = DR.device_reduction(sizes)
    return None if work is None else DeviceSizes(plan, work)
