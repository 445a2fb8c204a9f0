"""Makes the dispatchers of a kernel, which find or compile the code for a call. A kernel with `qd.Tensor`
parameters has dispatchers of its own for each combination of fields and arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir.importing import lazily
from quadrants_lab.lang.dense import ScalarField, ScalarNdarray
from quadrants_lab.lang.elements import MatrixNdarray, VectorNdarray
from quadrants_lab.lang.parameters import Parameter, has_tensors
from quadrants_lab.runtime.arguments.slots import AnySlot, TensorSlot
from quadrants_lab.runtime.interop.arrays import is_foreign
from quadrants_lab.runtime.launch.dispatch import Dispatcher, Modes, ValueAndGrad

_plan, _gradient = lazily("runtime.launch.plan", "Plan"), lazily("runtime.launch.gradient_plan", "GradientPlan")
NDARRAYS = (ScalarNdarray, VectorNdarray, MatrixNdarray)
Kinds = tuple[bool, ...]  # for each tensor argument, whether it is an array (else a field)


class TensorVariants:
    """The dispatchers of a kernel: triples for the kernel, its gradient, and both in one launch. ``default`` is the
    triple of a kernel without tensors; the first dispatcher in it also flattens arguments for kernels with tensors.
    ``tensors``: whether there are `qd.Tensor` parameters. ``graph``: the option of `qd.kernel`."""

    def __init__(self, source: FunctionSource, parameters: Sequence[Parameter], graph: bool = False) -> None:
        self.source = source
        self.graph = graph
        self.parameters = parameters
        self.tensors = any(has_tensors(p.annotation) for p in parameters)
        self._variants: dict[Kinds, tuple[Dispatcher, Dispatcher, ValueAndGrad]] = {}
        self.default = self._variant(())
        # positions of the tensors among the flattened arguments, and whether they are arrays or None
        self._tensors: list[tuple[int, bool]] | None = None

    def _variant(self, kinds: Kinds) -> tuple[Dispatcher, Dispatcher, ValueAndGrad]:
        variant = self._variants.get(kinds)
        if variant is None:

            def slots() -> list[AnySlot]:
                left = iter(kinds)
                made = [p.slot() for p in self.parameters]
                return [slot.resolved(left) for slot in made] if kinds else made

            plain = frozenset({int, float, bool, np.ndarray, *NDARRAYS})
            of = Modes(self.source, slots, ScalarField, NDARRAYS, _make_plan, plain, self.graph)
            forward, reverse, both = Dispatcher(of, "forward"), Dispatcher(of, "reverse"), ValueAndGrad(of, "both")
            forward.gradient, reverse.forward, both.forward = reverse, forward, forward
            variant = self._variants.setdefault(kinds, (forward, reverse, both))  # unless another thread did
        return variant

    def for_arguments(self, flat: Sequence[Any]) -> tuple[Dispatcher, Dispatcher, ValueAndGrad]:
        """The dispatchers for these flattened arguments."""
        if self._tensors is None:
            all_leaves = [leaf for p in self.parameters for leaf in p.slot().leaves()]
            self._tensors = [(n, leaf.optional) for n, leaf in enumerate(all_leaves) if isinstance(leaf, TensorSlot)]
        return self._variant(tuple([_is_array(flat[n], optional) for n, optional in self._tensors]))


def _make_plan(owner: Dispatcher, session: Any, compiled: Any, launched: Any) -> Any:
    return _plan(owner, session, compiled, launched, _gradient if compiled.mode in ("reverse", "both") else None)


def _is_array(value: Any, optional: bool) -> bool:
    """Whether a tensor argument counts as an array: an object that a `qd.types.ndarray` parameter accepts, or, for an
    ``optional`` array, everything except None. Any other tensor argument is a field or None."""
    if optional:
        return value is not None
    return isinstance(value, np.ndarray) or getattr(value, "__qd_ndarray__", False) or is_foreign(value)
