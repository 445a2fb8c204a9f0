"""The identifiers that a variable of a program cannot have in MSL."""

from __future__ import annotations

import re

from quadrants_lab.backends._clike.names import WORDS
from quadrants_lab.backends._msl import expr as X

_KEYWORDS = """
alignas alignof and and_eq asm atomic_bool atomic_float atomic_int atomic_uint atomic_ulong bfloat bitand bitor
buffer catch class compl const_cast constant constexpr decltype delete device dynamic_cast explicit export
fragment friend half imageblock int16_t int32_t int64_t int8_t kernel main metal mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected ptrdiff_t public ray_data reinterpret_cast restrict
sampler size_t static_assert static_cast template texture this thread thread_local threadgroup
threadgroup_imageblock throw try typeid typename uchar uint uint16_t uint32_t uint64_t uint8_t ulong ushort
using vec vertex virtual visible wchar_t xor xor_eq NAN INFINITY Frame Stack f lane lanes groups most record
s stride top acos as_type asin assert atan2 atomic_exchange_explicit atomic_fetch_add_explicit
atomic_fetch_and_explicit atomic_fetch_max_explicit atomic_fetch_min_explicit atomic_fetch_or_explicit
atomic_fetch_sub_explicit atomic_fetch_xor_explicit atomic_load_explicit atomic_store_explicit
atomic_compare_exchange_weak_explicit atomic_thread_fence ceil clz cos exp fabs floor fmax fmin fmod isinf isnan
log max min memory_order_relaxed popcount pow precise round sin sqrt tan tanh trunc mem_flags
"""
_VECTORS = (f"{t}{n}" for t in X.NAMES.values() for n in (2, 3, 4))
# the patterns at the end match the emitter's own names
AVOID = re.compile("|".join((*WORDS.split(), *_KEYWORDS.split(), *_VECTORS, r"qd_.*|(slots|[a-z])\d+")))
