"""The grammar of the IR's text, from the forms of the statements: the printer shows a placeholder in each gap."""

from __future__ import annotations

from typing import Any

from quadrants_lab.ir import nodes as N, traits
from quadrants_lab.ir.forms import FORMS, Piece
from quadrants_lab.ir.text import SHOW

TRAITS: tuple[type[N.Stmt], ...] = (
    traits.Value, traits.Pure, traits.Uniform, traits.Effect, traits.Access, traits.Read, traits.Write,
    traits.StackUse, traits.TopUse, traits.Control, traits.Loop, N.Exit, traits.Scheduled,
)  # fmt: skip
_MANY = ("Ids", "BufferNames", "Reduced", "Params", "Results", "Carry", "Pieces")
_WORDS = {"Number": "number", "SizeExpr | None": "size", "DType": "type", "Pieces": '"text", %value: "spec"'}
_AFTER_A_WORD = {"int": "n", "Word": "word", "Text": "text", "MaybeId": "id"}


def rule(cls: type[N.Stmt]) -> str:
    """How a statement of this class is written. ``( )?`` is around what may be left out, ``…`` stands for more of
    the same."""
    form = "".join(p if isinstance(p, str) else _gap(p) for p in FORMS[cls])
    return ("%id: type = " if issubclass(cls, N.Value) else "") + form


def _gap(piece: Piece) -> str:
    field = piece.fields[0]
    shown = _placeholder(piece.kind, _AFTER_A_WORD.get(piece.kind, field) if piece.word else field)
    if piece.kind in _MANY:
        shown = f"{shown[:-1]}, …)" if shown.endswith(")") else f"{shown}, …"
    if piece.word:
        return f" ({f'{piece.word} {shown}'.rstrip()})?"
    return f" ({shown.strip()})?" if shown.startswith(" ") else shown


def _placeholder(kind: str, field: str) -> str:
    if kind == "Block":
        return f"{{ {field} }}"
    param = N.Param(field, "type")  # type: ignore[arg-type]  # placeholders stand for the id and the dtype
    values: dict[str, tuple[Any, ...]] = {
        "Ids": ((field,),),
        "BufferNames": ((field,),),
        "Reduced": ((("buffer", "op"),),),
        "Range | None": (("least", "greatest"),),
        "Param": (param,),
        "Params": ((param,),),
        "Results": ((param,),),
        "Carry": ((param,), ("init",)),
    }
    return _WORDS.get(kind) or SHOW[kind](None, *values.get(kind, (field,)))
