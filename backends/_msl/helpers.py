"""Functions of our own that a kernel's source carries where it needs them: each once, in front of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl.frame import LOCK
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import WORD
from quadrants_lab.ir import draws


@dataclass(frozen=True, slots=True)
class Helper:
    """``text`` of one or more lines; ``needs``: other helpers, and members of the frame by offset."""

    text: str
    needs: tuple[str, ...] = ()
    frame: tuple[int, ...] = ()


_RELAXED = "memory_order_relaxed"

HELPERS: dict[str, Helper] = {
    # integers: floor division and remainder, and those toward zero; 0 for a zero divisor, and -1 never overflows
    "qd_floordiv": Helper("""\
template <typename T> T qd_floordiv(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == T(-1)) return T(0ul - a);
  T q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}"""),
    "qd_mod": Helper("""\
template <typename T> T qd_mod(T a, T b) {
  if (b == T(0) || b == T(-1)) return T(0);
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}"""),
    "qd_div": Helper("""\
template <typename T> T qd_div(T a, T b) {
  return b == T(0) ? T(0) : b == T(-1) ? T(0ul - a) : T(a / b);
}"""),
    "qd_rem": Helper("""\
template <typename T> T qd_rem(T a, T b) {
  return b == T(0) || b == T(-1) ? T(0) : T(a % b);
}"""),
    "qd_udiv": Helper("""\
template <typename T> T qd_udiv(T a, T b) {
  return b == T(0) ? T(0) : T(a / b);
}"""),
    "qd_urem": Helper("""\
template <typename T> T qd_urem(T a, T b) {
  return b == T(0) ? T(0) : T(a % b);
}"""),
    "qd_abs": Helper("""\
template <typename T> T qd_abs(T a) {
  return a < 0 ? T(0ul - a) : a;
}"""),
    "qd_min": Helper("""\
template <typename T> T qd_min(T a, T b) {
  return a < b ? a : b;
}"""),
    "qd_max": Helper("""\
template <typename T> T qd_max(T a, T b) {
  return a > b ? a : b;
}"""),
    # by squaring, modulo 2**64
    "qd_power": Helper("""\
ulong qd_power(ulong a, ulong b) {
  ulong r = 1;
  for (; b != 0; b >>= 1, a *= a) r = (b & 1) != 0 ? r * a : r;
  return r;
}"""),
    # a negative exponent gives 0 unless the base is 1 or -1
    "qd_pow": Helper("""\
template <typename T> T qd_pow(T a, T b) {
  if (b >= 0) return T(qd_power(ulong(a), ulong(b)));
  return a == 1 || a == -1 ? ((b & 1) != 0 ? a : T(1)) : T(0);
}""", ("qd_power",)),
    "qd_popcount": Helper("""\
uint qd_popcount(ulong a) {
  return popcount(uint(a)) + popcount(uint(a >> 32));
}"""),
    "qd_clz": Helper("""\
uint qd_clz(ulong a) {
  uint high = uint(a >> 32);
  return high != 0 ? clz(high) : 32 + clz(uint(a));
}"""),
    "qd_fmod": Helper("""\
template <typename T> T qd_fmod(T a, T b) {
  return a - b * floor(a / b);
}"""),
    # draws, as ir.draws defines them
    "qd_mix": Helper(f"""\
ulong qd_mix(ulong x) {{
  x += {draws.GOLDEN}ul;
  x = (x ^ (x >> 30)) * {draws.FIRST}ul;
  x = (x ^ (x >> 27)) * {draws.SECOND}ul;
  return x ^ (x >> 31);
}}"""),
    "qd_draw": Helper("""\
ulong qd_draw(device Frame& f, ulong iteration, ulong site, uint occurrence) {
  return qd_mix(qd_mix(qd_mix(qd_mix(qd_mix(f.seed) ^ f.launch) ^ iteration) ^ site) ^ occurrence);
}""", ("qd_mix",), (L.SEED, L.LAUNCH)),
    # a stack's first slot of this thread
    "qd_slots": Helper("""\
template <typename T> device T* qd_slots(device Frame& f, device Stack& s, uint lane) {
  return (device T*)(f.heap + s.at) + lane;
}""", (), (L.HEAP,)),
    "qd_adjoints": Helper("""\
template <typename T> device T* qd_adjoints(device Frame& f, device Stack& s, uint lane) {
  return (device T*)(f.heap + s.adjoints_at) + lane;
}""", (), (L.HEAP,)),
    # sets the status; true for the first that fails, which may say more
    "qd_fail": Helper(f"""\
bool qd_fail(device Frame& f, uint bit, ulong what, ulong count) {{
  atomic_fetch_or_explicit(&f.status, bit, {_RELAXED});
  uint seen = 0;
  while (seen == 0 && !atomic_compare_exchange_weak_explicit(&f.failed, &seen, bit, {_RELAXED}, {_RELAXED})) {{}}
  if (seen != 0) return false;
  f.fail_what = what;
  f.fail_count = count;
  return true;
}}""", (), (L.STATUS, L.FAILED, L.FAIL_WHAT, L.FAIL_COUNT)),
    # room for a record in the print block, or null
    "qd_record": Helper(f"""\
device ulong* qd_record(device Frame& f, uint words, ulong number) {{
  atomic_fetch_or_explicit(&f.status, {Status.PRINTED}u, {_RELAXED});
  device atomic_uint* head = (device atomic_uint*)f.prints;
  uint at = atomic_fetch_add_explicit(head + {L.PRINT_USED // 4}, words, {_RELAXED});
  if (at + words > uint(f.prints[{L.PRINT_ROOM // WORD}])) {{
    atomic_fetch_add_explicit(head + {L.PRINT_LOST // 4}, 1u, {_RELAXED});
    return nullptr;
  }}
  f.prints[{L.PRINT_DATA // WORD} + at] = number;
  return f.prints + {L.PRINT_DATA // WORD + 1} + at;
}}""", (), (L.STATUS, L.PRINTS)),
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


def _saturating(t: str, bits: int, signed: bool) -> str:
    """A float toward zero, saturating; 0 for NaN."""
    high = float(1 << (bits - 1 if signed else bits))
    low = -high if signed else 0.0
    unsigned = "ulong" if bits == 64 else "uint"
    one = "1ul" if bits == 64 else "1u"
    top = f"{t}({one} << {bits - 1})" if signed else f"{t}(0)"
    most = f"{t}(({one} << {bits - 1}) - 1)" if signed else f"{t}(~{unsigned}(0))"
    return f"""\
{t} qd_to_{t}(float a) {{
  return a >= {high}f ? {most} : a > {low}f ? {t}(a) : a <= {low}f ? {top} : {t}(0);
}}"""


_INTEGERS = {
    "char": (8, True), "short": (16, True), "int": (32, True), "long": (64, True),
    "uchar": (8, False), "ushort": (16, False), "uint": (32, False), "ulong": (64, False),
}  # fmt: skip
HELPERS |= {f"qd_to_{t}": Helper(_saturating(t, *how)) for t, how in _INTEGERS.items()}


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
