"""Walks over IR for all passes: iteration, rewriting, substitution, renaming, dtypes of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from quadrants_lab.ir.nodes import STATEMENTS, Block, Kernel, Offload, Param, Stmt, Value, Yield
from quadrants_lab.ir.traits import S
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.ir.build import Builder

H = TypeVar("H", bound=Hashable)
K = TypeVar("K")
T = TypeVar("T")


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of the block and of the blocks in it, in program order; a statement comes before its blocks."""
    todo = [iter(block)]
    while todo:
        for stmt in todo[-1]:
            yield stmt
            if stmt.nests:
                todo += [iter(inner) for inner in reversed(stmt.blocks())]
                break
        else:
            todo.pop()


def find(block: Block, kind: type[K] | tuple[type[K], ...]) -> Iterator[K]:
    """The statements of this class, trait or tuple of them, at any depth, in program order."""
    return of_kind(walk(block), kind)


def of_kind(items: Iterable[object], kind: type[K] | tuple[type[K], ...]) -> Iterator[K]:
    """The items of this class or tuple of classes."""
    return (item for item in items if isinstance(item, kind))


def all_are(items: Iterable[object], kind: type | tuple[type, ...]) -> bool:
    """Whether all items are of this class, trait or tuple of them."""
    return all(isinstance(item, kind) for item in items)


def by_class(table: Mapping[type[Any], T]) -> dict[type[Stmt], T]:
    """A table by class of statement, from one by classes and traits. A class that several rows name has the last."""
    return {cls: table[kind] for cls, kind in _row_of(tuple(table)).items()}


@cache
def _row_of(kinds: tuple[type[Any], ...]) -> dict[type[Stmt], type[Any]]:
    """The row for each class, cached, because passes make their tables anew in each run."""
    return {cls: kind for kind in kinds for cls in STATEMENTS if issubclass(cls, kind)}


def rules(table: Mapping[type[Any], Callable[[Any], Stmt | Sequence[Stmt]]]) -> Callable[[Stmt], Stmt | Sequence[Stmt]]:
    """A function for `rewrite` with a rule for each class or trait. Statements without a rule stay as they are."""
    known = by_class(table)

    def one(s: Stmt) -> Stmt | Sequence[Stmt]:
        rule = known.get(type(s))
        return s if rule is None else rule(s)

    return one


def constants(stmts: Iterable[Stmt]) -> dict[int, Any]:
    """The value of each `Const` among the statements, by id."""
    return {s.id: s.constant for s in stmts if s.constant is not None}


def types_of(block: Block) -> dict[int, DType]:
    """Dtype of every value defined in the block, at any depth."""
    types: dict[int, DType] = {}
    for stmt in walk(block):
        for i, t in stmt.defs():
            types[i] = t
        if stmt.nests:
            types.update((p.id, p.type) for p in stmt.params())
    return types


def uses(block: Block) -> dict[int, int]:
    """The number of reads of each id in the block, at any depth."""
    return Counter(chain.from_iterable(s.operands() for s in walk(block)))


def free_values(block: Block, known: dict[int, tuple[Block, set[int]]] | None = None) -> set[int]:
    """Ids that the block reads but does not define. ``known`` caches results by the `id` of a block, together with the
    block; a caller that asks about several nested blocks passes the same cache, so that no block is walked twice."""
    found = None if known is None else known.get(id(block))
    if found is not None:
        return found[1]
    read: set[int] = set()
    defined: set[int] = set()
    for stmt in block:
        read.update(stmt.operands())
        defined.update(i for i, _ in stmt.defs())
        if inner := stmt.blocks():
            free = set().union(*(free_values(b, known) for b in inner))
            read |= free.difference(p.id for p in stmt.params())
    read -= defined
    if known is not None:
        known[id(block)] = block, read
    return read


def end_of(block: Block) -> Yield:
    """The Yield that ends the block. Every block has one after `structure_exits`."""
    last = block[-1]
    assert isinstance(last, Yield)
    return last


def reached(start: Iterable[H], beyond: Callable[[H], Iterable[H]]) -> dict[H, None]:
    """All nodes that can be reached from ``start`` (included) by steps from a node to ``beyond(node)``, in
    breadth-first order."""
    found = dict.fromkeys(start)
    todo = list(found)
    for node in todo:  # the list grows during the loop
        for n in beyond(node):
            if n not in found:
                found[n] = None
                todo.append(n)
    return found


def same_or(block: Block, made: Sequence[Stmt]) -> Block:
    """The new statements as a block; the old block if they are the same."""
    same = len(made) == len(block) and all(a is b for a, b in zip(block, made, strict=True))
    return block if same else tuple(made)


