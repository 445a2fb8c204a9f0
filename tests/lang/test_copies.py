"""Copies and pickles of kernels, funcs and operations: as of functions, the same object by its name."""

import copy
import functools
import multiprocessing
import pickle

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.distributed.sending import packed, unpacked

ARRAY = qd.types.ndarray(qd.f64, 1)


@qd.kernel
def cubes(x: ARRAY, y: ARRAY):
    for i in x:
        y[i] = cube(x[i])


@qd.func
def cube(a):
    return a * a * a


@qd.torch_op(outputs={"y": "x"})
def cubed(x, y):
    cubes(x, y)


@qd.data_oriented
class Scale:
    def __init__(self, by):
        self.by = by

    @qd.kernel
    def scale(self, x: ARRAY):
        for i in x:
            x[i] = x[i] * self.by

    @qd.func
    def scaled(self, a):
        return a * self.by


of_a_kernel = qd.torch_op(cubes, outputs={"y": "x"}, recompute=True)
NAMED = {"kernel": cubes, "func": cube, "operation": cubed, "method": Scale.scale, "func of a class": Scale.scaled}
GRADIENTS = {"gradient": cubes.grad, "both": cubes.value_and_grad, "gradient of a method": Scale.scale.grad}
CUBES = [0.0, 1.0, 8.0]


@pytest.fixture(autouse=True)
def session():
    qd.init(arch=qd.cpu)


def launched(kernel):
    x, y = np.arange(3.0), np.zeros(3)
    kernel(x, y)
    return y.tolist()


def launched_elsewhere(kernel):
    qd.init(arch=qd.cpu)
    return launched(kernel)


@pytest.mark.parametrize("made", [*NAMED.values(), of_a_kernel, *GRADIENTS.values()], ids=repr)
def test_a_copy_is_the_same_object(made):
    assert copy.copy(made) is copy.deepcopy(made) is copy.deepcopy([made])[0] is made


@pytest.mark.parametrize("made", NAMED.values(), ids=NAMED)
def test_a_pickle_has_the_name(made):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(made, protocol)) is made


def test_what_has_no_name_is_not_pickled():
    @qd.kernel
    def cubes(x: ARRAY, y: ARRAY):
        for i in x:
            y[i] = x[i]

    for made in (cubes, qd.kernel(first_one)):
        with pytest.raises((pickle.PicklingError, AttributeError), match=made.__name__):
            pickle.dumps(made)


def first_one(x: ARRAY):
    x[0] = 1.0


def test_a_method_of_an_object_goes_with_the_object():
    for again in (copy.copy, copy.deepcopy, lambda bound: pickle.loads(pickle.dumps(bound))):
        bound = again(Scale(3.0).scale)
        x = np.arange(3.0)
        bound(x)
        assert x.tolist() == [0.0, 3.0, 6.0]


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_pool_of_processes_takes_a_kernel(way):
    assert launched(cubes) == CUBES  # the parent has a session with compiled code
    with multiprocessing.get_context(way).Pool(1) as pool:
        assert pool.apply_async(launched_elsewhere, (cubes,)).get(60) == CUBES


@pytest.mark.parametrize("op", [cubed, of_a_kernel], ids=["function", "kernel"])
def test_a_module_of_torch_with_an_operation(op):
    torch = pytest.importorskip("torch")

    class Cubes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op, self.kernel = op, cubes
            self.weight = torch.nn.Parameter(torch.arange(3.0, dtype=torch.float64))

        def forward(self):
            return self.op(self.weight)

    module = Cubes()
    module().sum().backward()
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.weight.mul_(2.0)
    twin.zero_grad()
    twin().sum().backward()
    assert module.weight.grad.tolist() == [0.0, 3.0, 12.0]
    assert twin.weight.grad.tolist() == [0.0, 12.0, 48.0]


@pytest.mark.parametrize("op", [cubed, of_a_kernel, functools.partial(cubed)], ids=["function", "kernel", "partial"])
def test_an_operation_is_sent_or_pickled(op):
    torch = pytest.importorskip("torch")
    x = torch.arange(3.0, dtype=torch.float64)
    for again in (pickle.loads(pickle.dumps(op)), unpacked(packed(op, "op"))):
        assert again(x).tolist() == CUBES
