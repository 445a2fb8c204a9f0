"""Functions for atomic operations: Metal's own on 32 bits, and loops of compare and exchange for what it has none for.

What is shorter than a word changes the word that holds it. On 64 bits Metal has no compare and exchange: there the
element is changed under a lock of the launch, by atomic loads and stores of its halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.helpers import Helper
from quadrants_lab.ir.types import DType, u1

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body

SHORT = frozenset(("char", "uchar", "short", "ushort", "half"))  # types of elements shorter than a word
LOCKED = frozenset(("long", "ulong"))
_INTEGER = {"add": "fetch_add", "sub": "fetch_sub", "min": "fetch_min", "max": "fetch_max", "and": "fetch_and",
            "or": "fetch_or", "xor": "fetch_xor", "exchange": "exchange"}  # fmt: skip
_NATIVE: dict[str, dict[str, str]] = {
    "int": _INTEGER,
    "uint": _INTEGER,
    "float": {"add": "fetch_add", "exchange": "exchange"},
}
_ON_TRUTH = {"mul": "and", "min": "and", "max": "or"}
_R = "memory_order_relaxed"


def combine(b: Body, op: str, t: DType, old: Expr, value: Expr) -> Expr:
    """The new element of ``buffer op= value``."""
    if op == "exchange":
        return value
    if op == "cas":
        return X.choose(X.binary("==", "bool", old, Expr("expected", X.PRIMARY, old.type)), X.name(t), value, old)
    return b.operate(_ON_TRUTH.get(op, op) if t is u1 else op, t, t, old, value)


def helper(b: Body, op: str, t: DType, kept: str) -> str:
    """Includes the function for an operation on elements of dtype ``t`` kept as ``kept``; returns its name."""
    if t is u1:
        op = _ON_TRUTH.get(op, op)
    name = f"qd_atomic_{op}_{t}" if t is not u1 or kept == "uchar" else f"qd_atomic_{op}_truth"
    own, value = X.name(t), X.variable("value", X.name(t))
    more = f"{own} expected, " if op == "cas" else ""
    if op in _NATIVE.get(kept, {}) and t is not u1:
        text = f"return atomic_{_NATIVE[kept][op]}_explicit((device atomic_{kept}*)at, value, {_R});"
        return b.helper(name, Helper(f"{own} {name}(device {kept}* at, {own} value) {{\n  {text}\n}}"))
    if kept == "float" and op == "sub":
        text = f"return atomic_fetch_add_explicit((device atomic_float*)at, -value, {_R});"
        return b.helper(name, Helper(f"{own} {name}(device {kept}* at, {own} value) {{\n  {text}\n}}"))
    new = combine(b, op, t, X.variable("old", own), value)
    if kept in LOCKED:
        return b.helper(name, _locked(name, own, more, new))
    if kept in SHORT:
        return b.helper(name, _short(name, t, kept, more, new))
    return b.helper(name, _word(name, t, kept, more, new))


def _word(name: str, t: DType, kept: str, more: str, new: Expr) -> Helper:
    """By compare and exchange on the element, which is a word."""
    own = X.name(t)
    old = "seen != 0" if t is u1 else f"as_type<{own}>(seen)" if t.is_float else f"{own}(seen)"
    bits = f"as_type<uint>({X.as_type(new, own).text})" if t.is_float else f"uint({new.text})"
    return Helper(f"""\
{own} {name}(device {kept}* at, {more}{own} value) {{
  device atomic_uint* word = (device atomic_uint*)at;
  uint seen = atomic_load_explicit(word, {_R});
  while (true) {{
    {own} old = {old};
    if (atomic_compare_exchange_weak_explicit(word, &seen, {bits}, {_R}, {_R})) return old;
  }}
}}""")


def _short(name: str, t: DType, kept: str, more: str, new: Expr) -> Helper:
    """By compare and exchange on the word that holds the element."""
    own = X.name(t)
    nbytes = 1 if kept in ("char", "uchar") else 2
    raw = "uchar" if nbytes == 1 else "ushort"
    bits = f"{raw}(seen >> shift)"
    old = f"{bits} != 0" if t is u1 else f"as_type<half>({bits})" if t.is_float else f"{own}({bits})"
    now = f"as_type<ushort>({X.as_type(new, own).text})" if t.is_float else f"{raw}({new.text})"
    return Helper(f"""\
{own} {name}(device {kept}* base, long place, {more}{own} value) {{
  device atomic_uint* word = (device atomic_uint*)base + place / {4 // nbytes};
  uint shift = uint(place % {4 // nbytes}) * {8 * nbytes}u, mask = {(1 << 8 * nbytes) - 1}u << shift;
  uint seen = atomic_load_explicit(word, {_R});
  while (true) {{
    {own} old = {old};
    uint now = (seen & ~mask) | uint({now}) << shift;
    if (atomic_compare_exchange_weak_explicit(word, &seen, now, {_R}, {_R})) return old;
  }}
}}""")


def _locked(name: str, own: str, more: str, new: Expr) -> Helper:
    """Under the lock. A thread that holds it is never made to wait for its neighbours: it lets go in the same turn of
    the loop."""
    return Helper(f"""\
{own} {name}(device Frame& f, device {own}* at, {more}{own} value) {{
  device atomic_uint* halves = (device atomic_uint*)at;
  {own} old = 0;
  for (bool done = false; !done;) {{
    if (qd_lock(f)) {{
      old = {own}(ulong(atomic_load_explicit(halves + 1, {_R})) << 32 | atomic_load_explicit(halves, {_R}));
      ulong now = ulong({new.text});
      atomic_store_explicit(halves, uint(now), {_R});
      atomic_store_explicit(halves + 1, uint(now >> 32), {_R});
      qd_unlock(f);
      done = true;
    }}
  }}
  return old;
}}""", ("qd_lock",))
