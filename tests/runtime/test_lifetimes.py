"""What lives how long: nothing keeps what a program drops, and what kernels found by names lives as long as they do."""

import gc
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from child import run, together
from conftest import TESTS
from programs import dropped, dropped_kernels as K
from programs.dropped_kernels import Fields, N, Sim, field, grow, kernel_over
from sessions import CPU_ALONE, EVERYWHERE, NIGHT, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.weak import Table
from quadrants_lab.runtime.arguments.keys import template_key

COUNT = 100 if NIGHT else 2
session = session_of(EVERYWHERE)
AT_ONCE = (
    "fields", "containers", "a_dataclass", "structs", "matrices", "ndarrays", "numpy_arrays", "tensors", "a_budget",
    "an_open_tape", "second_derivatives", "asserts", "refused_arguments",
)  # fmt: skip
BY_DAY = ("kernels", "machine_code")
MEASURED, ROUNDS = ((*dropped.WAYS, "machine_code"), 1000) if NIGHT else (BY_DAY, 250)


@pytest.mark.parametrize("name", dropped.WAYS)
def test_nothing_keeps_what_the_program_dropped(name: str) -> None:
    K.begin()
    dropped.REPLACED.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [each for _ in range(COUNT) for each in dropped.references(dropped.WAYS[name])]
    qd.sync()
    gc.collect()
    assert len(found) >= COUNT
    assert alive(one for one, _ in found) == []
    gc.collect()  # what was made for an object that was unreachable has become unreachable with it
    assert alive(part for _, parts in found for part in parts) == []


def alive(found: Iterable[Any]) -> list[Any]:
    return [one for of in found if (one := of()) is not None]


@pytest.mark.parametrize("name", AT_ONCE)
def test_it_ends_with_its_last_name(name: str) -> None:
    """An object ends without a garbage collection: no reference cycle contains objects of the program, and no
    caught error keeps one."""
    K.begin()
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [one for one, _ in dropped.references(dropped.WAYS[name])]
        assert alive(found) == []
    finally:
        gc.enable()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc/self/statm")
@CPU_ALONE
@pytest.mark.parametrize("cached", ["cached", "compiled"] if NIGHT else ["cached"])
@pytest.mark.parametrize("name", MEASURED)
def test_the_process_does_not_grow(name: str, cached: str, tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "programs.dropped", name, cached, str(tmp_path), str(ROUNDS), cwd=TESTS)
    after_100, after_all = map(int, done.stdout.split())
    assert after_all - after_100 <= 1024, f"KiB: {done.stdout}"


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units")
@CPU_ALONE
def test_memory_that_waits_for_a_collection_is_bounded(tmp_path: Path) -> None:
    large = ("large fields", "cached", str(tmp_path), "0")
    peak = int(run(sys.executable, "-m", "programs.dropped", *large, cwd=TESTS).stdout)
    assert peak < 500 << 10, "KiB: all fields together take 1.6 GB"


@CPU_ALONE
def test_an_id_that_is_used_again_means_another_object() -> None:
    """Everything that is found by the id of an object goes before another object gets the id."""

    @qd.kernel
    def gain_of(b: qd.template()) -> qd.f32:
        return b.gain

    ids, gains = set(), []
    for gain in range(20):
        s = Sim(float(gain))
        s.curve = None  # which makes a cycle: the id would be free only when Python has collected that
        ids.add(id(s))
        s.step()
        gains.append((s.x[0], gain_of(s)))
        del s
    np.testing.assert_allclose(gains, [(gain, gain) for gain in range(20)])
    assert len(ids) < 20


@CPU_ALONE
def test_an_id_of_an_attribute_that_is_used_again() -> None:
    s, ids = Sim(), set()
    for n in range(20):
        s.x = None
        s.x = qd.field(qd.f32, shape=N + n % 2)
        ids.add(id(s.x))
        s.step()
        assert s.x[N - 1 + n % 2] == s.gain
    assert len(ids) < 20
    assert len(Sim.step.dispatcher.plans) == 1


@CPU_ALONE
def test_an_argument_of_a_program_whose_id_is_used_again() -> None:
    a = qd.ndarray(qd.f32, N)
    for gain in range(20):
        s = Sim(float(gain))
        s.curve = None
        for _ in range(2):
            dropped.program(s, a)
            assert abs(s.x[0] - gain) <= 1.0
        del s


