"""Helper functions in MSL. A module has those that it needs in front of its kernels."""

from collections.abc import Callable

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl.frame import LOCK

_RELAXED = "memory_order_relaxed"

# the source of a helper, and the offset of the member of the frame's head that it reads
HELPERS: dict[str, tuple[str, int]] = {
    # a pointer to the thread's first slot of an adstack
    "qd_slots": ("""\
template <typename T> device T* qd_slots(device Frame& f, device Stack& s, uint lane) {
  return (device T*)(f.heap + s.at) + lane;
}""", L.HEAP),
    # the lock that 64-bit atomics take
    "qd_lock": (f"""\
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
}}""", LOCK),
}  # fmt: skip


class Library:
    """The helpers of a module. ``frame`` is called with the offset of each member of the frame that a helper reads."""

    def __init__(self, frame: Callable[[int], None]) -> None:
        self.texts: dict[str, str] = {}
        self._frame = frame

    def add(self, name: str, text: str = "") -> str:
        """Adds a helper, once; returns its name. By default the helper is a row of `HELPERS`. Add the functions that it
        calls first."""
        if name not in self.texts:
            if not text:
                text, offset = HELPERS[name]
                self._frame(offset)
            self.texts[name] = text
        return name
