"""Implements `qd.ad.grad_replaced`, `grad_for` and `no_grad`, by which functions replace the gradients of kernels
under a Tape."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial, update_wrapper, wraps
from pathlib import Path
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.kernel import Func, Launchable
from quadrants_lab.runtime import session
from quadrants_lab.runtime.observe.observers import MODE, OBSERVERS, constants, differentiating
from quadrants_lab.runtime.tape.program import Calls
from quadrants_lab.runtime.tape.recorder import Launches


class Replaced:
    """A Python function with a custom gradient: a Tape calls the user's function ``grad`` instead of the gradients of
    the kernels that this one launches. ``grad`` is None until `grad_for` has set it."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.grad: Callable[..., Any] | None = None
        update_wrapper(self, fn)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = update_wrapper(partial(self, instance), self.fn)
        bound.__dict__["grad"] = partial(self._call_grad, instance)
        return bound

    def _call_grad(self, *args: Any, **kwargs: Any) -> Any:
        if self.grad is None:
            raise QuadrantsRuntimeError(f"{self!r} has no gradient", code="QL2097")
        return self.grad(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tapes = [o for o in OBSERVERS.get() if isinstance(o, Launches)]
        for calls in (o for o in OBSERVERS.get() if isinstance(o, Calls)):
            calls.why_not = f"{self.fn.__name__} has a custom gradient"
        if tapes and self.grad is None:
            raise QuadrantsRuntimeError(
                f"{self.fn.__qualname__} is called under a Tape and has no gradient",
                code="QL2097",
                help=f"decorate one with @qd.ad.grad_for({self.fn.__name__})",
            )
        if MODE.get() == "second":
            raise QuadrantsRuntimeError(
                f"{self.fn.__qualname__} has a custom gradient, and no second derivative",
                code="QL2103",
                help="leave grad_replaced out, or compare gradients at two points",
            )
        touched: list[Any] = []
        for tape in tapes:
            tape.pause()
        try:
            with session.current().observing_fields(touched.append) if tapes else nullcontext():
                value = self.fn(*args, **kwargs)
        finally:
            for tape in tapes:
                tape.resume()
        for tape in tapes:
            tape.insert(self, args, kwargs, primals(touched))
        return value

    def reproduce(self, path: str | Path, *args: Any, **kwargs: Any) -> Path:
        """Writes a script with the function, its gradient, the kernels that both launch, and their data as they are
        now. The script compares the custom gradient with finite differences; see `Kernel.reproduce`."""
        from quadrants_lab.lang.reproduce import reproduce

        return reproduce(path, self, args, kwargs, True)

    def __repr__(self) -> str:
        return f"<grad_replaced {self.fn.__qualname__}>"


def primals(given: Iterable[Any]) -> list[Dense]:
    """The fields and ndarrays among the objects, except those that are gradients of others."""
    found = {id(x): x for x in given if isinstance(x, Dense)}
    for x in session.current().differentiable:
        found.pop(id(x.grad), None)
    return list(found.values())


def grad_replaced(func: Callable[..., Any]) -> Replaced:
    """Decorates a Python function whose gradient under a Tape is another function, which is decorated with `grad_for`.
    The kernels that it launches are not differentiated."""
    return Replaced(_python_function(func, "grad_replaced"))


def grad_for(primal: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a Python function the gradient of ``primal``, which is decorated with `grad_replaced`. At the end of its
    ``with``, a Tape calls the gradient with the arguments of ``primal``; memory is then as ``primal`` left it."""
    if not isinstance(primal, Replaced):
        kind = "a kernel" if isinstance(primal, Launchable) else f"{primal!r}"
        raise QuadrantsRuntimeError(
            f"grad_for takes a **python** function decorated with @qd.ad.grad_replaced, not {kind}",
            code="QL2097",
            help="call the kernel in a Python function and decorate that with @qd.ad.grad_replaced",
        )

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        if primal.grad is not None:
            what = f"{primal!r} has the gradient {primal.grad.__qualname__} already"
            raise QuadrantsRuntimeError(what, code="QL2097")
        primal.grad = _python_function(func, "grad_for")
        return func

    return decorate


def no_grad(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a kernel, or the kernels that a Python function launches, compute constants: under a Tape and in FwdMode no
    derivative flows through what they write. The ``grad`` of the result does nothing."""
    fn = func if isinstance(func, Launchable) else _python_function(func, "no_grad")
    method = getattr(fn, "method", False)

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with constants() if OBSERVERS.get() or MODE.get() != "forward" else nullcontext():
            return fn.__get__(args[0])(*args[1:], **kwargs) if method else fn(*args, **kwargs)

    call.__dict__["grad"] = lambda *args, **kwargs: None
    return call


def _python_function(func: Any, what: str) -> Callable[..., Any]:
    if isinstance(func, (Launchable, Func)) or not callable(func):
        raise QuadrantsRuntimeTypeError(
            f"@qd.ad.{what} decorates a Python function, not {func!r}",
            code="QL2097",
            help="call the kernel in a Python function and decorate that",
        )
    return func  # type: ignore[no-any-return]  # callable() does not narrow Any


def has_derivative(x: Any) -> bool:
    """Whether the field or ndarray has a gradient or a dual."""
    return bool(x.grad or getattr(x, "dual", None))


def no_derivative(what: str) -> None:
    """Raises an error while launches are differentiated: ``what``, which Python computes, has no derivative."""
    if differentiating():
        raise QuadrantsRuntimeError(
            f"{what} has no derivative, and launches are being differentiated",
            code="QL2132",
            help="call it in a Python function whose gradient you write (qd.ad.grad_replaced), or one whose results "
            "are constants (qd.ad.no_grad)",
        )
