"""Computes the difference of two texts of IR, in which renumbered values count as equal.

Lines are paired by their text and then, in the gaps, by their text without numbers. A value's number on the left maps
to the number at the same place in the first pair with it; a pair is equal if all its numbers agree with this map. The
pairing by lines that occur once is Cohen's patience diff.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TypeAlias

from quadrants_lab.widgets.model import Line

_ID = re.compile(r"(?<![\w.])[%$#](\d+)\b")
_NEXT = re.compile(r" next %\d+")  # the first free number, in the head of a kernel
_WORD = re.compile(r"\s+|[%$@#]?[\w.]+|.")
_SIGN = re.compile(r"<[^>]*>|&#?\w+;|.")  # of HTML: an element's begin or end, or a character
_MARKED = 400  # most lines of a change whose words are compared
_QUADRATIC = 1_000_000  # most pairs of lines that are compared if no line occurs once


def ranges(before: Sequence[Line], after: Sequence[Line]) -> list[tuple[str, int, int, int, int]]:
    """The two texts cut into ranges, in order: ("equal" or "change", left begin, left end, right begin, right end)."""
    out: list[tuple[str, int, int, int, int]] = []
    i = j = 0
    for a, c in [*_equal(before, after), (len(before), len(after))]:
        if a > i or c > j:
            out.append(("change", i, a, j, c))
        if a < len(before):
            last = out[-1] if out else None
            if last is not None and last[0] == "equal":
                out[-1] = ("equal", last[1], a + 1, last[3], c + 1)
            else:
                out.append(("equal", a, a + 1, c, c + 1))
        i, j = a + 1, c + 1
    return out


def _equal(before: Sequence[Line], after: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Pairs of equal lines, in order."""
    left, right = ([_NEXT.sub("", x.text) if " next %" in x.text else x.text for x in side] for side in (before, after))
    to: dict[str, str] = {}
    back: dict[str, str] = {}
    for a, c in _between(_patience(left, right), left, right, lambda x: _ID.sub("%", x)):
        names = zip(_ids(left[a]), _ids(right[c]), strict=True)
        if all(to.setdefault(x, y) == y and back.setdefault(y, x) == x for x, y in names):
            yield a, c


@lru_cache(maxsize=1 << 13)  # most lines of a kernel are compared many times
def _ids(text: str) -> list[str]:
    return _ID.findall(text)


def _between(
    pairs: Sequence[tuple[int, int]], left: Sequence[str], right: Sequence[str], key: Callable[[str], str]
) -> list[tuple[int, int]]:
    """The pairs, and pairs of lines with equal keys in the gaps between them."""
    out: list[tuple[int, int]] = []
    i = j = 0
    for a, c in [*pairs, (len(left), len(right))]:
        if i < a and j < c:
            out += ((i + x, j + y) for x, y in _patience([*map(key, left[i:a])], [*map(key, right[j:c])]))
        if a < len(left):
            out.append((a, c))
        i, j = a + 1, c + 1
    return out


def _patience(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of equal lines in ascending order on both sides."""
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    out = [(n, n) for n in range(head)]
    a, c = left[head : len(left) - tail], right[head : len(right) - tail]
    anchors = _unique(a, c) if a and c else []
    if anchors:
        out += ((head + x, head + y) for x, y in _between(anchors, a, c, str))
    elif 0 < len(a) * len(c) <= _QUADRATIC:
        for block in SequenceMatcher(None, a, c, autojunk=False).get_matching_blocks():
            out += ((head + block.a + n, head + block.b + n) for n in range(block.size))
    return out + [(len(left) - n, len(right) - n) for n in range(tail, 0, -1)]


def _unique(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """The longest ascending sequence of pairs of lines that occur once on each side."""
    once = {x for x, n in Counter(left).items() if n == 1} & {x for x, n in Counter(right).items() if n == 1}
    place = {x: n for n, x in enumerate(right) if x in once}
    ends: list[int] = []  # the least right end of a run, by its length
    at: list[tuple[int, int]] = []
    link: dict[tuple[int, int], tuple[int, int] | None] = {}
    for n, x in enumerate(left):
        if x in once:
            k = bisect_left(ends, place[x])
            ends[k : k + 1] = [place[x]]
            link[n, place[x]] = at[k - 1] if k else None
            at[k : k + 1] = [(n, place[x])]
    run: list[tuple[int, int]] = []
    pair = at[-1] if at else None
    while pair is not None:
        run.append(pair)
        pair = link[pair]
    return run[::-1]


def counts(before: Sequence[Line], after: Sequence[Line]) -> tuple[int, int]:
    """The numbers of added and of removed statement lines."""
    cut = [h for h in ranges(before, after) if h[0] == "change"]
    came = sum(line.stmt >= 0 for _, _, _, c, d in cut for line in after[c:d])
    gone = sum(line.stmt >= 0 for _, a, b, _, _ in cut for line in before[a:b])
    return came, gone


Hunk: TypeAlias = tuple[str, int, int, int, int]
Marked: TypeAlias = list[tuple[int, str]]


def marked(
    before: Sequence[Line], after: Sequence[Line], cut: Sequence[Hunk], left: Sequence[str], right: Sequence[str]
) -> tuple[Marked, Marked]:
    """The changed lines of each side, as (number, HTML), in which the words that the other side lacks are marked.
    ``left``, ``right``: the HTML of all lines behind a head of three numbers (`live.listed`)."""
    out: tuple[Marked, Marked] = ([], [])
    for tag, a, b, c, d in cut:
        if tag != "change" or b - a + d - c > _MARKED:
            continue
        for i, k in zip(range(a, b), range(c, d), strict=False):
            rows = _marks(before[i].text, after[k].text, left[i], right[k])
            for side, at, row in zip(out, (i, k), rows, strict=True):
                if row:
                    side.append((at, row))
    return out


@lru_cache(maxsize=1 << 13)  # the same two lines differ between many passes
def _marks(before: str, after: str, left: str, right: str) -> tuple[str, str]:
    """The two rows with marks; "" for a row without any."""
    words: list[list[str]] = [_WORD.findall(text) for text in (before, after)]
    same = SequenceMatcher(None, words[0], words[1], autojunk=False).get_matching_blocks()
    if 4 * sum(x.size for x in same) < len(words[0]) + len(words[1]):
        return "", ""  # the lines have little in common

    def marked(side: int, row: str) -> str:
        shared = {x[side] + n for x in same for n in range(x.size)}
        told = [n not in shared and not word.isspace() for n, word in enumerate(words[side]) for _ in word]
        return _with_marks(row, told) if any(told) else ""

    return marked(0, left), marked(1, right)


def _with_marks(row: str, told: Sequence[bool]) -> str:
    """The row with a mark element around the characters that are ``told``."""
    *head, markup = row.split(" ", 3)
    left = iter(told)
    signs = (
        x if (len(x) > 1 and x[0] == "<") or not next(left, False) else f"<mark>{x}</mark>"
        for x in _SIGN.findall(markup)
    )
    return " ".join((*head, "".join(signs).replace("</mark><mark>", "")))
