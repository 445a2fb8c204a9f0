"""Emits loads and stores of adstack slots (`lower.adstacks`), which lie in the device's heap.

A chunk (`_gpu.stacks.Chunk`) has up to four values of a slot, which one access moves as a vector. Stores are collected
until the last value is known. A load reads the whole chunk into a variable such as ``q3``; ``q3.x`` is one value.
"""


from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.body import Body
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u32

_MEMBERS = "xyzw"


def _element(b: Body, buffer: N.Buffer, slot: int) -> tuple[Expr, str]:
    """The MSL expression for the chunk (up to four values that one access moves) that holds the values of
    ``buffer`` in the heap, and the chunk's type. ``slot``: the id of the IR value that is the index of the slot."""
    chunk = b.chunks[buffer.name]
    t = X.name(buffer.dtype) + (str(len(chunk.buffers)) if len(chunk.buffers) > 1 else "")
    place = b.frame.buffer(b.frame.kernel.buffers[chunk.first])
    stride = X.variable(b.once("stride", "uint", b.frame.head(L.THREADS)), "uint")
    begin = f"(device {t} *)({b.frame.head(L.HEAP)} + {place}) + {b.lane}"
    slots = b.once(place[2:], f"device {t} *", begin)
    index = X.binary("*", "uint", b.values[slot], stride)
    if chunk.count > 1:
        if slot not in b.index:
            b.index[slot] = f"i{b.count('i')}"
            b.out.declare("uint", f"{b.index[slot]} = {index.text}")
        index = X.variable(b.index[slot], "uint")
    text = index.text
    if chunk.number:
        last = b.frame.arg(f"{chunk.first}.last", u32)
        region = b.frame.named(f"{chunk.first}.region")
        b.once(region, "ulong", f"ulong({last} + 1) * stride")
        text += f" + {chunk.number} * {region}" if chunk.number > 1 else f" + {region}"
    return X.made(f"{slots}[{text}]", X.PRIMARY, t, index), t


def load(b: Body, s: N.Load, buffer: N.Buffer) -> None:
    chunk = b.chunks[s.buffer].buffers
    if not b.read(s.id):
        return
    if len(chunk) == 1:
        e, t = _element(b, buffer, s.index[0])
        b.define(s, Expr(e.text, e.level, t, None, e.reads, True))
        return
    key = chunk[0], s.index[0]
    if key not in b.loaded:
        e, t = _element(b, buffer, s.index[0])
        b.loaded[key] = f"q{b.count('q')}"
        b.out.declare(t, f"{b.loaded[key]} = {e.text}")
    b.set(s.id, s.type, X.variable(f"{b.loaded[key]}.{_MEMBERS[chunk.index(s.buffer)]}", X.name(s.type)))


def store(b: Body, s: N.Store, buffer: N.Buffer) -> None:
    chunk = b.chunks[s.buffer].buffers
    b.pending.append(b.typed(s.value))
    if s.buffer == chunk[-1]:
        e, t = _element(b, buffer, s.index[0])
        values, b.pending = b.pending, []
        value = values[0].text if len(values) == 1 else f"{t}({', '.join(v.text for v in values)})"
        b.out.put(f"{e.text} = {value};")
        b.loaded.clear()
