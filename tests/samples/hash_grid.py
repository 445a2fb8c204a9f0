"""A picture in a small table: an encoding of places by hashed grids of several levels, trained together with a
network of torch."""

import numpy as np

SINGLE, NEEDS = 5e-3, ("torch",)
LEVELS, SLOTS, WIDTH = 4, 64, 2  # grids; entries of each one's table; numbers an entry
COARSE, GROWTH = 3, 1.7
_DRAW = np.random.default_rng(5)
PARAMS = {"table": _DRAW.uniform(-0.5, 0.5, (LEVELS * SLOTS, WIDTH)), "at": _DRAW.uniform(0.05, 0.95, (40, 2))}


def picture(at):
    return 0.5 + 0.5 * (9.0 * at[:, :1]).sin() * (7.0 * at[:, 1:]).cos()


def make(qd):
    import torch

    real = qd.lang.impl.current_cfg().default_fp
    array = qd.types.ndarray()
    dtype = torch.float64 if real == qd.f64 else torch.float32

    @qd.func
    def slot(level, cell):
        """Where the corner of a cell is in the table: a coarse grid fits, a fine one shares entries."""
        side = qd.cast(COARSE * GROWTH**level, qd.i32) + 2
        here = qd.cast(cell.x + side * cell.y, qd.u32)
        if side * side > SLOTS:
            here = qd.cast(cell.x, qd.u32) ^ (qd.cast(cell.y, qd.u32) * qd.u32(2654435761))
        return level * SLOTS + qd.cast(here % qd.u32(SLOTS), qd.i32)

    @qd.kernel
    def encode(at: array, table: array, out: array):
        for i, level in qd.ndrange(at.shape[0], LEVELS):
            place = qd.Vector([at[i, 0], at[i, 1]]) * (COARSE * GROWTH**level) + 0.5
            cell = qd.floor(place, qd.i32)
            t = place - cell
            smooth = t * t * (3.0 - 2.0 * t)
            for corner in qd.static(qd.grouped(qd.ndrange(2, 2))):
                weight = 1.0
                for d in qd.static(range(2)):
                    weight *= smooth[d] if corner[d] else 1.0 - smooth[d]
                entry = slot(level, cell + corner)
                for c in qd.static(range(WIDTH)):
                    out[i, level * WIDTH + c] += weight * table[entry, c]

    class Encode(torch.autograd.Function):
        @staticmethod
        def forward(ctx, at, table):
            out = at.new_zeros(len(at), LEVELS * WIDTH)
            encode(at, table, out)
            ctx.save_for_backward(at, table, out)
            return out

        @staticmethod
        def backward(ctx, by_out):
            at, table, out = ctx.saved_tensors
            out.grad = by_out.contiguous()
            encode.grad(at, table, out)
            return at.grad, table.grad

    class HashGrid(torch.nn.Module):
        def __init__(self, table):
            super().__init__()
            self.table = torch.nn.Parameter(torch.tensor(table, dtype=dtype))

        def forward(self, at):
            return Encode.apply(at, self.table)

    def network():
        torch.manual_seed(0)
        hidden, last = torch.nn.Linear(LEVELS * WIDTH, 8), torch.nn.Linear(8, 1)
        return torch.nn.Sequential(hidden, torch.nn.Tanh(), last).to(dtype)

    def run(**given):
        grid, rest = HashGrid(given["table"]), network()
        at = torch.tensor(given["at"], dtype=dtype, requires_grad=True)
        feature = grid(at)
        loss = ((rest(feature) - 0.5) ** 2).sum()
        loss.backward()
        return {"loss": loss.detach().numpy(), "feature": feature.detach().numpy(),
                "table.grad": grid.table.grad.numpy(), "at.grad": at.grad.numpy()}  # fmt: skip

    def train(rounds, batch):
        grid, rest, losses = HashGrid(0.1 * PARAMS["table"]), network(), []
        optimiser = torch.optim.Adam([*grid.parameters(), *rest.parameters()], lr=0.02)
        for _ in range(rounds):
            at = torch.rand(batch, 2, dtype=dtype)
            optimiser.zero_grad()
            loss = ((rest(grid(at)) - picture(at)) ** 2).mean()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        return losses

    run.train = train
    return run


def learn(qd):
    return make(qd).train(25, 128)


def expected():
    """Computed by torch's own operations and derivatives."""
    import torch

    table, at = (torch.tensor(PARAMS[name], requires_grad=True) for name in ("table", "at"))
    out = []
    for level in range(LEVELS):
        place = at * (COARSE * GROWTH**level) + 0.5
        cell = place.detach().floor()
        t = place - cell
        smooth, whole, side = t * t * (3 - 2 * t), cell.long(), int(COARSE * GROWTH**level) + 2
        total = 0.0
        for x in range(2):
            for y in range(2):
                a, b = whole[:, 0] + x, whole[:, 1] + y
                here = a + side * b if side * side <= SLOTS else a ^ (b * 2654435761 % 2**32)
                weight = (smooth[:, 0] if x else 1 - smooth[:, 0]) * (smooth[:, 1] if y else 1 - smooth[:, 1])
                total = total + weight[:, None] * table[level * SLOTS + here % SLOTS]
        out.append(total)
    feature = torch.cat(out, 1)
    torch.manual_seed(0)
    hidden, last = torch.nn.Linear(LEVELS * WIDTH, 8), torch.nn.Linear(8, 1)
    loss = ((torch.nn.Sequential(hidden, torch.nn.Tanh(), last).double()(feature) - 0.5) ** 2).sum()
    loss.backward()
    return {"loss": loss.detach().numpy(), "feature": feature.detach().numpy(), "table.grad": table.grad.numpy(),
            "at.grad": at.grad.numpy()}  # fmt: skip
