"""Helper functions in MSL, which a module has in front of its kernels where they are needed."""

from collections.abc import Callable
from dataclasses import dataclass

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl.frame import LOCK


@dataclass(frozen=True, slots=True)
class Helper:
    """The source of a helper. ``needs``: rows of `HELPERS` that it calls; ``frame``: offsets of the members of the
    frame's head that it reads."""

    text: str
    needs: tuple[str, ...] = ()
    frame: tuple[int, ...] = ()


_RELAXED = "memory_order_relaxed"

HELPERS: dict[str, Helper] = {
    # a pointer to the thread's first slot of an adstack
    "qd_slots": Helper("""\
template <typename T> device T* qd_slots(device Frame& f, device Stack& s, uint lane) {
  return (device T*)(f.heap + s.at) + lane;
}""", (), (L.HEAP,)),
    # the lock that 64-bit atomics take
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
    """The helpers of a module, each behind those that it calls. ``frame`` is called with the offsets of the members of
    the frame that they read."""

    def __init__(self, frame: Callable[[int], None]) -> None:
        self.texts: dict[str, str] = {}
        self._frame = frame

    def add(self, name: str, helper: Helper | None = None) -> str:
        """Adds a helper, by default the row of `HELPERS`, the first time; returns its name."""
        if name not in self.texts:
            helper = helper or HELPERS[name]
            for n in helper.needs:
                self.add(n)
            for offset in helper.frame:
                self._frame(offset)
            self.texts[name] = helper.text
        return name
