"""The form of a class of statements, from which `text` prints and `parse` reads.

``{field}`` stands for a field. Its annotation, or a kind after a colon, says how it is shown. ``{a+b:Kind}`` stands for
two fields that are shown together. ``{field?}`` is empty if the field has its default; otherwise it is a space, the
field's name, and its value (a true `bool` has no value). ``{field?word}`` shows another word instead of the name.
"""

import re
from dataclasses import fields
from typing import Any

from quadrants_lab.ir.nodes import STATEMENTS, Stmt
from quadrants_lab.ir.record import dataclass

_PIECE = re.compile(r"\{([\w+]+)(?:(\?)(\w*))?(?::(\w+))?\}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Fields, their kind, and, if they may be left out, the word in front of them and the default."""

    fields: tuple[str, ...]
    kind: str
    word: str = ""
    default: Any = None


def _pieces(cls: type[Stmt]) -> tuple[str | Piece, ...]:
    """The form as a sequence of literal texts and pieces."""
    known = {f.name: f for f in fields(cls)}
    parts = _PIECE.split(cls.form)
    out: list[str | Piece] = [parts[0]]
    for name, optional, word, kind, text in zip(*(parts[n::5] for n in range(1, 6)), strict=True):
        kind = kind or str(known[name].type)
        default = known[name].default if optional else None
        out += [Piece(tuple(name.split("+")), kind, (word or name) if optional else "", default), text]
    return tuple(p for p in out if p != "")


FORMS: dict[type[Stmt], tuple[str | Piece, ...]] = {cls: _pieces(cls) for cls in STATEMENTS}
