"""Implements `Kernel.reproduce`, which writes a script with a kernel, its data and one launch, so that a fault can
be shown in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.config import OPTIONS
from quadrants_lab.lang.definitions import Definitions
from quadrants_lab.lang.dense import Dense
from quadrants_lab.runtime import session
from quadrants_lab.runtime.record.launch_data import Case, last_case

# options of a session that do not change what a launch computes
_ELSEWHERE = frozenset({"check", "kernel_profiler", "log_level", "require_version", "verbose"})


def reproduce(
    path: str | Path, called: Any, args: Sequence[Any], kwargs: dict[str, Any], gradient: bool, instance: Any = None
) -> Path:
    """Writes a script that calls a kernel, or a Python function with a custom gradient, and returns its absolute path.
    Data that are not small go to an .npz file beside it.

    Without arguments the script repeats the last launch that a cell or a session with ``check`` recorded, with the data
    from before that launch; with arguments it makes a call with the present data. ``gradient``: the script compares the
    gradient with finite differences and forward mode; otherwise it launches with all checks. ``instance``: the object,
    if a method is called.
    """
    out = Path(path).absolute()
    if out.suffix != ".py":
        help = "name it *.py: it is a script"
        raise QuadrantsRuntimeError(f"a launch cannot be written to {out.name}", code="QL0717", help=help)
    dispatcher = _forward(called)
    last = None if args or kwargs or dispatcher is None else last_case(dispatcher)
    if last is not None:
        args = _arguments(called, dispatcher.slots, last)
    elif dispatcher is not None and not (args or kwargs) and len(called._parameters) > (instance is not None):
        raise QuadrantsRuntimeError(
            f"no launch of {called.name} was recorded, so its arguments are not known",
            code="QL0718",
            help=f"give them: reproduce(path, {', '.join(p.name for p in called._parameters)}); launches are recorded "
            'in %%qdkernel cells, within qd.recording() and with qd.init(check="nan")',
        )
    elif instance is not None:
        args = (instance, *args)
    back = last_case(dispatcher.gradient) if last is not None and gradient and dispatcher.gradient else None
    made = Definitions(_values(last))
    lines = _call(made, called, args, kwargs)
    if not gradient:  # for a gradient, `qd.ad.check` sets gradients
        made.fill_gradients()
    lines = _compared(made, lines, back) if gradient else ["", *lines, "qd.sync()"]
    now = session.current()
    data = ['data = np.load(Path(__file__).with_suffix(".npz"))'] if made.arrays else []
    standard = ["import sys"] * gradient + ["from pathlib import Path"] * bool(made.arrays)
    head = [f'"""{_title(called, last, gradient)}"""', "", *standard, *[""] * bool(standard), "import numpy as np", ""]
    text = [*head, "import quadrants_lab as qd", "", _init(now, gradient), *data, "", *made.lines, *lines, ""]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(_without_blank_rows(text), encoding="utf-8")
        if made.arrays:
            np.savez_compressed(out.with_suffix(".npz"), allow_pickle=False, **made.arrays)
    except OSError as e:
        why = e.strerror or str(e)
        raise QuadrantsRuntimeError(f"a launch cannot be written to {out}: {why}", code="QL0717") from None
    return out


def _title(called: Any, last: Case | None, gradient: bool) -> str:
    name = _name(called)
    what = f"The gradient of {name}" if gradient else f"A launch of {name}"
    of = f", with the data of launch {last.number}" if last is not None and last.number else ""
    does = "compared with finite differences and forward mode" if gradient else "with all checks"
    return f"{what}{of}, {does}. Written by k.reproduce."


def _forward(called: Any) -> Any:
    """The forward dispatcher of a kernel, also if its gradient is called; None for a Python function."""
    dispatcher = getattr(called, "dispatcher", None)
    return getattr(dispatcher, "forward", None) or dispatcher


def _name(called: Any) -> str:
    return str(getattr(called, "name", None) or called.__name__)


def _init(now: session.Session, gradient: bool) -> str:
    """The source text of a call of `qd.init` with the options of the session ``now``."""
    values = now.settings.options
    given = [f"arch=qd.{'cpu' if now.settings.backend == 'cpu' else now.settings.arch}"]
    for name, row in OPTIONS.items():
        value = values.get(name, row.default)
        if value != row.default and name not in _ELSEWHERE and not name.startswith("offline_cache"):
            given.append(f"{name}={f'qd.{value}' if name.startswith('default_') else repr(value)}")
    given += [] if gradient else ['check="gradients"']
    return f"qd.init({', '.join(given)})"


def _arguments(called: Any, slots: Sequence[Any], last: Case) -> list[Any]:
    """The arguments of a recorded launch. Raises an error if an argument no longer exists, or was flattened (vectors,
    structs, dataclasses)."""
    found = [arg() for arg in last.args]
    flattened = len(found) != len(called._parameters)
    names = ", ".join(s.name for s, arg in zip(slots, found, strict=True) if arg is None)
    if flattened or names:
        what = "are vectors, structs or dataclasses" if flattened else f"have ended: {names}"
        raise QuadrantsRuntimeError(
            f"the last launch of {called.name} cannot be written: some of its arguments {what}",
            code="QL0718",
            help=f"give them: reproduce(path, {', '.join(p.name for p in called._parameters)})",
        )
    return [
        last.named(s.name) if s.kind == "array" and isinstance(arg, str) else arg
        for s, arg in zip(slots, found, strict=True)
    ]


def _values(last: Case | None) -> Callable[[Dense], npt.NDArray[Any]]:
    """A function that returns the data of a field: those from before the launch ``last``, if it recorded them, else the
    present data."""

    def values(x: Dense) -> npt.NDArray[Any]:
        known = None if last is None else last.values(x._memory)
        array: npt.NDArray[Any] = x.to_numpy() if known is None else np.asarray(known)
        return array

    return values


def _call(made: Definitions, called: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The source line of the call. Definitions that it needs are added to ``made`` first."""
    names = [p.name for p in getattr(called, "_parameters", ())] + [f"arg_{n}" for n in range(len(args))]
    name = _name(called)
    if args and getattr(type(args[0]), "__qd_data_oriented__", "") and hasattr(type(args[0]), name):
        function = f"{made.expression(args[0], 'instance', {name: {'': {}}})}.{name}"
        args, names = args[1:], names[1:]
    else:
        function = made.expression(called, name)
    given = [made.expression(arg, name) for arg, name in zip(args, names, strict=False)]
    given += [f"{name}={made.expression(arg, name)}" for name, arg in kwargs.items()]
    return [f"{function}({', '.join(given)})"]


