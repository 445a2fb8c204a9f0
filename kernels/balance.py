"""A small network of torch learns to balance poles: each step is a kernel, and torch goes back through all of them.

A cart of mass 1 on a rail carries a pole of length ``l`` with the mass ``m`` at its tip. ``x`` is where the cart is,
``a`` the angle of the pole from upright and ``F`` the force on the cart; with ``s = sin a`` and ``c = cos a``

    x'' = (F + m l a'**2 s - m g s c) / (1 + m s**2),        a'' = (g s - x'' c) / l,

stepped by ``v <- v + dt v'``, ``x <- x + dt v``. `qd.torch_op` makes an operation of the kernel, so that torch
differentiates through every step and through the network, which computes the force from the state.

Shapes: ``state``, ``then`` (carts,) of the 4-vector (x, a, x', a'), ``force`` (carts,); any float dtype. The sample
needs torch.
"""

import torch

import quadrants_lab as qd


@qd.torch_op(outputs={"then": "state"})
@qd.kernel
def step(
    state: qd.types.ndarray(dtype=qd.types.vector(4, float), ndim=1), force: qd.types.ndarray(ndim=1), dt: float,
    then: qd.types.ndarray(dtype=qd.types.vector(4, float), ndim=1),
):  # fmt: skip
    """Writes the state after the time ``dt`` to ``then``."""
    m, length, g = 0.2, 1.0, 10.0
    for i in range(state.shape[0]):
        now = state[i]
        s, c = qd.sin(now[1]), qd.cos(now[1])
        cart = (force[i] + m * length * now[3] ** 2 * s - m * g * s * c) / (1.0 + m * s * s)
        v = now[2] + dt * cart
        w = now[3] + dt * (g * s - cart * c) / length
        then[i] = [now[0] + dt * v, now[1] + dt * w, v, w]


def fall(net: torch.nn.Module, state: torch.Tensor, steps: int, dt: float = 0.05) -> torch.Tensor:
    """The loss: the deviation from the middle and from upright, (x / 2)**2 + a**2, averaged over carts and steps."""
    loss = state.new_zeros(())
    for _ in range(steps):
        state = step(state, net(state)[:, 0], dt)
        loss = loss + (state[:, :2] * state.new_tensor([0.5, 1.0])).square().sum(1).mean() / steps
    return loss


def main(carts: int = 32, steps: int = 30, rounds: int = 40, rate: float = 0.05) -> list[float]:
    """Trains the network on carts that begin at random; returns the loss before each round."""
    qd.init(arch=qd.cpu)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    begin, losses = 0.2 * torch.randn(carts, 4), []
    for _ in range(rounds):
        loss = fall(net, begin, steps)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"off by {losses[0]:.3g} -> {losses[-1]:.3g}")
