"""Makes records of launches from the log of a recording (`log`).

A launch reads and writes memory at certain versions. The contents of many versions are known: from copies, and from
memory that has not changed since. To find the others, the launches of a stretch are repeated from its beginning in a
separate session, on copies of the memory, by the same code, with the same arguments, sizes of stacks and random draws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.adstack.report import kept_rows, report
from quadrants_lab.errors import QuadrantsError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find
from quadrants_lab.runtime.compile.specialisation import load_cached
from quadrants_lab.runtime.launch.frames import entry_params, make_frame
from quadrants_lab.runtime.memory.memory import WROTE, Memory, allocate
from quadrants_lab.runtime.record.log import MISSED, Array, PastLaunch, Stretch, Version, is_gradient, write
from quadrants_lab.runtime.record.noting import Noted
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.runtime.record.replay import add_scratch, must_succeed, set_scalars, shadow

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Frame
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan

# for launches that are not a kernel's last: how many bytes of copies, and how many records, are made at most
PAST_BYTES, MOST_PAST = 32 << 20, 2000
PAST_SECONDS = 0.5  # for such launches, launches are repeated for at most so many seconds
COMPARED_SECONDS = 0.1  # to compare results only, a launch is repeated if it takes at most so many seconds
Names = dict[str, Version]  # name of a buffer -> version
Made = dict[Stretch, dict[int, LaunchRecord]]  # stretch -> index of a note -> record


class _Contents:
    """The contents of memory at known versions. ``room``: how many bytes of copies may be added to the copies of the
    stretches."""

    def __init__(self, stretches: Collection[Stretch], limit: int) -> None:
        self.room = limit - sum(stretch.copied for stretch in stretches)
        self.known: dict[Version, Array] = {}
        for stretch in stretches:
            for memory, version, array in (*stretch.base.values(), *stretch.kept.values()):
                self.known[memory.serial, version] = memory.values() if array is None else array
            self.known |= stretch.left

    def add(self, version: Version, memory: Memory) -> None:
        if self.takes(memory.operand.nbytes):
            self.known[version] = memory.copy()

    def takes(self, nbytes: int) -> bool:
        self.room -= nbytes
        return self.room >= 0


class _Versions:
    """Tracks the versions of memory, by serial, while the notes of a stretch are read in order."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.now = {serial: copy.version for serial, copy in stretch.base.items()}
        self.kept: dict[int, int] = {}
        self.last = stretch.last() if stretch.detached else -1
        # for launches that closures noted: the fields that they write, and how many items after the head their arrays
        # are noted
        self.known = {head: ([m for name, m in head.plan.fields.items() if name in head.plan.writes],
                             [at for n in head.plan.foreign.written if (at := head.place(f"a{n}"))])
                      for head in stretch.heads if is_plain(head)}  # fmt: skip

    def of(self, launch: PastLaunch) -> Names:
        found = {name: (m.serial, self.now[m.serial]) for name, m in launch.memories().items()}
        before = self.stretch.kept_at()
        return found | {name: (m.serial, self.kept.get(m.serial, before)) for name, m in launch.kept.items()}

    def after(self, at: int, head: Any) -> list[tuple[Memory, int]]:
        """Counts the writes of a note; returns the memory that it wrote, with the new versions."""
        kept: list[Memory] = []
        if head is WROTE:
            found = [self.stretch.events[at + 1]]
        elif head is MISSED:
            self.now |= self.stretch.events[at + 1]
            return [(self.stretch.base[serial].memory, version) for serial, version in self.now.items()]
        elif at == self.last or (known := self.known.get(head)) is None:
            launch = self.stretch.launch(at)
            memories = launch.memories()
            found = [memories[name] for name in launch.plan.writes if name in memories]
            kept = [] if is_gradient(launch.plan) else [*launch.kept.values()]
        else:
            found = known[0]
            if known[1]:
                given = (self.stretch.events[at + n] for n in known[1])
                found = found + [a._memory for a in given if not isinstance(a, tuple)]
        for memory in found:
            serial = memory.serial
            self.now[serial] = self.stretch.ends[serial] if at == self.last else self.now[serial] + 1
        for memory in kept:
            self.kept[memory.serial] = self.stretch.kept_at(at)
        return [(m, self.now[m.serial]) for m in found] + [(m, self.kept[m.serial]) for m in kept]


def is_plain(head: Noted) -> bool:
    """Whether a closure noted the launch, and its kernel has no memory except fields and array arguments."""
    return "args" not in head.names and not head.plan.gradient_args and not head.plan.scratch


