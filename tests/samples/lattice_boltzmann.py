"""Flow past a cylinder: the lattice Boltzmann method with nine speeds, tables as compile-time tuples."""

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
