"""Selects in place of accesses to elements of local vectors and matrices (`Element`, `WithElement`)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, u1
from quadrants_lab.ir.walk import map_blocks, same_or, types_of

# (index, place along its axis) -> the test whether they are equal; (index, ~extent of its axis) -> the index in 32 bits
Tests = dict[tuple[int, int], int]


def _narrow(b: Builder, index: int, extent: int, made: Tests) -> int:
    """The index; one of 64 bits as an i32, -1 if it is out of range. NVIDIA's compiler for Vulkan (driver 580) chose
    a wrong element by comparisons of an i64 that is the rest of a division."""
    if b.types[index].bits < 64:
        return index
    if (index, ~extent) not in made:
        t = b.types[index]
        inside = b.op("and", b.op("ge", index, b.const(0, t)), b.op("lt", index, b.const(extent, t)))
        made[index, ~extent] = b.op("select", inside, b.op("cast", index, type=i32), b.const(-1, i32))
    return made[index, ~extent]


def _test(b: Builder, s: N.Choice, place: tuple[int, ...], made: Tests) -> int:
    """The id of the condition that the index is this place. Tests that ``made`` lacks are emitted, and added to it."""
    index = [_narrow(b, i, extent, made) for i, extent in zip(s.index, s.shape, strict=True)]
    for i, k in zip(index, place, strict=True):
        if (i, k) not in made:
            t = b.types[i]
            made[i, k] = b.op("eq", i, b.const(k, t)) if t.holds(k) else b.const(False, u1)
    return b.reduced("and", (made[i, k] for i, k in zip(index, place, strict=True)))


def _places(s: N.Choice) -> Iterator[tuple[int, ...]]:
    return product(*map(range, s.shape))


def select_element(b: Builder, s: N.Element, made: Tests) -> None:
    """Emits selects that choose the element, the last of them under the id of the statement."""
    *places, last = zip(_places(s), s.values, strict=True)
    chosen = last[1]
    if not (s.clamped and places):
        places, chosen = [*places, last], chosen if s.clamped else b.const(0, s.type)
    for n, (place, value) in reversed([*enumerate(places)]):
        args = _test(b, s, place, made), value, chosen
        chosen = b.add(N.Op(b.fresh() if n else s.id, s.type, "select", args, name="" if n else s.name))


def select_result(b: Builder, s: N.WithElement, k: int, id: int, made: Tests) -> int:
    """Emits a select that is result ``k`` of the statement, under ``id``; returns the id."""
    places = [*_places(s)]
    new, old = s.becoming(k)
    if s.clamped and 0 < k == len(places) - 1:
        args = b.reduced("or", [_test(b, s, place, made) for place in places[:k]]), old, new
    else:
        old = new if s.clamped and len(places) == 1 else old
        args = _test(b, s, places[k], made), new, old
    r = s.results[k]
    return b.add(N.Op(id, r.type, "select", args, name=r.name))


def lower_elements(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no `Element` and no `WithElement`. Accesses in a block and in its inner blocks share the
    tests of an index."""
    b = Builder(kernel.next_id, types_of(kernel.body))

    def block(stmts: N.Block, made: Tests) -> N.Block:
        with b.block() as out:
            for s in stmts:
                b.span, b.adjoint_of = s.span, s.adjoint_of
                if isinstance(s, N.Element):
                    select_element(b, s, made)
                elif isinstance(s, N.WithElement):
                    for k, r in enumerate(s.results):
                        select_result(b, s, k, r.id, made)
                else:
                    out.append(map_blocks(s, lambda inner: block(inner, dict(made))))
        return same_or(stmts, out)

    body = block(kernel.body, {})
    return kernel if body is kernel.body else replace(kernel, body=body, next_id=b.next_id)