@dataclass(slots=True)
class _Room:
    """What is left of the limits for launches that are not a kernel's last: how many records, how many bytes that they
    wrote, and for how many seconds launches may be repeated."""

    number: int
    nbytes: int
    seconds: float

    @property
    def full(self) -> bool:
        return self.number <= 0 or self.nbytes <= 0

    def takes(self, launch: PastLaunch) -> bool:
        """Whether there is room for a record of this launch. A launch for which there is takes its part of the room."""
        self.number -= 1
        self.nbytes -= sum(a.nbytes for a in launch.copies.values())
        self.nbytes -= sum(m.operand.nbytes for name, m in launch.memories().items() if name in launch.plan.writes)
        return self.number >= 0 and self.nbytes >= 0


def rebuild(last: Mapping[Stretch, set[Dispatcher]], limit: int, made: Made) -> Made:
    """Makes records of launches of these stretches: from each stretch the last launch of the given kernels, and of its
    other launches the latest, as many as there is room for. Copies take at most ``limit`` bytes. ``made``: records that
    were made earlier."""
    order = sorted(last, key=lambda stretch: stretch.next, reverse=True)
    contents, room = _Contents(order, limit), _Room(MOST_PAST, PAST_BYTES, PAST_SECONDS)
    found: Made = {}
    for stretch in order:
        owners = set(last[stretch])
        seconds = inf if owners else room.seconds
        room.seconds -= 0 if owners or stretch.took > seconds else stretch.took
        wanted: list[PastLaunch] = []
        for at, number, label in reversed(stretch.launches()):
            if not owners and (room.full or stretch.first_elements is not None):
                break
            launch = stretch.launch(at, number, label)
            if launch.plan.owner in owners or (stretch.first_elements is None and room.takes(launch)):
                owners.discard(launch.plan.owner)
                wanted.append(launch)
        found[stretch] = _records(stretch, wanted, contents, seconds) | made.get(stretch, {})
    return found


def _records(
    stretch: Stretch, wanted: Collection[PastLaunch], contents: _Contents, seconds: float
) -> dict[int, LaunchRecord]:
    """Makes a record of each of the ``wanted`` launches of the stretch; returns index of its note -> record. Launches
    are repeated only if the stretch took at most so many ``seconds``."""
    records = {launch.at: _record(stretch, launch) for launch in wanted}
    if stretch.first_elements is not None:
        return records
    launches = {launch.at: launch for launch in wanted}
    versions, uses = _Versions(stretch), dict[int, tuple[Names, Names]]()
    for at, head in stretch.notes():
        launch = launches.get(at)
        if launch is None:
            versions.after(at, head)
            continue
        plan, kept = launch.plan, launch.kept.keys() if is_gradient(launch.plan) else set()
        names = plan.reads | plan.writes | plan.primal_reads | kept
        before = {name: version for name, version in versions.of(launch).items() if name in names}
        versions.after(at, head)
        after = versions.of(launch)
        uses[at] = before, {name: version for name, version in after.items() if name in plan.writes}
        memories = plan.memories(launch.args).items()
        records[at].memories = {n: (m, after[n][1] if n in after else m.version) for n, m in memories}
    sound = versions.now == stretch.ends  # if false, something wrote to memory without telling the recording
    missing = {version for both in uses.values() for names in both for version in names.values()}
    for serial, version in sorted(missing - contents.known.keys()):
        if sound and version >= 0 and (memory := stretch.base[serial].memory).version == version:
            contents.add((serial, version), memory)
    missing -= contents.known.keys()
    lacking = {launch.at: records[launch.at] for launch in wanted if _lacks_results(stretch, launch)}
    if sound and (missing or lacking) and stretch.took <= seconds:
        rounded = False
        with suppress(QuadrantsError, MemoryError):
            rounded = _repeat(stretch, missing, lacking, max(records), contents)
        for record in records.values():
            record.rounded = rounded
    for launch in wanted:
        _fill(records[launch.at], launch, *uses[launch.at], contents.known)
    return records


def _record(stretch: Stretch, launch: PastLaunch) -> LaunchRecord:
    """The record of a launch, still without the contents of its memory."""
    plan, values, at, copies = launch.plan, launch.values, launch.at, launch.copies
    depths = values.get("depths")
    shapes = {name: memory.operand.shape for name, memory in launch.memories().items()}
    shapes |= {name: array.shape for name, array in copies.items()}
    record = LaunchRecord(plan, launch.args, launch.number, None, shapes, launch=launch.label)
    record.failed = stretch.failed and at == stretch.last()
    record.first, record.seconds = at in stretch.firsts, stretch.seconds.get(at, 0.0)
    record.draws = values.get("number") or 0
    if depths:
        record.report = tuple(report(plan.kernel, depths, forced=bool(plan.compiled.options.ad_stack_size)))
    if is_gradient(plan):
        kept = {name: memory.operand.shape for name, memory in launch.kept.items()}
        shapes |= kept
        record.kept = tuple(kept_rows(plan.facts, kept))
    if stretch.first_elements is not None:
        record.first_elements = stretch.first_elements
        record.memories = {name: (m, stretch.versions_left[name]) for name, m in plan.memories(launch.args).items()}
    if not record.failed:
        record.returned = dict(stretch.returned.get(at, {}))
    return record


