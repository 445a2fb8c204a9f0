"""Holds a specialisation, a kernel compiled for certain types and templates, and loads its machine code. This module
does not import the compiler."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import disk_cache
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, Spec, without_values
from quadrants_lab.ir import deep_recursion, nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.weak import has_weak, strong, weak
from quadrants_lab.runtime.arguments.keys import Named, Reads, state, weak_reads
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.autodiff.explain import Note
    from quadrants_lab.backends.launch import Executable
    from quadrants_lab.errors import Given
    from quadrants_lab.frontend.fingerprint import Snapshot
    from quadrants_lab.ir.sizeexpr import SizeExpr
    from quadrants_lab.passes.pipeline import Trace

LARGE = 1000  # a kernel with more statements is large: compiling it to machine code takes a second or more
FORWARD, REVERSE, DUAL = "forward", "reverse", "dual"  # the modes of a kernel; "dual": values and their tangents
BOTH = "both"  # values and gradients in one launch

# Called with "what: part of it" for what is being compiled now, and with "" at the end. While it is set, compiled
# kernels have a trace.
WATCHED: ContextVar[Callable[[str], None] | None] = ContextVar("quadrants_lab_watched", default=None)


class TwoLaunchesError(Exception):
    """Raised if a kernel and its gradient cannot be combined in one kernel."""


@dataclass(slots=True)
class Counter:
    """A loaded kernel that counts something. ``results``: what is counted -> the "ret" buffer with its count. For the
    kernel that counts depths of stacks, what is counted is given as a stack's id."""

    kernel: N.Kernel
    executable: Executable
    results: dict[int, str]
    key: str = ""  # see `ir_key`


@dataclass(slots=True)
class Clock:
    """Seconds that each stage before a specialisation's first launch took: the front end, passes and checks of the IR,
    making machine code, and handing it to the ``driver``; ``whole``: from the first stage to the last. ``began``,
    ``ended``: when, by `time.perf_counter`. ``launched``: whether a launch was recorded."""

    front: float = 0.0
    passes: float = 0.0
    code: float = 0.0
    driver: float = 0.0
    whole: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    launched: bool = False

    def end(self, began: float, driver: float) -> None:
        """Call this when the kernel is loaded. ``driver``: when that began."""
        self.began, self.ended = began, perf_counter()
        self.driver = self.ended - driver
        self.whole += self.driver


# (name with mode, clock) of the kernels that were compiled last
CLOCKS: deque[tuple[str, Clock]] = deque(maxlen=1 << 12)


@dataclass(slots=True)
class SharedStages:
    """The results of the first stages of a compilation, which are the same in every mode of a kernel. ``settings``:
    options, constant, second (see `compile.lowered_kernel`); ``lowered``: the front end's result; ``tasks``: that
    kernel split into tasks without races, None if it came from the disk cache; ``warned``: the warnings so far;
    ``fingerprint``: None if it is incomplete; ``reads``: the ``reads`` of `Lowered`, with weak references to the
    objects."""

    settings: tuple[CompileOptions, bool, bool]
    lowered: Lowered
    tasks: N.Kernel | None
    warned: tuple[Given, ...] = ()
    fingerprint: Snapshot | None = None
    reads: Reads = ()


def _primal(x: Any) -> Any:
    """The field that ``x`` is the gradient or dual of; None if there is none."""
    primal = getattr(x, "primal", None)
    return primal and primal()


class Bindings(Mapping[str, Any]):
    """The ``bindings`` of a `Lowered` (name of a buffer -> field) for a compiled kernel. The fields ``named`` and their
    gradients were passed by the program and end when the program drops them, so they are held weakly; ``lent`` has
    their names in the bindings. The other fields, which the kernel found by names in its source, are kept alive."""

    def __init__(self, bindings: Mapping[str, Any], named: Named) -> None:
        ids = {id(one) for one in named}
        self.lent = {name for name, x in bindings.items() if {id(x), id(_primal(x))} & ids}
        self._fields = {name: weak(x) if name in self.lent else strong(x) for name, x in bindings.items()}

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


