"""The elementary functions of `_gpu.functions` as LLVM functions of a module, for targets without a math library."""

from __future__ import annotations

from collections.abc import Callable

from quadrants_lab.backends._gpu.functions import FUNCTIONS, function
from quadrants_lab.backends._llvm.body import Body
from quadrants_lab.backends._llvm.memory import Scopes
from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.text import Function, Module, ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f32

_NOTHING = N.Kernel("", (), {}, (), 0)
_EXACT = CompileOptions(fast_math=False)  # sums that catch the rounding of others must not be reassociated


class _Pure(Body):
    """A computation without memory."""

    polls = False
    refusal = TypeError("an elementary function has no memory and no effects")

    def __init__(self, fn: Function) -> None:
        super().__init__(fn, _NOTHING, _EXACT, False, Scopes(_NOTHING))

    def pointer(self, buffer: str) -> str:
        raise self.refusal

    def extent(self, buffer: str, axis: int) -> str:
        raise self.refusal

    def arg(self, name: str) -> str:
        raise self.refusal

    def fail(self, stmt: N.Assert) -> None:
        raise self.refusal

    def overflow(self, stack: str, depth: str) -> None:
        raise self.refusal

    def print(self, stmt: N.Print) -> None:
        raise self.refusal

    def random_key(self) -> tuple[str, str, str]:
        raise self.refusal

    def poll(self) -> None:
        pass


def call(name: str) -> Callable[[Ctx], str]:
    """A sequence that calls the function, in f32 where the dtype is f16. With fast math the circular functions lose
    digits of large arguments."""

    def sequence(c: Ctx) -> str:
        t = c.t if c.t.dtype is not f16 else ty(f32)
        args = [c.convert("fpext", a, c.t, t) if c.t.dtype is f16 else a for a in c.args]
        r = c.fn.call(t.text, _made(c.fn.module, name, t.dtype, not c.fast), *((t.text, a) for a in args))
        return c.convert("fptrunc", r, t, c.t) if c.t.dtype is f16 else r

    return sequence


def _made(module: Module, name: str, t: DType, wide: bool) -> str:
    """The function's name in the module, which has it from now on."""
    symbol = f"qd.{name}.{t}" + ("" if wide else ".fast")
    if symbol not in module.helpers:
        made = function(name, t, wide)
        names = [f"%p{n}" for n in range(len(made.params))]
        params = ", ".join(f"{ty(p.type).text} {x}" for p, x in zip(made.params, names, strict=True))
        fn = module.function(symbol, f"define internal {ty(made.result).text} @{symbol}({params})")
        body = _Pure(fn)
        for p, x in zip(made.params, names, strict=True):
            body.define(p.id, p.type, x)
        (value,) = body.block(made.block)
        fn.put(f"ret {ty(made.result).text} {value}")
        module.helper(symbol, "\n".join([*fn.lines, "}"]))
    return symbol


# primitives on floats that a C library would be called for
OWN: dict[str, Callable[[Ctx], str]] = {
    p.name: call(p.name) for p in PRIMS.values() if p.name in FUNCTIONS and p.llvm[0] in ("@math", "frem")
}
