"""A ball kneads dough, in the plane or in space: a material point method whose principal strains yield, a tool with
friction that the grid feels, hundreds of steps under a Tape, and the adjoint of the singular values by hand."""

import numpy as np

GRID, SUBSTEPS = 10, 10  # nodes a side; steps an action
SINGLE = 5e-3
# the path of the tool, and the strain from which on the dough flows
PARAMS = {"action": np.tile([0.3, -1.1], (20, 1)), "yields": np.array(0.6)}


def make(qd, dim=2, n=48, actions=20):
    dt, dx, frames = 1e-3, 1.0 / GRID, actions * SUBSTEPS + 1
    volume = mass = 0.3**dim / n
    mu, la = 60.0, 80.0

    def scalars(shape):
        return qd.field(float, shape, needs_grad=True)

    def vectors(shape):
        return qd.Vector.field(dim, float, shape, needs_grad=True)

    def matrices(shape):
        return qd.Matrix.field(dim, dim, float, shape, needs_grad=True)

    @qd.data_oriented
    class Ball:
        """A tool that moves by its actions."""

        def __init__(self, radius, friction, softness):
            self.radius, self.friction, self.softness = radius, friction, softness
            self.position, self.velocity, self.action = vectors(frames), vectors(frames), vectors(actions)

        @qd.kernel
        def begin(self):
            self.position[0] = qd.Vector([0.42, 0.66, 0.5][:dim])

        @qd.kernel
        def forward(self, f: qd.i32):
            self.velocity[f] = self.action[f // SUBSTEPS]
            self.position[f + 1] = self.position[f] + dt * self.velocity[f]

        @qd.func
        def distance(self, f, at):
            return (at - self.position[f]).norm(1e-8) - self.radius

        @qd.func
        def collide(self, f, at, v):
            """The velocity of a node at ``at`` that had ``v``: it does not go into the ball, and rubs along it."""
            touch = qd.min(qd.exp(-self.distance(f, at) * self.softness), 1.0)
            out = v
            if touch > 0.1:
                arm = at - self.position[f]
                normal = arm / arm.norm(1e-8)
                relative = v - self.velocity[f]
                into = relative.dot(normal)
                along = relative - qd.min(into, 0.0) * normal
                if into < 0.0:
                    along *= qd.max(0.0, 1.0 + self.friction * into / along.norm(1e-8))
                out = self.velocity[f] + touch * along + (1.0 - touch) * relative
            return out

    @qd.data_oriented
    class Dough:
        def __init__(self, tools):
            self.tools = tools
            self.x, self.v = vectors((frames, n)), vectors((frames, n))
            self.C, self.F, self.new, self.U, self.sig, self.V = (matrices((frames, n)) for _ in range(6))
            nodes = (frames, *[GRID] * dim)
            self.grid_m, self.grid_v, self.grid_out = scalars(nodes), vectors(nodes), vectors(nodes)
            self.yields, self.loss = scalars(()), scalars(())

        @qd.kernel
        def begin(self, places: qd.types.ndarray()):
            for p in range(n):
                for d in qd.static(range(dim)):
                    self.x[0, p][d] = places[p, d]
                self.F[0, p] = qd.Matrix.identity(float, dim)

        @qd.kernel
        def clear(self):
            for I in qd.grouped(self.grid_m):
                self.grid_m[I] = 0.0
                self.grid_v[I] = self.grid_out[I] = qd.Vector.zero(float, dim)

        @qd.kernel
        def deform(self, f: qd.i32):
            for p in range(n):
                self.new[f, p] = (qd.Matrix.identity(float, dim) + dt * self.C[f, p]) @ self.F[f, p]

        @qd.kernel
        def factor(self, f: qd.i32):
            for p in range(n):
                self.U[f, p], self.sig[f, p], self.V[f, p] = qd.svd(self.new[f, p])

        @qd.kernel
        def factor_grad(self, f: qd.i32):
            """The adjoint of A = U S V^T; near equal values, what would be infinite is left out."""
            for p in range(n):
                U, S, V = self.U[f, p], self.sig[f, p], self.V[f, p]
                turn_u = U.transpose() @ self.U.grad[f, p]
                turn_v = V.transpose() @ self.V.grad[f, p]
                inner = qd.Matrix.zero(float, dim, dim)
                for i, j in qd.static(qd.ndrange(dim, dim)):
                    if qd.static(i == j):
                        inner[i, i] = self.sig.grad[f, p][i, i]
                    else:
                        apart = S[j, j] ** 2 - S[i, i] ** 2
                        if qd.abs(apart) > 1e-11:
                            left, right = turn_u[i, j] - turn_u[j, i], turn_v[i, j] - turn_v[j, i]
                            inner[i, j] = (left * S[j, j] + S[i, i] * right) / apart
                self.new.grad[f, p] += U @ inner @ V.transpose()

        @qd.func
        def returned(self, sig):
            """Singular values that the dough bears: von Mises' rule for the logarithms."""
            strain = qd.Vector([qd.log(qd.max(sig[d, d], 0.05)) for d in range(dim)])
            shape = strain - strain.sum() / dim
            size = shape.norm(1e-8)
            beyond = size - self.yields[None] / (2.0 * mu)
            if beyond > 0.0:
                strain -= beyond / size * shape
            out = qd.Matrix.zero(float, dim, dim)
            for d in qd.static(range(dim)):
                out[d, d] = qd.exp(strain[d])
            return out

        @qd.func
        def weights(self, at):
            base = (at / dx - 0.5).cast(int)
            fx = at / dx - base.cast(float)
            return base, fx, [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]

        @qd.func
        def share(self, w: qd.template(), offset: qd.template()):
            weight = 1.0
            for d in qd.static(range(dim)):
                weight *= w[offset[d]][d]
            return weight

        @qd.kernel
        def scatter(self, f: qd.i32):
            for p in range(n):
                base, fx, w = self.weights(self.x[f, p])
                U, V = self.U[f, p], self.V[f, p]
                F = U @ self.returned(self.sig[f, p]) @ V.transpose()
                self.F[f + 1, p] = F
                J = F.determinant()
                stress = 2.0 * mu * (F - U @ V.transpose()) @ F.transpose()
                stress += qd.Matrix.identity(float, dim) * (la * J * (J - 1.0))
                affine = mass * self.C[f, p] - (dt * volume * 4.0 / dx**2) * stress
                for offset in qd.static(qd.grouped(qd.ndrange(*([3] * dim)))):
                    weight = self.share(w, offset)
                    reach = (offset.cast(float) - fx) * dx
                    self.grid_v[f, base + offset] += weight * (mass * self.v[f, p] + affine @ reach)
                    self.grid_m[f, base + offset] += weight * mass

        @qd.kernel
        def push(self, f: qd.i32):
            for I in qd.grouped(qd.ndrange(*([GRID] * dim))):
                if self.grid_m[f, I] > 1e-12:
                    v = self.grid_v[f, I] / self.grid_m[f, I]
                    v.y -= dt * 5.0
                    for k in qd.static(range(len(self.tools))):
                        v = self.tools[k].collide(f, I.cast(float) * dx, v)
                    for d in qd.static(range(dim)):
                        if (I[d] < 3 and v[d] < 0.0) or (I[d] > GRID - 3 and v[d] > 0.0):
                            v *= 0.6  # walls are rough
                            v[d] = 0.0
                    self.grid_out[f, I] = v

        @qd.kernel
        def gather(self, f: qd.i32):
            for p in range(n):
                base, fx, w = self.weights(self.x[f, p])
                v, C = qd.Vector.zero(float, dim), qd.Matrix.zero(float, dim, dim)
                for offset in qd.static(qd.grouped(qd.ndrange(*([3] * dim)))):
                    g = self.share(w, offset) * self.grid_out[f, base + offset]
                    v += g
                    C += 4.0 / dx * g.outer_product(offset.cast(float) - fx)
                self.v[f + 1, p], self.C[f + 1, p] = v, C
                self.x[f + 1, p] = self.x[f, p] + dt * v

        @qd.kernel
        def measure(self):
            """Dough is to be flat and to have gone to the right."""
            for p in range(n):
                at = self.x[frames - 1, p]
                self.loss[None] += ((at.x - 0.6) ** 2 + (at.y - 0.3) ** 2) / n

    ball = Ball(0.12, 0.5, 80.0)
    dough = Dough([ball])

    @qd.ad.grad_replaced
    def factored(f):
        dough.factor(f)

    @qd.ad.grad_for(factored)
    def factored_grad(f):
        dough.factor_grad(f)

    k = np.arange(n)
    places = np.stack([0.35 + 0.3 * (k * g % 1) for g in (0.8191725, 0.6710436, 0.5497005)[:dim]], 1).astype(np.float32)

    def run(**given):
        ball.action.from_numpy(given["action"])
        dough.yields[None] = given["yields"]
        dough.clear()
        with qd.ad.Tape(dough.loss):
            ball.begin()
            dough.begin(places)
            for f in range(frames - 1):
                dough.deform(f)
                factored(f)
                dough.scatter(f)
                for tool in dough.tools:
                    tool.forward(f)
                dough.push(f)
                dough.gather(f)
            dough.measure()
        return {"loss": dough.loss.to_numpy(), "x": dough.x.to_numpy()[-1],
                "action.grad": ball.action.grad.to_numpy(), "yields.grad": dough.yields.grad.to_numpy()}  # fmt: skip

    return run


def learn(qd, rounds=8, rate=0.3):
    """The losses of an optimiser that moves the tool."""
    run, given, losses = make(qd), dict(PARAMS), []
    mean = square = 0.0
    for k in range(1, rounds + 1):  # Adam
        found = run(**given)
        losses.append(float(found["loss"]))
        slope = found["action.grad"]
        mean, square = 0.8 * mean + 0.2 * slope, 0.95 * square + 0.05 * slope**2
        step = mean / (1 - 0.8**k) / (np.sqrt(square / (1 - 0.95**k)) + 1e-9)
        given["action"] = given["action"] - rate * step
    return losses
