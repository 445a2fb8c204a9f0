"""The text form of the IR. `parse.parse_kernel` reads it back to the same IR.

With spans and links everything comes back but the call chains of spans. Without links the ids of statements that
define no value (stores, yields, ...) are left out; the parser then hands out unused ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.sizetext import print_size


def print_kernel(kernel: N.Kernel, spans: bool = False, links: bool = False) -> str:
    """The kernel as text; ``spans`` appends ``!line:col-line:col`` to each statement, ``links`` the ids ``#id`` of
    statements that define no value and adjoint-of ids ``~%id``."""
    args = ", ".join(f"{arg_name(a.name)}: {a.type}" for a in kernel.args)
    span = f"  !{kernel.span}" if spans and kernel.span is not None else ""
    lines = [f"kernel {kernel.name}({args}) {kernel.mode} next %{kernel.next_id} {{{span}"]
    lines += [f"  {_buffer(b)}" for b in kernel.buffers.values()]
    for stmt in kernel.body:
        _stmt(stmt, 1, lines, spans, links)
    lines.append("}")
    return "\n".join(lines) + "\n"


def print_stmt(stmt: N.Stmt) -> str:
    """One statement with its blocks, as in the kernel's text."""
    lines: list[str] = []
    _stmt(stmt, 0, lines, False, False)
    return "\n".join(lines)


def statement_lines(kernel: N.Kernel) -> list[tuple[str, N.Stmt | None]]:
    """The kernel's text line by line, each with the statement that it shows (None for braces and header)."""
    sink: list[tuple[str, N.Stmt | None]] = []
    header = print_kernel(N.Kernel(kernel.name, kernel.args, kernel.buffers, (), kernel.next_id, kernel.mode))
    sink += [(line, None) for line in header.splitlines()[:-1]]
    for stmt in kernel.body:
        _stmt(stmt, 1, [], False, False, sink)
    sink.append(("}", None))
    return sink


def _buffer(b: N.Buffer) -> str:
    dims = "x".join(str(s) for s in b.shape) if b.shape is not None else "x".join("?" * b.ndim)
    grad = f" grad @{b.grad}" if b.grad else ""
    dual = f" dual @{b.dual}" if b.dual else ""
    first = f" first {','.join(map(str, b.first))}" if b.first else ""
    role = f" {b.role} {'; '.join(print_size(e) for e in b.extents)}".rstrip() if b.role else ""
    wide = " wide" if b.wide else ""
    beside = f" beside @{b.beside}" if b.beside else ""
    return f"buffer @{b.name}: {b.kind} {b.dtype}[{dims}]{wide}{first}{grad}{dual}{beside}{role}"


def arg_name(name: str) -> str:
    """The name of an argument; that of a part of one (``m[0]``, ``s.a``) in quotes."""
    return name if name.isidentifier() else f"'{name}'"


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(f"%{i}" for i in ids)


def _param(p: N.Param) -> str:
    return f"%{p.id}: {p.type}" + (f" '{p.name}'" if p.name else "")


def _carry(params: tuple[N.Param, ...], inits: tuple[int, ...]) -> str:
    pairs = ", ".join(f"{_param(p)} = %{i}" for p, i in zip(params, inits, strict=True))
    return f" carry ({pairs})" if pairs else ""


def _results(results: tuple[N.Param, ...]) -> str:
    return f" -> ({', '.join(_param(r) for r in results)})" if results else ""


def _at(buffer: str, index: tuple[int, ...]) -> str:
    return f"@{buffer}[{_ids(index)}]"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _piece(part: str | int, spec: str) -> str:
    if isinstance(part, str):
        return _quote(part)
    return f"%{part}: {_quote(spec)}" if spec else f"%{part}"


def _const(s: N.Const) -> str:
    # a float by the shortest text that its own dtype reads back
    return f"const {s.type.numpy(s.value)!s}" if s.type.is_float else f"const {s.value!r}"


def _alloca(s: N.AdStackAlloca) -> str:
    size = f" size {print_size(s.size)}" if s.size is not None else ""
    count = " count_only" if s.count_only else ""
    name = f" '{s.name}'" if s.name else ""
    return f"adstack_alloca ${s.id}: {s.type}{name} primal %{s.primal}{count}{size} reason {_quote(s.reason)}"


