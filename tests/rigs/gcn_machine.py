"""An emulator of AMD's GPUs that executes LLVM's assembly: group by group, wave by wave, all lanes of a wave at once.

It has the instructions of our kernels on gfx90a, gfx942 and gfx1100, after AMD's manuals; others are an error.
Memory is that of this process. There are no delays and no caches, so wait instructions do nothing. Reciprocals and
roots are exact to f32, division instructions compute the quotient in one step, and denormals are kept.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rigs.gcn_lanes import FORMS, vector
from rigs.gcn_text import IDLE, VCC, Instruction, Operand, parse
from rigs.gcn_wave import U32, U64, Wave

# --- what a wave computes -------------------------------------------------------------------------------------------

def _to_signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


_LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "andn2": lambda a, b: a & ~b,
    "and_not1": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b, "or_not1": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
}  # fmt: skip
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def _scalar(w: Wave, i: Instruction) -> bool:
    """Runs an instruction on registers of the wave; False where there is no such instruction."""
    name, args = i.name, i.args
    if name in ("s_flbit_i32", "s_cls_i32"):  # how many of the first bits are the same, the sign not counted twice
        x = _to_signed(w.scalar(args[1]), 32)
        same = 32 - (~x if x < 0 else x).bit_length()
        w.set_scalar(args[0], -1 if same == 32 else same)
        return True
    if name == "s_abs_i32":
        w.set_scalar(args[0], abs(_to_signed(w.scalar(args[1]), 32)))
        w.scc = int(w.scalar(args[0]) != 0)
        return True
    single = re.fullmatch(r"s_(ff1|ctz|bcnt1)_i32_b(32|64)", name)
    if single:
        x = w.scalar(args[1], int(single[2]))
        w.set_scalar(args[0], bin(x).count("1") if single[1] == "bcnt1" else (x & -x).bit_length() - 1)
        w.scc = int(x != 0) if single[1] == "bcnt1" else w.scc
        return True
    if name in ("s_movk_i32", "s_addk_i32", "s_mulk_i32"):  # of 16 bits, which LLVM writes unsigned
        k, x = _to_signed(w.scalar(args[1]) & 0xFFFF, 16), _to_signed(w.scalar(args[0]), 32)
        w.set_scalar(args[0], {"s_movk_i32": k, "s_addk_i32": x + k, "s_mulk_i32": x * k}[name])
        return True
    found = re.fullmatch(r"s_(\w+?)(?:_(saveexec))?_([ubi])(32|64)", name)
    if not found:
        return False
    op, saves, kind, bits = found[1], found[2], found[3], int(found[4])
    full = (1 << bits) - 1
    compare = re.fullmatch(r"cmp(k?)_(\w+)", op)
    if compare:
        a, b = (w.scalar(o, bits) for o in args)
        if kind == "i":  # the constant of a cmpk has 16 bits
            a, b = _to_signed(a, bits), _to_signed(b & 0xFFFF, 16) if compare[1] else _to_signed(b, bits)
        w.scc = int(_ORDER[compare[2]](a, b))
        return True
    if op == "bitcmp0" or op == "bitcmp1":
        bit = w.scalar(args[0], bits) >> (w.scalar(args[1]) % bits) & 1
        w.scc = int(bit == int(op[-1]))
        return True
    a, b = (w.scalar(args[n], bits) if n < len(args) else 0 for n in (1, 2))
    if saves:
        before = w.exec
        w.set_exec(_LOGIC[op](a, before) & full if op in ("and", "or", "xor") else _saved(op, a, before) & full)
        w.set_scalar(args[0], before, bits)
        w.scc = int(w.exec != 0)
        return True
    if op in _LOGIC:
        result = _LOGIC[op](a, b) & full
        w.scc = int(result != 0)
    elif op in ("mov", "cselect"):
        result = a if op == "mov" or w.scc else b
    elif op in ("not", "brev"):
        result = ~a & full if op == "not" else int(f"{a:0{bits}b}"[::-1], 2)
        w.scc = int(result != 0) if op == "not" else w.scc
    elif op in ("add", "addc", "sub", "subb"):
        carry = w.scc if op in ("addc", "subb") else 0
        total = a + b + carry if op[0] == "a" else a - b - carry
        result = total & full
        one, other = _to_signed(a, bits), _to_signed(b, bits)
        signs = one + other if op[0] == "a" else one - other
        w.scc = int(total != result) if kind == "u" else int(signs != _to_signed(result, bits))
    elif op in ("lshl", "lshr", "ashr"):
        n = w.scalar(args[2]) % bits
        result = a << n if op == "lshl" else (a if op == "lshr" else _to_signed(a, bits)) >> n
        w.scc = int(result & full != 0)
    elif op in ("min", "max"):
        value = (lambda x: _to_signed(x, bits)) if kind == "i" else (lambda x: x)
        result = (min if op == "min" else max)(a, b, key=value)
        w.scc = int(result == a)
    elif op == "mul":
        result = a * b
    elif op == "mul_hi":
        result = (a * b if kind == "u" else _to_signed(a, 32) * _to_signed(b, 32)) >> 32
    elif op == "bfe":
        at, n = w.scalar(args[2]) % bits, w.scalar(args[2]) >> 16 & 127
        result = a >> at & ((1 << n) - 1)
        result = _to_signed(result, n) if kind == "i" and n else result
        w.scc = int(result != 0)
    elif op == "bfm":
        result = ((1 << a % bits) - 1) << b % bits
    elif op == "cmov":
        result = a if w.scc else w.scalar(args[0], bits)
    elif op == "lshl2_add" or op == "lshl1_add" or op == "lshl3_add" or op == "lshl4_add":
        result = (a << int(op[4])) + b
        w.scc = int(result > full)
    else:
        return False
    w.set_scalar(args[0], result & full, bits)
    return True


def _saved(op: str, a: int, before: int) -> int:
    """The saveexec forms that are not symmetric: which operand is inverted."""
    return {"andn2": a & ~before, "and_not1": a & ~before, "and_not0": before & ~a, "andn1": before & ~a}[op]


# --- memory ---------------------------------------------------------------------------------------------------------

# bytes, negative where the sign is extended
_SIZES = {
    "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64, "b32": 4, "b64": 8,
    "b96": 12, "b128": 16, "b256": 32, "b512": 64, "ubyte": 1, "u8": 1, "sbyte": -1, "i8": -1, "ushort": 2, "u16": 2,
    "sshort": -2, "i16": -2, "byte": 1, "b8": 1, "short": 2, "b16": 2,
}  # fmt: skip
_ATOMIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "swap": lambda a, b: b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "min": min, "max": max, "smin": min, "smax": max, "umin": min,
    "umax": max,
}  # fmt: skip


def _memory(w: Wave, i: Instruction) -> bool:
    """Runs an instruction on memory; False where there is no such instruction."""
    name, args = i.name, i.args
    kind, _, rest = name.partition("_")
    op, _, what = rest.partition("_")
    m = w.machine
    if name.startswith(("s_load_", "s_buffer_load_")):
        at = w.scalar(args[1], 64) + sum(w.scalar(o) for o in args[2:]) + i.notes.get("offset", 0)
        for n, word in enumerate(np.frombuffer(m.read(at, _SIZES[what]), U32)):
            w.set_scalar(Operand("s", args[0].at + n), int(word))
        return True
    if name == "ds_bpermute_b32":
        where = ((w.take(args[1], U32) + U32(i.notes.get("offset", 0))) >> U32(2)) % U32(w.lanes)
        w.put(args[0], np.where(w.mask, w.take(args[2], U32), U32(0))[where])
        return True
    if kind not in ("global", "ds"):
        return False
    lanes = np.flatnonzero(w.mask)
    offset = i.notes.get("offset", 0)

    def places(vector: Operand, base: Operand) -> list[int]:
        if kind == "ds":
            return [int(x) + offset for x in w.take(vector, U32)]
        if base.kind == "s":
            return [w.scalar(base, 64) + int(x) + offset for x in w.take(vector, U32)]
        return [int(x) + offset for x in w.take(vector, U64)]

    none = Operand("")
    if op in ("load", "read"):
        at = places(args[1], args[2] if kind == "global" else none)
        if what.startswith("d16_"):  # to one half of a register, the other stays
            half = args[0]._replace(half="h" if what.startswith("d16_hi_") else args[0].half or "l")
            part = what.removeprefix("d16_").removeprefix("hi_")
            values = np.zeros(w.lanes, U32)
            for lane in lanes:
                data = m.local(at[lane], 2) if kind == "ds" else m.read(at[lane], abs(_SIZES[part]))
                values[lane] = int.from_bytes(data, "little", signed=_SIZES[part] < 0) & 0xFFFF
            w.put(half, values)
            return True
        size = _SIZES[what]
        for lane in lanes:
            data = m.local(at[lane], size) if kind == "ds" else m.read(at[lane], abs(size))
            number = int.from_bytes(data, "little", signed=size < 0) & (1 << 8 * max(4, abs(size))) - 1
            for n in range(max(1, abs(size) // 4)):
                w.v[args[0].at + n][lane] = number >> 32 * n & 0xFFFFFFFF
        return True
    if op in ("store", "write"):
        high = what.startswith("d16_hi_")  # of the upper half of the register
        size = _SIZES[what.removeprefix("d16_hi_")]
        at = places(args[0], args[2] if kind == "global" else none)
        for lane in lanes:
            if high:
                data = (int(w.v[args[1].at][lane]) >> 16).to_bytes(2, "little")
            elif args[1].kind == "v":
                data = b"".join(int(w.v[args[1].at + n][lane]).to_bytes(4, "little") for n in range(max(1, size // 4)))
            else:
                data = w.scalar(args[1]).to_bytes(4, "little")
            m.set_local(at[lane], data[:size]) if kind == "ds" else m.write(at[lane], data[:size])
        return True
    if op != "atomic":
        return False
    parts = what.split("_")
    wide = parts[-1] in ("x2", "b64", "u64", "i64", "f64")
    signed = parts[0] in ("smin", "smax")
    form = np.dtype(FORMS.get(parts[-1]) or FORMS[("i" if signed else "u") + ("64" if wide else "32")])
    returns = len(args) == 4
    vector, data, base = args[1:] if returns else args
    at = places(vector, base)
    words = 2 if wide else 1
    for lane in lanes:  # one after the other, as the memory does it
        given = [np.array([w.v[data.at + n][lane] for n in range(k, k + words)], U32).view(form)[0]
                 for k in ((0, words) if parts[0] == "cmpswap" else (0,))]  # fmt: skip
        old = np.frombuffer(m.read(at[lane], form.itemsize), form)[0]
        if parts[0] == "cmpswap":
            new = given[0] if old == given[1] else old
        else:
            new = form.type(_ATOMIC[parts[0]](old, given[0]))
        m.write(at[lane], new.tobytes())
        if returns:
            for n, word in enumerate(np.frombuffer(old.tobytes(), U32)):
                w.v[args[0].at + n][lane] = word
    return True


# --- running --------------------------------------------------------------------------------------------------------

_CONDITIONS: dict[str, Callable[[Wave], bool]] = {
    "s_branch": lambda w: True, "s_cbranch_scc0": lambda w: not w.scc, "s_cbranch_scc1": lambda w: bool(w.scc),
    "s_cbranch_execz": lambda w: not w.exec, "s_cbranch_execnz": lambda w: bool(w.exec),
    "s_cbranch_vccz": lambda w: not w.scalar(Operand("s", VCC), w.lanes),
    "s_cbranch_vccnz": lambda w: bool(w.scalar(Operand("s", VCC), w.lanes)),
}  # fmt: skip


class Machine:
    """The programs of an assembly text for a chip whose waves have ``lanes`` threads. ``allowed`` says whether an
    address may be accessed; ``counts``: how often each instruction ran."""

    def __init__(self, assembly: str, lanes: int, allowed: Callable[[int, int], bool]) -> None:
        self.programs, self.labels, self.directives = parse(assembly)
        self.lanes = lanes
        self.allowed = allowed
        self.counts: dict[str, int] = {}
        self._lds = bytearray()

    def read(self, at: int, nbytes: int) -> bytes:
        assert self.allowed(at, nbytes), f"{nbytes} bytes are read at {at:#x}, which is not in any memory"
        return ctypes.string_at(at, nbytes)

    def write(self, at: int, data: bytes) -> None:
        assert self.allowed(at, len(data)), f"{len(data)} bytes are written at {at:#x}, which is not in any memory"
        ctypes.memmove(at, data, len(data))

    def local(self, at: int, nbytes: int) -> bytes:
        assert 0 <= at <= len(self._lds) - abs(nbytes)
        return bytes(self._lds[at : at + abs(nbytes)])

    def set_local(self, at: int, data: bytes) -> None:
        assert 0 <= at <= len(self._lds) - len(data)
        self._lds[at : at + len(data)] = data

    def run(self, name: str, groups: int, group: int, arguments: int) -> None:
        """Runs ``groups`` groups of ``group`` threads; ``arguments``: address of the kernel's arguments."""
        packet = np.zeros(16, U32)  # of the dispatch, of which threads along x are read
        packet[3] = groups * group
        allowed, self.allowed = self.allowed, lambda at, n: (
            allowed(at, n) or packet.ctypes.data <= at < packet.ctypes.data + 64
        )
        try:
            with np.errstate(all="ignore"):
                for number in range(groups):
                    self._run_group(name, number, group, arguments, packet.ctypes.data)
        finally:
            self.allowed = allowed

    def _run_group(self, name: str, number: int, group: int, arguments: int, packet: int) -> None:
        about = self.directives[name]
        self._lds = bytearray(b"\xcd" * about["group_segment_fixed_size"])
        assert not about["private_segment_fixed_size"], "threads have no memory of their own here"
        waves = []
        for first in range(0, group, self.lanes):
            w = Wave(self, self.lanes, first, min(self.lanes, group - first))
            at = 4 if about.get("user_sgpr_private_segment_buffer") else 0
            for key, value in (("dispatch_ptr", packet), ("queue_ptr", 0), ("kernarg_segment_ptr", arguments)):
                if about.get(f"user_sgpr_{key}"):
                    w.s[at], w.s[at + 1] = value & 0xFFFFFFFF, value >> 32
                    at += 2
            w.s[about["user_sgpr_count"]] = number
            waves.append(self._steps(w, name))
        while waves:  # from barrier to barrier
            waves = [w for w in waves if next(w, None) is not None]

    def _steps(self, w: Wave, name: str) -> Iterator[bool]:
        """Runs a wave; hands over at each barrier."""
        program, labels = self.programs[name], self.labels[name]
        at = 0
        while True:
            i = program[at]
            at += 1
            self.counts[i.name] = self.counts.get(i.name, 0) + 1
            if i.name == "s_endpgm":
                return
            if i.name == "s_barrier":
                yield True
            elif i.name in _CONDITIONS:
                if _CONDITIONS[i.name](w):
                    at = labels[next(iter(i.notes))]
            elif not (IDLE.fullmatch(i.name) or vector(w, i) or _memory(w, i) or _scalar(w, i)):
                raise NotImplementedError(i.text)
