"""Makes those parts of the pages that come from the compiler's tables: operations, derivatives, codes of messages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grammar
import names
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from quadrants_lab.autodiff import diagnostics
from quadrants_lab.frontend.diagnostics import TABLE
from quadrants_lab.frontend.op_table import OPS, Builtin
from quadrants_lab.frontend.ops.library import FUNCTIONS
from quadrants_lab.ir.prims import PRIMS, RENAMED, Prim
from quadrants_lab.runtime.memory import refusals

ROOT = Path(__file__).resolve().parent.parent
_PYTHON = ("print", "len", "range", "int", "float", "bool", "random", "randn")
_ALGEBRA = {f.func.name for f in FUNCTIONS if f.home == ""} - {"randn"}
_WARNINGS = ("QL19",)
_PLACES = {
    "QL04": "Derivatives",
    "QL07": "The notebook",
    "QL11": "The source of a kernel",
    "QL12": "Syntax",
    "QL13": "Names",
    "QL14": "Types",
    "QL15": "Indices",
    "QL16": "Calls",
    "QL17": "Loops",
    "QL18": "Results",
    "QL19": "Warnings about what is probably not meant",
    "QL20": "Sessions, fields, calls and launches",
    "QL21": "Tapes",
    "QL22": "More than one machine",
    "QL30": "GPUs",
}


class Operations(SphinxDirective):
    """A table of the operations in one namespace (qd, qd.math, Matrix) and of one kind (``elementwise``,
    ``algebra``, ``atomic``, ``rest``)."""

    option_spec = {
        "home": directives.unchanged_required,
        "elementwise": directives.flag,
        "algebra": directives.flag,
        "atomic": directives.flag,
        "rest": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        home = {"qd": "", "qd.math": "math", "Matrix": "Matrix"}[self.options["home"]]
        kinds = {k for k in self.options if k != "home"}
        rows = [r for r in OPS.values() if r.home == home and r.doc and (not kinds or kind(r) in kinds)]
        lines = ["| call | meaning |", "|---|---|"]
        lines += [f"| `{call(r)}` | {paragraph(r.doc)} |" for r in rows if r.name not in _PYTHON]
        return self.parse_text_to_nodes("\n".join(lines) + "\n")


def kind(row: Builtin) -> str:
    """The operation's kind, one of those in `Operations`."""
    if row.name.startswith("atomic_"):
        return "atomic"
    if row.name in _ALGEBRA:
        return "algebra"
    return "elementwise" if row.elementwise else "rest"


def call(row: Builtin) -> str:
    """A call of the operation as text: a method is called on ``m``, a constructor by its class."""
    home, _, name = row.name.rpartition(".")
    params = [p.replace("=", "=...") for p in row.params]
    if params == ["*"]:
        params = ["..."]
    if home and params and params[0] in ("self", "m", "A", "x"):
        if name == "__matmul__":
            return "m @ other"
        return f"m.{name}({', '.join(params[1:])})"
    prefix = f"qd.{home}." if home else "qd.math." if row.home == "math" else "qd."
    return f"{prefix}{name}({', '.join(params)})"


def paragraph(doc: str) -> str:
    """The first paragraph of a docstring, as a cell of a table."""
    return " ".join(doc.split("\n\n")[0].split()).replace("|", "\\|")


class Derivatives(SphinxDirective):
    """The primitives that have a derivative, with the share of each operand."""

    def run(self) -> list[nodes.Node]:
        lines = ["| operation | share of a | share of b |", "|---|---|---|"]
        for p in PRIMS.values():
            if (p.name in _SPELLING or p.rule == "float") and p.name not in RENAMED:
                shares = [_share(e) for e in p.adjoint] + [""] * (2 - p.arity)
                lines.append(f"| `{_SPELLING.get(p.name) or call_of(p)}` | {' | '.join(shares)} |")
        return self.parse_text_to_nodes("\n".join(lines) + "\n")


_SPELLING = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "neg": "-a", "pow": "a ** b", "mod": "a % b",
    "floordiv": "a // b", "raw_div": "qd.raw_div(a, b)", "raw_mod": "qd.raw_mod(a, b)", "abs": "abs(a)",
    "min": "min(a, b)", "max": "max(a, b)", "trunc": "int(a)",
}  # fmt: skip


def call_of(prim: Prim) -> str:
    return f"qd.{prim.name}({', '.join('ab'[: prim.arity])})"


def _share(adjoint: str | None) -> str:
    """``select(c, x, y)`` is written as Python writes it."""
    return "none" if adjoint is None else f"`{ast.unparse(_Conditional().visit(ast.parse(adjoint)))}`"


