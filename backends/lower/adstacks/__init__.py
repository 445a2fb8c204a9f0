"""Lowers adstacks to memory: allocas, pushes, pops and loads of the top become counters, slots, loads and stores.

The slots of a stack are a buffer of kind "heap". Its index is [slot] if one iteration runs at a time, and [slot][lane]
if many do, so that neighbouring lanes access neighbouring addresses. The number of slots is known only at launch: the
lowered kernel has two more scalar arguments for each stack, its capacity and the number of its last slot. The count of
slots in use is a buffer of kind "local". Flags are packed, 32 to a word.

Pushes are straight-line code: a push beyond capacity writes to the last slot and still counts. Depths are compared with
capacities only at the adstack_guard, between forward slice and reverse: an iteration that exceeds the capacity of any
stack reports that (`Overflow`) and skips the reverse.

A backend chooses the layout. `lowering` goes through the tasks and has the memory and the comparison. `depths` has the
counters, `lockstep` finds stacks that share a counter, and `loops` finds stacks whose slots the trips of loops number.
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
    backend chooses. A load of the top keeps its id; the store that a push or a pop becomes gets the id of that push or
    pop.

    ``counter``: the unsigned dtype of counts and slots. ``lanes``: slots are indexed [slot][lane], because many
    iterations run at a time; otherwise [slot], except in tasks that run in lanes. ``lockstep``: stacks that are pushed
    and popped together share a counter and lie beside each other, so that one access may move up to four values of a
    dtype. ``numbered``: if trips of loops number the slots, there is no counter."""

    counter: DType = u32
    lanes: bool = True
    lockstep: bool = False
    numbered: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        stacks = any(find(kernel.body, N.AdStackAlloca))
        return _lowered(kernel, self) if stacks else kernel


def stores_slots(kernel: N.Kernel, block: N.Block) -> bool:
    """Whether a block of a lowered kernel keeps values on adstacks."""
    return any(kernel.buffers[s.buffer].kind == "heap" for s in find(block, N.Store))


def clamped(kernel: N.Kernel, slots: N.Buffer) -> bool:
    """Whether a push beyond the capacity of a stack of a lowered kernel writes to the last slot."""
    return any(a.name == f"{slots.name}.last" for a in kernel.args)
