"""Finds the scopes of a task: the block that defines each value, and the loops and ifs around that block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType


@dataclass(slots=True, eq=False)
class Scope:
    """One block: the one at position ``arm`` among the blocks of the statement ``owner``, or the task's body, which has
    no owner."""

    parent: Scope | None
    owner: N.Stmt | None
    arm: int
    loops: int  # number of loops around the block
    defined: list[int] = field(default_factory=list)  # values in program order, parameters first

    @property
    def key(self) -> tuple[int, int]:
        """(id of the owner, position of the block among the owner's blocks); (NO_ID, 0) for the task's body."""
        return (N.NO_ID if self.owner is None else self.owner.id, self.arm)

    def owners(self) -> Iterator[int]:
        """Ids of the statements around the block, inner ones first."""
        scope: Scope | None = self
        while scope is not None:
            if scope.owner is not None:
                yield scope.owner.id
            scope = scope.parent


@dataclass(slots=True)
class Scopes:
    """All scopes of a task. ``of`` maps a value to its scope, ``by_key`` the key of a scope to the scope, and ``defs``
    a value to its statement (a parameter or result to the statement that owns it). All three are in program order."""

    of: dict[int, Scope] = field(default_factory=dict)
    by_key: dict[tuple[int, int], Scope] = field(default_factory=dict)
    defs: dict[int, N.Stmt] = field(default_factory=dict)
    types: dict[int, DType] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def is_available(self, v: int) -> bool:
        """Whether the reverse code has the value without a stack and without recomputation: it is uniform, or the index
        or counter of a loop."""
        stmt = self.defs[v]
        return isinstance(stmt, N.Uniform) or (isinstance(stmt, N.Loop) and v == stmt.counter.id)

    def define(self, scope: Scope, v: int, stmt: N.Stmt, type: DType, name: str) -> None:
        self.of[v] = scope
        self.defs[v] = stmt
        self.types[v] = type
        self.names[v] = name
        scope.defined.append(v)


def scopes_of(task: N.Offload) -> Scopes:
    """The scopes of the task's body and of all blocks in it; the indices of the task belong to the scope of the
    body."""
    s = Scopes()
    root = Scope(None, None, 0, 0)
    s.by_key[root.key] = root
    for p in task.indices:
        s.define(root, p.id, task, p.type, p.name)
    _visit(s, root, task.body)
    return s


def _visit(s: Scopes, scope: Scope, block: N.Block) -> None:
    for stmt in block:
        for arm, inner in enumerate(stmt.blocks()):
            child = Scope(scope, stmt, arm, scope.loops + isinstance(stmt, N.Loop))
            s.by_key[child.key] = child
            if isinstance(stmt, N.Loop) and inner is stmt.body:  # not also for the condition of a While
                for p in stmt.params():
                    s.define(child, p.id, stmt, p.type, p.name)
            _visit(s, child, inner)
        if isinstance(stmt, N.Value):
            s.define(scope, stmt.id, stmt, stmt.type, stmt.name)
        elif isinstance(stmt, (N.Control, N.WithElement)):
            for r in stmt.results:
                s.define(scope, r.id, stmt, r.type, r.name)
