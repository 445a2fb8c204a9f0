"""Defines passes that are imported late (`where`), and passes with arguments. The latter are frozen data classes;
`written` prints their text, and `read_arguments` parses it.

    lower-casts{calls=true short=false}    lower-tasks{group=((add, (f32))) subgroup=32}

An argument is true or false, an integer, a dtype, another word, text in quotes, or a tuple of these in parentheses. It
may also be an object with a method ``argument`` that returns such a tuple. From text the pass then gets the tuple, of
which it makes the object.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DTYPES, DType
from quadrants_lab.ir.walk import K, find

_TOKEN = r'\s*("[^"]*"|[(),=]|-?\w+|\S)'
_UPPER = r"(?<=[a-z])(?=[A-Z])"


def where(kind: type[K], module: str, name: str, concerns: Callable[[K], object] | None = None) -> Pass:
    """The pass ``name`` of another module. It is called only for kernels that have a statement of the class ``kind``
    for which ``concerns`` is true, and its module is imported at the first call."""
    late = lazily(module, name)

    def run(kernel: Kernel) -> Kernel:
        found = find(kernel.body, kind)
        made: Kernel = late(kernel) if any(found if concerns is None else map(concerns, found)) else kernel
        return made

    run.__name__ = name
    return run


@dataclass(frozen=True, slots=True)
class Parametrised:
    """The base of passes with arguments, the fields. The name of `LowerCasts` as a pass is "lower_casts"."""

    @property
    def __name__(self) -> str:
        return re.sub(_UPPER, "_", type(self).__qualname__).lower()

    def __call__(self, kernel: Kernel) -> Kernel:
        raise NotImplementedError


def written(fn: Callable[[Kernel], Kernel]) -> str:
    """The pass as text: its name, with hyphens, and the arguments that are not the default."""
    name = str(getattr(fn, "__name__", fn)).replace("_", "-")
    if not isinstance(fn, Parametrised):
        return name
    given = ((f.name, getattr(fn, f.name)) for f in fields(fn) if getattr(fn, f.name) != f.default)
    text = " ".join(f"{key}={_shown(value)}" for key, value in given)
    return f"{name}{{{text}}}" if text else name


def _shown(value: Any) -> str:
    if hasattr(value, "argument"):
        value = value.argument()
    if isinstance(value, str):
        word = value.isidentifier() and value not in (*DTYPES, "true", "false")
        return value if word else f'"{value}"'
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_arguments(fn: Callable[[Kernel], Kernel], text: str) -> Callable[[Kernel], Kernel]:
    """The pass with the arguments of ``text``, "calls=true short=false". ValueError where it has no such argument."""
    name = written(fn).partition("{")[0]
    known = {f.name: f for f in fields(fn)} if isinstance(fn, Parametrised) else {}
    given: dict[str, Any] = {}
    tokens = iter(re.findall(_TOKEN, text))
    for key in tokens:
        if key not in known:
            raise ValueError(f"{name} has no argument {key!r}: it has {', '.join(known) or 'none'}")
        if next(tokens, "") != "=":
            raise ValueError(f"expected '=' behind {key!r}")
        given[key] = _value(next(tokens, ""), tokens)
        default = known[key].default
        if default not in (MISSING, None) and type(default) is not type(given[key]):
            raise ValueError(f"{key!r} of {name} is no {type(given[key]).__name__}: {_shown(given[key])}")
    return replace(fn, **given) if isinstance(fn, Parametrised) else fn


def _value(token: str, tokens: Iterator[str]) -> bool | int | str | DType | tuple[Any, ...]:
    if token == "(":
        out: list[Any] = []
        while (token := next(tokens, "")) != ")":
            if token != ",":
                out.append(_value(token, tokens))
        return tuple(out)
    if token in ("true", "false"):
        return token == "true"
    if re.fullmatch(r"-?\d+", token):
        return int(token)
    if len(token) > 1 and token[0] == '"':
        return token[1:-1]
    if not re.fullmatch(r"\w+", token):
        raise ValueError(f"expected a value and found {token!r}")
    return DTYPES.get(token, token)