class _Conditional(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "select":
            test, body, orelse = node.args
            return ast.IfExp(test, body, orelse)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(0) if node.id == "zero" else node


@dataclass(frozen=True, slots=True)
class Message:
    code: str
    kind: str
    text: str
    help: str


class Names(SphinxDirective):
    """The public names of Quadrants with one ``verdict`` (scripts/names.py). Names that need no note share a row
    for each module."""

    option_spec = {"verdict": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        rows = [r for r in names.table() if r.verdict == self.options["verdict"]]
        groups: dict[str, list[str]] = {}
        for name, _, note in rows:
            module, _, _ = name.partition("(")[0].rpartition(".")
            home = "submodules" if name.startswith(("from ", "import ")) else module
            groups.setdefault(note or home, []).append(f"`{name}`")
        lines = [f"{len(rows)} of {len(names.table())}:", "", "| of | names |", "|---|---|"]
        lines += [f"| {_cell(group)} | {', '.join(said)} |" for group, said in sorted(groups.items())]
        return self.parse_text_to_nodes("\n".join(lines) + "\n")


class Samples(SphinxDirective):
    """The modules of a ``folder``, each with the first paragraph of its docstring."""

    option_spec = {"folder": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        lines = ["| sample | what it does |", "|---|---|"]
        for path in sorted((ROOT / self.options["folder"]).glob("[!_]*.py")):
            lines.append(f"| `{path.stem}` | {paragraph(ast.get_docstring(ast.parse(path.read_text())) or '')} |")
        return self.parse_text_to_nodes("\n".join(lines) + "\n")


class Codes(SphinxDirective):
    """Every error and warning, in sections by the first digits of its code."""

    def run(self) -> list[nodes.Node]:
        out: list[str] = []
        section = ""
        said = set(messages())
        told = {m.code for m in said if m.text != "…"}
        for m in sorted((m for m in said if m.text != "…" or m.code not in told), key=lambda m: (m.code, m.text)):
            if m.code[:4] != section:
                section = m.code[:4]
                out += ["", f"## {section}: {_PLACES[section]}", "", "| code | kind | message | what to do |",
                        "|---|---|---|---|"]
            out.append(f"| `{m.code}` | {m.kind} | {_cell(m.text)} | {_cell(m.help)} |")
        return self.parse_text_to_nodes("\n".join(out) + "\n", allow_section_headings=True)


def messages() -> Iterator[Message]:
    """Those of the tables of the front end, of derivatives and of arguments, and those that the other modules write
    where they raise them."""
    for code, row in TABLE.items():
        kind = "warning" if code.startswith(_WARNINGS) else row.error.__name__.removeprefix("Quadrants")
        yield Message(code, kind, _holes(row.message), _holes(row.help))
    for code, (message, _, help) in diagnostics.TABLE.items():
        yield Message(code, "CompilationError", _holes(message), _holes(help))
    for code, (message, help) in refusals.TABLE.items():
        yield Message(code, "ArgumentError", _holes(message), _holes(help))
    for folder in ("quadrants_lab", "backends"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            module = ast.parse(file.read_text())
            texts = dict(_constants(module))
            for node in ast.walk(module):
                if isinstance(node, ast.Call):
                    yield from _raised(node, texts)


def _raised(node: ast.Call, texts: dict[str, str]) -> Iterator[Message]:
    given = {k.arg: k.value for k in node.keywords}
    function = ast.unparse(node.func).rpartition(".")[2]
    first = int(function in ("render", "warning"))  # these begin with the code
    code = node.args[0] if first and node.args else given.get("code")
    text = node.args[first] if len(node.args) > first else None
    if not isinstance(code, ast.Constant) or not str(code.value).startswith("QL") or text is None:
        return
    kind = "warning" if "warn" in function else function.removeprefix("Quadrants")
    kind = _text(given["kind"], texts) if "kind" in given else kind
    help = given.get("help") or (node.args[3] if first and len(node.args) > 3 else None)
    yield Message(code.value, kind, _text(text, texts), _text(help, texts) if help else "")


def _constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """The string constants of the module, by name."""
    for s in module.body:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))):
                yield name, value


def _text(node: ast.expr, texts: dict[str, str]) -> str:
    """The text that an expression makes, with … in place of its variable parts."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=parts):
            return "".join(_text(p, texts) for p in parts)
        case ast.FormattedValue(value=value):
            return _text(value, texts)
        case ast.Name(id=name):
            return texts.get(name, "…")
        case ast.IfExp(body=body, orelse=orelse):
            return " / ".join(filter(None, (_text(body, texts), _text(orelse, texts))))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _text(left, texts) + _text(right, texts)
    return "…"


def _holes(text: str) -> str:
    out, depth = "", 0
    for c in text:
        depth += c == "{"
        out += c if not depth else "…" if c == "}" and depth == 1 else ""
        depth -= c == "}"
    return out


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "\\<")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("operations", Operations)
    app.add_directive("derivatives", Derivatives)
    app.add_directive("codes", Codes)
    app.add_directive("names", Names)
    app.add_directive("grammar", grammar.Grammar)
    app.add_directive("samples", Samples)
    return {"parallel_read_safe": True}
