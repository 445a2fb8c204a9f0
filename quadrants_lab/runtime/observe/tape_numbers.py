"""Marks numbers that Python reads, under a Tape or a FwdMode, from memory that has a derivative.

What Python computes with them has no derivative, so it is missing in gradients or tangents. If such a number is passed
to a kernel or written to a field, a warning says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import ref

from quadrants_lab.errors import render, warn
from quadrants_lab.runtime.observe.observers import SCOPE, Plan, Scope, differentiating


class TapeNumber(float):
    """A float that remembers where it came from. Until the block of its Tape or FwdMode ends, sums, products and powers
    with it are such numbers too; `float(x)` is a plain number. Numpy treats it as a plain float."""

    __slots__ = ("origin", "scope")
    origin: str | ref[Any]  # where it came from: a kernel's name, or the field or ndarray
    scope: Scope

    def passed_on(self, how: str) -> float:
        """The plain number; warns unless the block of its Tape or FwdMode has ended. ``how``: how it is passed on, in
        words."""
        if self.scope is SCOPE.get() and differentiating():
            of = self.origin if isinstance(self.origin, str) else self.origin()
            came = f"kernel {of}, which returned it" if isinstance(of, str) else f"{_field(of)}, which Python read"
            where = f"came from {came} under this {self.scope.what}"
            cure = "leave it in a field, for kernels to read; if a constant is meant, write float(...) around it"
            text = f"{how} a number that {where}: it counts as a constant"
            warn(render("QL0421", text, (), cure, kind="warning"))
        return float(self)

    def written_to(self, to: Any) -> float:
        """The plain number, to be written to a field or ndarray; warns as `passed_on` does."""
        if not (to.grad or to.dual):
            return float(self)
        return self.passed_on(f"Python writes to {_field(to)}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*plain(inputs), **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return function(*plain(args), **dict(zip(options, plain(options.values()), strict=True)))

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)


def _field(of: Any) -> str:
    return "a field" if of is None else of.name or repr(of)


TapeNumber.__name__ = "float"  # so that Python's messages about types name a type that the program knows


def _kept(name: str) -> Callable[..., Any]:
    of_float = getattr(float, name)

    def operation(self: TapeNumber, *others: Any) -> Any:
        if others and isinstance(others[0], float) and others[0].__class__ not in _OURS:
            return NotImplemented  # f64 of numpy has operations of its own, which Python tries next
        value = of_float(self, *others)
        ended = self.scope is not SCOPE.get()
        return value if ended or value.__class__ is not float else _made(value, self.origin, self.scope)

    return operation


_OURS = (float, TapeNumber)

for _name in ("add", "sub", "mul", "truediv", "pow", "mod"):
    setattr(TapeNumber, f"__{_name}__", _kept(f"__{_name}__"))
    setattr(TapeNumber, f"__r{_name}__", _kept(f"__r{_name}__"))
for _name in ("__neg__", "__pos__", "__abs__"):
    setattr(TapeNumber, _name, _kept(_name))


def _made(value: float, origin: str | ref[Any], scope: Scope) -> TapeNumber:
    number = TapeNumber(value)
    number.origin, number.scope = origin, scope
    return number


def _from(value: Any, origin: str | ref[Any], scope: Scope) -> Any:
    if value.__class__ in (tuple, list):
        return value.__class__(_from(x, origin, scope) for x in value)
    return _made(value, origin, scope) if value.__class__ is float else value


def read(value: Any, of: Any) -> Any:
    """What Python gets when it reads a number, or an element as lists of numbers, from the field or ndarray ``of``."""
    now = SCOPE.get()
    if now is None or value.__class__ not in (float, list) or getattr(of, now.which) is None:
        return value
    return _from(value, ref(of), now)


def returned(value: Any, plan: Plan | None) -> Any:
    """What Python gets as the result of a launch."""
    now = SCOPE.get()
    if now is None or plan is None or now.which not in _derivatives(plan)[0]:
        return value
    return _from(value, plan.kernel.name, now)


def _derivatives(plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """Two sets: the derivatives of the buffers that launches of the plan read, and of the buffers that they write."""
    found: tuple[frozenset[str], frozenset[str]] | None = plan.derivatives
    if found is None:
        # imported here, since it loads the compiler, which `import quadrants_lab` should not do
        from quadrants_lab.analysis.facts import derivatives

        kernel = plan.compiled.lowered.kernel
        found = plan.derivatives = derivatives(kernel, plan.reads), derivatives(kernel, plan.writes)
    return found


def plain(args: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(float(x) if x.__class__ is TapeNumber else x for x in args)


def check(args: Sequence[Any], plan: Plan) -> None:
    """Warns about arguments of a launch that have lost their derivative."""
    now = SCOPE.get()
    if now is None or now.which not in _derivatives(plan)[1]:
        return
    for slot, x in zip(plan.slots, args, strict=True):
        if x.__class__ is TapeNumber:
            x.passed_on(f"kernel {plan.kernel.name} takes, as {slot.name},")
