"""Makes launch plans of gradients. Before a launch they size the adstacks for the current data; outside of a Tape
they warn about common mistakes (`observe.gradient_warnings`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quadrants_lab.analysis.effects import touched
from quadrants_lab.analysis.facts import draws, statements
from quadrants_lab.autodiff import diagnostics as D
from quadrants_lab.autodiff.diagnostics import warn
from quadrants_lab.backends.overlap import WRITTEN
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.compile.specialisation import BOTH
from quadrants_lab.runtime.interop import gradients as G
from quadrants_lab.runtime.launch.frames import KeptBuffers, field_memories
from quadrants_lab.runtime.launch.plan import Plan
from quadrants_lab.runtime.launch.signature import Stamp
from quadrants_lab.runtime.launch.stacks import StackSizes
from quadrants_lab.runtime.memory.identity import Distinct, Place, overlapping, same_memory
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.observe.gradient_warnings import SeedCheck, WrittenSince
from quadrants_lab.runtime.observe.observers import PUT_BACK, Launched


class GradientPlan:
    """What a gradient's plan has besides a `Plan`. ``forward``: the launch to differentiate; ``stacks``: the sizes of
    its adstacks; ``guard``: tells whether anything has changed since its last launch. ``entry_alone``: under a Tape,
    launching means only to call the entry with those arguments that are numbers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.must_differ = self._what_must_differ()
        self.forward = ForwardLaunch(plan)
        self.stacks = StackSizes(plan, self.forward.number if self.forward.draws else None)
        self.guard = Guard(self)
        self.entry_alone = not (self.stacks.vary or self.forward.draws or plan.scratch or plan.takes_arrays)

    def preparation(self) -> Callable[..., bool]:
        """A function to call before each launch: it finds the buffers that the forward launch saved, evaluates the
        depths of stacks that may change, and sets random draws and gradients."""
        prepare = self.prepare_stacks if self.stacks.vary else self.prepare_draws
        if not (self.stacks.vary or self.forward.draws):
            prepare = self.set_gradients
        if not self.plan.scratch:
            return prepare
        return lambda *args: self.forward.give_kept(args) and prepare(*args)

    def set_gradients(self, *args: Any) -> bool:
        """`bind_gradients`, after checks of the launch that is differentiated."""
        if self.must_differ is not None and (met := self.must_differ.met(args)) is not None:
            raise self.aliased(*met)
        if not self.plan.owner.replays:  # a Tape makes sure of what is checked here
            of = self.forward
            forward, seeds = of.last.plan, of.seeds
            if forward is not None and of.draws:
                last = forward.scratch.last[0]
                if last and last != self.plan.scratch.identity(args):
                    raise D.other_draws(self.plan.kernel)
            if forward is not None and forward.launched:
                now = forward.read_versions.now(*args)
                if forward.launched != now:
                    of.written_since.warn(forward, now, args)
            if seeds.looks and not seeds.of:
                seeds.looks = 0
                self.warn_of_nothing()
            elif seeds.looks and not seeds.given(args):
                seeds.looks = 0
                node = G.running_backward()
                if node is None:
                    warn([seeds.warning("")])
                elif not seeds.fields and G.unset(node, [args[n] for n in seeds.args]):
                    warn([seeds.warning(G.function_of(node))])
        if not self.plan.gradient_args:
            return True
        if self.forward.seeds.of:
            G.passed_on()
        return self.plan.bind_gradients(*args)

    def warn_of_nothing(self) -> None:
        """Warns if values go from one array or field to another, but no derivative does (`dead_paths.goes_nowhere`)."""
        from quadrants_lab.autodiff.dead_paths import goes_nowhere  # few gradients need the compiler here
        from quadrants_lab.runtime.compile.compile import tasks_ir

        compiled, node = self.plan.compiled, G.running_backward()
        if PUT_BACK.get() or self.plan.owner.constant:
            return
        call = "" if node is None else G.function_of(node)
        tell = partial(warn, goes_nowhere(tasks_ir(compiled.lowered.kernel, compiled.options), call))
        if node is None:
            tell()
        elif tell.args[0]:
            G.unless_passed_on(node, tell)

    def _what_must_differ(self) -> Distinct | None:
        """The arrays and fields that must not overlap, because the kernel writes one of them. None if no two of them
        can, or if the results are constants: then derivatives are only set to 0."""
        of, primal = self.plan, self.plan.compiled.lowered.kernel
        written = frozenset() if of.owner.constant else touched(primal.body, N.Write)
        places: dict[str, Place] = {name: n for n, name in of.array_slots}
        places |= field_memories(of.compiled, primal, of.session)
        return Distinct(places, written, of.session) or None

    def keep_apart(self) -> list[Callable[[], None]]:
        """Separates gradients that share memory; the code assumes that they do not (`shared_arrays`). A gradient that
        overlaps another one or a field is replaced by zeroed memory; the returned functions add this to it."""
        plan = self.plan
        if plan.owner.constant:
            return []
        grads, memories = list(plan.bound), list(plan.bound.values())
        shared = {later: grads[first] for first, later in overlapping(memories, [WRITTEN] * len(grads))}
        if plan.session.exported:
            for n, memory in enumerate(memories):
                met = next((name for name, of in plan.fields.items() if same_memory(memory, of)), "")
                shared |= {n: met} if met else {}
        added: list[Callable[[], None]] = []
        for n, other in sorted(shared.items()):
            if any(not s.atomic for name in (other, grads[n]) for s in plan.facts.of(statements)[name]):
                raise self.aliased(other, grads[n])
            sums = allocate(plan.session, memories[n].dtype, memories[n].operand.shape, memories[n].order)
            added.append(partial(_add, memories[n], sums))
            plan.summed = True
            plan.bound[grads[n]] = sums
        return added

    def aliased(self, a: str, b: str) -> QuadrantsRuntimeError:
        return QuadrantsRuntimeError(
            f"{a!r} and {b!r} of kernel {self.plan.kernel.name} are the same memory, and the kernel writes to it: a "
            "gradient is compiled for different arrays",
            code="QL2074",
            help="pass a copy as one of them, or take one argument for both",
        )

    def prepare_draws(self, *args: Any) -> bool:
        """Like `prepare_stacks`, for kernels without stacks to size."""
        self.plan.frame.replay(self.forward.number())
        return self.set_gradients(*args)

    def prepare_stacks(self, *args: Any) -> bool:
        """Binds the gradients of array arguments and updates the depths of stacks. Returns False if ``args`` do not
        fit the plan."""
        guard, stacks, number = self.guard, self.stacks, None
        guarded = guard.then is not None and stacks.last_dependencies is not None
        if guarded and not self.plan.owner.replays and guard.now(*args) == guard.then:
            return True
        if not self.set_gradients(*args):
            return False
        if self.forward.draws:
            number = self.forward.number()
            self.plan.frame.replay(number)
        if not stacks.update(args, number):
            return False
        if guard.possible:
            guard.keep(args)
        return True


