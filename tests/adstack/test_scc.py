"""CFG and its recursive condensation on hand-made nests."""

from __future__ import annotations

from quadrants_lab.adstack.cfg import build_cfg
from quadrants_lab.adstack.scc import Dag, condense
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, u1


def task(depth: int) -> N.Offload:
    """``depth`` nested loops with an if in the innermost."""
    b = Builder(0)

    def nest(k: int) -> None:
        if k == 0:
            cond = b.const(True, u1)
            arms = []
            for _ in range(2):
                with b.block() as arm:
                    b.yield_()
                arms.append(tuple(arm))
            b.add(N.If(b.fresh(), cond, arms[0], arms[1], ()))
            return
        zero, ten = b.const(0, i32), b.const(10, i32)
        index = b.param(i32, f"i{k}")
        with b.block() as body:
            nest(k - 1)
            b.yield_()
        b.add(N.For(b.fresh(), index, zero, ten, (), (), tuple(body), ()))

    with b.block() as bounds:
        b.yield_()
    with b.block() as body:
        nest(depth)
        b.yield_()
    return N.Offload(b.fresh(), "serial", tuple(bounds), (), tuple(body))


def loops(dag: Dag) -> list[str]:
    """Names of the loop indices, outermost first."""
    out: list[str] = []
    for c in dag.components:
        if c.body is not None:
            assert isinstance(c.loop, N.For)
            out += [c.loop.index.name, *loops(c.body)]
    return out


def test_loops_nest_as_components() -> None:
    for depth in range(5):
        assert loops(condense(build_cfg(task(depth)))) == [f"i{k}" for k in range(depth, 0, -1)]


def test_topological_order_and_exhaustive() -> None:
    cfg = build_cfg(task(3))
    dag = condense(cfg)
    place = {c.id: n for n, c in enumerate(dag.components)}
    assert all(place[a] < place[b] for a, b in dag.edges)
    assert sorted(n for c in dag.components for n in c.nodes) == [n.id for n in cfg.nodes]
