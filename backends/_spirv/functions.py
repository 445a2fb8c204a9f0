"""The library of a module: functions that are no instruction, or not one to rely on, each emitted once."""

from __future__ import annotations

from quadrants_lab.backends._gpu.functions import function
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.ir.types import DType, f32

# what GLSL.std.450 offers for f32; its accuracy is the device's
NATIVE: dict[str, str] = {}


class Library:
    """``fast``: f32 functions are the device's own where it has them, and circular functions need not hold for large
    arguments."""

    def __init__(self, fast: bool) -> None:
        self.fast = fast

    def __call__(self, fn: Function, name: str, t: DType, args: tuple[int, ...], exact: bool) -> int:
        m = fn.module
        if self.fast and t is f32 and name in NATIVE:
            return fn.glsl(NATIVE[name], m.type(t), *args)
        key = (name, t)
        if key not in m.helpers:
            m.helpers[key] = self._emit(fn, name, t)
        return fn.let("FunctionCall", m.type(t), m.helpers[key], *args)

    def _emit(self, caller: Function, name: str, t: DType) -> int:
        m = caller.module
        made = function(name, t, not self.fast)
        fn = Function(m, m.type(made.result), tuple(m.type(p.type) for p in made.params), f"{name}_{t}")
        fn.stmt, fn.span = caller.stmt, caller.span
        body = Body(fn, None, True, False, False)
        for p, id in zip(made.params, fn.params, strict=True):
            body.define(p.id, p.type, id)
        (value,) = body.block(made.block)
        fn.put("ReturnValue", value)
        return fn.close()