def test_what_a_kernel_found_by_a_name_lives_as_long_as_the_kernel() -> None:
    x = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def count() -> qd.f32:
        x[None] += 1.0
        return x[None]

    first = ref(x)
    assert count() == 1.0
    x = qd.field(qd.f32, shape=(), needs_grad=True)  # a later assignment does not reach a compiled kernel
    gc.collect()
    assert count() == 2.0
    assert first() is not None
    del count
    gc.collect()
    assert first() is None
    assert x[None] == 0.0


def test_an_object_whose_attributes_a_kernel_reads_by_name_ends_before_it() -> None:
    s = Sim(3.0)

    @qd.kernel
    def gain() -> qd.f32:
        return s.x[0] + s.gain

    assert gain() == 3.0
    gone, s.curve = ref(s), None
    s = Sim(5.0)
    assert gone() is None
    assert gain() == 5.0


def test_what_was_compiled_for_an_object_ends_with_it() -> None:
    x, y = field(), field()
    for one in (x, y):
        grow(one)
        grow.grad(one)
    plans, gradients = grow.dispatcher.plans, grow.grad.dispatcher.plans
    assert (len(plans), len(gradients)) == (2, 2)
    del one, y
    assert (len(plans), len(gradients)) == (1, 1)
    with pytest.raises(QuadrantsRuntimeError, match="QL2065.*has ended"):
        grow.ir()
    grow(x)
    assert "kernel grow" in grow.ir()


def test_a_tape_keeps_what_its_gradients_need() -> None:
    """Fields, kernels and plans that the program drops within the with are there until its end."""
    K.begin()
    loss, kept = Fields.loss, Fields.kept
    kept.fill(2.0)
    with qd.ad.Tape(loss):
        for _ in range(3):
            x = field()
            copy_into(x, kept)
            kernel_over(x)()
            gone = ref(x)
            del x
            gc.collect()
    assert loss[None] == 3 * 4 * 4.0
    np.testing.assert_allclose(kept.grad.to_numpy(), 3 * 2 * 2.0)
    gc.collect()
    assert gone() is None


@qd.kernel
def copy_into(x: qd.template(), y: qd.template()):
    for i in range(N):
        x[i] = y[i]


def test_objects_end_in_other_threads_while_kernels_are_launched() -> None:
    K.begin()

    def work() -> None:
        for gain in range(20):
            s = Sim(float(gain))
            s.step()
            assert abs(s.x[0] - gain) <= 1.0
            gc.collect(0)

    together(work, work)


class Key:
    pass


@CPU_ALONE
def test_a_table_forgets_what_names_an_object_that_has_ended() -> None:
    gone: list[str] = []
    table: Table[object, str] = Table(gone.append)
    a, b = Key(), Key()
    table.put((id(a), id(b)), "both", [a, b])
    table.put((id(a), 1), "a", [a])
    table.put((id(b), 1), "b", [b])
    table.put((id(b), 1), "b again", [b])
    del a
    assert list(table.values()) == ["b again"]
    assert sorted(gone) == ["a", "both"]
    table.put("nothing", "stays", [])
    del b
    assert dict(table) == {"nothing": "stays"}


@CPU_ALONE
def test_keys_hold_no_object() -> None:
    """Values by content, everything else by identity; temporary objects of this package by their parts."""
    v = qd.Vector.field(2, qd.f32, shape=1)
    named: list[Any] = []
    assert template_key(v.get_scalar_field(1), named) == template_key(v.get_scalar_field(1))
    assert v in named
    s = Sim()
    assert template_key(s.scaled) == template_key(s.scaled)
    assert template_key(s.scaled) != template_key(Sim().scaled)
    assert template_key(s.step.__self__) == template_key(s)
    assert template_key({"a": [1, 2.0]}) == template_key({"a": [1, 2.0]}) != template_key({"a": [1, 2]})
    gone, s.curve = ref(s), None
    kept = [template_key(x) for x in (s, [s], {"s": s}, (s.x, 1), s.scaled, K.Frozen(s, 1.0))]
    del s
    assert gone() is None
    assert len(set(kept)) == len(kept)
