"""Arrays that overlap are found as by comparing each pair."""

import random
from itertools import combinations

import numpy as np
import pytest

from quadrants_lab.backends.overlap import READ, READ_FIELD, WRITTEN, WRITTEN_FIELD, overlapping, spans

KINDS = READ, WRITTEN, READ_FIELD, WRITTEN_FIELD


def must_differ(a: int, b: int) -> bool:
    return bool({a, b} & {WRITTEN, WRITTEN_FIELD}) and not {a, b} <= {READ_FIELD, WRITTEN_FIELD}


@pytest.mark.parametrize("kinds", [KINDS, (READ, WRITTEN), (WRITTEN,), (READ, READ_FIELD)])
def test_overlaps_are_those_of_all_pairs(kinds) -> None:
    draw = random.Random(7)
    memory = np.zeros(40)
    for _ in range(300):
        begins = [draw.randrange(38) for _ in range(draw.randrange(7))]
        arrays = [memory[b : b + draw.randrange(5)] for b in begins]
        of = [draw.choice(kinds) for _ in arrays]
        pairs = {
            frozenset(pair) for pair in combinations(range(len(arrays)), 2)
            if must_differ(*(of[n] for n in pair)) and np.may_share_memory(*(arrays[n] for n in pair))
        }  # fmt: skip
        found = [frozenset(pair) for pair in overlapping(spans(arrays), of)]
        assert {*found} <= pairs
        assert bool(found) == bool(pairs)
        if kinds == (WRITTEN,):  # then what is not the second one of a pair is apart from the others
            kept = {*range(len(arrays))} - {later for _, later in overlapping(spans(arrays), of)}
            assert not any(pair <= kept for pair in pairs)
            assert frozenset().union(*pairs) == frozenset().union(*found)
