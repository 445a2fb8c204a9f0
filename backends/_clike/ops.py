"""The lowering of primitives that languages like C lack."""

from quadrants_lab.backends.lower.casts import lower_casts, lower_formulas
from quadrants_lab.backends.lower.integers import lower_counts, lower_division, lower_integers, lower_orders
from quadrants_lab.backends.lower.math import lower_math
from quadrants_lab.backends.lower.random import lower_random
from quadrants_lab.ir.nodes import Pass


def lowering(*formulas: str, functions: tuple[str, ...] = ()) -> tuple[Pass, ...]:
    """The passes, in order. ``formulas`` and ``functions``: primitives that this language lacks besides, see
    `lower_formulas` and `lower_math`."""
    division, casts = lower_division(calls=True), lower_casts(calls=True)
    missing = lower_formulas("rsqrt", "custom_jvp", *formulas)
    return lower_random, lower_math(*functions), missing, division, lower_integers, lower_counts, lower_orders, casts
