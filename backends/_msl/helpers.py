"""Functions of our own that a kernel's source carries where it needs them: each once, in front of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl.frame import LOCK


@dataclass(frozen=True, slots=True)
class Helper:
    """``text`` of one or more lines; ``needs``: other helpers, and members of the frame by offset."""

    text: str
    needs: tuple[str, ...] = ()
    frame: tuple[int, ...] = ()


_RELAXED = "memory_order_relaxed"

HELPERS: dict[str, Helper] = {
    # a stack's first slot of this thread
    "qd_slots": Helper("""\
template <typename T> device T* qd_slots(device Frame& f, device Stack& s, uint lane) {
  return (device T*)(f.heap + s.at) + lane;
}""", (), (L.HEAP,)),
    # 64-bit atomics, which Metal does not have, are made under a lock
    "qd_lock": Helper(f"""\
bool qd_lock(device Frame& f) {{
  uint open = 0;
  bool mine = atomic_compare_exchange_weak_explicit(&f.lock, &open, 1u, {_RELAXED}, {_RELAXED});
#if __METAL_VERSION__ >= 320
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
#endif
  return mine;
}}
void qd_unlock(device Frame& f) {{
#if __METAL_VERSION__ >= 320
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
#endif
  atomic_store_explicit(&f.lock, 0u, {_RELAXED});
}}""", (), (LOCK,)),
}  # fmt: skip


class Library:
    """The helpers that a module needs, in an order in which each stands behind what it needs. ``frame`` is told
    which members of the frame they read."""

    def __init__(self, frame: Callable[[int], None]) -> None:
        self.texts: dict[str, str] = {}
        self._frame = frame

    def need(self, name: str) -> str:
        """Includes a row of `HELPERS`; returns its name."""
        if name not in self.texts:
            self.add(name, HELPERS[name])
        return name

    def add(self, name: str, helper: Helper) -> str:
        """Includes a helper of the caller's own, the first time."""
        if name not in self.texts:
            for n in helper.needs:
                self.need(n)
            for offset in helper.frame:
                self._frame(offset)
            self.texts[name] = helper.text
        return name
