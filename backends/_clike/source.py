"""Lines of source under construction, each with the statement that it came from."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from quadrants_lab.ir.nodes import NO_ID
from quadrants_lab.ir.source import Span

_LINE = 100  # characters, about, of several variables' declaration


class Source:
    """``stmt`` and ``span`` are what the next lines come from. ``directives``: #line before lines whose source line
    is known and another than the one before."""

    def __init__(self, directives: bool = False) -> None:
        self.lines: list[str] = []
        self.ids: list[int] = []
        self.depth = 0
        self.stmt = NO_ID
        self.span: Span | None = None
        self.directives = directives
        self._at: tuple[str, int] | None = None
        self._declared: tuple[object, ...] = ()  # of the last line, where it declares variables

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
            self._at = (self._at[0], self._at[1] + 1)  # how the compiler counts on

    def declare(self, type: str, text: str) -> None:
        """Declares a variable, in the line before if that declares some of its type from the same line of source."""
        source = (self.span.file, self.span.line) if self.span else self.stmt
        before = self.lines[-1] if self.lines else ""
        if self._declared == (type, source, self.depth, before) and len(before) + len(text) <= _LINE:
            self.lines[-1] = f"{before[:-1]}, {text};"
        else:
            self.put(f"{type} {text};")
        self._declared = type, source, self.depth, self.lines[-1]

    @contextmanager
    def nest(self) -> Iterator[None]:
        """Lines made inside stand one step further in."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def apart(self) -> Iterator[Source]:
        """Lines made inside are kept back in a source of their own, which is the value of the with."""
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
    """The inside of a struct. ``members``: declaration and bytes, by offset; what lies between them is unused."""
    out, at = Source(), 0
    for offset, (text, nbytes) in sorted(members.items()):
        if offset > at:
            out.put(f"{byte} unused{at}_[{offset - at}];")
        out.declare(*text.rsplit(" ", 1))
        at = offset + nbytes
    return [f"  {line}" for line in out.lines]


def commented(lines: Iterable[tuple[str, int]], spans: Mapping[int, Span | None]) -> list[tuple[str, int]]:
    """Lines, each with the statement that it came from, and a comment in front of what each line of the user's source
    became. ``spans``: of statements."""
    out, last = [], ""
    for line, id in lines:
        if (span := spans.get(id)) and line.strip(" }"):
            said = f"// line {span.line}: {linecache.getline(span.file, span.line).strip()}".rstrip(": \\")
            if said != last:
                out.append((line[: -len(line.lstrip())] + said, id))
            last = said
        out.append((line, id))
        last = last if line else ""
    return out