@dataclass(frozen=True, slots=True)
class NaiveStacks:
    """What `naive_stack_bytes` computes once for a gradient. ``stacks``: for each stack (bytes of an element, size in
    elements, key of the scope of its value); ``home``: id of a value -> key of its scope; ``unrolled``: the keys of
    unrolled loops."""

    stacks: tuple[tuple[int, SizeExpr, tuple[int, int]], ...]
    home: dict[int, tuple[int, int]]
    unrolled: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Compiled:
    """A compiled kernel. ``lowered``: the front end's result; ``kernel``: the final IR, from which the machine code
    is made; ``returns``: the names of its "ret" buffers."""

    mode: str
    source: FunctionSource
    specs: tuple[Spec, ...]
    options: CompileOptions
    lowered: Lowered
    kernel: N.Kernel
    executable: Executable
    returns: tuple[str, ...]
    counter: Counter | None
    clock: Clock = field(default_factory=Clock)
    trace: Trace | None = None  # the trace of the passes, if it was recorded while they ran
    key: str = ""  # see `ir_key`
    # id of a kernel -> its trace; see `compile.trace_of`, `compile.lowering_of`
    later_traces: dict[int, Trace] = field(default_factory=dict)
    shared: SharedStages | None = None
    # how the disk cache of IR was used: "" if the kernel has no key, else "asked", "stored" or "loaded"
    cached: str = ""
    # weak references to the objects that the kernel was compiled for, see `let_go`
    named: tuple[Callable[[], Any], ...] = ()
    naive: NaiveStacks | None = None  # set when sizes are asked for the first time
    notes: list[Note] | None = None  # notes why values need no stack

    @property
    def reads(self) -> Reads:
        """The attributes whose values the kernel depends on; see `let_go`."""
        return () if self.shared is None else self.shared.reads

    def let_go(self, named: Named) -> None:
        """Replaces the references to the objects ``named``, which the program passed, and to objects in their
        attributes, by weak ones."""
        assert self.shared is not None
        reads, lowered = self.shared.reads or weak_reads(self.lowered.reads), self.lowered
        named = [*named, *(owner for of, _ in reads if has_weak(owner := of()))]
        state(reads, named)
        self.named = tuple(map(weak, named))
        self.specs = tuple(map(without_values, self.specs))
        self.lowered = replace(lowered, bindings=Bindings(lowered.bindings, named), reads=())
        self.shared.reads, self.shared.lowered = reads, self.lowered

    def taken_back(self) -> Lowered:
        """The front end's result, with the objects that `let_go` made weak, as far as they still exist."""
        reads = tuple((owner(), name) for owner, name in self.reads)
        return replace(self.lowered, bindings=dict(self.lowered.bindings), reads=reads or self.lowered.reads)

    def field(self, buffer: str) -> Any:
        """The field that a buffer stands for; for a gradient buffer, the gradient of the field."""
        bindings = self.lowered.bindings
        if buffer in bindings:
            return bindings[buffer]
        for name, b in self.lowered.kernel.buffers.items():
            if buffer in (b.grad, b.dual) and name in bindings:
                return bindings[name].grad if b.grad == buffer else bindings[name].dual
        raise KeyError(buffer)


@deep_recursion.deeply_recursive
def ir_key(kernel: N.Kernel, session: Session) -> str:
    """A hash of the IR without its source positions; "" if the session has no disk cache."""
    if session.cache.folder is None:
        return ""
    from quadrants_lab.ir.text import print_kernel

    deep_recursion.check_depth(deep_recursion.depth_of_block(kernel.body))
    return disk_cache.key(print_kernel(kernel))


@deep_recursion.deeply_recursive
def load_cached(kernel: N.Kernel, options: CompileOptions, session: Session, known: str = "") -> Executable:
    """Loads the kernel. Its machine code comes from the disk cache, or is made now and stored there.

    The cache key is made of the kernel's `ir_key` (``known``, if the caller has it) and of everything else that the
    code depends on. Since it depends on the final IR, it changes when a pass begins to make other IR.
    """
    deep_recursion.check_depth(deep_recursion.depth_of_block(kernel.body))
    cache, backend = session.cache, session.backend
    if cache.folder is None:
        return _load(kernel, lambda: backend.load(kernel, options))
    # opening the device looks for the processor's name in the disk cache; otherwise LLVM would be loaded to find it
    session.device  # noqa: B018
    name = disk_cache.key(known or ir_key(kernel, session), repr(options), backend.target_key())
    return _load(kernel, lambda: backend.load(kernel, options, cache.get(name), cache.keeper(name)))


def _load(kernel: N.Kernel, load: Callable[[], Executable]) -> Executable:
    """Calls ``load``; for a large kernel in such a way that Ctrl-C ends the wait."""
    if kernel.next_id <= LARGE:
        return load()
    from quadrants_lab.runtime.compile.interruption import interruptible

    return interruptible(load)
