"""A wave of AMD's GPUs: its registers, and those of its lanes."""

from typing import Any

import numpy as np

from rigs.gcn_text import EXEC, M0, Operand

Array = np.ndarray[Any, Any]
U32, U64, I32, I64, F32, F64 = np.uint32, np.uint64, np.int32, np.int64, np.float32, np.float64
F16 = np.float16


def number(value: Any, form: type) -> Any:
    """A literal as an operand of that form."""
    if isinstance(value, float):
        return np.array(value, F64 if form in (F64, U64) else F32).view(form)
    if form is F64 and not -16 <= value <= 64:
        return _wide(value << 32).view(F64)  # of a literal that is no small integer there is the high half
    return np.array(value & 0xFFFFFFFF, U32).view(form) if form in (U32, I32, F32) else _wide(value).view(form)


def _wide(value: int) -> Array:
    return np.array(value & (1 << 64) - 1, U64)


class Wave:
    """A wave. ``v``: registers of each lane; ``s``: registers of the wave, as numbers. ``lanes`` threads, ``first``
    the number of the first one in its group."""

    def __init__(self, machine: Any, lanes: int, first: int, active: int) -> None:
        self.machine = machine
        self.lanes = lanes
        self.v = np.zeros((256, lanes), U32)
        self.v[0] = np.arange(first, first + lanes)
        self.s = [0] * 128
        self.scc = 0
        self.mask = np.zeros(lanes, bool)
        self.set_exec((1 << active) - 1)

    # --- registers

    def set_exec(self, bits: int) -> None:
        self.s[EXEC], self.s[EXEC + 1] = bits & 0xFFFFFFFF, bits >> 32
        self.mask = self.bools(bits)

    def bools(self, bits: int) -> Array:
        return np.unpackbits(np.array([bits], U64).view(np.uint8), bitorder="little")[: self.lanes].astype(bool)

    @staticmethod
    def bits(lanes: Array) -> int:
        return int(np.packbits(lanes, bitorder="little").tobytes()[::-1].hex() or "0", 16)

    @property
    def exec(self) -> int:
        return self.s[EXEC] | self.s[EXEC + 1] << 32

    def scalar(self, o: Operand, bits: int = 32) -> int:
        """The value of an operand that the whole wave shares."""
        if o.kind == "i":
            return int(number(o.at, U64 if bits == 64 else U32))
        if o.kind != "s":
            return 0
        value = self.s[o.at] | (self.s[o.at + 1] << 32 if bits == 64 and o.at not in (M0,) else 0)
        return value if bits == 64 else value & 0xFFFFFFFF

    def set_scalar(self, o: Operand, value: int, bits: int = 32) -> None:
        if o.kind != "s":
            return
        self.s[o.at] = value & 0xFFFFFFFF
        if bits == 64:
            self.s[o.at + 1] = value >> 32 & 0xFFFFFFFF
        if o.at in (EXEC, EXEC + 1):
            self.set_exec(self.exec)

    def set_lanes(self, o: Operand, lanes: Array) -> None:
        """A mask, in as many registers as lanes need; lanes that do not take part are 0."""
        self.set_scalar(o, self.bits(lanes & self.mask), self.lanes)

    def take(self, o: Operand, form: type) -> Array:
        """The value of an operand in each lane."""
        if form is F16:
            is_float = o.kind == "i" and isinstance(o.at, float)
            bits = number(o.at, F32).astype(F16).view(np.uint16) if is_float else self.take(o, U32)
            return np.broadcast_to(bits.astype(np.uint16), self.lanes).copy().view(F16)
        wide = form in (U64, I64, F64)
        if o.kind == "i":
            x = np.broadcast_to(number(o.at, form), self.lanes)
        elif o.kind == "s":
            value = self.scalar(o, 64 if wide else 32)
            x = np.broadcast_to(np.array(value, U64 if wide else U32).view(form), self.lanes)
        elif wide:
            x = (self.v[o.at].astype(U64) | self.v[o.at + 1].astype(U64) << U64(32)).view(form)
        else:
            x = self.v[o.at].view(form)
        if o.absolute or o.negative:  # of a float, whatever the operation takes it for
            sign = (U64 if wide else U32)(1 << (63 if wide else 31))
            bits = np.ascontiguousarray(x).view(U64 if wide else U32)
            bits = bits & ~sign if o.absolute else bits
            x = (bits ^ sign if o.negative else bits).view(form)
        if o.half:
            x = x >> U32(16) if o.half == "h" else x & U32(0xFFFF)
        return x

    def put(self, o: Operand, value: Array) -> None:
        """Writes a value to the lanes that take part."""
        value = np.broadcast_to(value, self.lanes)
        if value.dtype.itemsize == 2:
            value = np.ascontiguousarray(value).view(np.uint16).astype(U32)
        if o.half:
            keep, shift = (0xFFFF, 16) if o.half == "h" else (0xFFFF0000, 0)
            value = self.v[o.at] & U32(keep) | (value.astype(U32) & U32(0xFFFF)) << U32(shift)
        if value.dtype.itemsize == 8:
            words = np.ascontiguousarray(value).view(U64)
            self.v[o.at][self.mask] = (words & U64(0xFFFFFFFF)).astype(U32)[self.mask]
            self.v[o.at + 1][self.mask] = (words >> U64(32)).astype(U32)[self.mask]
        else:
            self.v[o.at][self.mask] = np.ascontiguousarray(value).view(U32)[self.mask]
