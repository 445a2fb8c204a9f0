"""A plugin (`pytest -p plugins.fence`): arrays and launch frames of the host lie between pages that nobody may touch,
with known bytes up to these, and memory that was given back is never touched again.

So a kernel that writes outside of its arrays, or after they went, ends the test at that place, not a later one that
has nothing to do with it. A run takes a few times as long, and maps a page or two for each array that was ever made.
"""

import ctypes
import os
import weakref
from math import prod
from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE
from typing import Any

import numpy as np

from quadrants_lab.backends import host

MOST = 1 << 20  # bytes; larger arrays are made as usual
KNOWN = 0xA5
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
usual = host._aligned


def fenced(make: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Replaces `host._aligned`: the memory ends as close to the last page as its alignment allows."""
    nbytes = prod(shape) * dtype.itemsize
    if nbytes > MOST:
        return usual(make, shape, dtype)
    room = -(-max(nbytes, 1) // PAGESIZE) * PAGESIZE
    base = libc.mmap(None, room + 2 * PAGESIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    begin = base + PAGESIZE
    at = begin + (room - nbytes) // host.ALIGNMENT * host.ALIGNMENT
    sides = [(begin, at - begin), (at + nbytes, begin + room - at - nbytes)]
    for side, size in sides:
        ctypes.memset(side, KNOWN, size)
    for page in (base, begin + room):
        libc.mprotect(page, PAGESIZE, 0)
    memory = (ctypes.c_uint8 * max(nbytes, 1)).from_address(at)
    made = f"{dtype}{[*shape]} of {os.environ.get('PYTEST_CURRENT_TEST')}"
    weakref.finalize(memory, gone, base, room + 2 * PAGESIZE, sides, made).atexit = False
    return np.frombuffer(memory, np.uint8)[:nbytes].view(dtype).reshape(shape)


def gone(base: int, size: int, sides: list[tuple[int, int]], made: str) -> None:
    for side, length in sides:
        if ctypes.string_at(side, length) != bytes([KNOWN]) * length:
            os.write(2, f"something wrote beside {made}\n".encode())
            os.abort()
    libc.madvise(base, size, MADV_DONTNEED)
    libc.mprotect(base, size, 0)


host._aligned = fenced
