"""Differentiates atomic min and max: the derivative goes to the winners, the iterations whose value is the result.

An iteration has won if its value equals the memory after the task. Several winners of one element have equal shares. So
the partial derivatives of the result sum to 1, however many iterations offer the same value, and they do not depend on
the order of iterations. (At a tie of independent values no derivative exists. The mean of the derivatives of all
winners is a subgradient, and array libraries use it for a maximum, too.) If an iteration ties with the value that was
in memory before the task, the old value has no share.

First the winners of each element are counted. In reverse mode the adjoint of the task adds an equal share of the
element's gradient to the gradient of each winner. Then `settled` clears the element's gradient where an iteration won;
where the old value won, the gradient remains, since it belongs to the old value. Forward mode is the transpose:
`settled` clears the element's tangent where an iteration won, and then the shares of the winners' tangents are added to
it.
"""

from collections.abc import Callable, Mapping, Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import product

from quadrants_lab.analysis.accesses import Accesses
from quadrants_lab.analysis.boxes import Box, Ids, box_of, size_types, task_over
from quadrants_lab.analysis.needs import Needs, only
from quadrants_lab.autodiff.diagnostics import refusal
from quadrants_lab.autodiff.slice import again
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, i32
from quadrants_lab.ir.walk import constants, find, reached, renamed, rewrite, uses, walk


def minmax_atomics(task: N.Offload, with_derivative: AbstractSet[str]) -> list[N.Atomic]:
    """The task's atomic mins and maxes on buffers with a derivative. Raises QL0408 if another statement of the task may
    access an element that they write, since the result then depends on the order of threads."""
    found = [
        s for s in find(task.body, N.Atomic) if s.op in N.MINMAX and s.buffer in with_derivative
    ]
    known = constants(walk(task.body)) if found else {}
    accesses = list(find(task.body, N.Access)) if found else []
    for s, a in product(accesses, found):
        if s.buffer == a.buffer and s.atomic != a.op and not _disjoint(s, a, known):
            raise refusal("QL0408", s.span, a.span, name=s.buffer, op=a.op)
    return found


def _disjoint(a: N.Access, b: N.Access, known: Mapping[int, object]) -> bool:
    """Whether two accesses certainly go to different elements, because their indices along some axis are different
    constants."""
    pairs = zip(a.index, b.index, strict=True)
    return any(x in known and y in known and known[x] != known[y] for x, y in pairs)


@dataclass(frozen=True, slots=True)
class Winners:
    """The scratch buffer ``counts``: for each element of ``box`` of the ``buffer``, the number of iterations of one
    task that won."""

    buffer: str
    counts: N.Buffer
    box: Box


def winners_of(info: Accesses, number: int, minmax: list[N.Atomic]) -> dict[str, Winners]:
    """The `Winners` of task ``number`` of the kernel behind ``info``, by buffer."""
    found: dict[str, Winners] = {}
    for buffer in dict.fromkeys(s.buffer for s in minmax):
        box = box_of(info, (w for w in info.writes[buffer] if w.number == number))
        of, name = info.kernel.buffers[buffer], f"{buffer}.winners{number}"
        counts = N.Buffer(name, "scratch", i32, of.ndim, None, role="work", extents=box.extents())
        found[buffer] = Winners(buffer, counts, box)
    return found