class ForwardLaunch:
    """The forward launch whose gradient a plan computes, and what it saved, drew and read. ``last``: the kernel's last
    launch; ``draws``: whether the kernel draws random numbers."""

    def __init__(self, plan: Plan) -> None:
        self.of = plan
        self.last: Launched[Plan] = Launched() if plan.compiled.mode == BOTH else plan.last_launched
        self.draws = plan.facts.of(draws)
        self.seeds, self.written_since = SeedCheck(plan), WrittenSince(plan)

    @property
    def plan(self) -> Plan | None:
        return self.last.plan

    def kept(self) -> KeptBuffers:
        """The buffers that the forward launch saved for its gradient."""
        given: KeptBuffers | None = self.of.owner.kept
        if given is not None:
            return given
        return {} if self.plan is None else self.plan.scratch.kept()

    def give_kept(self, args: Sequence[Any]) -> bool:
        """Binds the overwritten values that the forward launch saved; raises an error if it saved none."""
        of, kept, forward = self.of, self.kept(), self.plan
        of_torch = G.running_backward() is not None
        if of.scratch.keeps and of.owner.kept is None:
            if forward is None:
                raise D.nothing_kept(of.kernel, "and it was not launched", of_torch)
            if not of.scratch.keeps <= kept.keys():
                how = "under qd.ad.FwdMode" if forward.owner.mode == "dual" else "in another mode"
                raise D.nothing_kept(of.kernel, f"and its last launch, {how}, kept none of them", of_torch)
            if forward.scratch.last[0] != of.scratch.identity(args):
                raise D.nothing_kept(of.kernel, "and its last launch was one with other arguments", of_torch)
        of.scratch.give(kept)
        return True

    def number(self) -> int:
        """The number of the launch whose random draws the gradient repeats; 0 if there was none."""
        replayed: int = self.of.owner.replays
        return replayed or (0 if self.plan is None else self.plan.frame.launch_number)


class Guard:
    """Tells whether a gradient's launch is like its last one, so that the fast path can skip all preparation. ``now``:
    a function of the arguments that returns what the preparation depends on; ``then``: its result at the last launch,
    or None if some change would go unnoticed. ``possible``: the kernel has a fast path at all. It has one if a launch
    binds no gradients of arguments, repeats no random draws, and reads no saved values."""

    def __init__(self, of: GradientPlan) -> None:
        self.of = of
        self.possible = not (of.plan.gradient_args or of.must_differ or of.forward.draws or of.plan.scratch)
        self.now: Callable[..., Stamp] = lambda *args: ()
        self.then: Stamp | None = None
        self._made_for: tuple[Any, ...] = ()

    def keep(self, args: Sequence[Any]) -> None:
        """Records the present state as ``then``; call this when a launch has been prepared."""
        launched, sizes, signature = self.of.forward, self.of.stacks, self.of.plan.signature
        forward, seed = launched.last.plan, launched.seeds.seed
        if forward is None or forward.read_versions.of_arguments or (seed is None and launched.seeds.looks):
            self.then = None
            return
        if self._made_for != (seed, sizes.dependencies_of, forward):
            self._made_for = seed, sizes.dependencies_of, forward
            fields = [*sizes.depends_on_fields, *forward.read_versions.fields, *([] if seed is None else [seed])]
            self.now = signature.stamp([*sizes.dependencies(fields), "last.plan.launched"], last=launched.last)
        now = self.now(*args)
        self.then = None if None in now else now


def _add(memory: Memory, sums: Memory) -> None:
    memory.put(..., memory.values() + sums.values())
    memory.flush()