def _lacks_results(stretch: Stretch, launch: PastLaunch) -> bool:
    """Whether only a repetition can tell what the launch returned, or what it wrote to arrays of other libraries."""
    if stretch.detached and launch.at == stretch.last():
        return False
    wrote = launch.plan.writes & launch.copies.keys()
    returned = launch.plan.compiled.returns and launch.at not in stretch.returned
    return bool(returned or wrote - (launch.values.get("left") or {}).keys())


def _fill(record: LaunchRecord, launch: PastLaunch, before: Names, after: Names, known: dict[Version, Array]) -> None:
    """Adds to a record what the launch read and wrote, as far as the contents of these versions are ``known``.
    ``before``, ``after``: the versions before and after the launch."""
    plan = launch.plan
    if all(version in known for version in before.values()):
        record.inputs = {name: known[version] for name, version in before.items()} | launch.copies
        for name, how in (launch.values.get("standing") or {}).items():
            if name in record.inputs:
                record.inputs[name] = _made_by(how, record.inputs[name])
    left = (launch.values.get("left") or {}) | (record.outputs or {})
    found = {name: known[version] for name, version in after.items() if version in known} | left
    complete = plan.writes & record.shapes.keys() <= found.keys()
    record.outputs = found if complete and record.inputs is not None else None


def _made_by(how: Any, like: Array) -> Array:
    array = np.empty_like(like)
    write(how, array)
    return array


def _repeat(
    stretch: Stretch, missing: set[Version], lacking: dict[int, LaunchRecord], last: int, contents: _Contents
) -> bool:
    """Repeats launches until ``contents`` has all ``missing`` versions and the ``lacking`` records have, in
    ``outputs``, what their launches returned and wrote to arrays of other libraries. Then, unless that takes long, goes
    on to the note at ``last``, for a comparison. Returns whether memory that has not changed since then differs from
    its repetition; this happens if threads add to an element in any order."""
    missing, versions, here = set(missing), _Versions(stretch), _Repetition(stretch)
    try:
        for at, head in stretch.notes():
            enough = not missing and not lacking and (at > last or stretch.seconds.get(at, 0.0) > COMPARED_SECONDS)
            if enough or at == versions.last:
                break
            if head is WROTE:
                here.write(*stretch.events[at + 1 : at + 3])
            elif head is not MISSED:
                here.launch(at, head, lacking.pop(at, None), contents)
            for memory, version in versions.after(at, head):
                if (memory.serial, version) in missing:
                    missing.remove((memory.serial, version))
                    contents.add((memory.serial, version), here.memory(memory))
        here.session.finish()
        return any(here.differs(serial) for serial, version in versions.now.items() if serial in here.memories
                   and stretch.base[serial].memory.version == version)  # fmt: skip
    finally:
        here.session.end()


