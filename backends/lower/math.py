"""Replaces elementary functions of floats by calls of `functions`, for devices that lack them or are not accurate
enough."""

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.backends.lower.rewrite import Site, rewrite
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import f16, f32

MATH = ("sin", "cos", "tan", "asin", "acos", "atan2", "tanh", "exp", "log", "log1p", "pow", "raw_mod")
function = lazily("backends.lower.functions", "function")
CIRCULAR = ("sin", "cos", "tan")


@dataclass(frozen=True, slots=True)
class LowerMath(Parametrised):
    """Guarantees that elementary functions are of f32 and f64 only (f16 is computed in f32), and that functions which
    the device lacks, or computes inaccurately, are calls. ``own``: the primitives on floats that the device has.
    ``near``: the sine, cosine or tangent of a large number may be that of another number within half a unit in the last
    place, and that of 0 if such a unit is 0.5 or more. ``unit``: in that case, sine and cosine of f32 use the device's
    own instruction for arguments in -pi .. pi."""

    own: tuple[str, ...] = ()
    near: bool = False
    unit: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        return rewrite(kernel, dict.fromkeys(MATH, self._function_of))

    def _function_of(self, s: Site, *args: X) -> X | None:
        if not s.t.is_float:
            return None
        if s.t is f16:
            wide = [a.cast(f32) for a in args]
            value = self._called(s, *wide) or X(s.b, s.b.op(s.prim, *(a.id for a in wide)))
            return value.cast(f16)
        return self._called(s, *args)

    def _called(self, s: Site, *args: X) -> X | None:
        if s.prim not in self.own:
            return None
        t, close = args[0].type, self.near and s.prim in CIRCULAR
        return s.call(function(s.prim, t, not close, self.unit and close and t is f32 and s.prim != "tan"), *args)
