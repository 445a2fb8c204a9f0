"""Strongly connected components of the CFG, condensed recursively: a loop is a component whose body, without the
edges back to its header, is condensed again. Source: Tarjan 1972; the nesting as in Bourdoncle 1993."""

from __future__ import annotations

from dataclasses import field

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
    return _Condenser(cfg).dag(list(range(len(cfg.nodes))), set())


class _Condenser:
    def __init__(self, cfg: Cfg) -> None:
        self.cfg = cfg
        self.next_id = 0
        self.succ: dict[int, list[int]] = {n.id: cfg.successors(n.id) for n in cfg.nodes}

    def dag(self, nodes: list[int], cut: set[int]) -> Dag:
        """Condenses the subgraph of ``nodes`` without the edges into ``cut`` (headers of loops around it)."""
        inside = set(nodes)
        succ = {n: [m for m in self.succ[n] if m in inside and m not in cut] for n in nodes}
        dag = Dag()
        home: dict[int, int] = {}
        for members in _tarjan(nodes, succ):
            component = Component(self.next_id, sorted(members))
            self.next_id += 1
            if len(members) > 1:
                header = next(n for n in component.nodes if self.cfg.nodes[n].loop is not None)
                component.nodes.remove(header)
                component.nodes.insert(0, header)
                component.loop = self.cfg.nodes[header].loop
                component.body = self.dag(component.nodes, {header})
            dag.components.append(component)
            home.update((n, component.id) for n in members)
        seen: set[tuple[int, int]] = set()
        for n in nodes:
            for m in succ[n]:
                edge = (home[n], home[m])
                if edge[0] != edge[1] and edge not in seen:
                    seen.add(edge)
                    dag.edges.append(edge)
        return dag


def _tarjan(nodes: list[int], succ: dict[int, list[int]]) -> list[list[int]]:
    """Components in topological order (predecessors first); iterative, so depth of nesting is no limit."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(succ[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for m in rest:
                if m not in index:
                    index[m] = low[m] = len(index)
                    stack.append(m)
                    on_stack.add(m)
                    work.append((m, iter(succ[m])))
                    break
                if m in on_stack:
                    low[node] = min(low[node], index[m])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        m = stack.pop()
                        on_stack.discard(m)
                        members.append(m)
                        if m == node:
                            break
                    found.append(members)
    found.reverse()
    return found
