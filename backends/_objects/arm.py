"""Instructions of AArch64 that linkers change: their form must be that which the relocation is for. After the "Arm
Architecture Reference Manual" and "ELF for the Arm 64-bit Architecture"."""

from __future__ import annotations

Form = tuple[int, int]  # a mask, and the bits that are left; what the linker fills in is zero

BRANCH: tuple[Form, ...] = ((0x7FFFFFFF, 0x14000000),)  # b, bl
PAGE: tuple[Form, ...] = ((0xFFFFFFE0, 0x90000000),)  # adrp
ADD: tuple[Form, ...] = ((0x7FFFFC00, 0x11000000),)  # add with an immediate operand
# loads and stores at an immediate offset, of 1, 2, 4, 8 and 16 bytes
ACCESS: dict[int, tuple[Form, ...]] = {
    1: ((0xFF3FFC00, 0x39000000), (0xFFBFFC00, 0x3D000000)),
    2: ((0xFB3FFC00, 0x79000000),),
    4: ((0xFB3FFC00, 0xB9000000),),
    8: ((0xFB3FFC00, 0xF9000000),),
    16: ((0xFFBFFC00, 0x3D800000),),
}
OFFSET: tuple[Form, ...] = (*ADD, *(form for forms in ACCESS.values() for form in forms))


def fits(code: bytes, at: int, forms: tuple[Form, ...]) -> bool:
    """Whether an instruction of one of the forms stands at the offset."""
    word = int.from_bytes(code[at : at + 4], "little")
    return at % 4 == 0 and any(word & mask == bits for mask, bits in forms)
