"""Names of `qd` whose modules are imported when they are first asked for."""

import sys
from types import FunctionType

import child

import quadrants_lab as qd
from quadrants_lab.frontend.op_table import OPS
from quadrants_lab.lang.ops import OPERATIONS


def test_an_import_leaves_the_compiler_the_tapes_and_the_operations_for_later() -> None:
    later = ("ir.nodes", "frontend.ops.builtins", "ad", "lang.ops", "math", "runtime.tape.recorder", "passes")
    code = f"import sys, quadrants_lab; print(*(m for m in {later!r} if f'quadrants_lab.{{m}}' in sys.modules))"
    assert child.run(sys.executable, "-c", code).stdout.split() == []


def test_a_search_of_all_modules_for_their_files_imports_none() -> None:
    """`inspect.getmodule` makes such a search, and so does torch when it is imported."""
    code = (
        "import sys, inspect, quadrants_lab; before = set(sys.modules); inspect.getmodule(sys._getframe(), '?'); "
        "print(*(m for m in set(sys.modules) - before if m.startswith('quadrants_lab')))"
    )
    assert child.run(sys.executable, "-c", code).stdout.split() == []


def test_a_star_brings_what_is_imported_late_and_dir_lists_it() -> None:
    code = (
        "import quadrants_lab as qd; from quadrants_lab import *; "
        "print(sin is qd.sin, ad.Tape is qd.ad.Tape, math.vec3 is qd.math.vec3, torch_op is qd.torch_op, "
        "'sin' in dir(qd))"
    )
    assert child.run(sys.executable, "-c", code).stdout.split() == ["True"] * 5


def test_each_operation_is_an_attribute() -> None:
    assert all(getattr(qd, name) is operation for name, operation in OPERATIONS.items())
    assert not {"Any", "TYPE_CHECKING", "SimpleNamespace", "missing_attribute"} & {*dir(qd), *dir(qd.simt), *dir(qd.ad)}
    assert {*OPERATIONS, "ad", "math", "jax_op", "Field"} <= {*qd.__all__} & {*dir(qd)}


def test_methods_of_matrices_that_kernels_know_are_operations() -> None:
    methods = {f"Matrix.{n}": m for n, m in vars(qd.Matrix).items() if isinstance(m, FunctionType)}
    known = {name: m.__qd_op__ for name, m in methods.items() if hasattr(m, "__qd_op__")}
    assert known == {name: name for name in methods.keys() & OPS.keys()}
