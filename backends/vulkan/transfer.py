"""Copies to and from device memory that the host cannot access, and fills of such memory, in the order of launches.

Uploads go through staging memory, so that the host need not wait for the device. Large arrays are copied in chunks, a
few of them in flight at a time.
"""

import ctypes
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.device import LEAST, Cost
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import Logical, barrier
from quadrants_lab.backends.vulkan.memory import STAGING, Piece, Pool
from quadrants_lab.backends.vulkan.queue import Ring

_SMALL, _LARGE = (1 << 16, 64), (1 << 23, 4)  # bytes of a chunk, and how many chunks may be in flight


class Transfer:
    """A launch of the queue that copies or fills memory. It has staging memory for at most ``nbytes`` bytes."""

    what = "copying memory"

    def __init__(self, pool: Pool, nbytes: int) -> None:
        self.uses = 0
        self.cost = Cost()
        self.cost.ns = LEAST
        self.piece = pool.take(nbytes)
        self.host = self.piece.block.host + self.piece.offset
        self._logical = pool.logical
        self._commands: Any = None

    def write(self, command: Callable[[Any], None]) -> None:
        """Records the command, between barriers."""

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


class Transfers:
    """The copies and fills of a device's memory."""

    def __init__(self, logical: Logical) -> None:
        pool = Pool(logical, STAGING)
        self._queue = logical.queue
        self._small, self._large = (
            Ring(logical.queue, partial(Transfer, pool, nbytes), most) for nbytes, most in (_SMALL, _LARGE)
        )

    def upload(self, piece: Piece, offset: int, host: int, nbytes: int) -> None:
        """Copies ``nbytes`` bytes from the host address ``host`` to ``piece``; the host's memory may be overwritten
        when this returns."""
        ring, chunk = self._ring(nbytes)
        for at in range(0, nbytes, chunk):
            count, made = min(nbytes - at, chunk), ring.next()
            ctypes.memmove(made.host, host + at, count)
            self._start(made, _copy(made.piece, 0, piece, offset + at, count))

    def download(self, host: int, piece: Piece, offset: int, nbytes: int) -> None:
        """Copies to the host after all launches so far, and raises their errors."""
        (ring, chunk), coming = self._ring(nbytes), deque[tuple[Transfer, int, int]]()

        def land() -> None:
            made, to, count = coming.popleft()
            self._queue.release(made)
            ctypes.memmove(to, made.host, count)

        for at in range(0, nbytes, chunk):
            if len(coming) == _LARGE[1]:
                land()
            count, made = min(nbytes - at, chunk), ring.next()
            self._start(made, _copy(piece, offset + at, made.piece, 0, count))
            coming.append((made, host + at, count))
        while len(coming) > 1:
            land()
        self._queue.finish()
        land()

    def fill(self, piece: Piece, nbytes: int, pattern: bytes) -> None:
        """Fills the first bytes of ``piece``, rounded up to a whole word, by repeating one, two or four bytes."""
        word = int.from_bytes(pattern * (4 // len(pattern)), "little")
        whole = -(-nbytes // 4) * 4
        fill = api.lib().vkCmdFillBuffer
        self._start(self._small.next(), lambda commands: fill(commands, piece.block.buffer, piece.offset, whole, word))

    def copy(self, to: Piece, offset: int, source: Piece, start: int, nbytes: int) -> None:
        """Copies within device memory."""
        self._start(self._small.next(), _copy(source, start, to, offset, nbytes))

    def _ring(self, nbytes: int) -> tuple[Ring[Transfer], int]:
        """The ring of transfers for a copy of ``nbytes`` bytes, and how many bytes each of its chunks has."""
        return (self._small, _SMALL[0]) if nbytes <= _SMALL[0] else (self._large, _LARGE[0])

    def _start(self, made: Transfer, command: Callable[[Any], None]) -> None:
        made.write(command)
        self._queue.add(made)


def _copy(source: Piece, start: int, to: Piece, offset: int, nbytes: int) -> Callable[[Any], None]:
    region = api.new("VkBufferCopy", srcOffset=source.offset + start, dstOffset=to.offset + offset, size=nbytes)

    def record(commands: Any) -> None:
        if nbytes:
            api.lib().vkCmdCopyBuffer(commands, source.block.buffer, to.block.buffer, 1, region)

    return record
