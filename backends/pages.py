"""Allocates host memory whose pages take room only when something other than 0 is written to them.

The operating system reserves addresses for all elements, and allocates a page when it is first written. Linux lists the
allocated pages in /proc/self/pagemap (https://docs.kernel.org/admin-guide/mm/pagemap.html). Without that list, every
page counts as written.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
# on other systems, memory that is given back to the system does not read as zero at once
ON_DEMAND = sys.platform == "linux"
MOST_BYTES = 2**37 if ON_DEMAND else 2**33  # the most address space for one array
_FEW = 1 << 20  # how many pages' words are read at a time
_THERE = np.uint64(3 << 62)  # bits of a page's word in pagemap: the page is in memory, or swapped out
# bits of a page's word: the page has its own memory. Pages that were only read share one page of zeros.
_OWN = np.uint64(1 << 56 | 1 << 62)
_NORESERVE = 0x4000 if ON_DEMAND else 0x40


class Pages:
    """Allocates ``nbytes`` zeroed bytes at ``address``, in whole pages. ``bytes``: the same memory as a numpy array
    of bytes."""

    def __init__(self, nbytes: int) -> None:
        if nbytes > MOST_BYTES:
            raise MemoryError(f"there are addresses for {MOST_BYTES >> 30} GiB")
        self.nbytes = nbytes
        size = max(-(-nbytes // PAGE), 1) * PAGE
        try:
            self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        except (OSError, OverflowError) as e:
            raise MemoryError(str(e)) from None
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # OSError: this Linux kernel has no large pages. They are turned off, since one takes 2 MiB for a single
            # element.
            with suppress(OSError):
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.address: int = self.bytes.ctypes.data

    def clear(self) -> None:
        """Sets all bytes to 0; on Linux by giving the memory back to the operating system."""
        if ON_DEMAND:
            self._map.madvise(mmap.MADV_DONTNEED)
        else:
            self.bytes[...] = 0

    def taken(self) -> int:
        """How many bytes of physical memory the pages take."""
        return PAGE * sum(int(np.count_nonzero(words & _OWN)) for _, words in self._words())

    def written(self) -> Iterator[npt.NDArray[np.intp]]:
        """The indices of the pages that may hold something other than 0, in several arrays."""
        for first, words in self._words():
            found = np.flatnonzero(words & _THERE)
            if found.size:
                yield found + first

    def nonzero(self, dtype: Any) -> npt.NDArray[np.intp]:
        """The indices, in memory order, of the elements of ``dtype`` that are not 0."""
        each = PAGE // np.dtype(dtype).itemsize
        elements = self.bytes.view(dtype).reshape(-1, each)
        found = [np.zeros(0, np.intp)]
        for pages in self.written():
            at, inside = np.nonzero(elements[pages])
            found.append(pages[at] * each + inside)
        return np.concatenate(found)

    def any(self) -> bool:
        """Whether some byte is not 0."""
        words = self.bytes.view(np.uint64).reshape(-1, PAGE // 8)
        return any(bool(words[pages].any()) for pages in self.written())

    def assign(self, other: Pages) -> None:
        """Copies all bytes of ``other``, which has the same size. Pages of zeros stay unallocated."""
        self.clear()
        mine, theirs = (of.bytes.view(np.uint64).reshape(-1, PAGE // 8) for of in (self, other))
        for pages in other.written():
            values = theirs[pages]
            some = values.any(axis=1)
            mine[pages[some]] = values[some]

    def trim(self) -> None:
        """Gives back to the operating system the pages in which all bytes are 0. Nothing may write to the pages at the
        same time."""
        words = self.bytes.view(np.uint64).reshape(-1, PAGE // 8)
        for pages in self.written() if ON_DEMAND else ():
            empty = pages[~words[pages].any(axis=1)]
            for run in np.split(empty, np.flatnonzero(np.diff(empty) > 1) + 1) if empty.size else ():
                self._map.madvise(mmap.MADV_DONTNEED, int(run[0]) * PAGE, len(run) * PAGE)

    def copy(self) -> Pages:
        made = Pages(self.nbytes)
        made.assign(self)
        return made

    def _words(self) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
        """The words of /proc/self/pagemap for the pages, in pieces: (index of the piece's first page, its words)."""
        total = len(self.bytes) // PAGE
        try:
            file = os.open("/proc/self/pagemap", os.O_RDONLY)
        except OSError:
            yield 0, np.full(total, _THERE | _OWN)
            return
        try:
            for first in range(0, total, _FEW):
                n = min(_FEW, total - first)
                data = os.pread(file, 8 * n, (self.address // PAGE + first) * 8)
                yield first, np.frombuffer(data, np.uint64)
        finally:
            os.close(file)
