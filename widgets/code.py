"""The Code pane shows the kernel's code on each backend, stage by stage, with its size."""

import re
from collections.abc import Iterator, Sequence

from quadrants_lab.widgets.model import CodeView, KernelView, Line, StageView
from quadrants_lab.widgets.tree import Block, Lines, Table, Tree, bold, button, empty, foot, size

MEASURES = ("lines", "instructions", "phis", "bytes of text", "bytes of code")
LEAST_FOLDED = 4  # lines
# language -> the first line of a function that the compiler adds, and its last line
HELPERS = {
    "llvm": (re.compile(r"define .*@\"?(qd[._][\w.]+)"), re.compile(r"\}")),
    "cpp": (re.compile(r"(?:static |inline |constant )+.*?(\w+)\(.*\{$"), re.compile(r"\}")),
    "c": (re.compile(r"(?:static |inline )+.*?(\w+)\(.*\{$"), re.compile(r"\}")),
    "gas": (re.compile(r"\"?(qd\.[\w.]+)\"?:"), re.compile(r"\.?Lfunc_end\d+:|\s*\.cfi_endproc")),
}


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The part of the pane that a request asks for: ``mode/n`` the code of stage n; ``mode/sizes`` a table of the
    sizes of stages that were made; ``mode/all`` the same table, after making all stages."""
    match rest:
        case [mode, n] if mode in view.code and n.isdigit():
            stages = view.code[mode]
            return stage_code(stages[int(n)]) if int(n) < len(stages) else empty("there is no such stage")
        case [mode, which] if mode in view.code and which in ("sizes", "all"):
            stages = view.code[mode]
            for stage in stages if which == "all" else ():
                stage.make()
            if all(s.known is not None for s in stages):
                return sizes(stages)
            return [sizes(stages), Block(button("make all of them", f"{prefix}/{mode}/all", "code"), "bar")]
    return [sizes(stages) for stages in view.code.values()] or empty("no code was made yet: launch the kernel")


def titles(stages: Sequence[StageView]) -> list[str]:
    """The names of the stages, with the backend if an earlier stage has the same name."""
    names = [s.name for s in stages]
    return [s.name if s.name not in names[:n] else f"{s.name} ({s.backend})" for n, s in enumerate(stages)]


def stage_code(stage: StageView) -> Tree:
    """The listing, with its measures below it, so that it begins at the height of the source."""
    made = stage.make()
    if made.problem:
        return [Block(made.problem, "pre"), measures(stage)]
    folds = folded(made.lines, stage.language)
    between = zip([0, *(end for _, end, _ in folds)], [*(n for n, _, _ in folds), len(made.lines)], strict=True)
    top = max(between, key=lambda part: part[1] - part[0])[0]  # the longest stretch of the user's own lines
    return [Lines(made.lines, stage.language, stage.name, "count", folds=folds, top=top), measures(stage)]


def folded(lines: Sequence[Line], language: str) -> list[tuple[int, int, str]]:
    """The lines to fold, because the user has not written them, as (begin, end, text): helper functions, and lines
    without a source line, such as loads from the launch frame (of arguments)."""
    helpers = list(_helpers(lines, language))
    inside = {n for begin, end, _ in helpers for n in range(begin, end)}
    out, begin = list(helpers), 0
    for n in range(len(lines) + 1):
        if n < len(lines) and lines[n].span_line <= 0 and n not in inside:
            continue
        if n - begin >= LEAST_FOLDED:
            last = n == len(lines) or n in inside
            indented = any(line.text.startswith((" ", "\t")) for line in lines[:n])
            what = "declarations" if begin == 0 and not indented else "the rest" if last else "bounds and frame"
            out.append((begin, n, what))
        begin = n + 1
    return sorted(out)


def _helpers(lines: Sequence[Line], language: str) -> Iterator[tuple[int, int, str]]:
    if language not in HELPERS:
        return
    first, last = HELPERS[language]
    n = 0
    while n < len(lines):
        if found := first.match(lines[n].text):
            end = next((k for k in range(n + 1, len(lines)) if last.match(lines[k].text)), len(lines) - 1) + 1
            yield n, end, f"helper function {found[1]}"
            n = end
        else:
            n += 1


def measures(stage: StageView) -> Block:
    """The backend and the measures of its code."""
    parts: list[Tree] = [[" · ", bold(f"{n:,}"), f" {name}"] for name, n in stage.make().measures]
    return Block([stage.backend, *parts], "ms")


def sizes(stages: Sequence[StageView]) -> Tree:
    """A table with the measures of the stages that were made, and the problems of stages without measures."""
    rows: list[list[Tree]] = [[bold(s.name), s.backend, *cells(s)] for s in stages if s.known is not None]
    notes = [foot(text) for text in problems(stages)]
    return [Table(("stage", "backend", *MEASURES), rows, right=range(2, 2 + len(MEASURES))), notes]


def backends(view: KernelView) -> list[str]:
    """The backends that can make the kernel's code; the backend on which it ran comes first."""
    return list(dict.fromkeys(s.backend for stages in view.code.values() for s in stages))


def made(view: KernelView, backend: str, mode: str = "") -> list[CodeView]:
    """The stages of the backend's code that were made, of one mode or of all."""
    modes = (stages for name, stages in view.code.items() if mode in ("", name))
    return [s.known for stages in modes for s in stages if s.backend == backend and s.known is not None]


def bytes_of(view: KernelView, backend: str, what: str = "bytes of code") -> int:
    """The measure ``what`` of the backend's code, forward and gradient together. Each of the two counts at its last
    stage that has the measure; 0 if no stage that was made has it."""
    found = 0
    for mode in view.code:
        measured = [n for code in made(view, backend, mode) for name, n in code.measures if name == what]
        found += measured[-1] if measured else 0
    return found


def size_of(view: KernelView, backend: str) -> str:
    """The size of the backend's code: as bytes of text if the last stage is text; "" if it was not made."""
    if code := bytes_of(view, backend):
        return size(code)
    text = bytes_of(view, backend, "bytes of text")
    return f"{size(text)} of text" if text else ""


def problems(stages: Sequence[StageView]) -> list[str]:
    """Lists, a line each, the stages of code generation that failed, and the backends whose code was not made yet."""
    found = [f"{s.name}: {s.known.problem.splitlines()[0]}" for s in stages if s.known and s.known.problem]
    if waiting := dict.fromkeys(s.backend for s in stages if s.known is None):
        found.append(f"not made yet, because nobody has looked at it: the code for {', '.join(waiting)}")
    return found


def cells(stage: StageView) -> list[str]:
    """The stage's known measures in the order of `MEASURES`, with a dash for each other one."""
    known = dict(stage.known.measures) if stage.known is not None else {}
    return [f"{known[m]:,}" if m in known else "–" for m in MEASURES]
