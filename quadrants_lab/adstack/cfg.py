"""The control flow graph of one task's forward slice, as the panes show it."""

from __future__ import annotations

from dataclasses import field

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True)
class CfgNode:
    """A basic block. ``stmts``: its statements; ``loop``: the For or While whose header it is, or None; ``after``: the
    node behind that loop, whose nodes are those from the header up to it."""

    id: int
    label: str
    stmts: list[N.Stmt] = field(default_factory=list)
    loop: N.Loop | None = None
    after: int = 0

    def pushes(self, stack: int) -> int:
        """How many pushes to the stack the block holds."""
        return sum(isinstance(s, N.AdStackPush) and s.stack == stack for s in self.stmts)


@dataclass(slots=True)
class Cfg:
    """``edges``: (from, to, kind) with kind "next", "then", "else", "body", "exit" or "back"; node 0 is the entry,
    the last node the exit."""

    nodes: list[CfgNode] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)

    def node(self, label: str) -> CfgNode:
        n = CfgNode(len(self.nodes), label)
        self.nodes.append(n)
        return n


def build_cfg(task: N.Offload) -> Cfg:
    """The graph of the task's body without the reverse code under an AdStackGuard."""
    cfg = Cfg()
    last = _block(cfg, task.body, cfg.node("entry"))
    end = cfg.node("exit")
    cfg.edges.append((last.id, end.id, "next"))
    return cfg


def _block(cfg: Cfg, block: N.Block, at: CfgNode) -> CfgNode:
    """Appends the block after node ``at``; returns the node in which control is then."""
    for stmt in block:
        if isinstance(stmt, N.AdStackGuard):
            continue
        if isinstance(stmt, N.If):
            at.stmts.append(stmt)
            at = _if(cfg, stmt, at)
        elif isinstance(stmt, N.Loop):
            at = _loop(cfg, stmt, at)
        else:
            at.stmts.append(stmt)
    return at


def _if(cfg: Cfg, stmt: N.If, at: CfgNode) -> CfgNode:
    ends = []
    for kind, block in zip(("then", "else"), stmt.blocks(), strict=True):
        first = cfg.node(kind)
        cfg.edges.append((at.id, first.id, kind))
        ends.append(_block(cfg, block, first))
    join = cfg.node("join")
    cfg.edges += [(e.id, join.id, "next") for e in ends]
    return join


def _loop(cfg: Cfg, stmt: N.Loop, at: CfgNode) -> CfgNode:
    kind = "for" if isinstance(stmt, N.For) else "while"
    where = f" line {stmt.span.line}" if stmt.span else ""
    header = cfg.node(f"{kind}{where}")
    header.loop = stmt
    cfg.edges.append((at.id, header.id, "next"))
    body = cfg.node("body")
    cfg.edges.append((header.id, body.id, "body"))
    last = _block(cfg, stmt.body, body)
    cfg.edges.append((last.id, header.id, "back"))
    after = cfg.node("after loop")
    header.after = after.id
    cfg.edges.append((header.id, after.id, "exit"))
    return after
