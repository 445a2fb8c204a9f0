"""Flow past a cylinder: the lattice Boltzmann method with nine speeds, tables as compile-time tuples."""

import numpy as np

NX, NY, OMEGA, SPEED = 32, 12, 1.2, 0.08
WAYS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)


def make(qd):
    vec9 = qd.types.vector(9, float)
    now, new = qd.Vector.field(9, float, (NX, NY)), qd.Vector.field(9, float, (NX, NY))
    velocity = qd.Vector.field(2, float, (NX, NY))
    solid = qd.field(qd.u8, (NX, NY))

    @qd.func
    def equilibrium(rho, u):
        out = vec9(0.0)
        for k in qd.static(range(9)):
            cu = WAYS[k][0] * u.x + WAYS[k][1] * u.y
            out[k] = WEIGHTS[k] * rho * (1.0 + 3.0 * cu + 4.5 * cu * cu - 1.5 * u.norm_sqr())
        return out

    @qd.kernel
    def begin():
        for i, j in now:
            solid[i, j] = (i - 8) ** 2 + (j - 5) ** 2 < 6
            now[i, j] = equilibrium(1.0, qd.Vector([SPEED, 0.0]))

    @qd.kernel
    def step():
        for i, j in now:
            f = vec9(0.0)
            for k in qd.static(range(9)):
                f[k] = now[(i - WAYS[k][0]) % NX, (j - WAYS[k][1]) % NY][k]
            if solid[i, j]:
                for k in qd.static(range(9)):
                    new[i, j][k] = f[BACK[k]]
                velocity[i, j] = qd.Vector([0.0, 0.0])
            else:
                u = qd.Vector([0.0, 0.0])
                for k in qd.static(range(9)):
                    u += f[k] * qd.Vector(WAYS[k]) / f.sum()
                new[i, j] = f + OMEGA * (equilibrium(f.sum(), u) - f)
                velocity[i, j] = u
        for I in qd.grouped(now):
            now[I] = new[I]

    def run():
        begin()
        for _ in range(40):
            step()
        return {"f": now.to_numpy(), "velocity": velocity.to_numpy(), "solid": solid.to_numpy()}

    return run


def expected():
    i, j = np.mgrid[:NX, :NY]
    solid, ways = (i - 8) ** 2 + (j - 5) ** 2 < 6, np.array(WAYS)

    def equilibrium(rho, u):
        cu = u @ ways.T
        return np.array(WEIGHTS) * rho[..., None] * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (u**2).sum(-1)[..., None])

    f = equilibrium(np.ones((NX, NY)), np.full((NX, NY, 2), [SPEED, 0.0]))
    for _ in range(40):
        f = np.stack([np.roll(f[..., k], WAYS[k], (0, 1)) for k in range(9)], -1)
        rho = f.sum(-1)
        u = f @ ways / rho[..., None]
        f = np.where(solid[..., None], f[..., BACK], f + OMEGA * (equilibrium(rho, u) - f))
    return {"f": f, "velocity": np.where(solid[..., None], 0, u), "solid": solid.astype(np.uint8)}
