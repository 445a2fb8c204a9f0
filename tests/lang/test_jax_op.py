"""`qd.jax_op`: kernels and programs in JAX's derivatives, against JAX's own; JAX arrays as arguments of kernels."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

jax = pytest.importorskip("jax")
jnp = jax.numpy

session = session_of(EVERYWHERE)


@qd.kernel
def gather(x: qd.types.ndarray(), at: qd.types.ndarray(), k: float, y: qd.types.ndarray(), total: qd.types.ndarray()):
    for i in at:
        y[i] = k * qd.sin(x[at[i]])
        total[None] += y[i] * x[i]

@qd.kernel
def advance(x: qd.types.ndarray()):
    for i in x:
        x[i] = x[i] + 0.1 * qd.sin(x[i])


gathered = qd.jax_op(gather, outputs={"y": lambda at, x: jax.ShapeDtypeStruct(at.shape, x.dtype), "total": ()})


@qd.jax_op(outputs={"y": "x"})
def walk(x, y, steps=3):
    y.copy_from(x)
    for _ in range(steps):
        advance(y)


def in_jax(x, at, k):
    y = k * jnp.sin(x[at])
    return y, (y * x[: len(at)]).sum()


X, AT = np.linspace(0.1, 0.9, 5, dtype=np.float32), np.array([4, 0, 2], np.int32)


@pytest.mark.parametrize("how", [lambda f: f, jax.jit])
def test_values_and_gradients(how) -> None:
    def loss(op):
        def value(x):
            y, total = op(x, jnp.asarray(AT), 1.5)
            return (y**2).sum() + 3.0 * total
        return value
    found, slope = how(jax.value_and_grad(loss(gathered)))(jnp.asarray(X))
    want, right = jax.value_and_grad(loss(in_jax))(jnp.asarray(X))
    np.testing.assert_allclose(found, want, rtol=1e-5)
    np.testing.assert_allclose(slope, right, rtol=1e-5)


def test_a_program_over_a_batch() -> None:
    def of(x):
        for _ in range(4):
            x = x + 0.1 * jnp.sin(x)
        return x.sum()
    batch = jnp.asarray(np.stack([X, 2 * X]))
    found = jax.vmap(jax.grad(lambda x: walk(x, steps=4).sum()))(batch)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(of))(batch), rtol=1e-5)


def test_an_array_of_jax_cannot_be_written() -> None:
    """JAX shares its arrays, and so nobody may change one."""
    @qd.jax_op(outputs={"y": "x"})
    def in_place(x, y):
        advance(x)
        y.copy_from(x)
    with pytest.raises(Exception, match="QL2048"):
        in_place(jnp.asarray(X)).block_until_ready()


def test_under_a_tape_it_is_an_error() -> None:
    loss = qd.field(qd.f32, (), needs_grad=True)
    with pytest.raises(qd.QuadrantsRuntimeError, match="jax_op walk is called under a Tape"), qd.ad.Tape(loss):
        walk(jnp.asarray(X))


def test_what_an_output_is_like() -> None:
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="described by 'z', which is not an argument"):
        qd.jax_op(lambda x, y: None, outputs={"y": "z"})(jnp.asarray(X))
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="jax_op takes a kernel or a Python function"):
        qd.jax_op(3, outputs={"y": "x"})


def test_an_array_as_an_argument_is_read_where_it_is() -> None:
    y, total = np.zeros(3, np.float32), np.zeros((), np.float32)
    x, at = (jax.device_put(a, jax.devices("cpu")[0]) for a in (X, AT))
    gather(x, at, 2.0, y, total)
    np.testing.assert_allclose(y, 2 * np.sin(X[AT]), rtol=1e-5)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="a read-only"):
        advance(x)
