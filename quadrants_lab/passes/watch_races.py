"""The pass `WatchRaces` makes accesses that may race set a mark for their element, and check the marks of other
iterations.

An element of a watched buffer has up to three marks in scratch memory: one each for the last iteration that read the
element, the last one that wrote it by a plain store, and the last one that changed it by an atomic. A mark holds, from
its high bits down: the epoch, which differs for each task of each launch, so that old marks do not count; the
iteration; whether several iterations accessed the element; and for a store a hash of the value, since two stores of the
same value do not race.

If indices and conditions do not depend on what the task itself writes, stores only set marks, and a second task repeats
the iterations and checks. An iteration that stored must find its own mark; otherwise another iteration stored, too. An
iteration that read must find no mark of a store, or only its own. With ``suspect`` both tasks come after the tasks of
`suspect_races`, and run no iterations unless those suspect a race. If indices or conditions do depend on what the task
writes, each access exchanges marks and checks at once. In both cases, whether a race is found does not depend on the
order of iterations.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadrants_lab.analysis.accesses import Access, accesses_of
from quadrants_lab.analysis.boxes import extent_of
from quadrants_lab.analysis.effects import touched
from quadrants_lab.analysis.races import suspects
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import EPOCH, EPOCHS
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i32, i64, u8, u64
from quadrants_lab.ir.walk import constants, renamed, rewrite, types_of, uses, walk
from quadrants_lab.passes.dce import dce
from quadrants_lab.passes.suspect_races import CHANGED, READ, WRITTEN, Place, Suspecting, Watched

_ITERATION_AT, _ITERATION_BITS = 21, 30
_EPOCH_AT = _ITERATION_AT + _ITERATION_BITS
_SEVERAL = 1 << 20
_MIX = 0x9E3779B97F4A7C15 - (1 << 64)
_MOST_VALUES = 8  # how many values an assert can report


@dataclass(frozen=True, slots=True)
class WatchRaces(Parametrised):
    """Guarantees, for a kernel with tasks, that every race between two iterations of a parallel task fails an Assert of
    kind "race", unless affine indices exclude the race. With ``aliases`` all ndarrays of one dtype count as the same
    memory; with ``suspect`` only iterations that may race set marks."""

    aliases: bool = False
    suspect: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        info = accesses_of(kernel)
        watched: dict[int, Watched] = {}
        for number in range(len(kernel.body)):
            for pairs in suspects(info, number, self.aliases).values():
                _note(watched, pairs)
        if not watched:
            return kernel
        w = _Watcher(kernel, watched, self.suspect and not self.aliases and len(kernel.body) < EPOCHS - 1)
        body = tuple(made for number, task in enumerate(kernel.tasks) for made in w.tasks(number, task))
        return replace(kernel, body=body, buffers=w.buffers, next_id=w.b.next_id)


def _note(watched: dict[int, Watched], pairs: Sequence[tuple[Access, Access]]) -> None:
    for pair in pairs:
        for mine, other in (pair, pair[::-1]):
            known = watched.get(mine.stmt.id, Watched(mine, (), ()))
            against = tuple(dict.fromkeys((*known.against, _kind(other))))
            others = known.others if any(o is other for o in known.others) else (*known.others, other)
            watched[mine.stmt.id] = Watched(mine, against, others)


def _kind(a: Access) -> str:
    return READ if a.stmt.loads else WRITTEN if a.stmt.stores else CHANGED


def _placed(task: N.Offload) -> list[tuple[N.Param, int, int]]:
    """For each index of the task: the index, its lowest bit in a mark, and its number of bits. An index with constant
    bounds gets as many bits as it needs; the others share the remaining bits."""
    consts = constants(task.bounds)
    ends, k = [(consts.get(b, -1), consts.get(e, -1)) for _, b, e in task.box()], len(task.indices)
    needed = [max(e - 1, 1).bit_length() if b >= 0 <= e else 0 for b, e in ends]
    left, shares = _ITERATION_BITS - sum(needed), needed.count(0)
    widths = [n or left // shares for n in needed] if left >= 8 * shares else [_ITERATION_BITS // k] * k
    return [(p, _ITERATION_AT + sum(widths[:n]), widths[n]) for n, p in enumerate(task.indices)]


class _Watcher:
    """Rewrites the tasks of a kernel. ``me``: the mark of the running iteration, without a hash; ``hashed``: whether
    marks of stores have a hash; ``indices``: the result of `_placed` for the task."""

    def __init__(self, kernel: N.Kernel, watched: dict[int, Watched], suspect: bool) -> None:
        self.kernel = kernel
        self.watched = watched
        self.suspect = suspect
        self.read = uses(kernel.body)
        self.buffers = dict(kernel.buffers)
        self.b = Builder(kernel.next_id, types_of(kernel.body))
        self.epoch = self.buffers[EPOCH] = N.Buffer(EPOCH, "scratch", i64, 0, None, role="marks")
        self.me = 0
        self.hashed = True
        self.counted = False  # whether marks of stores also say if several iterations have stored
        self.indices: list[tuple[N.Param, int, int]] = []

    def tasks(self, number: int, task: N.Offload) -> list[N.Stmt]:
        """The watched task, and the tasks that check the marks."""
        found = [w for w in self.watched.values() if w.access.number == number]
        if not found:
            return [task]
        self.indices = _placed(task)
        self.counted = any(not w.access.stmt.stores and WRITTEN in w.against for w in found)
        several_store = any(w.access.stmt.stores and WRITTEN in w.against for w in found)
        for self.hashed in (True, False) if several_store else (False,):
            looking = self._with_mark(number, task, lambda: self._sliced(task.body, self._look))
            if self._is_repeatable(task, looking):
                return self._in_turn(number, task, found, looking)
        self.hashed = several_store
        return [self._with_mark(number, task, lambda: self._added(task.body, self._check_at_once))]

    def _in_turn(self, number: int, task: N.Offload, found: list[Watched], looking: N.Offload) -> list[N.Stmt]:
        """The task that sets marks and the task that checks them, after the tasks that suspect races."""
        b = self.b
        marking = self._with_mark(number, task, lambda: self._sliced(task.body, self._leave_mark))
        if not self.suspect or not self._is_repeatable(task, marking):
            marking = self._with_mark(number, task, lambda: self._added(task.body, self._leave_mark))
            return [marking, renamed(looking, b.fresh)]
        name = f"races.suspected{number}"
        counter = self.buffers[name] = N.Buffer(name, "temp", i32, 0, ())
        tasks = Suspecting(
            b, self.kernel, task, found, counter,
            marks=lambda buffer, what: self._marks(buffer, what, u8),
            mark=lambda: b.cast(self._epoch(number), u8),
            slice=lambda mark: replace(task, id=b.fresh(), body=self._sliced(task.body, mark)),
        )  # fmt: skip
        return [task, *tasks.tasks(), *(tasks.bounded(t, tasks.suspected) for t in (marking, looking))]

    def _epoch(self, number: int) -> int:
        return self.b.op("add", self.b.load(self.epoch, ()), self.b.const(number + 1, i64))

    def _with_mark(self, number: int, task: N.Offload, body: Callable[[], N.Block]) -> N.Offload:
        """The task with another body, and with statements before the body that compute the mark of the iteration."""
        b = self.b
        b.span = task.span
        with b.block() as top:
            me = self._shifted(self._epoch(number), _EPOCH_AT)
            for p, at, bits in self.indices:
                me = b.op("or", me, self._shifted(b.op("and", b.cast(p.id, i64), b.const((1 << bits) - 1, i64)), at))
            self.me = me
        return replace(task, id=b.fresh(), body=(*top, *body()))

    def _is_repeatable(self, task: N.Offload, again: N.Offload) -> bool:
        """Whether the task ``again``, run after ``task``, accesses the same elements as ``task``. This is so if it
        reads nothing that ``task`` writes."""
        written = touched(task.body, N.Write)
        kernel = dce(replace(self.kernel, buffers=self.buffers, body=(again,), next_id=self.b.next_id))
        return not any(
            isinstance(s, N.Random) or (isinstance(s, N.Read) and s.buffer in written)
            for s in walk(kernel.body)
        )

    def _shifted(self, value: int, by: int) -> int:
        return self.b.op("shl", value, self.b.const(by, i64))

    def _added(self, stmts: N.Block, add: Callable[[Place, Watched], None], effects: bool = True) -> N.Block:
        """The block, where ``add`` emits something before each watched access. ``effects``: the block's own side
        effects are kept."""

        def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
            w = self.watched.get(s.id)
            made: list[N.Stmt] = []
            if w is not None:
                assert isinstance(s, N.Access)
                self.b.span = s.span
                made = self.b.made(add, s, w)
            idle = isinstance(s, (N.Store, N.Print, N.Assert)) or (bool(s.atomic) and s.id not in self.read)
            if idle and not effects:
                return made
            return [*made, s] if made else s

        return rewrite(stmts, one)

    def _sliced(self, stmts: N.Block, add: Callable[[Place, Watched], None]) -> N.Block:
        return self._added(stmts, add, effects=False)

    def _marks(self, buffer: str, what: str, dtype: DType = i64) -> N.Buffer:
        name = f"{buffer}.{what}" if dtype is i64 else f"{buffer}.{what}_{dtype}"
        if name not in self.buffers:
            of = self.buffers[buffer]
            extents = tuple(extent_of(of, axis) for axis in range(of.ndim))
            self.buffers[name] = N.Buffer(name, "scratch", dtype, of.ndim, None, role="marks", extents=extents)
        return self.buffers[name]

    def _leave_mark(self, s: Place, w: Watched) -> None:
        if isinstance(s, N.Store) and self.counted:
            self._count(s, WRITTEN, self._mark(s))
        elif isinstance(s, N.Store):
            self.b.store(self._marks(s.buffer, WRITTEN), s.index, self._mark(s))
        elif s.atomic:
            self._count(s, CHANGED, self.me)

    def _look(self, s: Place, w: Watched) -> None:
        b = self.b
        for what in w.against:
            if what == READ:
                continue  # for such pairs, the iterations that read make the check
            found = b.load(self._marks(s.buffer, what), s.index)
            race = self._other(found)
            if what == WRITTEN and isinstance(s, N.Store) and self.hashed:
                race = b.op("and", race, b.op("ne", self._hash_of(found), self._hash_of(self._mark(s))))
            self._fail(s, w, what, found, race)
            if what == CHANGED or not isinstance(s, N.Store):
                self._fail_beside(s, w, what, found)

    def _check_at_once(self, s: Place, w: Watched) -> None:
        b, own = self.b, _kind(w.access)
        if isinstance(s, N.Store):
            mark = self._mark(s)
            before = b.atomic("exchange", self._marks(s.buffer, own), s.index, mark)
            if WRITTEN in w.against:
                differs = b.op("ne", self._hash_of(before), self._hash_of(mark))
                self._fail(s, w, WRITTEN, before, b.op("and", self._other(before), differs))
        else:
            self._count(s, own, self.me)
        for what in w.against:
            if what != own:
                found = b.load(self._marks(s.buffer, what), s.index)
                self._fail(s, w, what, found, self._other(found))
                if what != WRITTEN:
                    self._fail_beside(s, w, what, found)

    def _count(self, s: Place, what: str, mark: int) -> None:
        """Emits an atomic that sets the mark, which also says whether another iteration accessed the element before."""
        b = self.b
        before = b.atomic("exchange", self._marks(s.buffer, what), s.index, mark)
        with b.when(b.op("or", self._other(before), self._is_several(before))):
            several = b.op("or", mark, b.const(_SEVERAL, i64))
            b.atomic("exchange", self._marks(s.buffer, what), s.index, several)

    def _mark(self, s: N.Store) -> int:
        return self.b.op("or", self.me, self._hash(s.value)) if self.hashed else self.me

    def _hash_of(self, mark: int) -> int:
        return self.b.op("and", mark, self.b.const(_SEVERAL - 1, i64))

    def _hash(self, value: int) -> int:
        """Emits a hash of 20 bits; it is the same for equal values."""
        b, t = self.b, self.b.types[value]
        if t.is_float:
            wide = value if t.bits == 64 else b.op("bitcast", b.cast(value, f32), type=i32)
            value = b.op("bitcast", wide, type=i64) if t.bits == 64 else wide
        bits = b.op("mul", b.cast(value, i64), b.const(_MIX, i64))
        return b.op("and", b.op("shr", bits, b.const(40, i64)), b.const(_SEVERAL - 1, i64))

    def _other(self, mark: int) -> int:
        """Emits whether another iteration of this task has set the mark."""
        return self._differs(mark, 1 << _ITERATION_AT, 1 << _EPOCH_AT)

    def _is_several(self, mark: int) -> int:
        """Emits whether this iteration set the mark after another iteration had set one."""
        return self._differs(mark, _SEVERAL, 2 * _SEVERAL)

    def _differs(self, mark: int, least: int, end: int) -> int:
        """Emits whether the mark xor this iteration's mark is in ``least`` .. ``end``, ``end`` excluded."""
        b = self.b
        above = b.cast(b.op("sub", b.op("xor", mark, self.me), b.const(least, i64)), u64)
        return b.op("lt", above, b.const(end - least, u64))

    def _fail_beside(self, s: Place, w: Watched, what: str, mark: int) -> None:
        """Emits an assert that fails if the mark is this iteration's own and says that another iteration accessed the
        element, too; the message cannot name that iteration."""
        self._fail(s, w, what, mark, self._is_several(mark), named=False)

    def _fail(self, s: Place, w: Watched, what: str, mark: int, race: int, named: bool = True) -> None:
        b = self.b
        theirs, mine = self._iteration(mark) if named else [], [p.id for p, _, _ in self.indices]
        if named and what == WRITTEN and all(o.stmt is w.access.stmt for o in w.others):
            # either iteration may have come first; the smaller one is reported first, so that the message is always the
            # same
            mine, theirs = (self._iteration(b.op(least, mark, self.me)) for least in ("min", "max"))
        of = self.buffers[s.buffer]
        element = [
            b.op("add", b.cast(i, i64), b.const(of.first[n], i64)) if of.first and of.first[n] else i
            for n, i in enumerate(s.index)
        ]
        values = (*element, *mine, *theirs)
        shown = [*("{}" for _ in values[:_MOST_VALUES]), *("?" for _ in values[_MOST_VALUES:])]
        k = len(element) + len(mine)
        place, me, them = shown[: len(element)], shown[len(element) : k], shown[k:]
        lines = sorted({o.stmt.span.line for o in w.others if _kind(o) == what and o.stmt.span})
        names = [p.name or "index" for p, _, _ in self.indices]
        does = {READ: "reads", WRITTEN: "writes", CHANGED: "changes"}
        other = f"the one of {_equal(names, them)}" if named else "another one"
        message = (
            f"iterations race for {s.buffer}[{', '.join(place) or 'None'}]: the one of "
            f"{_equal(names, me)} {does[_kind(w.access)]} it here, {other} {does[what]} it"
            + (f" at line {' or '.join(map(str, lines))}" if lines else "")
        )
        b.add(N.Assert(b.fresh(), b.op("not", race), message, values[:_MOST_VALUES], kind="race"))

    def _iteration(self, mark: int) -> list[int]:
        """Emits the indices of the iteration that left the mark."""
        b = self.b
        return [
            b.op("and", b.op("shr", mark, b.const(at, i64)), b.const((1 << bits) - 1, i64))
            for _, at, bits in self.indices
        ]


def _equal(names: list[str], values: list[str]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))
