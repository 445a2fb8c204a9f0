"""One specialisation of a kernel, loaded: what a launch needs of it. The compiler that makes one is not imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import disk_cache
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, Spec
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir import room
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable
    from quadrants_lab.errors import Given
    from quadrants_lab.frontend.seen import Answers
    from quadrants_lab.passes.pipeline import Trace

LARGE = 1000  # statements of a kernel whose machine code takes a second or more
FORWARD, REVERSE, DUAL = "forward", "reverse", "dual"  # dual: values and their tangents
BOTH = "both"  # a launch and its gradient in one sweep


@dataclass(slots=True)
class Counter:
    """A kernel that counts, loaded; ``results``: number of what is counted -> the "ret" buffer that gets the count. Of
    the counting slice these are stack ids and depths."""

    kernel: N.Kernel
    executable: Executable
    results: dict[int, str]
    key: str = ""  # see `ir_key`


@dataclass(slots=True)
class Clock:
    """Seconds on the way to a specialisation's first launch, all by one clock: the front end, the passes and checks of
    the IR, machine code, and the ``driver``, which is handed it; ``whole``: from the first to the last. ``launched``: a
    launch of it was recorded."""

    front: float = 0.0
    passes: float = 0.0
    code: float = 0.0
    driver: float = 0.0
    whole: float = 0.0
    launched: bool = False


@dataclass(slots=True)
class Begun:
    """What is the same in every mode of a kernel. ``of``: its options, and how derivatives flow; ``lowered``: what the
    front end made; ``tasks``: the same as tasks without races; ``warned``: what was told on the way; ``answers``: what
    it was made of, where that is known for certain."""

    of: tuple[CompileOptions, bool, bool]
    lowered: Lowered
    tasks: N.Kernel
    warned: tuple[Given, ...] = ()
    answers: Answers | None = None


@dataclass(slots=True)
class Compiled:
    """One specialisation, loaded. ``kernel`` is the IR that became code; ``lowered`` what the front end made."""

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
    recorded: Trace | None = None  # of the passes that made it, where somebody recorded
    key: str = ""  # see `ir_key`
    looked: dict[int, Trace] = field(default_factory=dict)  # what was made for who looks, by kernel's id
    begun: Begun | None = None  # where this process compiled it

    def field(self, buffer: str) -> Any:
        """The field behind a buffer; that of ``x.grad`` is the gradient of the one behind ``x``."""
        bindings = self.lowered.bindings
        if buffer in bindings:
            return bindings[buffer]
        for name, b in self.lowered.kernel.buffers.items():
            if b.grad == buffer and name in bindings:
                return bindings[name].grad
            if b.dual == buffer and name in bindings:
                return bindings[name].dual
        raise KeyError(buffer)


@room.roomy
def ir_key(kernel: N.Kernel, session: Session) -> str:
    """A hash of the IR, without spans; "" where nothing is kept on disk."""
    if session.cache.folder is None:
        return ""
    from quadrants_lab.ir.text import print_kernel

    room.need(room.depth_of_block(kernel.body))
    return disk_cache.key(print_kernel(kernel))


@room.roomy
def load_cached(kernel: N.Kernel, options: CompileOptions, session: Session, known: str = "") -> Executable:
    """The loaded kernel: its object code from the disk cache, or made now and put there.

    The key is the `ir_key` of the kernel as it goes to the backend (``known``: where it is known already), and
    everything else that the code depends on; so a change of any pass is a change of key.
    """
    room.need(room.depth_of_block(kernel.body))
    cache, backend = session.cache, session.backend
    if cache.folder is None:
        return _load(kernel, lambda: backend.load(kernel, options))
    session.device  # noqa: B018  # asks the disk, before anybody asks LLVM, what the processor is
    name = disk_cache.key(known or ir_key(kernel, session), repr(options), backend.target_key())
    return _load(kernel, lambda: backend.load(kernel, options, cache.get(name), cache.keeper(name)))


def _load(kernel: N.Kernel, load: Callable[[], Executable]) -> Executable:
    """Of a large kernel where it can be interrupted."""
    if kernel.next_id <= LARGE:
        return load()
    from quadrants_lab.runtime.compile.interruptible import interruptible

    return interruptible(load)
