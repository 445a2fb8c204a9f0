"""Water, jelly, snow and sand fall together: one kernel is a step of all four, each with its rule of flow, in place;
how do their stiffnesses and the throw move the heap?"""

import numpy as np

GRID, SINGLE = 14, 5e-3
WATER, JELLY, SNOW, SAND = range(4)
PARAMS = {"throw": np.array([0.4, -1.5]), "stiffness": np.array([30.0, 20.0, 60.0, 80.0]), "friction": np.array(0.5)}


def make(qd, per=12, steps=60):
    n, dt, dx = 4 * per, 2e-3, 1.0 / GRID
    volume = (0.14 / np.sqrt(per)) ** 2
    vec2, mat2 = qd.types.vector(2, float), qd.types.matrix(2, 2, float)
    state = qd.types.struct(x=vec2, v=vec2, C=mat2, F=mat2, hard=float)
    node = qd.types.struct(v=vec2, mass=float)

    @qd.data_oriented
    class Scene:
        def __init__(self):
            self.p = state.field(shape=n, needs_grad=True, layout=qd.Layout.SOA)
            self.grid = node.field(shape=(GRID, GRID), needs_grad=True, layout=qd.Layout.SOA)
            self.material = qd.field(qd.i32, shape=n)
            self.throw = qd.Vector.field(2, float, shape=(), needs_grad=True)
            self.stiffness = qd.field(float, shape=4, needs_grad=True)
            self.friction, self.loss = (qd.field(float, shape=(), needs_grad=True) for _ in range(2))

        @qd.kernel
        def begin(self, places: qd.types.ndarray()):
            for p in self.p:
                self.material[p] = p // per
                self.p[p].x = [places[p, 0], places[p, 1]]
                self.p[p].v = self.throw[None]
                self.p[p].C = qd.Matrix.zero(float, 2, 2)
                self.p[p].F = qd.Matrix.identity(float, 2)
                self.p[p].hard = 1.0

        @qd.func
        def sand(self, sig):
            """Drucker and Prager: no pull, and shear up to the friction times the pressure."""
            strain = qd.Vector([qd.log(qd.max(sig[d, d], 0.05)) for d in range(2)])
            pressure = strain.sum()
            shape = strain - pressure / 2.0
            size = shape.norm(1e-10)
            if pressure >= 0.0:
                strain = qd.Vector.zero(float, 2)
            else:
                beyond = size + self.friction[None] * pressure
                if beyond > 0.0:
                    strain -= beyond / size * shape
            return qd.Matrix([[qd.exp(strain.x), 0.0], [0.0, qd.exp(strain.y)]])

        @qd.func
        def weights(self, at):
            base = qd.floor(at / dx - 0.5, int)
            fx = at / dx - base
            return base, fx, [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]

        @qd.kernel
        def substep(self):
            for i, j in self.grid:
                self.grid[i, j].v = [0.0, 0.0]
                self.grid[i, j].mass = 0.0
            for p in self.p:
                me, kind = self.p[p], self.material[p]
                one = qd.Matrix.identity(float, 2)
                F, hard = (one + dt * me.C) @ me.F, me.hard
                base, fx, w = self.weights(me.x)
                mu = self.stiffness[kind]
                la = 1.5 * mu
                stress = qd.Matrix.zero(float, 2, 2)
                if kind == WATER:
                    J = F.determinant()
                    F = qd.sqrt(J) * one
                    stress = la * J * (J - 1.0) * one
                else:
                    U, sig, V = qd.svd(F)
                    if kind == SNOW:
                        for d in qd.static(range(2)):
                            within = qd.math.clamp(sig[d, d], 0.975, 1.0075)
                            hard *= sig[d, d] / within
                            sig[d, d] = within
                    elif kind == SAND:
                        sig = self.sand(sig)
                    F = U @ sig @ V.transpose()
                    if kind == SAND:  # Hencky's energy
                        e = qd.Vector([qd.log(sig[0, 0]), qd.log(sig[1, 1])])
                        inner = 2.0 * mu * e + la * e.sum()
                        stress = U @ qd.Matrix([[inner.x, 0.0], [0.0, inner.y]]) @ U.transpose()
                    else:
                        h = 1.0
                        if kind == SNOW:
                            h = qd.exp(5.0 * (1.0 - hard))
                        J = sig[0, 0] * sig[1, 1]
                        stress = 2.0 * mu * h * (F - U @ V.transpose()) @ F.transpose() + la * h * J * (J - 1.0) * one
                self.p[p].F, self.p[p].hard = F, hard
                affine = volume * me.C - (dt * volume * 4.0 / dx**2) * stress
                for i, j in qd.static(qd.ndrange(3, 3)):
                    offset = qd.Vector([i, j])
                    weight = w[i].x * w[j].y
                    self.grid[base + offset].v += weight * (volume * me.v + affine @ ((offset - fx) * dx))
                    self.grid[base + offset].mass += weight * volume
            for i, j in self.grid:
                if self.grid[i, j].mass > 0.0:
                    v = self.grid[i, j].v / self.grid[i, j].mass - dt * qd.Vector([0.0, 9.8])
                    if (i < 3 and v.x < 0.0) or (i > GRID - 3 and v.x > 0.0):
                        v.x = 0.0
                    if j < 3 and v.y < 0.0:
                        v = [0.7 * v.x, 0.0]
                    self.grid[i, j].v = v
            for p in self.p:
                base, fx, w = self.weights(self.p[p].x)
                v, C = qd.Vector.zero(float, 2), qd.Matrix.zero(float, 2, 2)
                for i, j in qd.static(qd.ndrange(3, 3)):
                    offset = qd.Vector([i, j])
                    g = w[i].x * w[j].y * self.grid[base + offset].v
                    v += g
                    C += 4.0 / dx * g.outer_product(offset - fx)
                self.p[p].v, self.p[p].C = v, C
                self.p[p].x += dt * v

        @qd.kernel
        def measure(self):
            for p in self.p:
                self.loss[None] += (1.0 + self.material[p]) * (self.p[p].x - 0.5).norm_sqr() / n

    scene, k = Scene(), np.arange(n)
    i, j = k % per * 0.618034 % 1, k % per / per
    corner = np.array([[0.25, 0.25], [0.45, 0.25], [0.25, 0.45], [0.45, 0.45]])[k // per]
    places = (corner + 0.16 * np.stack([i, j], 1)).astype(np.float32)

    def run(**given):
        scene.throw[None] = given["throw"]
        scene.friction[None] = given["friction"]
        scene.stiffness.from_numpy(given["stiffness"])
        with qd.ad.Tape(scene.loss):
            scene.begin(places)
            for _ in range(steps):
                scene.substep()
            scene.measure()
        return {"loss": scene.loss.to_numpy(), "x": scene.p.x.to_numpy(), "hard": scene.p.hard.to_numpy(),
                "throw.grad": scene.throw.grad.to_numpy(), "stiffness.grad": scene.stiffness.grad.to_numpy(),
                "friction.grad": scene.friction.grad.to_numpy()}  # fmt: skip

    return run
