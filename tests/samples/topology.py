"""A cantilever of little material that bends little: densities of elements, displacements by preconditioned conjugate
gradients, whose adjoint is another solution of the same equations."""

import numpy as np

NX, NY = 10, 5
SINGLE = 5e-3
PARAMS = {
    "density": 0.5 + 0.1 * np.sin(np.arange(NX * NY).reshape(NX, NY)),
    "load": np.array([0.1, -1.0]),
}


def element():
    """The stiffness of a square of plane stress, with 2 x 2 points of Gauss; its corners in order."""
    nu, K = 0.3, np.zeros((8, 8))
    D = np.array([[1, nu, 0], [nu, 1, 0], [0, 0, (1 - nu) / 2]]) / (1 - nu**2)
    points = 0.5 + np.array([-0.5, 0.5]) / 3**0.5
    for x, y in np.stack(np.meshgrid(points, points), -1).reshape(-1, 2):
        by_x, by_y = np.array([y - 1, 1 - y, y, -y]), np.array([x - 1, -x, x, 1 - x])
        B = np.zeros((3, 8))
        B[0, ::2], B[1, 1::2], B[2, ::2], B[2, 1::2] = by_x, by_y, by_y, by_x
        K += 0.25 * B.T @ D @ B
    return K


def make(qd, nx=NX, ny=NY):
    corners = ((0, 0), (1, 0), (1, 1), (0, 1))
    elements, nodes = (nx, ny), (nx + 1, ny + 1)
    Ke = qd.Matrix(element().tolist())

    @qd.data_oriented
    class Beam:
        def __init__(self):
            self.density, self.smooth, self.stiff = (qd.field(float, elements, needs_grad=True) for _ in range(3))
            self.u, self.f = (qd.Vector.field(2, float, nodes, needs_grad=True) for _ in range(2))
            self.x, self.r, self.z, self.p = (qd.Vector.field(2, float, nodes) for _ in range(4))
            self.Ap, self.diagonal = (qd.Vector.field(2, float, nodes) for _ in range(2))
            self.load = qd.Vector.field(2, float, (), needs_grad=True)
            self.loss = qd.field(float, (), needs_grad=True)
            self.rounds = 0

        @qd.kernel
        def filter(self):
            """Densities are averages, and stiffness grows with their third power."""
            for i, j in self.density:
                total, weights = 0.0, 0.0
                for a, b in qd.ndrange((-1, 2), (-1, 2)):
                    if 0 <= i + a < nx and 0 <= j + b < ny:
                        w = 1.5 - qd.sqrt(a * a + b * b)
                        if w > 0.0:
                            total += w * self.density[i + a, j + b]
                            weights += w
                self.smooth[i, j] = total / weights
                self.stiff[i, j] = 1e-3 + (1.0 - 1e-3) * self.smooth[i, j] ** 3

        @qd.kernel
        def pull(self):
            for j in range(ny + 1):
                self.f[nx, j] = self.load[None] / (ny + 1)

        @qd.func
        def around(self, v: qd.template(), i, j):
            """The eight numbers of the corners of an element."""
            out = qd.Vector.zero(float, 8)
            for c in qd.static(range(4)):
                for d in qd.static(range(2)):
                    out[2 * c + d] = v[i + corners[c][0], j + corners[c][1]][d]
            return out

        @qd.kernel
        def multiply(self, v: qd.template(), out: qd.template()):
            for I in qd.grouped(out):
                out[I] = [0.0, 0.0]
            for i, j in self.stiff:
                forces = self.stiff[i, j] * (Ke @ self.around(v, i, j))
                for c in qd.static(range(4)):
                    out[i + corners[c][0], j + corners[c][1]] += qd.Vector([forces[2 * c], forces[2 * c + 1]])
            for j in range(ny + 1):  # held by the wall
                out[0, j] = v[0, j]

        @qd.kernel
        def start(self, right: qd.template()):
            for I in qd.grouped(self.x):
                self.x[I] = [0.0, 0.0]
                self.r[I] = right[I] if I[0] > 0 else qd.Vector([0.0, 0.0])
                self.diagonal[I] = [0.0, 0.0]
            for i, j in self.stiff:
                for c in qd.static(range(4)):
                    own = qd.Vector([Ke[2 * c, 2 * c], Ke[2 * c + 1, 2 * c + 1]])
                    self.diagonal[i + corners[c][0], j + corners[c][1]] += self.stiff[i, j] * own
            for I in qd.grouped(self.x):
                self.z[I] = self.r[I] / self.diagonal[I]
                self.p[I] = self.z[I]

        @qd.kernel
        def dot(self, a: qd.template(), b: qd.template()) -> float:
            total = 0.0
            for I in qd.grouped(a):
                total += a[I].dot(b[I])
            return total

        @qd.kernel
        def advance(self, alpha: float):
            for I in qd.grouped(self.x):
                self.x[I] += alpha * self.p[I]
                self.r[I] -= alpha * self.Ap[I]
                self.z[I] = self.r[I] / self.diagonal[I]

        @qd.kernel
        def turn(self, beta: float):
            for I in qd.grouped(self.p):
                self.p[I] = self.z[I] + beta * self.p[I]

        def conjugate_gradients(self, right, most=200, small=1e-22):
            """x solves K x = right."""
            self.start(right)
            first = rz = self.dot(self.r, self.z)
            self.rounds = 0
            while rz > small * first and self.rounds < most:
                self.multiply(self.p, self.Ap)
                self.advance(rz / self.dot(self.p, self.Ap))
                new = self.dot(self.r, self.z)
                self.turn(new / rz)
                rz, self.rounds = new, self.rounds + 1

        @qd.kernel
        def adjoint(self):
            for I in qd.grouped(self.x):
                self.f.grad[I] += self.x[I]
            for i, j in self.stiff:
                self.stiff.grad[i, j] -= self.around(self.x, i, j).dot(Ke @ self.around(self.u, i, j))

        @qd.kernel
        def measure(self):
            """The work of the load."""
            for I in qd.grouped(self.u):
                self.loss[None] += self.u[I].dot(self.f[I])

    beam = Beam()

    @qd.ad.grad_replaced
    def solve():
        beam.conjugate_gradients(beam.f)
        beam.u.copy_from(beam.x)

    @qd.ad.grad_for(solve)
    def solve_grad():
        beam.conjugate_gradients(beam.u.grad)
        beam.adjoint()

    def run(**given):
        beam.density.from_numpy(given["density"])
        beam.load[None] = given["load"]
        with qd.ad.Tape(beam.loss):
            beam.filter()
            beam.pull()
            solve()
            beam.measure()
        return {"loss": beam.loss.to_numpy(), "u": beam.u.to_numpy(), "density.grad": beam.density.grad.to_numpy(),
                "load.grad": beam.load.grad.to_numpy()}  # fmt: skip

    return run


