"""Ways in which a program passes objects to kernels and drops them: `WAYS`, by name.

Each is a generator function that uses new objects and yields those that nothing may keep once it is over. As a main
program it runs a way often and prints how much memory the process takes.
"""

import ctypes
import functools
import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import numpy as np

import quadrants_lab as qd
from programs import dropped_kernels as K
from programs.dropped_kernels import Fields, Part, Sim, field, grow, kernel_over, ndarray, squares, tape
from quadrants_lab.backends.cpu import jit
from quadrants_lab.runtime.session import checking

Way = Callable[[], Iterator[Any]]
WAYS: dict[str, Way] = {}
ONE = [1.0, 0.0, 0.0, 0.0]


def way(fn: Way) -> Way:
    WAYS[fn.__name__] = fn
    return fn


# --- self -------------------------------------------------------------------------------------------------------------


@way
def methods() -> Iterator[Any]:
    s = Sim()
    s.step()
    s.step.grad()
    s.inner()
    yield from (s, s.x, s.parts[0], s.parts[1].x, s.curve)


@way
def methods_under_a_tape() -> Iterator[Any]:
    s = Sim()
    for _ in range(3):  # the second run reuses the recording of the first
        tape(of=lambda: (s.step(), s.total(Fields.loss)))
    yield from (s, s.x)


@way
def value_and_grad() -> Iterator[Any]:
    s = Sim()
    s.total.value_and_grad(Fields.loss)
    yield from (s, s.x)


@way
def attributes_that_are_replaced() -> Iterator[Any]:
    s = REPLACED.setdefault("sim", Sim())
    s.x, s.parts, s.curve = field(), [Part()], lambda v: v + 1.0
    s.step()
    s.inner()
    tape(of=lambda: (s.step(), s.total(Fields.loss)))
    yield from (s.x, s.parts[0], s.parts[0].x, s.curve)
    s.x = s.parts = s.curve = None


REPLACED: dict[str, Sim] = {}


# --- templates --------------------------------------------------------------------------------------------------------


@way
def fields() -> Iterator[Any]:
    x = field()
    grow(x)
    grow.grad(x)
    grow(x.grad)
    yield x


@way
def objects() -> Iterator[Any]:
    b, f = K.Plain(), K.Frozen(field(), 2.0)
    K.of_object(b)
    K.of_object(f)
    yield from (b, b.x, f, f.x)


@way
def containers() -> Iterator[Any]:
    x, y, z = field(), field(), field()
    K.of_list([x])
    K.of_list((y,))
    K.of_dict({"x": z})
    yield from (x, y, z)


@way
def a_dataclass() -> Iterator[Any]:
    g = K.Given(field(), ndarray())
    K.of_dataclass(g)
    yield from (g, g.x, g.a)


@way
def functions() -> Iterator[Any]:
    @qd.func
    def f(v):
        return v * 2.0

    g = lambda v: v * 3.0
    h, s = lambda factor, v: v * factor, Sim()
    K.apply(f, Fields.kept)
    K.apply(g, Fields.kept)
    K.apply(functools.partial(h, 2.0), Fields.kept)
    K.apply(s.scaled, Fields.kept)
    yield from (f, g, h, s)


@way
def structs() -> Iterator[Any]:
    s, t = K.STRUCT.field(shape=K.N, needs_grad=True), K.STRUCT.field(shape=K.N, needs_grad=True)
    K.members(s)
    K.members(t.grad)
    yield from (s, s.a, t, t.a)


@way
def matrices() -> Iterator[Any]:
    v, m = qd.Vector.field(3, qd.f32, shape=K.N), qd.Matrix.field(2, 2, qd.f32, shape=K.N)
    K.elements(v)
    K.elements(m)
    K.elements(v.get_scalar_field(1))
    yield from (v, m)


@way
def placed_fields() -> Iterator[Any]:
    tree, x, y = qd.FieldsBuilder(), qd.field(qd.f32), qd.field(qd.f32)
    tree.pointer(qd.i, K.N).place(x)
    tree.dense(qd.i, K.N).place(y)
    tree.finalize()
    grow(x)
    grow(y)
    x[1] = 2.0
    yield from (x, y)


@way
def destroyed_fields() -> Iterator[Any]:
    tree, x = qd.FieldsBuilder(), qd.field(qd.f32)
    tree.dense(qd.i, K.N).place(x)
    placed = tree.finalize()
    grow(x)
    placed.destroy()
    yield x


# --- arrays -----------------------------------------------------------------------------------------------------------


@way
def ndarrays() -> Iterator[Any]:
    a, v, w = ndarray(), qd.Vector.ndarray(3, qd.f32, K.N), ndarray()
    K.array(a)
    K.array_squares(a, Fields.loss)
    K.array_squares.grad(a, Fields.loss)
    K.array_squares.value_and_grad(a, Fields.loss)
    K.vectors(v)
    K.view(w[1:3])
    K.as_graph(w)
    tape(of=lambda: (K.array(a), K.array_squares(a, Fields.loss)))
    yield from (a, v, w)


@way
def numpy_arrays() -> Iterator[Any]:
    a, b, c = np.ones(K.N, np.float32), np.ones((K.N, K.N), np.float32, order="F"), np.ones(2 * K.N, np.float32)
    K.array(a)
    K.array(b[0].copy())
    K.array(c[:K.N])
    tape(of=lambda: K.array_squares(a, Fields.loss))
    yield from (a, b, c)


@way
def tensors() -> Iterator[Any]:
    for made in (field, ndarray):
        x = made()
        K.tensor(x)
        K.tensor.grad(x)
        tape(of=lambda x=x: (K.tensor(x), K.tensor_squares(x, Fields.loss)))
        yield x


