"""The signature of a specialisation: one list of parts, its arguments, and the functions that are made of it.

They are Python source, generated in time linear in the number of parts. `Signature.stamp` makes functions that tell
whether a call is like the last one, for `ReadVersions` and a gradient's guard. `by_templates` finds a specialisation
by its template arguments. `launch.plan.launch_function` makes the closure of a plan from the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quadrants_lab.frontend.specs import flat_specs
from quadrants_lab.ir.record import dataclass, function
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.arguments.keys import template_key
from quadrants_lab.runtime.memory.identity import (
    content_version,
    derivative,
    field_version,
    memory_of,
    same_as_then,
)
from quadrants_lab.runtime.memory.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.adstack.evaluate import Live
    from quadrants_lab.analysis.accesses import Access, Accesses
    from quadrants_lab.analysis.facts import TripCount
    from quadrants_lab.analysis.regions import Region

Launch = Callable[..., Any]
Stamp = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One argument, ``x`` in generated functions. For an array: ``ours`` is the name there of the class that it has if
    it is an ndarray, ``element`` the shape of its elements, ``has_gradient`` whether it has a gradient, or None if its
    annotation says so, and ``derivatives`` the derivatives that the kernel touches."""

    x: str
    slot: A.Slot
    element: tuple[int, ...]
    written: bool
    has_gradient: bool | None
    derivatives: tuple[str, ...]

    @property
    def ours(self) -> str:
        return f"ndarray{len(self.element)}"

    def value(self) -> str:
        """The argument if it is a Python number, else None."""
        return f"({self.x} if {self.x}.__class__ is int or {self.x}.__class__ is float else None)"

    def shape(self) -> str:
        return f"getattr({self.x}, 'shape', None)"

    def version(self, but: str = "") -> str:
        """Which memory an ndarray has, and how often it was written; None for other arrays, or if not ``but``."""
        return f"(((m := {self.x}._memory).serial, m.version) if {self.x}.__class__ is {self.ours}{but} else None)"

    def known_version(self) -> str:
        """Like `version`, but None if others can write to the memory."""
        return self.version(f" and not {self.x}._memory.foreign")

    def derivative(self, of: str) -> str:
        """The memory of one of the array's `DERIVATIVES`."""
        quick = f"{self.x}.grad._memory if {self.x}.__class__ is {self.ours} and {self.x}.grad is not None else "
        return f"({quick * (of == 'grad')}memory_of(derivative({self.x}, {of!r})))"

    def content(self) -> str:
        """The version of an array of any kind, with a checksum where others can write to it."""
        return f"content_version({self.x})"


class Signature:
    """``parts``: the arguments; ``arrays``: the parts that are arrays, by name. ``names``: for each argument, and for
    each buffer of a derivative, the argument's name in generated functions; a derivative has its array's shape."""

    def __init__(
        self, slots: Sequence[A.Slot], specs: Iterable[Any], classes: Sequence[type],
        written: Iterable[str] = (), derivatives: Iterable[tuple[int, str, str]] = (),
    ) -> None:  # fmt: skip
        touched: dict[int, list[str]] = {}
        self.names = {slot.name: f"a{n}" for n, slot in enumerate(slots)}
        for n, of, buffer in derivatives:
            touched.setdefault(n, []).append(of)
            self.names[buffer] = f"a{n}"
        writes = {*written}
        self.parts = [
            Part(
                f"a{n}", slot, getattr(spec, "element_shape", ()), slot.name in writes,
                getattr(spec, "grad", None) if getattr(slot, "grad", None) is None else None, (*touched.get(n, ()),),
            )
            for n, (slot, spec) in enumerate(zip(slots, flat_specs(specs), strict=True))
        ]  # fmt: skip
        self.arrays = {p.slot.name: p for p in self.parts if p.slot.kind == "array"}
        self._fields: dict[int, str] = {}
        self.given = ", ".join(p.x for p in self.parts)
        self.space: dict[str, Any] = {
            "content_version": content_version, "derivative": derivative, "field_version": field_version,
            "memory_of": memory_of,
        }  # fmt: skip
        self.space |= {p.ours: classes[len(p.element)] for p in self.arrays.values()}

    def field(self, memory: Memory) -> str:
        """The name of a field's memory in generated functions."""
        name = self._fields.setdefault(memory.serial, f"f{len(self._fields)}")  # equal source text is compiled once
        self.space[name] = memory
        return name

    def field_version(self, memory: Memory, otherwise: str) -> str:
        """The version of a field, or ``otherwise`` if others can write to it."""
        f = self.field(memory)
        return f"({f}.version if not {f}.foreign else {otherwise.format(f)})"

    def stamp(self, parts: Iterable[str], **space: Any) -> Callable[..., Stamp]:
        """A function from the arguments to the values of these parts."""
        text = f"def stamp({self.given}): return ({''.join(f'{part}, ' for part in parts)})"
        return function("stamp", text, self.space | space)