def learn(qd, rounds=10):
    """By optimality criteria: more where it helps, the volume stays."""
    run, density, losses = make(qd), np.full((NX, NY), 0.5), []
    for _ in range(rounds):
        found = run(density=density, load=PARAMS["load"])
        losses.append(float(found["loss"]))
        low, high = 0.0, 1e6
        while high - low > 1e-6 * (1 + high):
            price = 0.5 * (low + high)
            better = density * np.sqrt(np.maximum(-found["density.grad"], 0.0) / price)
            better = np.clip(np.clip(better, density - 0.2, density + 0.2), 0.01, 1.0)
            low, high = (price, high) if better.mean() > 0.5 else (low, price)
        density = better
    return losses


def expected():
    """Computed with a matrix of numpy, and the derivative of the work in closed form."""
    density, load = PARAMS["density"], PARAMS["load"]
    weights = np.zeros((NX, NY, NX, NY))
    for i, j, a, b in np.ndindex(weights.shape):
        weights[i, j, a, b] = max(0.0, 1.5 - np.hypot(i - a, j - b))
    weights /= weights.sum((2, 3), keepdims=True)
    smooth = np.einsum("ijab,ab->ij", weights, density)
    number = np.arange((NX + 1) * (NY + 1)).reshape(NX + 1, NY + 1)
    K, Ke, places = np.zeros((2 * number.size,) * 2), element(), {}
    for i, j in np.ndindex(NX, NY):
        ring = np.array([number[i, j], number[i + 1, j], number[i + 1, j + 1], number[i, j + 1]])
        places[i, j] = at = np.stack([2 * ring, 2 * ring + 1], 1).ravel()
        K[np.ix_(at, at)] += (1e-3 + (1 - 1e-3) * smooth[i, j] ** 3) * Ke
    f = np.zeros((NX + 1, NY + 1, 2))
    f[NX] = load / (NY + 1)
    free = slice(2 * (NY + 1), None)
    u = np.zeros(f.size)
    u[free] = np.linalg.solve(K[free, free], f.ravel()[free])
    work = np.array([[u[places[i, j]] @ Ke @ u[places[i, j]] for j in range(NY)] for i in range(NX)])
    by_density = np.einsum("ijab,ij->ab", weights, -work * (1 - 1e-3) * 3 * smooth**2)
    ends = u.reshape(f.shape)[NX]
    return {"loss": np.array(u @ f.ravel()), "u": u.reshape(f.shape), "density.grad": by_density,
            "load.grad": 2 * ends.mean(0)}  # fmt: skip
