"""The library of a module: functions that are no instruction, or not one to rely on, each emitted once."""

from __future__ import annotations

from quadrants_lab.backends._gpu.functions import function
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.ir.types import DType


class Library:
    """``fast``: circular functions lose digits of large arguments.

    GLSL.std.450's own are as accurate as the device likes: asin and exp of Mesa 22.3 are off by 3800 and 14 units in
    the last place, log near 1 and tanh near 0 by more, and no faster.
    """

    def __init__(self, fast: bool) -> None:
        self.fast = fast

    def __call__(self, fn: Function, name: str, t: DType, args: tuple[int, ...], exact: bool) -> int:
        m = fn.module
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
