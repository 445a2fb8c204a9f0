"""Finds the IR statement that each line of LLVM's output comes from. Each instruction gets a debug location whose
line number is the id of its statement; LLVM preserves locations. The IR or assembly that comes out is shown without
the locations."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quadrants_lab.backends import Stage
from quadrants_lab.ir.nodes import NO_ID

FIRST = 100_000  # the first index of our metadata; the emitter's own indices are smaller
_DEFINE = re.compile(r"^define .*\{$")


def with_locations(lines: list[str], ids: list[int], emission: str = "LineTablesOnly") -> str:
    """The text ``lines`` with a debug location on each instruction that belongs to a statement. ``ids``: a statement's
    id for each line."""
    out: list[str] = []
    numbers: dict[tuple[int, int], int] = {}
    scope = -1
    scopes: list[str] = []
    for line, id in zip(lines, ids, strict=True):
        if _DEFINE.match(line) and "@qd." not in line:  # code of helper functions gets the location of their call
            scope = FIRST + 10 + len(scopes)
            scopes.append(re.search(r"@([\w.]+)\(", line).group(1))  # type: ignore[union-attr]  # a define has one
            line = f"{line[:-1]}!dbg !{scope} {{"
        elif line.startswith("define"):
            scope = -1
        elif line.startswith("  ") and scope >= 0:
            key = (scope, max(id, 0))
            number = numbers.setdefault(key, 2 * FIRST + len(numbers))
            line += f", !dbg !{number}"
        out.append(line)
    unit, file, flag, kind, none = (f"!{FIRST + n}" for n in range(5))
    about = f"isOptimized: true, runtimeVersion: 0, emissionKind: {emission}"
    out += [
        f"!llvm.dbg.cu = !{{{unit}}}",
        f"!llvm.module.flags = !{{{flag}}}",
        f"{unit} = distinct !DICompileUnit(language: DW_LANG_C, file: {file}, {about})",
        f'{file} = !DIFile(filename: "kernel", directory: "")',
        f'{flag} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f"{kind} = !DISubroutineType(types: {none})",
        f"{none} = !{{null}}",
    ]
    for n, name in enumerate(scopes):
        out.append(
            f'!{FIRST + 10 + n} = distinct !DISubprogram(name: "{name}", scope: {file}, file: {file}, line: 0, '
            f"type: {kind}, unit: {unit}, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
    out += [f"!{n} = !DILocation(line: {id}, scope: !{s})" for (s, id), n in numbers.items()]
    return "\n".join(out)


_USE = re.compile(r",? !dbg !(\d+)")
_LOCATION = re.compile(r"^!(\d+) = !DILocation\(line: (\d+),")


def without_locations(text: str) -> tuple[list[str], list[int]]:
    """The text with its locations removed, and the statement id of each line."""
    where = {m[1]: int(m[2]) for m in (_LOCATION.match(line) for line in text.splitlines()) if m}
    lines: list[str] = []
    ids: list[int] = []
    for line in text.splitlines():
        if line.startswith(("!", "; ModuleID", "source_filename")):
            continue
        use = _USE.search(line)
        lines.append(_USE.sub("", line))
        ids.append((where.get(use[1], 0) or NO_ID) if use and not line.startswith("define") else NO_ID)
    while lines and not lines[-1]:
        lines.pop(), ids.pop()
    return lines, ids


def stage(name: str, lines: list[str], ids: list[int]) -> Stage:
    """LLVM IR as a stage."""
    count = sum(1 for line in lines if line.startswith("  ") and not line.lstrip().startswith((";", "]")))
    merged = sum(1 for line in lines if " = phi " in line)
    return headed(name, (), lines, ids, count, phis=merged)


def headed(name: str, head: Sequence[str], lines: list[str], ids: list[int], count: int, **more: Any) -> Stage:
    """A stage of ``count`` instructions that begins with the lines ``head``. ``more``: further fields of the stage."""
    return Stage(name, "\n".join([*head, *lines]), (*[NO_ID] * len(head), *ids), count, **more)


# --- assembly ---------------------------------------------------------------------------------------------------

_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Assembly:
    """How to read a device's assembly. Each field is a pattern for a line: ``instruction`` matches instructions,
    ``noise`` lines that are not shown, ``comment`` the comment within a line, and ``location`` a line that names the
    statement of the lines after it."""

    instruction: re.Pattern[str]
    noise: re.Pattern[str]
    comment: re.Pattern[str]
    location: re.Pattern[str] = _LOC

    def lines(self, text: str) -> tuple[list[str], list[int]]:
        """The lines to show, and the statement id of each of them."""
        lines: list[str] = []
        ids: list[int] = []
        now = NO_ID
        for line in text.splitlines():
            loc = self.location.match(line)
            if loc:
                now = int(loc[1]) or NO_ID
            elif line.strip() == "}":  # the end of a function
                now = NO_ID
            if not loc and not self.noise.match(line):
                lines.append(self.comment.sub("", line))
                ids.append(now if self.instruction.match(line) else NO_ID)
        return lines, ids

    def count(self, lines: list[str]) -> int:
        """The number of instructions."""
        return sum(1 for line in lines if self.instruction.match(line))

    def stage(self, name: str, text: str, head: Sequence[str] = (), **more: Any) -> Stage:
        """The assembly as a stage. ``head``: lines to show before it; ``more``: further fields of the stage."""
        lines, ids = self.lines(text)
        return headed(name, head, lines, ids, self.count(lines), **more)
