"""Passes keep what a kernel means: random IR, interpreted before and after each of them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from programs.random_ir import arrays, random_kernel

from quadrants_lab.errors import QuadrantsIndexError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.verify import verify
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.check_bounds import check_bounds
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.licm import licm
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.pipeline import run
from quadrants_lab.passes.structure_exits import structure_exits
from quadrants_lab.passes.trust_bounds import trust_bounds
from quadrants_lab.pipelines.launch import front
from quadrants_lab.runtime.interpret.interpreter import OutOfBounds, interpret

SEEDS = st.integers(0, 2**32)


def outcome(kernel, seed):
    """Final memory, floats as bits where they are numbers."""
    memory = arrays(seed)
    interpret(kernel, {"s": 3}, memory)
    return memory


def same(a, b):
    for name, x in a.items():
        y = b[name]
        if x.dtype.kind == "f":
            nan = np.isnan(x)
            np.testing.assert_array_equal(nan, np.isnan(y), err_msg=name)
            x, y = np.where(nan, 0, x), np.where(nan, 0, y)
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y), err_msg=name)
        np.testing.assert_array_equal(x, y, err_msg=name)


@pytest.mark.parametrize("fn", [fold, cse, dce, licm, structure_exits], ids=lambda f: f.__name__)
@given(SEEDS)
def test_pass_keeps_the_meaning(fn, seed):
    kernel = random_kernel(seed)
    after = run(kernel, (fn,), verify=True)
    same(outcome(kernel, seed), outcome(after, seed))


@given(SEEDS)
def test_the_pipeline_keeps_the_meaning(seed):
    kernel = random_kernel(seed)
    after = run(kernel, front(CompileOptions()), verify=True)
    assert all(isinstance(s, N.Offload) for s in after.body)
    assert not any(isinstance(s, (N.Break, N.Continue)) for s in walk(after.body))
    same(outcome(kernel, seed), outcome(after, seed))


@given(SEEDS)
def test_offload_keeps_the_meaning(seed):
    kernel = run(random_kernel(seed), (structure_exits, offload), verify=True)
    for task in kernel.body:
        assert isinstance(task, N.Offload)
        verify(N.Kernel("alone", kernel.args, kernel.buffers, (task,), kernel.next_id))
    same(outcome(random_kernel(seed), seed), outcome(kernel, seed))


@given(SEEDS)
def test_nothing_leaves_its_buffer_after_check_bounds(seed):
    kernel = random_kernel(seed, wild=True)
    checked = run(kernel, (check_bounds,), verify=True)
    try:
        expected = outcome(kernel, seed)
    except OutOfBounds:
        failed = interpret(checked, {"s": 3}, arrays(seed)).failure
        assert failed is not None
        assert failed.kind == "bounds"
    else:
        same(expected, outcome(checked, seed))
    # also where a failed assert does not end the iteration, no access may happen
    silent = strip_asserts(checked)
    for options in (CompileOptions(), CompileOptions(debug=True, check_out_of_bound=True)):
        interpret(run(silent, front(options)), {"s": 3}, arrays(seed))


def fails(kernel, seed):
    """Whether an index is out of bounds when the kernel runs on the memory of that seed."""
    try:
        interpret(kernel, {"s": 3}, arrays(seed))
    except OutOfBounds:
        return True
    return False


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("begin", [0, pytest.param(200, marks=pytest.mark.slow)])
def test_what_is_refused_fails_in_every_launch(begin, wild):
    """And much of what always fails is refused. By night 2,000 kernels whose indices are right, and as many others."""
    refused, failing = 0, 0
    for seed in range(begin, 200 if begin == 0 else 2000):
        kernel = random_kernel(seed, wild=wild)
        always = all(fails(kernel, seed + n) for n in range(3))
        failing += always
        told = ""
        try:
            trust_bounds(kernel)
        except QuadrantsIndexError as error:
            told = str(error)
        assert always or not told, seed
        refused += bool(told)
    assert (refused > failing * 0.7) if wild else (refused == failing == 0)


def strip_asserts(kernel):
    def block(stmts):
        return tuple(
            s.with_blocks(tuple(block(b) for b in s.blocks())) if s.blocks() else s
            for s in stmts
            if not isinstance(s, N.Assert)
        )

    return N.Kernel(kernel.name, kernel.args, kernel.buffers, block(kernel.body), kernel.next_id)


@given(SEEDS)
def test_a_pass_that_ran_has_nothing_more_to_do(seed):
    """Cheap passes reach their fixpoint in few rounds: nothing flips back and forth."""
    kernel = run(random_kernel(seed), front(CompileOptions()))
    for _ in range(8):
        again = dce(cse(fold(kernel)))
        if again is kernel:
            return
        kernel = again
    pytest.fail("still changing after eight rounds")
