"""Inserts the checks of debug builds: that indices are in bounds, and that integer divisors are not zero."""

from dataclasses import replace

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import of_kind, rewritten, rules, types_of


def check_bounds(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no access is out of bounds. Before each access there is an Assert of kind "bounds" for each index
    that may be out of bounds; it names buffer, axis, index, extent and iteration. If the assert fails, a load from a
    field reads element 0 of that axis, a load from an ndarray (which may be empty) gives 0, and a store or atomic does
    nothing. An index of a loop over the buffer's own extent needs no check."""
    c = _Checker(kernel)
    return rewritten(kernel, rules({N.Access: c.access, N.Assert: c.assert_}), c.b)


NO_ELEMENT = "there is no such element"  # the label of the error
BOUNDS_CURE = "end the loop earlier, or test the index with if before it is used"


class _Checker:
    def __init__(self, kernel: N.Kernel) -> None:
        self.buffers = kernel.buffers
        self.b = Builder(kernel.next_id, types_of(kernel.body))
        self.ranges = Ranges(kernel)
        self.iteration = iterations(kernel)

    def access(self, s: N.Access) -> N.Stmt | list[N.Stmt]:
        unsure = [a for a, i in enumerate(s.index) if not self.ranges.inside(i, s.buffer, a)]
        return self.b.made(self.checked, s, unsure) if unsure else s

    def assert_(self, s: N.Assert) -> N.Stmt:
        if s.kind != "bounds":
            return s
        where, indices = self.iteration[s.id]  # the front end has made this check, for an entry of a local vector
        return replace(s, message=s.message + where, args=(*s.args, *indices))

    def checked(self, s: N.Access, axes: list[int]) -> None:
        """Emits the access with checks of its indices along these axes."""
        b = self.b
        b.span = s.span
        oks = {a: self.inside(s, a) for a in axes}
        if s.loads and self.buffers[s.buffer].kind != "ndarray":
            index = list(s.index)
            for a, ok in oks.items():
                index[a] = b.op("select", ok, index[a], b.const(0, b.types[index[a]]))
            b.stmts.append(replace(s, index=tuple(index)))
            return
        all_ok = b.reduced("and", oks.values())
        results: tuple[N.Param, ...] = ()
        with b.block() as then:
            if isinstance(s, N.Value):
                results = (N.Param(s.id, s.type, s.name),)
                inner = b.fresh()
                b.stmts.append(replace(s, id=inner))
                b.yield_(inner)
            else:
                b.stmts.append(s)
                b.yield_()
        with b.block() as orelse:
            b.yield_(*(b.const(0, r.type) for r in results))
        b.add(N.If(b.fresh(), all_ok, tuple(then), tuple(orelse), results))

    def inside(self, s: N.Access, axis: int) -> int:
        """Emits the assert for one axis; returns the id of its condition."""
        b = self.b
        index = s.index[axis]
        buffer = self.buffers[s.buffer]
        shape = buffer.shape
        # indices of other dtypes than i32, and larger extents, are compared as i64; a huge u64 is negative then
        narrow = not buffer.wide if shape is None else shape[axis] <= i32.limits[1]
        wide = i32 if b.types[index] is i32 and narrow else i64
        at = b.cast(index, wide)
        if shape is None:
            extent = b.cast(b.add(N.ShapeOf(b.fresh(), buffer.extent_type, s.buffer, axis)), wide)
        else:
            extent = b.const(shape[axis], wide)
        least = self.ranges.range(index)
        ok = b.op("lt", at, extent)
        if least is None or least[0] < 0 or least[1] > wide.limits[1]:
            ok = b.op("and", b.op("ge", at, b.const(0, wide)), ok)
        if begin(buffer, axis):
            index = b.op("add", b.cast(index, i64), b.const(begin(buffer, axis), i64))
        where, indices = self.iteration[s.id]
        message = no_element(buffer, axis) + where
        b.add(N.Assert(b.fresh(), ok, message, (index, extent, *indices), kind="bounds"))
        return ok


def begin(buffer: N.Buffer, axis: int) -> int:
    """The first valid index along the axis, as the program counts."""
    return buffer.first[axis] if buffer.first else 0


def no_element(buffer: N.Buffer, axis: int) -> str:
    """The message for an index that is out of bounds, with ``{}`` for the index and for the extent."""
    begins = f" from {begin(buffer, axis)}" if begin(buffer, axis) else ""
    return f"index {{}} is out of bounds for axis {axis} of {buffer.name} with extent {{}}{begins}"


def iterations(kernel: N.Kernel) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Maps each statement to the end of a message that names the iteration, and the indices to fill it in: those of the
    loops around the statement, outermost first."""
    found: dict[int, tuple[str, tuple[int, ...]]] = {}

    def visit(block: N.Block, around: tuple[tuple[str, int], ...]) -> None:
        names = ", ".join(f"{name} = {{}}" for name, _ in around)
        here = (f", in the iteration {names}" if around else ""), tuple(i for _, i in around)
        for s in block:
            found[s.id] = here
            inner = around
            if isinstance(s, (N.For, N.Offload)):
                params = s.indices if isinstance(s, N.Offload) else (s.index,)
                inner = (*around, *(v for v in (_variable(p, s.body) for p in params) if v is not None))
            for block in s.blocks():
                bounds = isinstance(s, N.Offload) and block is not s.body
                visit(block, around if bounds else inner)

    visit(kernel.body, ())
    return found


def _variable(p: N.Param, body: N.Block) -> tuple[str, int] | None:
    """The name and the id of the loop variable that the user sees: the loop's index, or begin + index * step if the
    loop computes that."""
    if p.name:
        return None if p.name == "_" else (p.name, p.id)
    made = {p.id}
    for s in of_kind(body, N.Op):
        if not made.isdisjoint(s.args):
            if s.name:
                return s.name, s.id
            made.add(s.id)
    return None


_DIVISIONS = ("floordiv", "mod", "raw_div", "raw_mod")


def check_division(kernel: N.Kernel) -> N.Kernel:
    """Guarantees an Assert of kind "division" before every integer division whose divisor may be zero."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    ranges, iteration = Ranges(kernel), iterations(kernel)

    def nonzero(v: int) -> bool:
        r = ranges.range(v)
        return r is not None and (r[0] > 0 or r[1] < 0)

    def checked(s: N.Op) -> N.Stmt | list[N.Stmt]:
        if s.prim not in _DIVISIONS or not s.type.is_int or nonzero(s.args[1]):
            return s
        b.span = s.span
        with b.block() as made:
            ok = b.op("ne", s.args[1], b.const(0, s.type))
            where, indices = iteration[s.id]
            b.add(N.Assert(b.fresh(), ok, f"integer division by zero{where}", indices, kind="division"))
        return [*made, s]

    return rewritten(kernel, rules({N.Op: checked}), b)
