"""Memory of other libraries."""

from __future__ import annotations

from typing import Any

from quadrants_lab.ir.types import from_numpy
from quadrants_lab.runtime.memory.memory import HostMirrored
from quadrants_lab.runtime.session import Session


class Imported(HostMirrored):
    """Memory of another library on the session's device. The library may write at any time, so the host's copy is never
    known to be up to date, and `flush` uploads what was written."""

    __slots__ = ()

    @classmethod
    def at(cls, session: Session, on_device: Any, foreign: Any) -> Imported:
        """Wraps device memory of another library."""
        dtype = from_numpy(on_device.dtype)
        assert dtype is not None
        made = cls(session, dtype)
        made.on_device = made.operand = on_device
        made.address, made.foreign = on_device.address, foreign
        session.holders.add(made)
        return made

    def _is_current(self) -> bool:
        return self._host_newer

    def flush(self) -> None:
        self.upload()
        super().flush()
