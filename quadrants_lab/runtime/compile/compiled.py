"""A compiled specialisation of a kernel, as a launch needs it. This module does not import the compiler."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from quadrants_lab.backends import disk_cache, forks
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, Spec, without_values
from quadrants_lab.ir import deep_recursion, nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.weak import has_weak, weak
from quadrants_lab.runtime.arguments.keys import Named, Reads, state, weak_reads
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.autodiff.explain import Note
    from quadrants_lab.backends.launch import Executable
    from quadrants_lab.errors import Given
    from quadrants_lab.frontend.fingerprint import Snapshot
    from quadrants_lab.ir.sizeexpr import SizeExpr
    from quadrants_lab.passes.pipeline import Trace

LARGE = 1000  # statements; machine code for a larger kernel takes a second or more
FORWARD, REVERSE, DUAL = "forward", "reverse", "dual"  # dual: values and their tangents
BOTH = "both"  # values and gradients in one launch

# called with "what: part of it" for what is being compiled, and with "" at its end; if set, compiled kernels keep a
# trace
WATCHED: ContextVar[Callable[[str], None] | None] = ContextVar("quadrants_lab_watched", default=None)


class TwoLaunchesError(Exception):
    """The kernel and its gradient cannot be one kernel."""


@dataclass(slots=True)
class Counter:
    """A loaded kernel that counts. ``results``: by the number of what is counted, the "ret" buffer for its count. In
    the counting slice the number is a stack's id, and the count is its depth."""

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


CLOCKS: deque[tuple[str, Clock]] = deque(maxlen=1 << 12)  # for the last compiled kernels, by name and mode


@dataclass(slots=True)
class SharedStages:
    """The first stages of a compile, which are the same in every mode of a kernel. ``settings``: options, constant,
    second (see `compile.lowered_kernel`); ``lowered``: the front end's result; ``tasks``: that result as tasks without
    races, None for a kernel from the disk cache; ``warned``: the warnings so far; ``fingerprint``: None if it is
    incomplete; ``reads``: the ``reads`` of `Lowered`, with weak references to the objects."""

    settings: tuple[CompileOptions, bool, bool]
    lowered: Lowered
    tasks: N.Kernel | None
    warned: tuple[Given, ...] = ()
    fingerprint: Snapshot | None = None
    reads: Reads = ()


def _it(x: Any) -> Any:
    return x


def _primal(x: Any) -> Any:
    """The field whose gradient or dual ``x`` is; None if there is none."""
    primal = getattr(x, "primal", None)
    return primal and primal()


class Bindings(Mapping[str, Any]):
    """`Lowered.bindings` for a compiled kernel. Some fields, ``named``, and their gradients belong to the program, and
    end when the program drops them; ``lent`` has their names. The kernel found the other fields by names in its source,
    and keeps them alive."""

    def __init__(self, bindings: Mapping[str, Any], named: Named) -> None:
        ids = {id(one) for one in named}
        self.lent = {name for name, x in bindings.items() if {id(x), id(_primal(x))} & ids}
        self._fields = {name: weak(x) if name in self.lent else partial(_it, x) for name, x in bindings.items()}

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


@dataclass(frozen=True, slots=True)
class NaiveStacks:
    """What `naive_stack_bytes` finds out about a gradient, once. ``stacks``: for each stack the bytes of an element,
    its size, and the key of its value's scope; ``home``: this key for each value; ``unrolled``: keys of unrolled
    loops."""

    stacks: tuple[tuple[int, SizeExpr, tuple[int, int]], ...]
    home: dict[int, tuple[int, int]]
    unrolled: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Compiled:
    """``lowered``: the front end's result; ``kernel``: the IR of the machine code; ``returns``: its "ret" buffers."""

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
    later_traces: dict[int, Trace] = field(default_factory=dict)  # see `compile.trace_of`, `compile.lowering_of`
    shared: SharedStages | None = None
    cached: str = ""  # how the disk cache of IR was used: "" if there is no key, else "asked", "stored" or "loaded"
    named: tuple[Callable[[], Any], ...] = ()  # weak references to the objects that it was compiled for, see `let_go`
    naive: NaiveStacks | None = None  # set once somebody has asked for sizes
    notes: list[Note] | None = None  # why values need no stack

    @property
    def reads(self) -> Reads:
        """The attributes on whose values the kernel depends; see `let_go`."""
        return () if self.shared is None else self.shared.reads

    def let_go(self, named: Named) -> None:
        """From now on keeps only weak references to the objects ``named``, which the program passed, and to the objects
        that their attributes refer to."""
        assert self.shared is not None
        reads, lowered = self.shared.reads or weak_reads(self.lowered.reads), self.lowered
        named = [*named, *(owner for of, _ in reads if has_weak(owner := of()))]
        state(reads, named)
        self.named = tuple(map(weak, named))
        self.specs = tuple(map(without_values, self.specs))
        self.lowered = replace(lowered, bindings=Bindings(lowered.bindings, named), reads=())
        self.shared.reads, self.shared.lowered = reads, self.lowered

    def taken_back(self) -> Lowered:
        """The front end's result with the objects that `let_go` released, as far as they still exist."""
        reads = tuple((owner(), name) for owner, name in self.reads)
        return replace(self.lowered, bindings=dict(self.lowered.bindings), reads=reads or self.lowered.reads)

    def field(self, buffer: str) -> Any:
        """The field behind a buffer; for the gradient buffer of a field, that field's gradient."""
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
    """The loaded kernel. Its machine code comes from the disk cache, or is made now and put there.

    The key consists of the kernel's `ir_key` (``known``, if the caller has it) and everything else that the code
    depends on. It is a key of the final IR: if a pass now makes other IR than before, the key differs, too.
    """
    deep_recursion.check_depth(deep_recursion.depth_of_block(kernel.body))
    cache, backend = session.cache, session.backend
    if cache.folder is None:
        return _load(kernel, lambda: backend.load(kernel, options))
    # looks for the processor's name in the disk cache; otherwise LLVM would be loaded to find it
    session.device  # noqa: B018
    name = disk_cache.key(known or ir_key(kernel, session), repr(options), backend.target_key())
    return _load(kernel, lambda: backend.load(kernel, options, cache.get(name), cache.keeper(name)))


def _load(kernel: N.Kernel, load: Callable[[], Executable]) -> Executable:
    """Loads a large kernel in such a way that Ctrl-C ends the wait."""
    return load() if kernel.next_id <= LARGE else interruptible(load)


# --- waiting for a compiler in such a way that Ctrl-C ends the wait ----------------------------------------------
# A compiler written in C notices no signal before it is done, which may take a minute. So it runs on another thread
# while the main thread waits. On Ctrl-C the main thread continues at once, and the other thread's result is dropped.

T = TypeVar("T")
_one = forks.lock()  # held by the thread that compiles: the compiler is not reentrant


def interruptible(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises; KeyboardInterrupt as soon as the main thread is interrupted. ``work`` must take
    no lock that the caller holds."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: list[T] = []
    failed: list[BaseException] = []
    dropped = threading.Event()
    context = copy_context()

    def run() -> None:
        with _one:
            try:
                if not dropped.is_set():
                    found.append(context.run(work))
            except BaseException as e:
                failed.append(e)

    thread = forks.start(run, name="compiler")
    if thread is None:
        return work()
    try:
        while thread.is_alive():
            thread.join(0.1)
    except BaseException:
        dropped.set()
        raise
    if failed:
        raise failed.pop()  # popped, so that no variable of this frame keeps the error, whose traceback keeps the frame
    return found[0]
