"""Copies to and from memory that the host does not see, and fills of it, in the order of launches.

What the host sends lies in staging memory until the device has copied it, so that nobody waits for that. Large arrays
go in chunks, a few on their way at a time.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.flight import LEAST, Cost
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import barrier
from quadrants_lab.backends.vulkan.memory import STAGING, Pool

if TYPE_CHECKING:
    from quadrants_lab.backends.vulkan.logical import Logical
    from quadrants_lab.backends.vulkan.memory import Piece

_RINGS = ((1 << 16, 64), (1 << 23, 4))  # bytes of a chunk, and how many of them are on their way at most


class Transfer:
    """A command buffer that copies or fills, as the queue takes launches, and the host's side of it."""

    what = "copying memory"

    def __init__(self, ring: Ring) -> None:
        self.uses = 0
        self.cost = ring.cost
        self.piece = ring.pool.take(ring.nbytes)
        self.host = self.piece.block.host + self.piece.offset
        self._logical = ring.pool.logical
        self._commands: Any = None

    def write(self, command: Callable[[Any], None]) -> None:
        """Makes it one that does ``command``."""

        def ordered(commands: Any) -> None:
            barrier(commands)
            command(commands)
            barrier(commands, copied=True)

        first = self._commands is None
        self._commands = self._logical.record(ordered, self._commands)
        if first:
            forks.finalize(self, self._logical.free_commands, self._commands)

    def commands(self) -> Any:
        return self._commands[0]

    def done(self) -> None:
        return None


class Ring:
    """Transfers of ``nbytes`` at most, used in turn."""

    def __init__(self, pool: Pool, nbytes: int, most: int) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.cost = Cost()
        self.cost.ns = LEAST
        self._most = most
        self._all: deque[Transfer] = deque()

    def next(self) -> Transfer:
        """One that is not on its way; where all are, it waits for the first of them."""
        ring = self._all
        if not ring or (ring[0].uses and len(ring) < self._most):
            ring.append(Transfer(self))
        else:
            self.pool.logical.queue.release(ring[0])
            ring.rotate(-1)
        return ring[-1]


class Transfers:
    def __init__(self, logical: Logical) -> None:
        pool = Pool(logical, STAGING)
        self._queue = logical.queue
        self._small, self._large = (Ring(pool, nbytes, most) for nbytes, most in _RINGS)

    def upload(self, piece: Piece, offset: int, host: int, nbytes: int) -> None:
        """From the host, whose memory is free for other things afterwards."""
        ring = self._ring(nbytes)
        for at in range(0, nbytes, ring.nbytes):
            count, made = min(nbytes - at, ring.nbytes), ring.next()
            ctypes.memmove(made.host, host + at, count)
            self._start(made, _copy(made.piece, 0, piece, offset + at, count))

    def download(self, host: int, piece: Piece, offset: int, nbytes: int) -> None:
        """To the host, as of all launches so far, whose errors it raises."""
        ring, coming = self._ring(nbytes), deque[tuple[Transfer, int, int]]()

        def land() -> None:
            made, to, count = coming.popleft()
            self._queue.release(made)
            ctypes.memmove(to, made.host, count)

        for at in range(0, nbytes, ring.nbytes):
            if len(coming) == _RINGS[1][1]:
                land()
            count, made = min(nbytes - at, ring.nbytes), ring.next()
            self._start(made, _copy(piece, offset + at, made.piece, 0, count))
            coming.append((made, host + at, count))
        while len(coming) > 1:
            land()
        self._queue.finish()
        land()

    def fill(self, piece: Piece, nbytes: int, pattern: bytes) -> None:
        """The first bytes of ``piece``, up to a whole word, by one, two or four bytes again and again."""
        word = int.from_bytes(pattern * (4 // len(pattern)), "little")
        whole = -(-nbytes // 4) * 4
        fill = api.lib().vkCmdFillBuffer
        self._start(self._small.next(), lambda commands: fill(commands, piece.block.buffer, piece.offset, whole, word))

    def copy(self, to: Piece, offset: int, source: Piece, start: int, nbytes: int) -> None:
        """On the device."""
        self._start(self._small.next(), _copy(source, start, to, offset, nbytes))

    def _ring(self, nbytes: int) -> Ring:
        return self._small if nbytes <= self._small.nbytes else self._large

    def _start(self, made: Transfer, command: Callable[[Any], None]) -> None:
        made.write(command)
        self._queue.add(made)


def _copy(source: Piece, start: int, to: Piece, offset: int, nbytes: int) -> Callable[[Any], None]:
    region = api.new("VkBufferCopy", srcOffset=source.offset + start, dstOffset=to.offset + offset, size=nbytes)
    return partial(_record_copy, source.block.buffer, to.block.buffer, region)


def _record_copy(source: Any, to: Any, region: Any, commands: Any) -> None:
    if region.size:
        api.lib().vkCmdCopyBuffer(commands, source, to, 1, region)
