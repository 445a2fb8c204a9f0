"""Implements `qd.ad.FwdMode`, in which kernels compute tangents along with their values (forward mode)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.autodiff.diagnostics import warn
from quadrants_lab.errors import QuadrantsAssertionError, QuadrantsRuntimeError, QuadrantsWarning, render
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.derivatives import check_has_derivative
from quadrants_lab.runtime import session
from quadrants_lab.runtime.compile.specialisation import REVERSE
from quadrants_lab.runtime.memory.memory import THREAD, Memory
from quadrants_lab.runtime.observe.observers import MODE, Scope, launching
from quadrants_lab.runtime.tape.dead_paths import DeadPaths
from quadrants_lab.runtime.tape.tracked import Tracked, follow
from quadrants_lab.runtime.tape.written import Overwritten, Writes, gradient_warning

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class _UsedFields(Writes):
    """Observes which fields with duals launches use. Elements of these fields that Python overwrites become constants:
    their tangents are set to 0 before the next launch. ``clears``: a dual that another thread has used is set to 0
    before its first use here."""

    def __init__(self, clears: bool) -> None:
        self.clears = clears
        self.followed: dict[int, tuple[Dense, Tracked]] = {}  # by the id of the memory
        super().__init__()

    def clear(self) -> None:
        for _, tracked in self.followed.values():
            tracked.unfollow()
        self.followed = {}
        self.known: set[int] = set()  # ids of memory that Python overwrote
        self.overwritten = Overwritten("dual")
        self.by_hand: dict[str, Plan] = {}  # gradients that the program launched itself
        self.dead_paths = DeadPaths("dual")
        super().clear()

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        self.clear_tangents()
        duals = {b.dual for b in plan.kernel.buffers.values()} if self.clears else ()
        for name, memory in plan.memories(args).items():
            if name in duals and memory.owner != THREAD.number:
                memory.write(..., 0)
        if self.overwritten.names:
            self.overwritten.launched(plan, args)

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        super().after(plan, args, token, failed)
        if not failed:
            self.dead_paths.launched(plan, args)
            if plan.compiled.mode == REVERSE and not plan.owner.constant:
                self.by_hand.setdefault(plan.kernel.name, plan)
        for _, tracked in self.followed.values():
            tracked.update_shadow()
        names = {id(memory): name for name, memory in plan.memories(args).items()}
        for field in plan.session.differentiable:
            memory = field._memory
            if field.has_dual() and id(memory) in names and id(memory) not in self.followed:
                self.followed[id(memory)] = field, follow(memory, names[id(memory)])

    def clear_tangents(self) -> None:
        """Sets the tangents of elements that Python wrote to to 0, and notes fields that no launch wrote."""
        for key, (field, tracked) in self.followed.items():
            if tracked.shadow is not None:
                tracked.compare()
            written, tracked.written = tracked.written, []
            if written and key not in self.written and key not in self.known:
                self.known.add(key)
                self.overwritten.names[key] = tracked.name
            for where, _ in written:
                field.dual._memory.write(where, 0)


class FwdMode:
    """``with qd.ad.FwdMode(loss, param, seed): ...`` computes the derivatives of all values along ``seed``.

    ``param`` is a field with a dual. ``seed`` is its tangent: a number for each entry, in row-major order or in the
    shape of the field; it may be left out for a 0-d field, and is then 1. ``loss`` is a field with a dual, or a list of
    them: after each launch ``loss.dual`` is the Jacobian of loss with respect to param, times ``seed``. With
    ``clear_gradients`` all duals of the session start at 0, as gradients do under a `Tape`. Values that Python writes
    over fields which launches have used are constants. At the end ``param.dual`` is set to 0.
    """

    def __init__(
        self, loss: Any, param: Any, seed: Sequence[float] | npt.NDArray[Any] | None = None,
        clear_gradients: bool = True,
    ) -> None:  # fmt: skip
        self.losses = list(by_key(loss).values())
        self.param = param
        self.clear_gradients = clear_gradients
        for x in self.losses:
            check_has_derivative(x, "the loss of FwdMode", "QL2095", "dual")
        check_has_derivative(param, "the param of FwdMode", "QL2095", "dual")
        self.seed = seed_of(param, seed)
        self._open: ExitStack | None = None
        self._writes = _UsedFields(clear_gradients)

    def __enter__(self) -> FwdMode:
        if self._open is not None:
            raise QuadrantsRuntimeError("this FwdMode is already active", code="QL2092")
        if MODE.get() == "second":
            raise QuadrantsRuntimeError(
                "FwdMode does not work inside of hessian_vector",
                code="QL2103",
                help="hessian_vector computes tangents itself; open the FwdMode before or after it",
            )
        now = session.current()
        if self.clear_gradients:
            clear_all("dual", now, THREAD.number)
        self.param.dual.from_numpy(self.seed)
        self._writes.clear()
        scope = Scope("FwdMode", "dual", self._writes, now)
        with ExitStack() as opened:
            opened.enter_context(launching("dual"))
            opened.callback(scope.end)
            scope.begin()
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        self._open.close()
        self._open = None
        self._writes.clear_tangents()
        self.param.dual.fill(0)
        if kind is None:
            for loss in self.losses:
                if not self._writes.wrote(loss.dual._memory):
                    warn_unreached("FwdMode", loss, self._writes, stacklevel=3)
            warn([gradient_warning(plan, "dual") for plan in self._writes.by_hand.values()])
        self._writes.clear()


def clear_all(which: str, now: session.Session, thread: int | None = None) -> None:
    """Sets the gradients ("grad") or duals ("dual") of all fields and ndarrays of a session to 0. ``thread``: only
    those whose owner has this number.

    Memory that was not written since it was last set to 0 is skipped. Versions tell this, unless other libraries have
    memory of fields, or an observer wants to know which fields Python writes."""
    found, watched = now.differentiable.known, now.exported or now.field_observers
    known: list[Memory] | None = None if watched else found.get(which)
    if known is None:
        derivatives = [x for x in (getattr(owner, which) for owner in now.differentiable) if x]
        for x in derivatives:
            if x.placed and thread in (None, x._memory.owner):
                x.fill(0)
        if not watched and all(x.placed and not x._memory.foreign for x in derivatives):
            found[which] = [x._memory for x in derivatives]
        return
    for memory in known:
        if memory.version != memory.cleared and (thread is None or memory.owner == thread):
            memory.fill(0, memory.owner)


# by how a loss was written: what no kernel did for the loss, and what to do
_UNREACHED = {
    "FwdMode": ("gives a tangent to its loss", "what it computes depends on no field with a dual"),
    "Tape": ("reads anything with a gradient for its loss", "make {} with needs_grad=True"),
}


def warn_unreached(what: str, loss: Dense, writes: Writes, stacklevel: int, read: Sequence[str] = ()) -> None:
    """Warns that no launch under ``what`` gives the loss a derivative, or takes one on to what was ``read``; located at
    the user's with statement."""
    launched = f"it launched {', '.join(dict.fromkeys(writes.kernels))}" if writes.kernels else "it launched no kernel"
    problem, cure = "writes to its loss", "write the loss in a kernel inside the with"
    if writes.wrote(loss._memory):
        problem, cure = _UNREACHED.get(what, _UNREACHED["Tape"])
        cure = cure.format(", ".join(read) or "what the loss depends on")
    text = render(
        "QL2096",
        f"no kernel launched under this {what} {problem} {loss!r}: every derivative is 0",
        help=f"{launched}; {cure}",
        kind="warning",
    )
    warnings.warn(text, QuadrantsWarning, stacklevel=stacklevel)


def by_key(given: Any) -> Mapping[Any, Any]:
    """``given`` as a dict: a dict itself; the entries of a list, tuple or array by index; any other object under the
    key None."""
    match given:
        case Mapping():
            return given
        case list() | tuple() | np.ndarray():
            return dict(enumerate(given))
    return {None: given}


def seed_of(param: Dense, seed: Any, name: str = "seed") -> npt.NDArray[Any]:
    """The seed as an array in the shape of ``param``. ``name`` is the name of the argument, for errors."""
    shape = param.shape + param.element_shape
    if seed is None:
        if np.prod(shape) != 1:
            raise QuadrantsRuntimeError(
                f"`{name}` is not set for {param!r}, which has more than one entry",
                code="QL2095",
                help="give a number for each entry: [0, 0, 1] is the derivative by the third one, "
                "[1, 1, 1] that along all three",
            )
        seed = np.ones(shape)
    values = np.asarray(seed, param.dtype.numpy)
    if values.size != int(np.prod(shape)) or (values.ndim > 1 and values.shape != shape):
        raise QuadrantsAssertionError(
            f"`{name}` must have a number for each entry of {param!r}, it has shape {values.shape}", code="QL2095"
        )
    return values.reshape(shape)
