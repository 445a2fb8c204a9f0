"""Options that change the code of a kernel; part of every cache key."""

from __future__ import annotations

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i32


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """``default_ip`` / ``default_fp``: dtypes of literals and of untyped arithmetic. ``fast_math`` permits
    contraction, reassociation and approximate functions (never nnan or ninf). ``debug`` checks integer division and
    every push. It implies ``asserts``, which evaluates the user's asserts, ``check_out_of_bound``, which checks
    indices, and ``check_races``, under which iterations of parallel loops leave marks where they read and write; with
    ``suspect_races`` small marks tell first whether there may be a race at all. ``aliases``: array arguments may be the
    same memory; a launch whose arguments overlap asks for that. ``ad_stack_size`` forces every adstack to that many
    slots (0: sized by analysis). ``ad_unroll``: so many trips of a loop may be one for the gradient, where it keeps much
    a trip: of loops over at most 32-bit floats, and of others. ``on_host``: one thread runs
    a block of threads, and tasks over sparse layouts run over cells."""

    default_ip: DType = i32
    default_fp: DType = f32
    fast_math: bool = True
    debug: bool = False
    check_out_of_bound: bool = False
    check_races: bool = False
    aliases: bool = False
    suspect_races: bool = False
    asserts: bool = False
    ad_stack_size: int = 0
    ad_unroll: tuple[int, int] = (1, 1)
    on_host: bool = False
    verify: bool = False  # run the verifier after every pass
