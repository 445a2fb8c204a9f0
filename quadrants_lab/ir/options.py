"""Defines the options that change the code of a kernel. They are a part of every cache key."""

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i32


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of one compilation. ``default_ip`` and ``default_fp`` are the dtypes of literals and of untyped
    arithmetic. ``fast_math`` permits contraction, reassociation and approximate functions, but assumes neither the
    absence of NaN nor of infinities.

    ``reproducible``, without fast_math: all kernels that compute the same value get the same bits.

    ``debug`` checks integer divisions and all pushes. It implies ``asserts`` (check the user's asserts),
    ``check_out_of_bound`` (check indices) and ``check_races`` (iterations of parallel loops leave marks where they read
    and write); with ``suspect_races`` small marks first tell whether there may be a race.

    ``aliases``: array arguments may share memory; a launch whose arguments overlap needs this. ``ad_stack_size``
    forces every adstack to that many slots (0: sized by analysis). ``ad_unroll``: how many trips of a loop the
    gradient may join to one, for loops over floats of at most 32 bits and for other loops. ``unrolling_limit``: static
    loops of more trips get a warning (0: none). ``on_host``: one thread
    runs a block of threads, and tasks over sparse layouts run over cells.
    """

    default_ip: DType = i32
    default_fp: DType = f32
    fast_math: bool = True
    reproducible: bool = False
    debug: bool = False
    check_out_of_bound: bool = False
    check_races: bool = False
    aliases: bool = False
    suspect_races: bool = False
    asserts: bool = False
    ad_stack_size: int = 0
    unrolling_limit: int = 0
    ad_unroll: tuple[int, int] = (1, 1)
    on_host: bool = False
    verify: bool = False  # run the verifier after every pass

    @property
    def asserting(self) -> bool:
        """Whether the user's asserts are checked, and that no range has a step of 0."""
        return self.debug or self.asserts
