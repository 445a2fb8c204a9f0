"""Writes the grammar of the IR's text from the forms of the statements: the printer prints each form with
placeholders."""

from __future__ import annotations

import inspect
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from quadrants_lab.ir import nodes as N, traits as T
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.text import SHOW, Piece, form_of
from quadrants_lab.ir.types import DTYPES

TRAITS: tuple[type[N.Stmt], ...] = (
    T.Value, T.Pure, T.Uniform, T.Effect, T.Access, T.Read, T.Write, T.Choice, T.StackUse, T.TopUse, T.Control, T.Loop,
    N.Exit, T.Scheduled,
)  # fmt: skip
_MANY = ("Ids", "BufferNames", "Reduced", "Params", "Results", "Carry", "Pieces", "Shape")
_WORDS = {"Number": "number", "SizeExpr | None": "size", "DType": "type", "Pieces": '"text", %value: "spec"'}
_AFTER_A_WORD = {"int": "n", "Word": "word", "Text": "text", "MaybeId": "id"}


def rule(cls: type[N.Stmt]) -> str:
    """The grammar rule of a class of statements. Text within ``( )?`` may be left out, ``…`` stands for more of the
    same."""
    form = "".join(p if isinstance(p, str) else _gap(p) for p in form_of(cls))
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
        "Shape": ((field,),),
        "Range | None": (("least", "greatest"),),
        "Param": (param,),
        "Params": ((param,),),
        "Results": ((param,),),
        "Carry": ((param,), ("init",)),
    }
    return _WORDS.get(kind) or SHOW[kind](None, *values.get(kind, (field,)))


class Grammar(SphinxDirective):
    """The ``rules`` of the IR's text, its ``statements``, their ``traits``, or the kinds of ``buffers``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(_GRAMMAR[self.arguments[0]]()) + "\n")


def rules() -> list[str]:
    """A rule for each class of statements, and the words that the rules call ``type`` and ``prim``."""
    words = (f"{name}: {' | '.join(table)}" for name, table in (("type", DTYPES), ("prim", PRIMS)))
    return ["```text", *map(rule, N.STATEMENTS), *words, "```"]


def statements() -> list[str]:
    rows = (f"| `{c.__name__}` | {_bases(c)} | {_doc(c)} |" for c in N.STATEMENTS)
    return ["| statement | traits | meaning |", "|---|---|---|", *rows]


def traits() -> list[str]:
    rows = (f"| `{c.__name__}` | {_bases(c)} | {_doc(c)} |" for c in TRAITS)
    return ["| trait | includes | says |", "|---|---|---|", *rows]


def buffers() -> list[str]:
    return (inspect.getdoc(N.Buffer) or "").replace("``", "`").splitlines()


_GRAMMAR = {"rules": rules, "statements": statements, "traits": traits, "buffers": buffers}


def _bases(cls: type[N.Stmt]) -> str:
    return ", ".join(f"`{b.__name__}`" for b in cls.__bases__ if b is not N.Stmt)


def _doc(cls: type[N.Stmt]) -> str:
    """The whole docstring, as a cell of a table."""
    return " ".join((cls.__doc__ or "").split()).replace("|", "\\|").replace("``", "`")
