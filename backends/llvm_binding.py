"""llvmlite's modules and passes, used so that a process which compiles for days does not grow.

A module has an LLVM context of its own, because a context never forgets a type or a constant. llvmlite 0.50 frees no
pass manager, and of a pass builder it keeps 1.5 KB; the last texts that were compiled are not compiled again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from quadrants_lab.ir.importing import importing

P = ParamSpec("P")
R = TypeVar("R")
NOTHING: Mapping[str, str] = MappingProxyType({})
_LAST = 64  # results that `remembered` keeps


class _LazyModule:
    """llvmlite.binding, imported when one of its attributes is first used."""

    def __getattr__(self, name: str) -> Any:
        with importing():
            found = getattr(import_module("llvmlite.binding"), name)
        setattr(self, name, found)
        return found


llvm: Any = _LazyModule()


def parse(*texts: str, library: Mapping[str, str] = NOTHING) -> Any:
    """The module of a text; others are linked into it. ``library``: so are the texts of these functions, which it
    calls. Raises TypeError where it declares one of these with other types."""
    context = llvm.create_context()
    module = llvm.parse_assembly(texts[0], context=context)
    # Python's collector ends the objects of a circle in any order, but a module has to end before its context.
    context._owned = True
    module._dispose = partial(_end, llvm.ffi.lib, module._ptr, context._ptr)
    for text in texts[1:]:
        module.link_in(llvm.parse_assembly(text, context=context))
    for name, body in library.items():
        part = llvm.parse_assembly(body, context=context)
        asked, made = (str(m.get_function(name).global_value_type) for m in (module, part))
        if asked != made:
            part.close()
            raise TypeError(f"{name} is called as {asked}, but the library's is {made}")
        module.link_in(part)
    return module


def _end(library: Any, module: Any, context: Any) -> None:
    library.LLVMPY_DisposeModule(module)
    library.LLVMPY_ContextDispose(context)


def optimise(module: Any, machine: Any, passes: Sequence[str] = (), level: int = 2, **options: bool) -> None:
    """Optimises in place by these passes or, without any, by LLVM's pipeline of a level with these tuning options."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    for name, value in options.items():
        setattr(tuning, name, value)
    builder = llvm.create_pass_builder(machine, tuning)  # which serves for one module: it refers to what a run leaves
    manager = llvm.create_new_module_pass_manager() if passes else builder.getModulePassManager()
    try:
        for name in passes:
            getattr(manager, f"add_{name}_pass")()
        manager.run(module, builder)
    finally:
        llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.detach()


def remembered(make: Callable[P, R]) -> Callable[P, R]:
    """The function, which keeps its last results. They depend on its arguments, texts and numbers, alone."""
    known: OrderedDict[bytes, R] = OrderedDict()

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        key = sha256(repr((args, kwargs)).encode()).digest()
        result = known.pop(key, None)
        if result is None:
            result = make(*args, **kwargs)
        known[key] = result
        if len(known) > _LAST:
            known.popitem(last=False)
        return result

    return call
