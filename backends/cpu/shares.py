"""Combines sums and products of parallel iterations into one element, with the same bits in each run and for any
number of threads.

A sum of floats depends on the order of its terms, and which thread runs which iterations is left to chance. So a task's
iterations are cut into shares, whose size depends only on the number of iterations. Each share has its own partial
result, an f64. After the task, the partial results are combined in order, rounded once, and added to the element.
Reductions that do not depend on the order (integers, minima, maxima) go into the element share by share.

Sums at indices read from data are not reproducible in this way: see `copies`.
"""

from collections.abc import Mapping

from quadrants_lab.backends._llvm.body import Partial
from quadrants_lab.backends._llvm.text import Function, constant, ty, variable_type
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.backends.lower.sums import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f16, f32, f64

MOST = 128  # the most shares of a task
GRAINS = 4  # a share has at least so many chunks, since combining the lanes of a vector at its end takes time
_NARROWER = {f64: (), f32: (f32,), f16: (f32, f16)}  # not every system can convert an f64 to f16 in one step

_modify = lazily("backends._llvm.atomics", "modify")  # loaded late, because most tasks reduce nothing

Ordered = Mapping[str, str]  # name of a buffer that a task reduces into in a fixed order -> add or mul


def ordered(kernel: N.Kernel, task: N.Offload) -> Ordered:
    return {b: op for b, op in task.shares if op in ("add", "mul") and kernel.buffers[b].dtype.is_float}


# --- in the entry ---------------------------------------------------------------------------------------------------


def reserve(fn: Function, tasks: list[Ordered]) -> str:
    """Emits memory that is enough for the shares of any of these tasks; returns its address. Call it in the entry
    block."""
    most = max(map(len, tasks), default=0)
    return fn.let(f"alloca [{most * MOST} x double]") if most else ""


@dataclass(slots=True)
class Shares:
    """The shares of one task. ``at``: the address of their memory, from `reserve`."""

    entry: CpuBody
    found: Ordered
    at: str

    def begin(self, total: str, least: int, stride: str = "1") -> str:
        """Emits, before the task, the division of its ``total`` pieces of work into shares. Returns how many pieces
        make a share, an i64; "0" if there are no shares. ``stride``: how many iterations of the chunk function a
        piece has."""
        if not self.found:
            return "0"
        fn = self.entry.fn
        unit = fn.extreme("umax", fn.divided_up(total, str(MOST)), str(least))
        fn.put(f"store ptr {self.at}, ptr {self.entry.at(L.SHARES_AT)}")
        fn.put(f"store i64 {fn.let(f'mul i64 {unit}, {stride}')}, ptr {self.entry.at(L.SHARE)}")
        for n, op in enumerate(self.found.values()):
            nothing = constant(ty(f64), identity(op, f64))
            fn.call("void", "qd_no_shares", *self._places(n, total, unit), ("double", nothing))
        return unit

    def end(self, total: str, unit: str) -> None:
        """Emits the combination of the shares; call this after the task."""
        fn = self.entry.fn
        for n, (name, op) in enumerate(self.found.items()):
            function = "qd_sum_of_shares" if op == "add" else "qd_product_of_shares"
            whole = fn.call("double", function, *self._places(n, total, unit))
            t = self.entry.kernel.buffers[name].dtype
            value, wide = whole, f64
            for narrow in _NARROWER[t]:
                value, wide = fn.let(f"fptrunc {ty(wide).text} {value} to {ty(narrow).text}"), narrow
            self.entry.reach(name, 0)
            _modify(self.entry, op, t, self.entry.pointer(name), value)

    def _places(self, n: int, total: str, unit: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """The addresses of the shares of reduction ``n``, and how many shares there are."""
        fn = self.entry.fn
        count = fn.divided_up(total, unit)
        return ("ptr", fn.let(f"getelementptr inbounds double, ptr {self.at}, i64 {n * MOST}")), ("i64", count)


# --- in a chunk function, a call of which runs no more than a share --------------------------------------------------


def open(b: CpuBody, task: N.Offload) -> None:
    """Emits into the entry block of a chunk function a variable for each reduction's partial result in this call."""
    for name, op in task.shares:
        t = b.kernel.buffers[name].dtype
        ptr = b.fn.alloca(variable_type(t, b.width))
        b.partials[name] = Partial(op, t, ptr)
        b.fn.write(t, ptr, constant(ty(t, b.width), identity(op, t)), lanes=b.width)


def close(b: CpuBody, task: N.Offload) -> None:
    """Emits, at the end of a chunk function, the addition of each partial result to its share, or to the buffer."""
    fn, in_order = b.fn, list(ordered(b.kernel, task))
    if in_order:
        share = fn.let(f"udiv i64 %begin, {b.word(L.SHARE)}")
        at = fn.let(f"getelementptr inbounds double, ptr {b.word(L.SHARES_AT, 'ptr')}, i64 {share}")
    for name, p in b.partials.items():
        if name not in in_order:
            _modify(b, p.op, p.dtype, b.pointer(name), _result(b, p))
            continue
        place = fn.let(f"getelementptr inbounds double, ptr {at}, i64 {in_order.index(name) * MOST}")
        old = fn.let(f"load double, ptr {place}")
        new = fn.let(f"{'fadd' if p.op == 'add' else 'fmul'} double {old}, {_wide(fn, p.dtype, _result(b, p))}")
        fn.put(f"store double {new}, ptr {place}")


def _result(b: CpuBody, p: Partial) -> str:
    """The partial result, combined over all lanes."""
    return b.combined(p.op, p.dtype, b.fn.read(p.dtype, p.ptr, lanes=b.width))


def _wide(fn: Function, t: DType, value: str) -> str:
    return value if t is f64 else fn.let(f"fpext {ty(t).text} {value} to double")
