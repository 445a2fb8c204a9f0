"""A recurrent unit over sequences of different lengths: backpropagation through time, written by the compiler.

    h_0 = 0,   h_{t+1} = tanh(w h_t + u x[b, t] + c),   t < length[b],        L = sum_b (h_{length[b]} - goal[b])**2

``h`` is carried around a loop whose trip count is read from memory, and the update is not linear in it: the reverse
loop needs every ``h_t`` again, so one stack is kept, as deep as the longest sequence. ``x[b, t]`` is loaded again
instead. The weights are loop-invariant operands: their derivative sums the shares of all trips.

Shapes: ``x`` (batch, time), ``length`` (batch,) i32 with values in 0..time, ``goal`` (batch,), ``weights`` (3,) for
w, u and c, ``loss`` (); any float dtype.
"""

import numpy as np

import quadrants_lab as qd


@qd.kernel
def unroll(
    x: qd.types.ndarray(ndim=2),
    length: qd.types.ndarray(ndim=1),
    goal: qd.types.ndarray(ndim=1),
    weights: qd.types.ndarray(ndim=1),
    loss: qd.types.ndarray(ndim=0),
):
    """loss[None] += L."""
    for b in range(x.shape[0]):
        h = weights[0] * 0.0
        for t in range(length[b]):
            h = qd.tanh(weights[0] * h + weights[1] * x[b, t] + weights[2])
        d = h - goal[b]
        loss[None] += d * d


def gradient(
    x: np.ndarray, length: np.ndarray, goal: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """L and dL/d(w, u, c), in float64."""
    params = qd.ndarray(qd.f64, shape=(3,), needs_grad=True)
    loss = qd.ndarray(qd.f64, shape=(), needs_grad=True)
    params.from_numpy(weights)
    args = x, length.astype(np.int32), goal, params, loss
    unroll(*args)
    loss.grad[None] = 1.0
    unroll.grad(*args)
    return float(loss[None]), params.grad.to_numpy()


def main(batch: int = 24, time: int = 20, rounds: int = 60, rate: float = 0.02) -> list[float]:
    """Recovers known weights from their outputs; the loss before each round."""
    qd.init(arch=qd.cpu)
    rng = np.random.default_rng(5)
    x, length = rng.normal(size=(batch, time)), rng.integers(1, time + 1, batch)
    goal = np.zeros(batch)
    for b in range(batch):
        for t in range(length[b]):
            goal[b] = np.tanh(0.7 * goal[b] + 0.5 * x[b, t] - 0.2)
    weights, losses = np.array([0.1, 0.1, 0.0]), []
    for _ in range(rounds):
        loss, slope = gradient(x, length, goal, weights)
        losses.append(loss)
        weights = weights - rate * slope
    return losses


if __name__ == "__main__":
    print(main())
