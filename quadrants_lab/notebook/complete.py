"""Tab completion of the magics' options and arguments."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from quadrants_lab.notebook.options import OPTIONS

STEP_FLAGS = ("--launch", "--step", "--line")
_FIRST = {"%qdinspect": "kernel", "%qdstep": "kernel", "%qdcheck": "loss"}  # kind of the first argument
Names = Callable[[str], Sequence[str]]  # kind ("arch", "loss", "kernel") -> possible names


def candidates(line: str, names: Names) -> list[str]:
    """Completions of the last word of the line; none for lines of other magics."""
    words = line.split(" ")
    magic, last, flag = words[0], words[-1], words[-2] if len(words) > 2 else ""
    if len(words) < 2:
        return []
    found: Sequence[str]
    if magic in _FIRST and len(words) == 2:
        found = names(_FIRST[magic])
    elif magic == "%qdstep":
        found = () if flag in STEP_FLAGS else STEP_FLAGS
    elif magic == "%%qdkernel":
        kind = next((o.value for o in OPTIONS if o.flag == flag), "")
        found = names(kind) if kind else [o.flag for o in OPTIONS if o.flag not in words[:-1]]
    else:
        return []
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
        return SimpleMatcherResult(
            completions=found, suppress=True, matched_fragment=re.split("[ ,]", line)[-1], ordered=True
        )

    return complete
