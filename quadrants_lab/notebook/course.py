"""Checks exercises in notebooks: `check_answer` says whether an answer is right, and if not, in what way it is
wrong."""

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook.errors import ShownError

Complaint = Callable[[Any], str]


class NotYet(ShownError):
    """A wrong answer; the text says what is wrong."""


def check_answer(given: Any, right: Any, hint: str = "") -> None:
    """Prints that the answer is right, or that there is no answer yet; raises `NotYet`, with the hint, if it is wrong.

    ``given``: a number, a list of numbers, a text, a function or a kernel; one that still contains `...` is no answer.
    ``right``: the right answer (numbers may differ by 1e-6 times the greater of 1 and their size), or a function that
    takes the answer and returns a sentence about what is wrong, "" if nothing is.
    """
    if _open(given):
        print("Not answered yet: write your answer where the dots are, and run the cell again.")
        return
    complaint = right(given) if callable(right) else _differs(given, right)
    if complaint:
        raise NotYet(f"Not yet: {complaint}{'.' * (not complaint.endswith('.'))} {hint}".rstrip())
    print("Right.")


def _open(given: Any) -> bool:
    """Whether the answer is still open: whether it is `...`, or a list, function or kernel that contains `...`."""
    if isinstance(given, (list, tuple)):
        return any(map(_open, given))
    function = given.source.fn if isinstance(given, Kernel) else given
    code = given if isinstance(given, CodeType) else getattr(function, "__code__", None)
    return given is ... or (code is not None and _open(code.co_consts))


def _differs(given: Any, right: Any) -> str:
    if isinstance(right, str):
        return "" if given == right else f"{given!r} is not it"
    try:
        got, want = np.asarray(given, np.float64), np.asarray(right, np.float64)
    except (TypeError, ValueError):
        return f"{given!r} is not a number, and one is asked for"
    if got.shape != want.shape:
        return f"{want.size} value{'s' * (want.size != 1)} asked for, and your answer has {got.size}"
    wrong = np.argwhere(~(np.abs(got - want) <= 1e-6 * np.maximum(1, np.abs(want))))
    if not len(wrong):
        return ""
    at = tuple(wrong[0])
    where = f", your value {', '.join(map(str, at))} counted from 0," if at else ""
    how = "not a number" if np.isnan(got[at]) else "too large" if got[at] > want[at] else "too small"
    return f"{got[at]:g}{where} is {how}"


def slopes_of(function: Callable[..., float], *points: Sequence[float]) -> Complaint:
    """A test for `check_answer` of an answer that must be a function. The answer must return the derivatives of
    ``function`` with respect to each argument; they are compared with central differences at the points."""

    def complaint(given: Callable[..., Any]) -> str:
        for point in points:
            at, step = np.array(point, np.float64), 1e-5
            moves = step * np.eye(len(at))
            want = [(function(*(at + d)) - function(*(at - d))) / (2 * step) for d in moves]
            got = np.ravel(given(*point))
            if len(got) != len(want):
                return f"{len(want)} slopes are asked for, one for each input, and yours returns {len(got)}"
            for k, (a, b) in enumerate(zip(got, want, strict=True)):
                if not abs(a - b) <= 1e-6 * max(1, abs(b)):
                    return f"at {tuple(point)} your slope by input {k} is {a:.6g}, and differences give {b:.6g}"
        return ""

    return complaint