def map_blocks(stmt: S, fn: Callable[[Block], Block]) -> S:
    """The statement with ``fn`` applied to each of its blocks; the same object when none changed."""
    if not stmt.nests:
        return stmt
    old = stmt.blocks()
    new = tuple([fn(b) for b in old])
    return stmt if all(a is b for a, b in zip(old, new, strict=True)) else stmt.with_blocks(new)


def rewrite(block: Block, fn: Callable[[Stmt], Stmt | Sequence[Stmt]], inner_first: bool = False) -> Block:
    """The block with each statement at any depth replaced by what ``fn`` returns for it. If that is one statement,
    its blocks are then rewritten, too; in a sequence of statements they are not. Unchanged blocks are the same
    objects. With ``inner_first`` the blocks of a statement are rewritten before ``fn`` gets the statement."""

    def inside(inner: Block) -> Block:
        return rewrite(inner, fn, inner_first)

    out: list[Stmt] = []
    changed = False
    for stmt in block:
        made = fn(map_blocks(stmt, inside) if inner_first else stmt)
        if isinstance(made, Stmt):
            made = made if inner_first else map_blocks(made, inside)
            changed = changed or made is not stmt
            out.append(made)
        else:
            changed = True
            out += made
    return tuple(out) if changed else block


def rewrite_in(stmt: S, fn: Callable[[Stmt], Stmt | Sequence[Stmt]]) -> S:
    """The statement, with `rewrite` applied to each of its blocks."""
    return map_blocks(stmt, lambda block: rewrite(block, fn))


def rewritten(
    kernel: Kernel, fn: Callable[[Stmt], Stmt | Sequence[Stmt]], b: Builder | None = None, inner_first: bool = False
) -> Kernel:
    """The kernel, with `rewrite` applied to its body. ``b`` is the Builder that gives new statements their ids."""
    body = rewrite(kernel.body, fn, inner_first)
    next_id = kernel.next_id if b is None else b.next_id
    return kernel if body is kernel.body else replace(kernel, body=body, next_id=next_id)


def reading(stmt: S, ids: Mapping[int, int]) -> S:
    """The statement with each of its own operands that is a key of ``ids`` replaced."""
    operands = stmt.operands()
    for i in operands:
        if i in ids:
            return stmt.with_operands(tuple([ids.get(i, i) for i in operands]))
    return stmt


def substitute(block: Block, ids: Mapping[int, int]) -> Block:
    """The block with every read of a key of ``ids`` replaced by its value. Unchanged parts are the same objects."""
    return rewrite(block, lambda stmt: reading(stmt, ids)) if ids else block


def rename(block: Block, fresh: Callable[[], int], ids: dict[int, int]) -> Block:
    """A copy of the block in which every definition has a fresh id. ``ids`` maps old ids to new ones, and is
    extended."""

    def param(p: Param) -> Param:
        ids[p.id] = fresh()
        return Param(ids[p.id], p.type, p.name)

    def use(i: int) -> int:
        return ids.get(i, i)

    def inside(inner: Block) -> Block:
        return rename(inner, fresh, ids)

    out: list[Stmt] = []
    for stmt in block:
        made = copied(stmt, use, param, inside, fresh)
        if isinstance(stmt, Value):
            ids[stmt.id] = made.id
        out.append(made)
    return tuple(out)


def copied(
    stmt: S, use: Callable[[int], int], param: Callable[[Param], Param], inside: Callable[[Block], Block],
    fresh: Callable[[], int],
) -> S:  # fmt: skip
    """A copy of the statement with a new id. ``use`` gives an operand's new id, ``param`` makes new parameters and
    results, and ``inside`` copies blocks."""
    made = stmt.with_operands(tuple(map(use, stmt.operands()))).with_params(param)
    if made.nests:
        made = made.with_blocks(tuple(map(inside, made.blocks())))
    return replace(made.with_results(param), id=fresh())


def renamed(stmt: S, fresh: Callable[[], int], ids: dict[int, int] | None = None) -> S:
    """`rename` for one statement."""
    (made,) = rename((stmt,), fresh, {} if ids is None else ids)
    assert isinstance(made, type(stmt))
    return made


def emit_copy(b: Builder, block: Block, ids: dict[int, int]) -> tuple[int, ...]:
    """Appends a copy of the block with fresh ids, see `rename`; returns the values that it yields."""
    *stmts, end = rename(block, b.fresh, ids)
    b.types.update({new: b.types[old] for old, new in ids.items()})
    b.stmts += stmts
    return end.operands()


def map_offloads(kernel: Kernel, fn: Callable[[Offload], Offload]) -> Kernel:
    """The kernel with ``fn`` applied to each task."""
    body = same_or(kernel.body, [fn(s) if isinstance(s, Offload) else s for s in kernel.body])
    return kernel if body is kernel.body else replace(kernel, body=body)
