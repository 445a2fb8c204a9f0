"""Lists the options of `%%qdkernel` in a table, from which the parser, the help and the completions are made; and
completes all magics."""

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError

from quadrants_lab.lang.elsewhere import closest


def _option(default: Any, help: str, value: str = "") -> Any:
    """``value``: kind of the argument, for help and completion: "arch", "loss", "count", "pane", or "" for a switch."""
    return field(default=default, metadata={"value": value, "help": help})


@dataclass(frozen=True, slots=True)
class CellOptions:
    arch: tuple[str, ...] = _option(
        (), "backends, with commas: on the first a session starts; the others repeat the launches", "arch"
    )
    grad: str = _option("", "differentiate this field (0-d, floating, with a grad) by all launches of the cell", "loss")
    check: bool = _option(False, "with --grad: compare each gradient with finite differences of the loss")
    shards: int = _option(
        0, "of a cell that ends in fn(params, data): cut the data into so many parts, which run on workers, and "
        "compare the sum of their gradients with the gradient of the whole", "count"
    )  # fmt: skip
    time: bool = _option(False, "launch again, unrecorded, and report the median time")
    live: bool = _option(
        False, "show a panel in which kernels and gradients run in the browser, on numbers that you change"
    )
    quiet: bool = _option(False, "show no inspector")
    open: str = _option("", "show this pane of the inspector first, for instance stacks or tape", "pane")
    release: bool = _option(False, "leave out the checks of indices and the asserts")


# flag -> kind of its argument, and help
OPTIONS = {f"--{x.name}": (str(x.metadata["value"]), str(x.metadata["help"])) for x in fields(CellOptions)}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{usage()}")


def usage() -> str:
    """The help text, with one line for each option."""
    rows = [f"  {f'{flag} {value.upper()}'.rstrip():<15} {help}" for flag, (value, help) in OPTIONS.items()]
    return "\n".join(["%%qdkernel takes:", *rows])


def parse(line: str, arches: Sequence[str], panes: Sequence[str] = ()) -> CellOptions:
    """The options on a magic's line; UsageError with the list of options, or of arches, for a wrong line."""
    parser = _Parser(prog="%%qdkernel", add_help=False, allow_abbrev=False)
    for flag, (value, _) in OPTIONS.items():
        parser.add_argument(flag, **{"default": ""} if value else {"action": "store_true"})  # type: ignore[arg-type]
    parser.add_argument("--help", "-h", action="store_true")
    try:
        words = shlex.split(re.sub(r",\s+", ",", line), comments=True)
    except ValueError as e:
        raise UsageError(f"cannot read the options: {e}") from None
    given, unknown = parser.parse_known_args(words)
    if unknown:
        close = closest(unknown[0], list(OPTIONS))
        parser.error(f"{unknown[0]}: no such option" + (close and f"; did you mean {close}?"))
    if given.help:
        raise UsageError(usage())
    arch = tuple(dict.fromkeys(a.strip() for a in given.arch.split(",") if a.strip()))
    for a in arch:
        if a not in arches:
            raise UsageError(f"--arch {a}: no such backend here; there are {', '.join(arches)}")
    if given.open and given.open not in panes:
        raise UsageError(f"--open {given.open}: no such pane; there are {', '.join(panes)}")
    if given.check and not given.grad:
        raise UsageError("--check compares the gradients of --grad LOSS: name a loss")
    if given.shards and (given.grad or not given.shards.isdigit() or int(given.shards) < 2):
        raise UsageError("--shards takes a number from 2 on, and no --grad: fn differentiates by itself")
    del given.help
    return CellOptions(**{**vars(given), "arch": arch, "shards": int(given.shards or 0)})


STEP_FLAGS = ("--launch", "--step", "--line")
_FIRST = {"%qdinspect": "kernel", "%qdstep": "kernel", "%qdcheck": "loss"}  # kind of the first argument
Names = Callable[[str], Sequence[str]]  # kind ("arch", "loss", "kernel") -> possible names


def candidates(line: str, names: Names) -> list[str]:
    """Completions of the last word of the line; none for lines of other magics."""
    words = line.split(" ")
    magic, last, flag = words[0], words[-1], words[-2] if len(words) > 2 else ""
    found: Sequence[str] = ()
    if magic in _FIRST and len(words) == 2:
        found = names(_FIRST[magic])
    elif magic == "%qdstep":
        found = () if flag in STEP_FLAGS else STEP_FLAGS
    elif magic == "%%qdkernel" and len(words) > 1:
        kind, _ = OPTIONS.get(flag, ("", ""))
        found = names(kind) if kind else [option for option in OPTIONS if option not in words[:-1]]
    *before, last = last.split(",")
    return [f for f in found if f.startswith(last) and f not in before]


def matcher(names: Names) -> Any:
    """A matcher for IPython's completer."""

    @context_matcher(identifier="quadrants_lab")
    def complete(context: CompletionContext) -> SimpleMatcherResult:
        line = context.text_until_cursor
        if not line.startswith(("%%qdkernel ", *(f"{magic} " for magic in _FIRST))):
            return SimpleMatcherResult(completions=[], suppress=False)
        found = [SimpleCompletion(c, type="param") for c in candidates(line, names)]
        last = re.split("[ ,]", line)[-1]
        return SimpleMatcherResult(completions=found, suppress=True, matched_fragment=last, ordered=True)

    return complete
