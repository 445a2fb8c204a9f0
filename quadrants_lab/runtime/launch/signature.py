"""Makes the signature of a specialisation: a list with a part for each argument, and functions that are generated
from it.

The functions are generated as Python source, in time linear in the number of parts. `Signature.stamp` makes functions
that tell whether a call is like the last one, for `ReadVersions` and a gradient's guard. `by_templates` makes a
function that finds a specialisation by its template arguments. `launch.plan.launch_function` makes the closure of a
plan from the same parts.
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
    from quadrants_lab.adstack.evaluate_sizes import Live
    from quadrants_lab.analysis.accesses import Access, Accesses
    from quadrants_lab.analysis.facts import TripCount
    from quadrants_lab.analysis.regions import Region

Launch = Callable[..., Any]
Stamp = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One argument. ``x``: the argument's name in generated functions. For an array, ``element`` is the shape of its
    elements; ``has_gradient`` says whether it has a gradient, None if its annotation says so already; ``derivatives``
    names the derivatives that the kernel accesses; ``ours`` is the name, in generated functions, of the class of
    ndarrays with such elements. The methods return the text of Python expressions."""

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
        """An expression for an ndarray's version: which memory it has, and how often it was written. Its value is
        None for other arguments, or if the condition ``but`` fails."""
        return f"(((m := {self.x}._memory).serial, m.version) if {self.x}.__class__ is {self.ours}{but} else None)"

    def known_version(self) -> str:
        """Like `version`, but None if other libraries can write to the memory."""
        return self.version(f" and not {self.x}._memory.foreign")

    def derivative(self, of: str) -> str:
        """The memory of one of the array's `DERIVATIVES`."""
        quick = f"{self.x}.grad._memory if {self.x}.__class__ is {self.ours} and {self.x}.grad is not None else "
        return f"({quick * (of == 'grad')}memory_of(derivative({self.x}, {of!r})))"

    def content(self) -> str:
        """The version of an array of any kind; it includes a checksum if other libraries can write to the array."""
        return f"content_version({self.x})"


class Signature:
    """The arguments of a specialisation, for generated functions. ``parts``: a part for each argument; ``arrays``:
    name -> part, for arrays. ``names``: name of an argument, or of the buffer of its derivative (which has the
    argument's shape), -> the argument's name in generated functions."""

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
        """The name that a field's memory has in generated functions."""
        name = self._fields.setdefault(memory.serial, f"f{len(self._fields)}")  # equal source is compiled once
        self.space[name] = memory
        return name

    def field_version(self, memory: Memory, otherwise: str) -> str:
        """The expression of a field's version; ``otherwise`` if other libraries can write to the field."""
        f = self.field(memory)
        return f"({f}.version if not {f}.foreign else {otherwise.format(f)})"

    def stamp(self, parts: Iterable[str], **space: Any) -> Callable[..., Stamp]:
        """Generates a function of the arguments that returns the ``parts``. ``space``: further names in these."""
        text = f"def stamp({self.given}): return ({''.join(f'{part}, ' for part in parts)})"
        return function("stamp", text, self.space | space)


def by_templates(
    slots: Sequence[A.Slot], field: type, find: Callable[..., Launch | None], otherwise: Launch
) -> Launch:
    """Generates a function that takes the arguments and passes them to ``find(key)``, where key is made of the template
    arguments; to ``otherwise`` if that is None. ``field``: the class of fields."""
    at = [n for n, slot in enumerate(slots) if slot.kind == "template"]
    keys = "".join(f"a{n}.number if a{n}.__class__ is field else key(a{n}), " for n in at)
    given = ", ".join(f"a{n}" for n in range(len(slots)))
    text = f"def call({given}): return (find(({keys})) or otherwise)({given})"
    return function("call", text, {"field": field, "key": template_key, "find": find, "otherwise": otherwise})


# --- versions -----------------------------------------------------------------------------------------------------


class ReadVersions:
    """The versions of the memory that a differentiable plan reads. At a launch, ``now(*args)`` is stored in
    `Plan.launched`. A gradient outside of a Tape compares it with the present versions, to notice what was written
    since the launch. Other libraries can write to some memory without telling; where a trip count is read from such
    memory, the version includes a checksum of its content.

    ``counts``: what is read, trip counts first; ``fields``: the memory of what is read from fields; ``of_arguments``:
    whether anything is read from array arguments; ``parts``: the expressions of the versions.
    """

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
        """What was written since ``launched``, with its version then. Passing a different array is not a change."""
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
    """The box of elements of one buffer that some accesses of a kernel touch. ``of``: returns the region for a launch's
    arguments; ``scalars``: the scalar arguments that the box depends on."""

    def __init__(
        self, info: Accesses, accesses: Sequence[Access], signature: Signature, fields: Mapping[str, Memory]
    ) -> None:
        from quadrants_lab.adstack.evaluate_sizes import compiled, reads
        from quadrants_lab.analysis.boxes import box_of

        self.box = box_of(info, accesses)
        self.scalars = set[str]().union(*(reads(e)[0] for e in (*self.box.low, *self.box.high)))
        shapes = {name: memory.operand.shape for name, memory in fields.items()}
        ends = list(zip(self.box.low, self.box.high, strict=True))
        self.of: Elements = compiled(ends, signature.given, signature.names, shapes, shape_of)

    def live(self, live: Live) -> Region | None:
        """The region in a launch with this data; None if the data lacks a value that the box depends on."""
        from quadrants_lab.adstack.evaluate_sizes import evaluated

        with suppress(LookupError):
            ends = zip(self.box.low, self.box.high, strict=True)
            return tuple((evaluated(low, live), evaluated(high, live)) for low, high in ends)
        return None
