"""Turns IR values, such as loop bounds, into expressions (SizeExpr) that the host can evaluate before a launch."""

from collections.abc import Mapping, Set as AbstractSet

from quadrants_lab.analysis.algebra import TWO, binary, larger
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.walk import of_kind, walk

MOST_PARTS = 100  # the most parts of an expression; evaluating a longer one is no faster than counting pushes
_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max")


class Symbols:
    """Turns values of one task, and of its bounds, into SizeExprs.

    Before the launch, the host reads the same integer from a field or ndarray as the kernel will; but not from the
    buffers ``written``, in which the reverse kernel restores values that the forward kernel overwrote. Launch
    temporaries exist only on the device.
    """

    def __init__(
        self, task: N.Offload, buffers: Mapping[str, N.Buffer], written: AbstractSet[str] = frozenset()
    ) -> None:
        self.buffers = buffers
        self.written = written
        self.sizes: dict[int, S.SizeExpr | None] = {}
        self.vars: dict[int, S.SizeVar] = {}
        stmts = list(walk((*task.bounds, *task.body)))
        self.defs = {s.id: s for s in of_kind(stmts, N.Value)}
        for loop in of_kind(stmts, N.For):
            self._variable(loop.index)
        for p in task.indices:
            self._variable(p)

    def _variable(self, p: N.Param) -> None:
        self.vars[p.id] = S.SizeVar(p.id, p.name if p.name.isidentifier() else "k")

    def size(self, v: int) -> S.SizeExpr | None:
        """The value as a SizeExpr; None if only the device knows it, or if the expression has too many parts."""
        if v in self.vars:
            return self.vars[v]
        todo = [] if v in self.sizes else [v]
        while todo:  # operands first; not recursive, since a long sum is deep
            stmt = self.defs.get(todo[-1])
            first = [i for i in stmt.operands() if i in self.defs and i not in self.sizes] if stmt is not None else []
            if first:
                todo += first
            else:
                e = self._size(todo[-1])
                self.sizes[todo.pop()] = None if e is None or larger(e, MOST_PARTS) else e
        return self.sizes[v]

    def _size(self, v: int) -> S.SizeExpr | None:
        match self.defs.get(v):
            case N.Const(value=value, type=t) if not t.is_float:
                return S.SizeConst(int(value))
            case N.ArgLoad(arg=arg, type=t) if t.is_int:
                return S.SizeArg(arg)
            case N.ShapeOf(buffer=buffer, axis=axis):
                return S.SizeShape(buffer, axis)
            case N.Op(prim="cast", args=(inner,), type=t) if t.is_int and t.bits >= 32:
                source = self.defs.get(inner)
                whole = inner in self.vars or (source is not None and source.type.is_int)
                return self.size(inner) if whole else None
            case N.Op(prim="neg", args=(inner,), type=t) if t.is_int:
                e = self.size(inner)
                return None if e is None else binary("sub", S.SizeConst(0), e)
            case N.Op(prim="isqrt", args=(inner,)):
                e = self.size(inner)
                return None if e is None else binary("isqrt", e, TWO)
            case N.Op(prim=prim, args=args, type=t) if prim in _OPS and t.is_int:
                a, b = self.size(args[0]), self.size(args[1])
                return None if a is None or b is None else binary(prim, a, b)
            case N.Load(buffer=buffer, index=index, type=t) if t.is_int:
                if self.buffers[buffer].kind not in ("field", "ndarray") or buffer in self.written:
                    return None
                at = tuple(self.size(i) for i in index)
                known = tuple(i for i in at if i is not None)
                return S.SizeLoad(buffer, known) if len(known) == len(at) else None
        return None