class _Repetition:
    """Repeats launches of a stretch in another session. A memory is made when it is first used."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.session = shadow(stretch.session, stretch.session.settings.backend)
        self.memories: dict[int, Memory] = {}
        self.frames: dict[Plan, tuple[Frame, dict[str, tuple[int, tuple[int, ...]]]]] = {}
        self.quick: dict[Noted, Callable[[int], bool]] = {}

    def memory(self, of: Memory) -> Memory:
        made = self.memories.get(of.serial)
        if made is None:
            made = self.memories[of.serial] = allocate(self.session, of.dtype, of.operand.shape, of.order)
            copy = self.stretch.base.get(of.serial) or self.stretch.kept.get(of.serial)
            if copy is not None:  # otherwise the memory is for values that the launch saves
                made.assign(of.values() if copy.array is None else copy.array)
        return made

    def differs(self, serial: int) -> bool:
        """Whether the repeated memory differs, bit by bit, from the present content of the original."""
        both = self.memories[serial], self.stretch.base[serial].memory
        now, then = (memory.values().reshape(-1).view(np.uint8) for memory in both)
        return not np.array_equal(now, then)

    def write(self, memory: Memory, how: Any) -> None:
        made = self.memory(memory)
        if made.order:
            array = made.copy()
            write(how, array)
            made.assign(array)
        else:
            write(how, made.array)
        made.after_write()

    def launch(self, at: int, head: Noted, record: LaunchRecord | None, contents: _Contents) -> None:
        """Repeats the launch whose note is at index ``at``. ``record``: gets what the launch returned and wrote to
        arrays of other libraries."""
        if record is None and head in self.quick and self.quick[head](at):
            return
        launch = self.stretch.launch(at)
        plan, values = launch.plan, launch.values
        memories = {name: self.memory(memory) for name, memory in (launch.memories() | launch.kept).items()}
        temporary: dict[int, Memory] = {}  # an array that was passed twice has one memory
        for name, array in launch.copies.items():
            made = temporary.get(id(array)) or self._temporary(plan, name, array)
            memories[name] = temporary[id(array)] = made
        for name, how in (values.get("standing") or {}).items():
            memories[name] = self._temporary(plan, name, _made_by(how, memories[name].values()))
        if plan.scratch:
            add_scratch(plan.scalars(launch.args), plan.kernel, self.session, memories)
        frame = self._bound(plan, memories)
        set_scalars(frame, plan.kernel, plan.scalars(launch.args))
        frame.replay(values.get("number") or 0)
        if values.get("depths") is not None:
            frame.set_stacks(values["depths"], self.session.settings.ad_stack_budget)
        must_succeed(plan, frame, frame.launch())
        for name in plan.writes & memories.keys():
            memories[name].after_write()
        self.session.finish()  # wait before memory that only this launch needs is freed
        if record is not None:
            wrote = [name for name in launch.copies if name in plan.writes]
            if contents.takes(sum(memories[name].operand.nbytes for name in wrote)):
                record.outputs = {name: memories[name].copy() for name in wrote}
            record.returned = {name: frame.ret(name) for name in plan.compiled.returns}
        if values.get("standing"):  # the launch has bound another memory to the frame
            self.quick = {head: quick for head, quick in self.quick.items() if head.plan is not plan}
        elif is_plain(head):
            self.quick[head] = self._quickly(head, frame, [memories[n] for n in plan.writes & plan.fields.keys()])

    def _quickly(self, head: Noted, frame: Frame, fields: list[Memory]) -> Callable[[int], bool]:
        """A function that repeats another launch of the plan of ``head``, given the index of its note; it returns False
        if that launch differs too much from this one. ``fields``: the fields that it writes."""
        plan, events = head.plan, self.stretch.events
        entry = frame.entry(entry_params(plan.slots))
        given = [head.place(f"a{n}") for n, slot in enumerate(plan.slots) if slot.kind != "template"]
        arrays = [head.place(f"a{n}") for n, slot in enumerate(plan.slots) if slot.kind == "array"]
        number, depths, standing = map(head.place, ("number", "depths", "standing"))
        draws = number and any(find(plan.kernel.body, N.Random))

        def launch(at: int) -> bool:
            if standing and events[at + standing]:
                return False
            if draws:
                frame.replay(events[at + number])
            if depths:
                frame.set_stacks(events[at + depths], self.session.settings.ad_stack_budget)
            args = [events[at + n] for n in given]
            wrote = fields
            if arrays:
                if any(isinstance(events[at + n], tuple) for n in arrays):
                    return False
                operands = {n: self.memory(events[at + n]._memory) for n in arrays}
                args = [operands[n].operand if n in operands else events[at + n] for n in given]
                wrote = [*fields, *operands.values()]
            result = entry(*args)
            if result is NotImplemented:
                return False
            if result is Ellipsis:
                must_succeed(plan, frame, frame.status)
            for memory in wrote:
                memory.version += 1
            return True

        return launch

    def _temporary(self, plan: Plan, name: str, array: Array) -> Memory:
        buffer = plan.kernel.buffers[name]
        made = allocate(self.session, buffer.dtype, array.shape, buffer.order)
        made.assign(array)
        return made

    def _bound(self, plan: Plan, memories: dict[str, Memory]) -> Frame:
        """The frame for launches of the plan, in which buffers are bound to these memories."""
        if plan not in self.frames:
            compiled = plan.compiled
            executable = compiled.executable
            if not self.session.backend.CAPABILITIES.on_host:
                executable = load_cached(plan.kernel, compiled.options, self.session)
            self.frames[plan] = make_frame(executable, {}, self.session), {}
        frame, bound = self.frames[plan]
        for name, memory in memories.items():
            place = memory.address, memory.operand.shape
            if bound.get(name) != place:
                bound[name] = place
                frame.set_buffer(name, memory.address)
                if plan.kernel.buffers[name].shape is None:
                    frame.set_extents(name, memory.operand.shape)
        return frame