def _compared(made: Definitions, call: list[str], back: Case | None) -> list[str]:
    """The source lines that check the gradient of the call. If the call computes a single number with a gradient, this
    number is the loss. Otherwise the loss is a weighted sum of all results; the weights are the gradients with which
    the last launch of the gradient began."""
    results = _results(made)
    if not results:
        raise QuadrantsRuntimeError(
            "nothing that is launched writes to a field with a gradient, so there is no gradient to compare",
            code="QL0718",
            help="launch it once first, or make what it computes with needs_grad=True",
        )
    (first, x), *more = results.items()
    if not more and not x.shape and not x.element_shape:
        loss, sums = first, list[str]()
    else:
        loss, sums = made.unique("loss"), []
        made.lines.append(f"{loss} = qd.field(qd.{x.dtype.name}, shape=(), needs_grad=True)")
        for name, y in results.items():
            sums.append(_weighted(made, loss, name, y, back))
    program = made.unique("program")
    body = [f"    {line}" for line in (*call, *sums)]
    checked = [f"report = qd.ad.check({program}, {loss})", "print(report)", "sys.exit(0 if report.right else 1)"]
    return ["", "", f"def {program}():", *body, "", "", *checked]


def _results(made: Definitions) -> dict[str, Dense]:
    """The fields with a gradient, by name in the text, to which the last launches of the text's kernels write."""
    written: set[int] = set()
    for of in made.functions:
        dispatcher = _forward(of)
        if dispatcher is None or dispatcher.last is None:
            continue
        plan, case = dispatcher.last, last_case(dispatcher)
        written |= {id(memory) for name, memory in plan.fields.items() if name in plan.writes}
        if case is not None:
            written |= {serial for serial, name in case.of.items() if name in plan.writes}
    fields = {name: x for name, x in made.fields.items() if x.has_grad()}
    found = {n: x for n, x in fields.items() if id(x._memory) in written or x._memory.serial in written}
    return found or {n: x for n, x in fields.items() if not x.shape and not x.element_shape}


def _weighted(made: Definitions, loss: str, name: str, y: Dense, back: Case | None) -> str:
    """Defines a kernel that adds the weighted sum of a field to the loss; returns the call of it."""
    weights = None if back is None or y.grad is None else back.values(y.grad._memory)
    weights = y.grad.to_numpy() if weights is None else np.asarray(weights)
    if not weights.any():
        weights = np.ones_like(weights)
    w, adds = made.unique(f"weights_of_{name}"), made.unique(f"add_{name}")
    kind = "qd.template()" if y.kind == "field" else "qd.types.ndarray()"
    product = "(y[i] * w[i]).sum()" if y.element_shape else "y[i] * w[i]"
    made.lines += [
        f"{w} = qd.{y.kind}({made._dtype(y.dtype, y.element_shape)}, shape={y.shape})",
        f"{w}.from_numpy({made._data(weights, w)})", "", "", "@qd.kernel",
        f"def {adds}(y: {kind}, w: {kind}):",
        "    for i in qd.grouped(y):", f"        {loss}[None] += {product}", "",
    ]  # fmt: skip
    return f"{adds}({name}, {w})"


def _without_blank_rows(lines: Sequence[str]) -> str:
    """The lines as text, in which more than two blank lines in a row are reduced to two."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or kept[-2:] != ["", ""]:
            kept.append(line.rstrip())
    return "\n".join(kept)
