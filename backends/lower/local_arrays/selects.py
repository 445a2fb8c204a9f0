"""`lower_elements`: selects take the place of accesses to elements of local vectors and matrices."""

from dataclasses import replace

from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.elements import Tests, select_element, select_result
from quadrants_lab.ir.nodes import Block, Element, Kernel, WithElement
from quadrants_lab.ir.walk import map_blocks, same_or, types_of


def lower_elements(kernel: Kernel) -> Kernel:
    """Guarantees that there is no `Element` and no `WithElement`. Accesses in a block and in its inner blocks share the
    tests of an index."""
    b = Builder(kernel.next_id, types_of(kernel.body))

    def block(stmts: Block, made: Tests) -> Block:
        with b.block() as out:
            for s in stmts:
                b.span, b.adjoint_of = s.span, s.adjoint_of
                if isinstance(s, Element):
                    select_element(b, s, made)
                elif isinstance(s, WithElement):
                    for k, r in enumerate(s.results):
                        select_result(b, s, k, r.id, made)
                else:
                    out.append(map_blocks(s, lambda inner: block(inner, dict(made))))
        return same_or(stmts, out)

    body = block(kernel.body, {})
    return kernel if body is kernel.body else replace(kernel, body=body, next_id=b.next_id)