# --- derivatives ------------------------------------------------------------------------------------------------------


@way
def a_budget() -> Iterator[Any]:
    x = field()
    tape(of=lambda: ([grow(x) for _ in range(6)], squares(x, Fields.loss)), memory=200)
    yield x


@way
def checkpoints() -> Iterator[Any]:
    s = Sim()

    @qd.ad.checkpoint
    def steps() -> None:
        s.step()
        s.step()

    tape(of=lambda: (steps(), s.total(Fields.loss)))
    yield from (s, s.x, steps)


@way
def validation() -> Iterator[Any]:
    s = Sim()
    tape(of=lambda: (s.step(), s.total(Fields.loss)), validation=True)
    yield from (s, s.x)


@way
def an_open_tape() -> Iterator[Any]:
    x, t = field(), qd.ad.Tape(Fields.loss)
    with t:
        grow(x)
        squares(x, Fields.loss)
        t.grad()
    yield from (x, t)


@way
def forward_mode() -> Iterator[Any]:
    s = Sim()
    with qd.ad.FwdMode(Fields.loss, s.x, seed=ONE):
        s.step()
        s.total(Fields.loss)
    yield from (s, s.x)


@way
def second_derivatives() -> Iterator[Any]:
    x = field()
    qd.ad.hessian_vector(lambda: squares(x, Fields.loss), Fields.loss, x, ONE)
    yield x


@way
def the_doctor() -> Iterator[Any]:
    x = field()
    qd.ad.check(lambda: squares(x, Fields.loss), Fields.loss, x)
    yield x


@way
def custom_gradients() -> Iterator[Any]:
    s = Sim()

    @qd.ad.grad_replaced
    def forward() -> None:
        s.step()

    @qd.ad.grad_for(forward)
    def backward() -> None:
        s.step.grad()

    tape(of=lambda: (forward(), s.total(Fields.loss)))
    yield from (s, s.x, forward)


@way
def programs() -> Iterator[Any]:
    s = Sim()

    @qd.ad.program
    def steps() -> None:
        s.step()
        s.total(Fields.loss)

    for _ in range(3):
        steps()
        tape(of=steps)
    yield from (s, s.x, steps)


@qd.ad.program
def program(s: Any, a: Any) -> None:
    s.step()
    K.array(a)


@way
def arguments_of_a_program() -> Iterator[Any]:
    s, a = Sim(), ndarray()
    for _ in range(3):
        program(s, a)
        tape(of=lambda: (program(s, a), s.total(Fields.loss)))
    yield from (s, s.x, a)


# --- kernels, modes, errors -------------------------------------------------------------------------------------------


@way
def kernels() -> Iterator[Any]:
    x = field()
    k = kernel_over(x)
    k()
    k.grad()
    k.value_and_grad()
    tape(of=k)
    yield from (k, x, k.dispatcher, k.grad.dispatcher)


@way
def checked_kernels() -> Iterator[Any]:
    x = field()
    k = kernel_over(x)
    with checking("check_out_of_bound", "check_races", "asserts"):
        k()
        grow(x)
    yield from (k, x)


@way
def asserts() -> Iterator[Any]:
    x = field()
    with checking("asserts"):
        try:
            K.fails(x)
            qd.sync()
        except AssertionError:
            pass
    yield x


@way
def refused_arguments() -> Iterator[Any]:
    x = field()
    for wrong in (K.array, K.vectors):
        try:
            wrong(x)
        except TypeError:
            pass
    yield x


def parts(one: Any) -> Iterator[Any]:
    """The memory of a field or ndarray and that of its gradient, or what was made for a kernel."""
    for x in (one, getattr(one, "grad", None)):
        memory = getattr(x, "_memory", None)
        if hasattr(memory, "operand"):
            yield memory
            yield memory.operand
        last = x.dispatcher.last if hasattr(x, "dispatcher") else None
        if last is not None:
            yield from (last, last.frame, last.compiled.executable)


def references(of: Way) -> list[tuple[Any, list[Any]]]:
    """Weak references to each object of a way that is over, and to its parts."""
    return [(ref(one), [ref(part) for part in parts(one)]) for one in of()]


def resident() -> int:
    """How much memory the process takes, in KiB, without what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * 4


def large_fields() -> int:
    """The most memory that the process took, in KiB, for 50 fields of 16 MB with gradients, one after the other."""
    gc.disable()  # only allocations ask for a collection
    for _ in range(50):
        x = qd.field(qd.f32, shape=1 << 22, needs_grad=True)
        x.fill(1.0)
        x.grad.fill(1.0)
        grow(x)
    with open("/proc/self/status", encoding="ascii") as status:  # ru_maxrss counts what the parent had at the fork
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def machine_code() -> Iterator[Any]:
    """LLVM's part alone, which keeps the last results."""
    jit.compiled.__wrapped__("define void @entry() {\n  ret void\n}\n", True, True)
    return iter(())


def repeated(of: Way, rounds: int) -> list[int]:
    """The memory that the process takes after 100 rounds and after all of them."""
    taken = []
    for so_far in range(1, rounds + 1):
        for _ in of():
            pass
        if so_far % 10 == 0:
            gc.collect()  # Python's own collections are rare: the most that waits for one differs
        if so_far in (100, rounds):
            taken.append(resident())
    return taken


if __name__ == "__main__":
    name, cached, folder, count = sys.argv[1:]
    warnings.simplefilter("ignore")
    qd.init(arch=qd.cpu, offline_cache=cached == "cached", offline_cache_file_path=folder)
    K.begin()
    ways = WAYS | {"machine_code": machine_code}
    print(*(repeated(ways[name], int(count)) if name in ways else [large_fields()]))
