"""quadrants_lab: the Quadrants kernel language, with every stage of its compiler visible.

import quadrants_lab as qd

qd.init(arch=qd.cpu)
x = qd.field(qd.f32, shape=16, needs_grad=True)

@qd.kernel
def double():
    for i in x:
        x[i] *= 2
"""

from importlib import import_module as _import
from os import environ as _environ
from typing import TYPE_CHECKING, Any

from quadrants_lab.ir.importing import importing as _importing

with _importing():
    from quadrants_lab import types
    from quadrants_lab.backends.forks import deferred as _forks_deferred
    from quadrants_lab.errors import (
        QuadrantsAssertionError,
        QuadrantsCompilationError,
        QuadrantsNameError,
        QuadrantsRuntimeError,
        QuadrantsRuntimeTypeError,
        QuadrantsSyntaxError,
        QuadrantsTypeError,
        QuadrantsWarning,
    )
    from quadrants_lab.lang import (  # noqa: F401
        copying as _copying,  # sets Dense.copy_by_launch
        elsewhere as _elsewhere,
        graph,
    )
    from quadrants_lab.lang.annotations import Template, ref, template
    from quadrants_lab.lang.arch import amdgpu, arm64, c, cpu, cuda, gpu, metal, vulkan, wasm, x64, x86_64
    from quadrants_lab.lang.buffer_view import BufferView
    from quadrants_lab.lang.classes import data_oriented
    from quadrants_lab.lang.config import (
        another_session,
        init,
        is_logging_effective,
        reset,
        set_logging_level,
        sync,
    )
    from quadrants_lab.lang.dense import Field, Ndarray, ScalarField, ScalarNdarray
    from quadrants_lab.lang.dtypes import *  # noqa: F403  # exactly the dtypes
    from quadrants_lab.lang.dtypes import Layout, __all__ as _dtypes
    from quadrants_lab.lang.elements import MatrixField, MatrixNdarray, VectorNdarray
    from quadrants_lab.lang.elsewhere import missing_attribute
    from quadrants_lab.lang.fields import field, ndarray
    from quadrants_lab.lang.graph import (
        GraphStatus,
        checkpoint,
        do_while as graph_do_while,
        parallel as graph_parallel,
        parallel_context as graph_parallel_context,
    )
    from quadrants_lab.lang.impl import cfg, dump_compile_config
    from quadrants_lab.lang.kernel import func, kernel, pure, pyfunc, real_func
    from quadrants_lab.lang.matrix import Matrix, Vector
    from quadrants_lab.lang.quantised import BitpackedFields
    from quadrants_lab.lang.snode import (
        NAMED_AXES as _axes,
        FieldsBuilder,
        SNode,
        axes,
        deactivate_all_snodes,
        root,
    )
    from quadrants_lab.lang.streams import Event, Stream, create_event, create_stream, stream_parallel
    from quadrants_lab.lang.struct import Struct, dataclass
    from quadrants_lab.lang.struct_field import StructField
    from quadrants_lab.lang.tensor import Backend, MatrixTensor, Tensor, VectorTensor, tensor, wrap
    from quadrants_lab.types import extension, is_extension_enabled

if TYPE_CHECKING:
    from quadrants_lab import ad, algorithms, linalg, math, profiler, simt, sparse, tools  # noqa: F401
    from quadrants_lab.lang import kernel as experimental
    from quadrants_lab.lang.jax_op import jax_op
    from quadrants_lab.lang.perf_dispatch import perf_dispatch
    from quadrants_lab.lang.torch_op import torch_op
    from quadrants_lab.types import DeviceCapability, Format

__version__ = "0.1.0"

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = "trace", "debug", "info", "warn", "error", "critical"

globals().update(_axes)
_elsewhere.register()

if _environ.get("QD_KERNEL_COVERAGE", "0") not in ("", "0"):
    _import("quadrants_lab.lang.coverage").start()

