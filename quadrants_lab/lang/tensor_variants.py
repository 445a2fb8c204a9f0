"""A kernel with `qd.Tensor` parameters is compiled apart for fields and for arrays: with dispatchers for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.lang.dense import ScalarField, ScalarNdarray
from quadrants_lab.lang.elements import MatrixNdarray, VectorNdarray
from quadrants_lab.lang.parameters import Parameter, has_tensors
from quadrants_lab.runtime.arguments.compound import AnySlot, TensorSlot, leaves, resolve_tensors
from quadrants_lab.runtime.interop.arrays import is_foreign
from quadrants_lab.runtime.launch.dispatch import Dispatcher
from quadrants_lab.runtime.launch.value_and_grad import ValueAndGrad
from quadrants_lab.runtime.plans import make_plan

NDARRAYS = (ScalarNdarray, VectorNdarray, MatrixNdarray)
Kinds = tuple[bool, ...]  # whether it is an array, for each tensor


class TensorVariants:
    """The dispatchers of a kernel, of its gradient, and of both together. ``default`` takes the arguments of kernels
    without tensors, and flattens those of any. ``tensors``: whether a parameter may be one. ``graph``: as `qd.kernel`
    takes it."""

    def __init__(self, source: FunctionSource, parameters: Sequence[Parameter], graph: bool = False) -> None:
        self.source = source
        self.graph = graph
        self.parameters = parameters
        self.tensors = any(has_tensors(p.annotation) for p in parameters)
        self.made: dict[Kinds, tuple[Dispatcher, Dispatcher, ValueAndGrad]] = {}
        self.default = self.of(())
        self._tensors: list[int] | None = None

    def of(self, kinds: Kinds) -> tuple[Dispatcher, Dispatcher, ValueAndGrad]:
        variant = self.made.get(kinds)
        if variant is None:

            def slots() -> list[AnySlot]:
                left = iter(kinds)
                made = [p.slot() for p in self.parameters]
                return [resolve_tensors(slot, left) for slot in made] if kinds else made

            forward, reverse = (
                Dispatcher(self.source, mode, slots, ScalarField, NDARRAYS, make_plan)
                for mode in ("forward", "reverse")
            )
            both = ValueAndGrad(self.source, "both", slots, ScalarField, NDARRAYS, make_plan)
            forward.gradient, reverse.forward, both.forward = reverse, forward, forward
            forward.graph = reverse.graph = both.graph = self.graph
            variant = self.made[kinds] = forward, reverse, both
        return variant

    def given(self, flat: Sequence[Any]) -> tuple[Dispatcher, Dispatcher, ValueAndGrad]:
        """The dispatchers for these flattened arguments."""
        if self._tensors is None:
            all_leaves = [leaf for p in self.parameters for leaf in leaves(p.slot())]
            self._tensors = [n for n, leaf in enumerate(all_leaves) if isinstance(leaf, TensorSlot)]
        return self.of(tuple([is_array(flat[n]) for n in self._tensors]))


def is_array(value: Any) -> bool:
    """Whether it is what `qd.types.ndarray` takes, rather than a field or None."""
    return isinstance(value, np.ndarray) or getattr(value, "__qd_ndarray__", False) or is_foreign(value)