@dataclass(slots=True)
class MinmaxAtomics:
    """Makes the tasks that stand around the derivative of one forward task with atomic mins or maxes. ``args`` are the
    kernel's arguments; ``repeated`` has the buffers to which a replay (a repetition of the task) writes again."""

    b: Builder
    buffers: Mapping[str, N.Buffer]
    args: tuple[N.Arg, ...]
    winners: Mapping[str, Winners]
    repeated: frozenset[str] = frozenset()

    @property
    def types(self) -> dict[str, DType]:
        return size_types(self.args, self.buffers)

    def cleared(self) -> list[N.Offload]:
        """Makes tasks that set the counts of winners to 0."""
        b = self.b
        return self._over_boxes(lambda w, index, within: b.store(w.counts, within, b.const(0, i32)))

    def _over_boxes(self, build: Callable[[Winners, Ids, Ids], None]) -> list[N.Offload]:
        """One task for each buffer with winners. It runs over the box of elements that atomics may write, and ``build``
        emits its body."""
        return [task_over(self.b, w.box, self.types, partial(build, w)) for w in self.winners.values()]

    def counted(self, task: N.Offload, minmax: list[N.Atomic]) -> N.Offload:
        """Makes a replay of the task whose only effect is that it counts the winners."""
        return renamed(replay(task, {s.id: self._count(s) for s in minmax}, self.repeated), self.b.fresh)

    def _count(self, s: N.Atomic) -> N.Block:
        b, w = self.b, self.winners[s.buffer]
        b.span, b.adjoint_of = s.span, s.id
        with b.block() as made, b.when(self.is_argmax(s, s.value, s.index)):
            b.atomic("add", w.counts, self._place(w, s.index), b.const(1, i32))
        b.adjoint_of = N.NO_ID
        return tuple(made)

    def settled(self, of: Mapping[str, str]) -> list[N.Offload]:
        """Makes tasks that clear the derivative, in the buffer ``of[buffer]``, of each element that an iteration
        won."""
        b = self.b

        def clear(w: Winners, index: Ids, within: Ids) -> None:
            derivative = self.buffers[of[w.buffer]]
            with b.when(b.op("ne", b.load(w.counts, within), b.const(0, i32))):
                b.store(derivative, index, b.const(0, derivative.dtype))

        return self._over_boxes(clear)

    def is_argmax(self, atomic: N.Atomic, value: int, index: tuple[int, ...]) -> int:
        """Emits the test (u1) whether ``value`` has won: whether the element holds this value after the task."""
        return self.b.op("eq", value, self.b.load(self.buffers[atomic.buffer], index))

    def share(self, atomic: N.Atomic, derivative: int, index: tuple[int, ...]) -> int:
        """A winner's share of a derivative."""
        b, w = self.b, self.winners[atomic.buffer]
        n = b.load(w.counts, self._place(w, index))
        return b.op("div", derivative, b.cast(b.op("max", n, b.const(1, i32)), b.types[derivative]))

    def _place(self, w: Winners, index: tuple[int, ...]) -> tuple[int, ...]:
        return w.box.within(self.b, index, self.types)


def replay(task: N.Offload, instead: Mapping[int, N.Block], repeated: frozenset[str]) -> N.Offload:
    """A replay of the task: the task under the same ids, with no effects but the writes to ``repeated`` buffers, and
    with some atomics replaced by ``instead``. Each statement names itself as the statement that it repeats. Raises
    QL0403 if the replay needs the old value of one of these atomics."""

    def one(s: N.Stmt) -> N.Stmt | N.Block:
        if s.id in instead:
            return instead[s.id]
        made = again(s, repeated)
        if made is None:
            return ()
        return made if made.adjoint_of != N.NO_ID else replace(made, adjoint_of=s.id)

    body = rewrite(task.body, one)
    used = uses(body)
    if not used.keys().isdisjoint(instead):
        body = _needed(body)
        used = uses(body)
        for s in walk(task.body):
            if s.id in instead and s.id in used and isinstance(s, N.Atomic):
                raise refusal("QL0403", s.span, name=s.buffer)
    return replace(task, body=body, adjoint_of=task.id)


def _needed(body: N.Block) -> N.Block:
    """The body of the task, without dead code."""

    def effect(s: N.Stmt) -> bool:
        return isinstance(s, N.Effect)

    needs = Needs(effect)
    needs.collect(body, N.NO_ID, N.NO_ID)
    return only(body, reached(needs.effects, lambda v: needs.of.get(v, ())), effect)