__all__ = [  # noqa: PLE0604  # the lists hold strings
    "CRITICAL", "DEBUG", "ERROR", "INFO", "TRACE", "WARN", "Backend", "BitpackedFields", "DeviceCapability", "Field",
    "FieldsBuilder", "Format", "Layout", "Matrix",
    "MatrixField", "MatrixNdarray", "MatrixTensor", "Ndarray", "QuadrantsAssertionError",
    "QuadrantsCompilationError", "QuadrantsNameError", "QuadrantsRuntimeError", "QuadrantsRuntimeTypeError",
    "QuadrantsSyntaxError", "QuadrantsTypeError", "QuadrantsWarning", "SNode", "ScalarField", "ScalarNdarray",
    "Struct", "StructField", "Template", "Tensor", "Vector", "VectorNdarray", "VectorTensor", "ad", "amdgpu",
    "another_session", "arm64", "axes", "c", "cfg", "cpu", "cuda", "data_oriented", "dataclass", "dump_compile_config",
    "experimental", "extension", "field", "func", "gpu", "init", "inspect", "is_extension_enabled",
    "is_logging_effective", "jax_op", "kernel", "math", "metal", "ndarray", "perf_dispatch", "pure", "pyfunc",
    "real_func", "recording", "ref", "reset", "root", "set_logging_level", "sync", "template", "tensor", "torch_op",
    "types", "vulkan", "wasm", "wrap", "x64", "x86_64", "BufferView", "Event", "GraphStatus", "Stream", "checkpoint",
    "create_event", "create_stream", "deactivate_all_snodes", "graph", "graph_do_while", "graph_parallel",
    "graph_parallel_context", "stream_parallel", *_axes, *_dtypes,
]  # fmt: skip


_NAMES = __all__
del __all__  # `__getattr__` returns a list that also has the operations

# modules, and names of other modules, that are imported at their first use
_MODULES = ("ad", "algorithms", "linalg", "math", "profiler", "simt", "sparse", "tools")
_NAMED = {name: f"lang.{name}" for name in ("jax_op", "perf_dispatch", "torch_op")} | {"clock_freq_hz": "lang.impl"}
_NAMED |= dict.fromkeys(("DeviceCapability", "Format"), "types")


def _operations() -> Any:
    """The operations of the language by name; each is made when a program first uses it."""
    return _late("lang.ops").OPERATIONS


def _late(name: str) -> Any:
    with _forks_deferred(), _importing():
        return _import(f"quadrants_lab.{name}")


def __getattr__(name: str) -> Any:
    if name in _MODULES or name in _NAMED:
        module = _late(_NAMED.get(name, name))
        globals()[name] = found = getattr(module, name) if name in _NAMED else module
        return found
    if name == "__all__":
        return [*_NAMES, *_operations()]
    if not name.startswith("_") and (operation := _operations().get(name)) is not None:
        globals()[name] = operation
        return operation
    if name == "sparse_matrix_builder":
        return types.sparse_matrix_builder
    return missing_attribute("qd", name, globals() if name.startswith("_") else __dir__())


def __dir__() -> list[str]:
    return sorted({*_NAMES, *_MODULES, *_NAMED, *_operations(), "__version__"})


def inspect(what: Any) -> Any:
    """The inspector of a kernel, or of a .json file that `Kernel.export` wrote; a notebook displays it."""
    from quadrants_lab.notebook.saved import inspect as open_inspector

    return open_inspector(what)


def recording() -> Any:
    """A context manager that records the launches of kernels within its ``with``, as a `%%qdkernel` cell does, but
    without checks. Its value is their inspector: in any notebook, marimo included, it displays itself as the last
    expression of a cell; in a terminal ``print`` shows it; ``export("page.html")`` writes it to a file. Launches are
    recorded while the ``with`` runs, in its session; an exception ends the recording and is raised again."""
    from quadrants_lab.notebook.saved import Recording

    return Recording()


def load_ipython_extension(shell: Any) -> None:
    """Loads the notebook magics: `%load_ext quadrants_lab`."""
    from quadrants_lab.notebook import load_ipython_extension as load

    load(shell)
