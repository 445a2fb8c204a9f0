"""The source of MSL functions for atomic operations that Metal lacks. Metal has atomics on 32 bits, but no compare
and exchange on 64 bits. So a function for 64 bits takes a lock, of which each launch has one, and changes the
element by atomic loads and stores of its halves."""


from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.body import Body
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.frame import LOCK
from quadrants_lab.ir.types import DType

_R = "memory_order_relaxed"
_LOCK = f"""\
bool qd_lock(device Frame& f) {{
  uint open = 0;
  bool mine = atomic_compare_exchange_weak_explicit(&f.lock, &open, 1u, {_R}, {_R});
#if __METAL_VERSION__ >= 320
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
#endif
  return mine;
}}
void qd_unlock(device Frame& f) {{
#if __METAL_VERSION__ >= 320
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
#endif
  atomic_store_explicit(&f.lock, 0u, {_R});
}}"""


def combine(b: Body, op: str, t: DType, old: Expr, value: Expr) -> Expr:
    """The new value of an element whose value was ``old``."""
    if op == "exchange":
        return value
    if op == "cas":
        return X.choose(X.binary("==", "bool", old, Expr("expected", X.PRIMARY, old.type)), X.name(t), value, old)
    return b.operate(op, t, t, old, value)


def helper(b: Body, op: str, t: DType) -> str:
    """Adds to the module a function that performs the operation on elements of dtype ``t``; returns its name."""
    name, own = f"qd_atomic_{op}_{t}", X.name(t)
    more = f"{own} expected, " if op == "cas" else ""
    head = f"{own} {name}(device {own}* at, {more}{own} value) {{"
    if t.bits == 64:
        new = combine(b, op, t, X.variable("old", own), X.variable("value", own))
        b.frame.need(LOCK)
        b.library |= {"qd_lock": _LOCK, name: _locked(name, own, more, new)}
    elif op == "cas":
        b.library[name] = f"""\
{head}
  device atomic_uint* word = (device atomic_uint*)at;
  uint seen = expected;
  while (!atomic_compare_exchange_weak_explicit(word, &seen, uint(value), {_R}, {_R}) && seen == uint(expected)) {{}}
  return seen;
}}"""
    else:
        own_name = op if op == "exchange" else f"fetch_{op}"
        text = f"return atomic_{own_name}_explicit((device atomic_{own}*)at, value, {_R});"
        b.library[name] = f"{head}\n  {text}\n}}"
    return name


def _locked(name: str, own: str, more: str, new: Expr) -> str:
    """The text of a function that takes the lock and changes an element. The thread that holds the lock releases it in
    the same trip of the loop, so that it never waits for threads that run in lockstep with it."""
    return f"""\
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
}}"""
