"""What a backend chooses of the memory of adstacks."""

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u32


@dataclass(frozen=True, slots=True)
class Layout:
    """How a backend lays stacks out. ``counter``: the unsigned dtype of counts and slots. ``lanes``: slots are indexed
    [slot][lane], because many iterations run at a time; else [slot], except in tasks that run in lanes.
    ``lockstep``: stacks that are pushed and popped together share a counter and lie beside each other, so that an
    access may move up to four of a dtype. ``numbered``: there is no counter where trips of loops number the slots."""

    counter: DType = u32
    lanes: bool = True
    lockstep: bool = False
    numbered: bool = False
