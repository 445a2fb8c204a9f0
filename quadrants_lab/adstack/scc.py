"""Strongly connected components of the CFG, condensed recursively: a loop is a component whose body, without the
edges back to its header, is condensed again. Source: the nesting of Bourdoncle 1993, which the loops of the IR give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import count

from quadrants_lab.adstack.cfg import Cfg
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True)
class Component:
    """One component. A single block has no ``body``. A loop has its header first in ``nodes``, ``loop`` its
    statement, and ``body``: the condensation of its nodes without the back edges."""

    id: int
    nodes: list[int]
    loop: N.Loop | None = None
    body: Dag | None = None


@dataclass(slots=True)
class Dag:
    """Components in topological order and the edges (from, to) between their ids."""

    components: list[Component] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)


def condense(cfg: Cfg) -> Dag:
    """The condensation of the whole graph."""
    succ: dict[int, list[int]] = {}
    for a, b, _ in cfg.edges:
        succ.setdefault(a, []).append(b)
    return _dag(cfg, succ, range(len(cfg.nodes)), N.NO_ID, count())


def _dag(cfg: Cfg, succ: dict[int, list[int]], nodes: range, header: int, ids: Iterator[int]) -> Dag:
    """The condensation of these nodes without the edges back to ``header``. Loops are the only components of several
    nodes, and a node comes before all that it leads to but a header."""
    dag = Dag()
    home: dict[int, int] = {}
    at = nodes.start
    while at < nodes.stop:
        loop = None if at == header else cfg.nodes[at].loop
        own = range(at, at + 1 if loop is None else cfg.nodes[at].after)
        component = Component(next(ids), list(own), loop)
        if loop is not None:
            component.body = _dag(cfg, succ, own, at, ids)
        dag.components.append(component)
        home.update(dict.fromkeys(own, component.id))
        at = own.stop
    found = ((home[n], home[m]) for n in nodes for m in succ.get(n, ()) if m in nodes and m != header)
    dag.edges += dict.fromkeys(edge for edge in found if edge[0] != edge[1])
    return dag
