"""Lowers adstacks to memory: allocas, pushes, pops and loads of the top become counters, slots, loads and stores.

The slots of a stack are a buffer of kind "heap". It is indexed by [slot] if one iteration runs at a time, and by
[slot][lane] if many do, so that neighbouring lanes access neighbouring addresses. The number of slots is known only at
launch: the lowered kernel gets two more scalar arguments for each stack, its capacity and the index of its last slot.
How many slots are in use is a buffer of kind "local", the counter. Flags (u1) are packed, 32 to a word.

A push contains no branch: beyond the capacity it writes to the last slot and still increments the counter. Counters are
compared with capacities only at the adstack_guard, between the forward slice and the reverse: an iteration that exceeds
the capacity of any stack reports this (`Overflow`) and skips the reverse.

A backend chooses the memory layout. `lowering` replaces the statements of each task and emits the comparison with the
capacities; `depths` emits the counters, `lockstep` finds stacks that share a counter, and `loops` finds stacks that
need no counter because the trips of loops number their slots.
"""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u32
from quadrants_lab.ir.walk import find

# a kernel without adstacks imports nothing for them
_lowered = lazily("backends.lower.adstacks.lowering", "lowered")


@dataclass(frozen=True, slots=True)
class LowerAdstacks(Parametrised):
    """Guarantees that no adstack statement is left: stacks are counters and slots in memory, in the layout that the
    backend chooses. A load of the top keeps its id. The store that replaces a push or a pop gets the id of that
    statement.

    ``counter``: the unsigned dtype of counters and slot indices. ``lanes``: slots are indexed [slot][lane], because
    many iterations run at a time; otherwise [slot], except in tasks that run in lanes. ``lockstep``: stacks that are
    pushed and popped together share a counter, and their slots are adjacent, so that one access may move up to four
    values of a dtype. ``numbered``: a stack has no counter if the trips of loops number its slots.
    """

    counter: DType = u32
    lanes: bool = True
    lockstep: bool = False
    numbered: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        stacks = any(find(kernel.body, N.AdStackAlloca))
        return _lowered(kernel, self) if stacks else kernel


def stores_slots(kernel: N.Kernel, block: N.Block) -> bool:
    """Whether the block, of a lowered kernel, stores values on adstacks."""
    return any(kernel.buffers[s.buffer].kind == "heap" for s in find(block, N.Store))


def clamped(kernel: N.Kernel, slots: N.Buffer) -> bool:
    """Whether a push on this stack of a lowered kernel writes to the last slot if the stack is full."""
    return any(a.name == f"{slots.name}.last" for a in kernel.args)
