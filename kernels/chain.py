"""Planar chains of joints, each with its own number of links: inverse kinematics by gradient descent.

    a_j = q[i, 0] + ... + q[i, j],    tip_i = sum_{j < count[i]} length (cos a_j, sin a_j),

    L = sum_i |tip_i - goal_i|**2

The angle ``a`` is loop-carried in ``for j in range(count[i])`` and an operand of sine and cosine, so the derivative
reads each of its values: one stack, as deep as the longest chain. The coordinates of the tip are linear updates and
need none. Closed form for the test: joint ``k`` turns all links after it, ``d tip / d q_k = R (tip - joint_k)`` with R
a quarter turn.

Shapes: ``q`` (chains, joints), ``count`` (chains,) i32 with values in 0..joints, ``goal`` (chains, 2), ``loss`` (); any
float dtype.
"""

import numpy as np

import quadrants_lab as qd


@qd.kernel
def reach(
    q: qd.types.ndarray(ndim=2), count: qd.types.ndarray(ndim=1), goal: qd.types.ndarray(ndim=2),
    loss: qd.types.ndarray(ndim=0), length: qd.f32,
):  # fmt: skip
    """loss[None] += L."""
    for i in range(q.shape[0]):
        angle = goal[i, 0] * 0.0
        x = angle
        y = angle
        for j in range(count[i]):
            angle += q[i, j]
            x += length * qd.cos(angle)
            y += length * qd.sin(angle)
        dx = x - goal[i, 0]
        dy = y - goal[i, 1]
        loss[None] += dx * dx + dy * dy


def gradient(q: np.ndarray, count: np.ndarray, goal: np.ndarray, length: float = 0.5) -> tuple[float, np.ndarray]:
    """L and dL/dq, in float64; joints beyond a chain's count have derivative zero."""
    angles = qd.ndarray(qd.f64, shape=q.shape, needs_grad=True)
    loss = qd.ndarray(qd.f64, shape=(), needs_grad=True)
    angles.from_numpy(q.astype(np.float64))
    args = angles, count.astype(np.int32), goal.astype(np.float64), loss, length
    reach(*args)
    loss.grad[None] = 1.0
    reach.grad(*args)
    return float(loss[None]), angles.grad.to_numpy()


def main(chains: int = 6, joints: int = 5, rounds: int = 80, rate: float = 0.05) -> list[float]:
    """Bends the chains until their tips are at their goals; returns the loss before each round."""
    qd.init(arch=qd.cpu)
    rng = np.random.default_rng(7)
    count = rng.integers(2, joints + 1, chains)
    q = 0.3 * rng.normal(size=(chains, joints))
    goal = 0.35 * count[:, None] * np.array([[np.cos(0.9), np.sin(0.9)]])
    losses = []
    for _ in range(rounds):
        loss, slope = gradient(q, count, goal)
        losses.append(loss)
        q = q - rate * slope
    return losses


if __name__ == "__main__":
    print(main())
