"""Boxes of indices against the sets of their elements."""

import random
from itertools import product

import numpy as np
import pytest

from quadrants_lab.analysis import regions as R
from quadrants_lab.runtime.tape.parts import span

SHAPE = (5, 4)


def elements(box: R.Region) -> set[tuple[int, ...]]:
    return set(product(*(range(low, high) for low, high in box)))


def boxes(r: random.Random) -> list[R.Region]:
    """Boxes, some of which are empty, touch, overlap or contain others."""
    return [tuple((low := r.randrange(n), r.randint(low, n)) for n in SHAPE) for _ in range(r.randint(2, 6))]


@pytest.mark.parametrize("seed", range(60))
def test_boxes_agree_with_sets_of_their_elements(seed: int) -> None:
    found = boxes(random.Random(seed))
    for a, b in product(found, found):
        assert R.overlap(a, b) == bool(elements(a) & elements(b))
        if R.overlap(a, b):
            assert elements(R.intersection(a, b)) == elements(a) & elements(b)
        if R.contains(a, b):
            assert elements(a) >= elements(b)
        assert elements(R.bounding_box(a, b)) >= elements(a) | elements(b)
        assert R.is_empty(a) == (not elements(a))
    union: list[R.Region] = []
    for box in found:
        R.add(union, box)
    assert set().union(*map(elements, union)) == set().union(*map(elements, found))


@pytest.mark.parametrize("seed", range(20))
def test_spans_cover_the_elements_in_memory(seed: int) -> None:
    for box in boxes(random.Random(seed)):
        if not R.is_empty(box):
            places = sorted(int(np.ravel_multi_index(at, SHAPE)) for at in elements(box))
            first, size = span(SHAPE, box)
            assert (first, first + size - 1) == (places[0], places[-1])