_SIMPLE: dict[type, Callable[..., str]] = {
    N.Const: _const,
    N.Op: lambda s: f"{s.prim} {_ids(s.args)}",
    N.ArgLoad: lambda s: f"arg {arg_name(s.arg)}",
    N.ShapeOf: lambda s: f"shape @{s.buffer} {s.axis}",
    N.Random: lambda s: f"random {s.site}",
    N.Load: lambda s: f"load {_at(s.buffer, s.index)}",
    N.Atomic: lambda s: (
        f"atomic {s.op} {_at(s.buffer, s.index)}, %{s.value}"
        + (f" expected %{s.expected}" if s.op == "cas" else "")
        + (" private" if s.private else "")
        + (f" reach {s.reach}" if s.reach >= 0 else "")
        + (f" sweep {s.sweep}" if s.sweep else "")
    ),
    N.AdStackLoadTop: lambda s: f"adstack_load_top ${s.stack}",
    N.AdStackLoadTopAdj: lambda s: f"adstack_load_top_adj ${s.stack}",
    N.AdStackDepth: lambda s: f"adstack_depth ${s.stack}",
    N.Store: lambda s: f"store {_at(s.buffer, s.index)}, %{s.value}",
    N.Assert: lambda s: f"assert {s.kind} %{s.cond}, {_quote(s.message)} ({_ids(s.args)})",
    N.Print: lambda s: "print " + ", ".join(_piece(p, spec) for p, spec in s.pieces()),
    N.AdStackAlloca: _alloca,
    N.AdStackPush: lambda s: f"adstack_push ${s.stack}, %{s.value}",
    N.AdStackPop: lambda s: f"adstack_pop ${s.stack}",
    N.AdStackAccAdjoint: lambda s: f"adstack_acc_adjoint ${s.stack}, %{s.value}",
    N.Lane: lambda s: "lane",
    N.Overflow: lambda s: f"overflow %{s.stack}, %{s.depth}",
    N.Yield: lambda s: f"yield {_ids(s.values)}".rstrip(),
    N.Break: lambda s: f"break {_ids(s.values)}".rstrip(),
    N.Continue: lambda s: f"continue {_ids(s.values)}".rstrip(),
}


def _head(s: N.Stmt) -> tuple[tuple[str, ...], str]:
    """For a statement with blocks: the line before each block, and what follows the last closing brace."""
    if isinstance(s, N.If):
        return (f"if %{s.cond} {{", "} else {"), _results(s.results)
    if isinstance(s, N.For):
        way = ("reversed " if s.reverse else "") + ("checkpoint " if s.checkpoint else "")
        head = f"for {way}{_param(s.index)} in %{s.begin}..%{s.end}{_carry(s.carried, s.inits)} {{"
        return (head,), _results(s.results)
    if isinstance(s, N.While):
        way = " checkpoint" if s.checkpoint else ""
        return (f"while{way}{_carry(s.carried, s.inits)} {{", "} do {"), _results(s.results)
    if isinstance(s, N.AdStackGuard):
        return ("adstack_guard {",), ""
    assert isinstance(s, N.Offload)
    return (f"offload {s.kind} bounds {{", f"}} do ({', '.join(_param(p) for p in s.indices)}) {{"), ""


def _stmt(
    s: N.Stmt,
    depth: int,
    lines: list[str],
    spans: bool,
    links: bool,
    sink: list[tuple[str, N.Stmt | None]] | None = None,
) -> None:
    pad = "  " * depth

    def put(text: str, owner: N.Stmt | None) -> None:
        lines.append(pad + text)
        if sink is not None:
            sink.append((pad + text, owner))

    tail = f"  !{s.span}" if spans and s.span is not None else ""
    if links and s.adjoint_of != N.NO_ID:
        tail += f"  ~%{s.adjoint_of}"
    blocks = s.blocks()
    if blocks:
        heads, end = _head(s)
        for n, (head, block) in enumerate(zip(heads, blocks, strict=True)):
            put(head + (f" #{s.id}{tail}" if n == 0 else ""), s if n == 0 else None)
            for inner in block:
                _stmt(inner, depth + 1, lines, spans, links, sink)
        put("}" + end, s if end else None)
        return
    text = _SIMPLE[type(s)](s)
    if isinstance(s, N.Value):
        name = f" '{s.name}'" if s.name else ""
        put(f"%{s.id}: {s.type}{name} = {text}{tail}", s)
    else:
        ident = f" #{s.id}" if links and not isinstance(s, N.AdStackAlloca) else ""
        put(f"{text}{ident}{tail}", s)
