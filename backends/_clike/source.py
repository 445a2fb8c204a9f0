"""Collects the lines of the emitted source; each line remembers the IR statement that it came from."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from quadrants_lab.ir.nodes import NO_ID
from quadrants_lab.ir.source import Span

_LINE = 100  # a line that declares several variables has at most about so many characters


class Source:
    """Collects lines of source. ``stmt`` and ``span``: the statement, and the position in the user's source, that
    the next lines come from. ``directives``: insert a #line whenever a line comes from another source line than the
    line above."""

    def __init__(self, directives: bool = False) -> None:
        self.lines: list[str] = []
        self.ids: list[int] = []
        self.depth = 0
        self.stmt = NO_ID
        self.span: Span | None = None
        self.directives = directives
        self._at: tuple[str, int] | None = None
        self._declared: tuple[object, ...] = ()  # if the last line declares variables: their type and source line

    def put(self, text: str) -> None:
        """Appends a line."""
        if self.directives and self.span is not None and self._at != (self.span.file, self.span.line):
            self._at = (self.span.file, self.span.line)
            file = self.span.file.replace("\\", "/").replace('"', "'")
            self.lines.append(f'#line {self.span.line} "{file}"')
            self.ids.append(NO_ID)
        self.lines.append("  " * self.depth + text)
        self.ids.append(self.stmt)
        if self._at is not None:
            # the compiler counts lines from the last #line on in the same way
            self._at = (self._at[0], self._at[1] + 1)

    def declare(self, type: str, text: str) -> None:
        """Declares a variable. If the last line declares variables of the same type and source line, the declaration is
        appended there."""
        source = (self.span.file, self.span.line) if self.span else self.stmt
        before = self.lines[-1] if self.lines else ""
        if self._declared == (type, source, self.depth, before) and len(before) + len(text) <= _LINE:
            self.lines[-1] = f"{before[:-1]}, {text};"
        else:
            self.put(f"{type} {text};")
        self._declared = type, source, self.depth, self.lines[-1]

    @contextmanager
    def nest(self) -> Iterator[None]:
        """Makes a context whose lines are indented by one more step."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def separate(self) -> Iterator[Source]:
        """Makes a context that collects its lines in a separate source, which is its value."""
        part = Source(self.directives)
        part.lines, self.lines = self.lines, part.lines
        part.ids, self.ids = self.ids, part.ids
        at, self._at = self._at, None
        try:
            yield part
        finally:
            part.lines, self.lines = self.lines, part.lines
            part.ids, self.ids = self.ids, part.ids
            self._at = at

    def add(self, part: Source) -> None:
        """Appends the lines of another source."""
        self.lines += part.lines
        self.ids += part.ids
        if part.lines:
            self._at = None


def struct(members: dict[int, tuple[str, int]], byte: str) -> list[str]:
    """The lines of a struct. ``members``: byte offset -> (declaration, size in bytes); arrays of ``byte`` fill the
    gaps."""
    out, at = Source(), 0
    for offset, (text, nbytes) in sorted(members.items()):
        if offset > at:
            out.put(f"{byte} unused{at}_[{offset - at}];")
        out.declare(*text.rsplit(" ", 1))
        at = offset + nbytes
    return [f"  {line}" for line in out.lines]


def commented(lines: Iterable[tuple[str, int]], spans: Mapping[int, Span | None]) -> list[tuple[str, int]]:
    """The lines, each with its statement's id; before the lines made from a line of the user's source there is a
    comment with that line. ``spans``: id of a statement -> its position in the source."""
    out, last = [], ""
    for line, id in lines:
        if (span := spans.get(id)) and line.strip(" }"):
            comment = f"// line {span.line}: {linecache.getline(span.file, span.line).strip()}".rstrip(": \\")
            if comment != last:
                out.append((line[: -len(line.lstrip())] + comment, id))
            last = comment
        out.append((line, id))
        last = last if line else ""
    return out
