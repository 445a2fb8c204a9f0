"""Finds which arrays of a launch share memory. For n arrays the search takes time proportional to n log n."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

READ, WRITTEN, READ_FIELD, WRITTEN_FIELD = range(4)  # what a kernel does with an array, or a field
# kind of use -> the kinds of use whose memory must not overlap with it; two fields never overlap
_MUST_DIFFER = (WRITTEN, WRITTEN_FIELD), (READ, WRITTEN, READ_FIELD, WRITTEN_FIELD), (WRITTEN,), (READ, WRITTEN)
# address space of an array, its first address, the address after its last byte, the array's index in the list
Span = tuple[int, int, int, int]


def spans(arrays: Sequence[Any]) -> Iterator[Span]:
    """The span of each array that is on the host or in a device's memory, C-contiguous and not empty. Other objects
    have none."""
    for n, x in enumerate(arrays):
        of_host = isinstance(x, np.ndarray)
        begin = x.__array_interface__["data"][0] if of_host else getattr(x, "address", None)
        if begin is not None and x.nbytes:
            yield int(of_host), begin, begin + x.nbytes, n


def overlapping(spans: Iterator[Span], kinds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields pairs of indices of arrays that overlap although a launch may not use them so (it writes one of them,
    for instance). The first array of a pair begins no later than the second. An array that overlaps several others
    is the second of a pair at least once. ``kinds``: for each array, how it is used."""
    last = [(-1, 0, 0)] * 4  # for each kind of use: (address space, end, index) of the array that ends last so far
    for space, begin, end, n in sorted(spans):
        kind = kinds[n]
        for k in _MUST_DIFFER[kind]:
            other, stop, m = last[k]
            if other == space and begin < stop:
                yield m, n
                break
        if last[kind][:2] < (space, end):
            last[kind] = space, end, n


def merged(arrays: Iterable[npt.NDArray[Any]]) -> list[tuple[int, int]]:
    """The address ranges (begin, end) of host arrays; overlapping ranges are merged."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((a.ctypes.data, a.ctypes.data + max(a.nbytes, 1)) for a in arrays):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
