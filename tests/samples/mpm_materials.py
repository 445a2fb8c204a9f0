"""Jelly, water and snow fall together: the moving least squares material point method with plasticity."""

import numpy as np

SINGLE = 5e-3


def make(qd):
    per, grid, dt = 40, 16, 2e-3
    n, dx = 3 * per, 1.0 / grid
    volume = (0.2 / np.sqrt(per)) ** 2
    x, v = qd.Vector.field(2, float, n), qd.Vector.field(2, float, n)
    C, F = qd.Matrix.field(2, 2, float, n), qd.Matrix.field(2, 2, float, n)
    Jp, material = qd.field(float, n), qd.field(qd.i32, n)
    momentum, mass = qd.Vector.field(2, float, (grid, grid)), qd.field(float, (grid, grid))
    WATER, SNOW = 0, 2  # 1 is jelly
    mu_0, lambda_0 = 40.0, 60.0

    @qd.func
    def weights(at):
        base = (at / dx - 0.5).cast(int)
        fx = at / dx - base.cast(float)
        return base, fx, [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]

    @qd.kernel
    def start(places: qd.types.ndarray()):
        for p in x:
            material[p] = p // per
            for k in qd.static(range(2)):
                x[p][k] = places[p, k]
            F[p] = qd.Matrix([[1, 0], [0, 1]])
            Jp[p] = 1
            v[p] = [0, -2]
            C[p] = qd.Matrix.zero(float, 2, 2)

    @qd.kernel
    def substep():
        for i, j in mass:
            momentum[i, j] = [0, 0]
            mass[i, j] = 0
        for p in x:
            base, fx, w = weights(x[p])
            F[p] = (qd.Matrix.identity(float, 2) + dt * C[p]) @ F[p]
            hardness = qd.exp(10 * (1.0 - Jp[p])) if material[p] == SNOW else 0.3
            mu, la = mu_0 * hardness, lambda_0 * hardness
            if material[p] == WATER:
                mu = 0.0
            U, sig, V = qd.svd(F[p])
            J = 1.0
            for d in qd.static(range(2)):
                kept = sig[d, d]
                if material[p] == SNOW:
                    kept = qd.min(qd.max(sig[d, d], 1 - 2.5e-2), 1 + 4.5e-3)
                Jp[p] *= sig[d, d] / kept
                sig[d, d] = kept
                J *= kept
            if material[p] == WATER:
                F[p] = qd.Matrix.identity(float, 2) * qd.sqrt(J)
            elif material[p] == SNOW:
                F[p] = U @ sig @ V.transpose()
            stress = 2 * mu * (F[p] - U @ V.transpose()) @ F[p].transpose()
            stress += qd.Matrix.identity(float, 2) * la * J * (J - 1)
            affine = volume * C[p] - dt * volume * 4 / dx**2 * stress
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                weight = w[i][0] * w[j][1]
                momentum[base + offset] += weight * (volume * v[p] + affine @ ((offset - fx) * dx))
                mass[base + offset] += weight * volume
        for i, j in mass:
            if mass[i, j] > 0:
                momentum[i, j] = momentum[i, j] / mass[i, j]
                momentum[i, j].y -= dt * 10
                if (i < 3 and momentum[i, j].x < 0) or (i > grid - 3 and momentum[i, j].x > 0):
                    momentum[i, j].x = 0
                if (j < 3 and momentum[i, j].y < 0) or (j > grid - 3 and momentum[i, j].y > 0):
                    momentum[i, j].y = 0
        for p in x:
            base, fx, w = weights(x[p])
            new_v, new_C = qd.Vector.zero(float, 2), qd.Matrix.zero(float, 2, 2)
            for i, j in qd.static(qd.ndrange(3, 3)):
                g = w[i][0] * w[j][1] * momentum[base + qd.Vector([i, j])]
                new_v += g
                new_C += 4 / dx * g.outer_product(qd.Vector([i, j]) - fx)
            v[p], C[p] = new_v, new_C
            x[p] += dt * v[p]

    def run():
        k = np.arange(n)
        places = np.stack([0.2 + 0.2 * (k // per) + 0.19 * (k * 0.618034 % 1), 0.2 + 0.2 * (k % per / per)], 1)
        start(places.astype(np.float32))
        for _ in range(40):
            substep()
        return {"x": x.to_numpy(), "v": v.to_numpy(), "Jp": Jp.to_numpy()}

    return run