def by_templates(
    slots: Sequence[A.Slot], field: type, find: Callable[..., Launch | None], otherwise: Launch
) -> Launch:
    """A function that calls what ``find`` returns for the key of its template arguments."""
    at = [n for n, slot in enumerate(slots) if slot.kind == "template"]
    keys = "".join(f"a{n}.number if a{n}.__class__ is field else key(a{n}), " for n in at)
    given = ", ".join(f"a{n}" for n in range(len(slots)))
    text = f"def call({given}): return (find(({keys})) or otherwise)({given})"
    return function("call", text, {"field": field, "key": template_key, "find": find, "otherwise": otherwise})


# --- versions -----------------------------------------------------------------------------------------------------


class ReadVersions:
    """Versions of the memory that a differentiable plan reads. A gradient outside of a Tape compares them to notice
    writes since the launch, which stores ``now`` of its arguments in `Plan.launched`. Others can write to some memory
    without telling: for trip counts there, the version includes a checksum of the content.

    ``counts``: what is read, trip counts first; ``fields``: the memory of those that are fields; ``of_arguments``:
    whether array arguments are among them; ``parts``: expressions of the arguments for the versions."""

    def __init__(self, reads: Sequence[TripCount], signature: Signature, fields: Mapping[str, Memory]) -> None:
        self.counts = [c for c in reads if c.buffer in fields or c.buffer in signature.arrays]
        self.fields = [fields[c.buffer] for c in self.counts if c.buffer in fields]
        self.of_arguments = len(self.fields) < len(self.counts)
        self.parts: list[str] = []
        for c in self.counts:
            if (memory := fields.get(c.buffer)) is not None:
                f = signature.field(memory)
                self.parts.append(signature.field_version(memory, "field_version({})") if c.steers else f"{f}.version")
            else:
                part = signature.arrays[c.buffer]
                self.parts.append(part.content() if c.steers else part.version())
        self.now = signature.stamp(self.parts)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def changed(self, launched: Stamp, args: Sequence[Any]) -> list[tuple[TripCount, Any]]:
        """What was written since the launch that stored ``launched``, with the version at that launch. Passing a
        different array is not a change."""
        return [
            (count, then)
            for count, then, this in zip(self.counts, launched, self.now(*args), strict=True)
            if then != this and same_as_then(then, this)
        ]


# --- regions ------------------------------------------------------------------------------------------------------

Elements = Callable[[Sequence[Any]], "Region"]  # (arguments of a launch) -> the elements that it touches


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of an argument as its kernel sees it, which includes the axes of its elements."""
    memory = memory_of(array)
    shape: tuple[int, ...] = (array if memory is None else memory.operand).shape
    return shape


class Footprint:
    """The box of elements of one buffer that some accesses of a kernel touch. ``of``: a function from a launch's
    arguments to the region; ``scalars``: the scalar arguments that the box depends on."""

    def __init__(
        self, info: Accesses, accesses: Sequence[Access], signature: Signature, fields: Mapping[str, Memory]
    ) -> None:
        from quadrants_lab.adstack.evaluate import compiled, reads
        from quadrants_lab.analysis.boxes import box_of

        self.box = box_of(info, accesses)
        self.scalars = set[str]().union(*(reads(e)[0] for e in (*self.box.low, *self.box.high)))
        shapes = {name: memory.operand.shape for name, memory in fields.items()}
        ends = list(zip(self.box.low, self.box.high, strict=True))
        self.of: Elements = compiled(ends, signature.given, signature.names, shapes, shape_of)

    def live(self, live: Live) -> Region | None:
        """The region of a launch with this data; None if the data lacks a value that the box needs."""
        from quadrants_lab.adstack.evaluate import evaluated

        with suppress(LookupError):
            ends = zip(self.box.low, self.box.high, strict=True)
            return tuple((evaluated(low, live), evaluated(high, live)) for low, high in ends)
        return None
