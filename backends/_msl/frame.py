"""Writes the launch frame, from which programs read a launch's arguments, as an MSL struct: the members that a
kernel uses, at the offsets of `_gpu.layout`.

Addresses are members of pointer type, to which the host writes the gpuAddress of a Metal buffer.
"""

import re

from quadrants_lab.backends._clike.source import struct
from quadrants_lab.backends._clike.variables import WORDS, Names
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import name
from quadrants_lab.backends.layout import WORD
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1

LOCK = L.STATUS + 4  # a u32 in the unused half of the status word, 0 when a launch begins

_HEAD: dict[int, tuple[str, int]] = {
    LOCK: ("atomic_uint lock", 4), L.SEED: ("ulong seed", 8), L.LAUNCH: ("ulong launch", 8),
    L.THREADS: ("uint stride", 4), L.LANES: ("uint most_lanes", 4), L.HEAP: ("device uchar *heap", 8),
}  # fmt: skip
_HEAD_NAMES = {offset: text.split()[-1].lstrip("*").partition("[")[0] for offset, (text, _) in _HEAD.items()}


def stored(b: N.Buffer) -> str:
    """The type of an element in memory."""
    return name(L.stored(b))


class FrameStruct:
    """The struct of one kernel. A method that returns a member also adds it, under a name that is unique in the
    module."""

    def __init__(self, kernel: N.Kernel, layout: L.GpuLayout) -> None:
        self.kernel = kernel
        self.layout = layout
        self.names = Names(AVOID)
        for n in _HEAD_NAMES.values():
            self.names.of(n, n)
        self._members: dict[int, tuple[str, int]] = {}  # byte offset -> (declaration, size in bytes)

    def named(self, key: str) -> str:
        """Makes the name of a member from that of a buffer or argument: ``v$18.slots``, about the stack of a
        variable v, becomes v_slots."""
        return self.names.of(key, re.sub(r"\$\d+(?=\.)", "", key))

    def need(self, offset: int) -> None:
        """Adds the member at ``offset`` of the frame's head."""
        self._members[offset] = _HEAD[offset]

    def _member(self, offset: int, type: str, key: str, count: int, nbytes: int) -> str:
        n = self.named(key)
        self._members[offset] = (f"{type}{'' if type[-1] == '*' else ' '}{n}" + (f"[{count}]" if count else ""), nbytes)
        return f"f.{n}"

    def head(self, offset: int) -> str:
        self.need(offset)
        return f"f.{_HEAD_NAMES[offset]}"

    def buffer(self, b: N.Buffer) -> str:
        """The member with the address of a field or ndarray, with the place of an adstack's slots in the heap, or with
        the elements of a buffer in the frame."""
        at, t = self.layout.frame.buffers[b.name], stored(b)
        if at in _HEAD:
            return self.head(at)
        if b.in_frame:
            count = b.shape[0] if b.shape else 0
            return self._member(at, t, b.name, count, (4 if b.dtype is u1 else b.dtype.nbytes) * max(count, 1))
        if b.kind == "heap":
            return self._member(at, "ulong", f"{b.name}.slots", 0, WORD)
        return self._member(at, f"device {t} *", b.name, 0, WORD)

    def shape(self, b: N.Buffer) -> str:
        """The name of the member with the extents of an ndarray, an array of ulong."""
        return self._member(self.layout.frame.extents[b.name], "ulong", b.name + ".shape", b.ndim, b.ndim * WORD)

    def arg(self, arg: str, t: DType) -> str:
        kept = "uint" if t is u1 else name(t)
        return self._member(self.layout.frame.args[arg], kept, arg, 0, 4 if t is u1 else t.nbytes)

    def lines(self) -> list[str]:
        return ["struct Frame {", *struct(self._members, "uchar"), "};"]


_KEYWORDS = """
alignas alignof and and_eq asm atomic_bool atomic_float atomic_int atomic_uint atomic_ulong bfloat bitand bitor
buffer catch class compl const_cast constant constexpr decltype delete device dynamic_cast explicit export
fragment friend half imageblock int16_t int32_t int64_t int8_t kernel main metal mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected ptrdiff_t public ray_data reinterpret_cast restrict
sampler size_t static_assert static_cast template texture this thread thread_local threadgroup
threadgroup_imageblock throw try typeid typename uchar uint uint16_t uint32_t uint64_t uint8_t ulong ushort
using vec vertex virtual visible wchar_t xor xor_eq NAN INFINITY Frame f lane lanes groups most record
stride top acos as_type asin assert atan2 atomic_exchange_explicit atomic_fetch_add_explicit
atomic_fetch_and_explicit atomic_fetch_max_explicit atomic_fetch_min_explicit atomic_fetch_or_explicit
atomic_fetch_sub_explicit atomic_fetch_xor_explicit atomic_load_explicit atomic_store_explicit
atomic_compare_exchange_weak_explicit atomic_thread_fence ceil clz cos exp fabs floor fmax fmin fmod isinf isnan
log max min memory_order_relaxed popcount pow precise round sin sqrt tan tanh trunc mem_flags
"""
_VECTORS = (f"{t}{n}" for t in X.NAMES.values() for n in (2, 3, 4))
# names that a user's variable must not get; the patterns at the end match the emitter's own names
AVOID = re.compile("|".join((*WORDS.split(), *_KEYWORDS.split(), *_VECTORS, r"qd_.*|(slots|[a-z])\d+")))
