"""Finds what is wrong with gradients that a program launches itself (`kernel.grad()`): a gradient is missing, ran
too early or more often than its launch, with other arguments, or on memory that a later launch has overwritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.analysis.regions import overlap
from quadrants_lab.errors import Label
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Differentiable, gradients
from quadrants_lab.runtime.tape.recorder import Launches

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

_TAPE = "use qd.ad.Tape(loss)"


@dataclass(frozen=True, slots=True)
class Gradient:
    """A launch of a gradient by the program. ``wrote``: memory of a gradient -> its version after Python's last
    write before this launch."""

    plan: Plan
    args: tuple[Any, ...]
    wrote: dict[int, int]


class Forward(Launches):
    """Records the forward launches in the last session. ``gradients``: the gradients that the program launched, in
    order. ``at_first``: serial of a gradient's memory -> its first nonzero element when the first of the gradients
    began."""

    def clear(self) -> None:
        super().clear()
        self.gradients: list[Gradient] = []
        self.at_first: dict[int, float] = {}

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        first = next((step.launch for step in self.leaves() if step.launch is not None), None)
        if first is not None and first[0].session is not plan.session:
            self.clear()
        if plan.owner.mode == "reverse" and not self.gradients:
            for _, grad in gradients(self).values():
                values = grad.values().reshape(-1)
                if values.any():
                    self.at_first[grad.serial] = float(values[np.flatnonzero(values)[0]])
        return super().before(plan, args) if plan.owner.mode == "forward" else None

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        if plan.owner.mode == "forward":
            super().after(plan, args, token, failed)
        elif plan.owner.mode == "reverse":
            wrote = {memory.serial: memory.python_wrote for memory in plan.memories(args).values()}
            self.gradients.append(Gradient(plan, args, wrote))


@dataclass(frozen=True, slots=True)
class Launch:
    """A forward launch, with its number in the program, from 1."""

    number: int
    plan: Plan
    args: tuple[Any, ...]

    def cause(self, kind: str, says: str, label: str, help: str = _TAPE, beside: tuple[Label, ...] = ()) -> Cause:
        kernel = self.plan.compiled.lowered.kernel
        return Cause(kind, says, kernel.span, label, help, kernel.name, self.number, beside=beside)


def misplaced(beside: str, launches: Forward, grad: Memory, loss: Differentiable) -> Cause | None:
    """The cause of a wrong gradient if the program launched a gradient at the wrong place: the first gradient that does
    not belong to its launch. None if every launch has its gradient. ``beside``: how the gradient in ``grad`` is wrong,
    in words."""
    made, ran = list(_differentiable(launches)), launches.gradients
    wrote = [(n, g.wrote[grad.serial]) for n, g in enumerate(ran, 1) if grad.serial in g.wrote]
    for (n, before), (_, then) in pairwise(wrote):
        if before != then:
            says = f"{beside}: Python wrote to it after gradient {n} of {len(ran)}, so what was there by then is gone"
            return Cause("filled", says, help="clear gradients before the first one runs; of a loop that trains, check "
                         "one turn")  # fmt: skip
    launched, differentiated = Counter(m.plan.owner for m in made), Counter(g.plan.owner.forward for g in ran)
    for each in made:
        name, owner = each.plan.kernel.name, each.plan.owner
        wanted, got = launched[owner], differentiated[owner]
        if got < wanted:
            says = f"the gradient of launch {each.number}, kernel {name}, did not run"
            if got:
                ran_it = "once" if got == 1 else f"{got} times"
                says = f"kernel {name} was launched {wanted} times, and its gradient {ran_it}"
            return each.cause("missing", f"{beside}: {says}", "every launch has a gradient of its own")
        if got > wanted:
            says = f"the gradient of {name} ran {got} times, for {wanted} launch{'es' * (wanted > 1)}"
            return each.cause("added", f"{beside}: {says}", "its gradient adds to gradients each time")
    for m, g in zip(reversed(made), (g for g in ran if g.plan.owner.forward in launched), strict=False):
        if g.plan.owner.forward is not m.plan.owner:
            says = f"the gradient of {g.plan.kernel.name} ran before that of {m.plan.kernel.name}, launch {m.number}"
            return m.cause("order", f"{beside}: {says}", "the gradient of the last launch has to run first")
        old, new = m.plan.scalars(m.args), g.plan.scalars(g.args)
        for arg in (a for a in new if a in old and old[a] != new[a]):
            says = f"launch {m.number} had {arg} = {old[arg]}, and its gradient {new[arg]}"
            return m.cause("order", f"{beside}: {says}", f"{arg} is an argument here",
                           "launch gradients with the arguments of their launches, last launch first")  # fmt: skip
    if (changed := _overwritten(made)) is not None:
        m, name, later = changed
        says = (f"the gradient of launch {m.number} reads {name}, which launch {later.number} overwrote: "
                "kernel.grad() finds memory as the last launch left it")  # fmt: skip
        return m.cause("changed value", f"{beside}: {says}", f"its gradient reads {name}")
    return _begun(beside, launches, loss)


def _begun(beside: str, launches: Forward, loss: Differentiable) -> Cause | None:
    """The cause of a wrong gradient if the gradients did not start from a seed of 1: what they held when the first
    gradient kernel began, if that was another seed, or more than a seed."""
    name, seed = launches.names.get(id(loss._memory), "loss"), launches.at_first.get(loss.grad._memory.serial, 0.0)
    if seed not in (0.0, 1.0):
        return Cause("seed", f"{beside}: the gradients started from {name}.grad = {seed:.6g}, and not 1",
                     help=f"set {name}.grad[None] = 1 before them, or use qd.ad.Tape({name})")  # fmt: skip
    for memory, grad in gradients(launches).values():
        if grad is not loss.grad._memory and grad.serial in launches.at_first:
            name = launches.names[id(memory)]
            held = f"{name}.grad already held {launches.at_first[grad.serial]:.6g} when the first gradient ran"
            help = f"clear it before: {name}.grad.fill(0), or use qd.ad.Tape(loss)"
            return Cause("added", f"{beside}: {held}", help=help)
    return None


def _differentiable(launches: Forward) -> Iterator[Launch]:
    """The launches that read and write something that has a gradient."""
    number = 0
    for step in launches.leaves():
        number += step.launch is not None
        if step.launch is not None and not step.inner:
            plan, args, _ = step.launch
            if not plan.owner.constant and all(
                any(plan.gradient_of(name, args) is not None for name in names) for names in (plan.reads, plan.writes)
            ):
                yield Launch(number, plan, args)


def _overwritten(made: Sequence[Launch]) -> tuple[Launch, str, Launch] | None:
    """The first launch whose gradient reads memory that a later launch has overwritten; the name of that memory; and
    the first such later launch."""
    found = None
    writers: dict[int, dict[Any, Launch]] = {}  # (id of a memory, box) -> the next launch that writes this box
    for m in reversed(made):
        memories = m.plan.memories(m.args)
        gradient = m.plan.owner.gradient
        assert gradient is not None
        read = gradient.plan_for(m.plan.session, m.args).primal_reads
        for name in sorted(read & set(memories), reverse=True):
            later = writers.get(id(memories[name]), {})
            mine = m.plan.footprint(name, writes=False) if later else None
            box = () if mine is None else mine.of(m.args)
            over = [w for its, w in later.items() if mine is not None and overlap(box, its)]
            if over:
                found = m, name, min(over, key=lambda w: w.number)
        for name in m.plan.writes & set(memories):
            its = m.plan.footprint(name, writes=True)
            if its is not None:
                writers.setdefault(id(memories[name]), {})[its.of(m.args)] = m
    return found
