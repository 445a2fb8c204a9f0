"""Articulated bodies fall on the ground: joints over a tree, a block of threads for each body, which makes its mass
matrix, factors it in shared memory and repeats impulses at the contacts until they settle."""

import numpy as np

BODIES, STEPS, DT, LENGTH, ARMATURE = 3, 8, 0.04, 0.3, 0.02
PARENT = np.array([-1, 0, 1, 0, 3, 1, 5, 0])
N = len(PARENT)
BEGIN = np.sin(np.arange(BODIES * N).reshape(BODIES, N) * 1.7) * 0.8 - 0.2
PARAMS = {"mass": np.linspace(0.5, 1.2, N), "push": np.cos(np.arange(N) * 2.1) * 1.5}


def make(qd):
    block, real = qd.simt.block, qd.lang.impl.current_cfg().default_fp
    every, each = (STEPS + 1, BODIES, N), (BODIES, N)
    q, w, angle, spin, heavy, second, twist = (qd.field(float, every, needs_grad=True) for _ in range(7))
    x, bias, first, force = (qd.Vector.field(2, float, every, needs_grad=True) for _ in range(4))
    mass, push = qd.field(float, N, needs_grad=True), qd.field(float, N, needs_grad=True)
    loss, begin, parent = qd.field(float, (), needs_grad=True), qd.field(float, each), qd.field(int, N)

    @qd.func
    def joint(t, e, j):
        """The place of joint j."""
        at = qd.Vector([0.0, 0.25 + 0.1 * e])
        if parent[j] >= 0:
            at = x[t, e, parent[j]]
        return at

    @qd.func
    def cross(a, b):
        return a.x * b.y - a.y * b.x

    @qd.kernel
    def start():
        for e, j in qd.ndrange(BODIES, N):
            q[0, e, j] = begin[e, j]
            w[0, e, j] = push[j]

    @qd.kernel
    def kinematics(t: int):
        """Links from the root outwards: angles, ends, and their accelerations where nothing else accelerates."""
        for e in range(BODIES):
            for j in range(N):
                p = parent[j]
                angle[t, e, j] = q[t, e, j]
                spin[t, e, j] = w[t, e, j]
                bias[t, e, j] = [0.0, 9.8]
                if p >= 0:
                    angle[t, e, j] += angle[t, e, p]
                    spin[t, e, j] += spin[t, e, p]
                    bias[t, e, j] = bias[t, e, p]
                arm = LENGTH * qd.Vector([qd.cos(angle[t, e, j]), qd.sin(angle[t, e, j])])
                x[t, e, j] = joint(t, e, j) + arm
                bias[t, e, j] -= spin[t, e, j] ** 2 * arm

    @qd.kernel
    def composites(t: int):
        """Moments of all that hangs on a joint, from the leaves inwards."""
        for e in range(BODIES):
            for j in range(N):
                heavy[t, e, j] = mass[j]
                first[t, e, j] = mass[j] * x[t, e, j]
                second[t, e, j] = mass[j] * x[t, e, j].norm_sqr()
                force[t, e, j] = mass[j] * bias[t, e, j]
                twist[t, e, j] = mass[j] * cross(x[t, e, j], bias[t, e, j])
            for k in range(N):
                j = N - 1 - k
                p = parent[j]
                if p >= 0:
                    heavy[t, e, p] += heavy[t, e, j]
                    first[t, e, p] += first[t, e, j]
                    second[t, e, p] += second[t, e, j]
                    force[t, e, p] += force[t, e, j]
                    twist[t, e, p] += twist[t, e, j]

    @qd.func
    def solve(low, right, c):
        """Column c of ``right`` becomes what the factored matrix makes it of."""
        for a in range(N):
            for b in range(a):
                right[a, c] -= low[a, b] * right[b, c]
            right[a, c] /= low[a, a]
        for k in range(N):
            a = N - 1 - k
            for b in range(a + 1, N):
                right[a, c] -= low[b, a] * right[b, c]
            right[a, c] /= low[a, a]

    @qd.kernel
    def step(t: int):
        qd.loop_config(block_dim=N)
        for e, j in qd.ndrange(BODIES, N):
            low, up = block.SharedArray((N, N), real), block.SharedArray((N, N), real)
            right, pushes = block.SharedArray((N, N + 1), real), block.SharedArray((2, N), real)
            o = joint(t, e, j)
            right[j, N] = cross(o, force[t, e, j]) - twist[t, e, j]
            b = j
            while b >= 0:  # row j of the mass matrix, and how fast joints lift the end of link j
                at = joint(t, e, b)
                low[j, b] = second[t, e, j] - first[t, e, j].dot(o + at) + heavy[t, e, j] * o.dot(at)
                up[j, b] = x[t, e, j].x - at.x
                right[b, j] = up[j, b]
                b = parent[b]
            low[j, j] += ARMATURE
            block.sync()
            for k in range(N):  # Cholesky's factors, in place
                if j == k:
                    low[k, k] = qd.sqrt(low[k, k])
                block.sync()
                if j > k:
                    low[j, k] /= low[k, k]
                block.sync()
                if j > k:
                    for c in range(k + 1, j + 1):
                        low[j, c] -= low[j, k] * low[c, k]
                block.sync()
            for c in range(j, N + 1, N):
                solve(low, right, c)
            block.sync()
            free, own = x[t, e, j].y / DT, 0.0  # how fast the end of link j comes near the ground
            for a in range(N):
                free += up[j, a] * (w[t, e, a] + DT * right[a, N])
                own += up[j, a] * right[a, j]
            trips, change = 0, 1.0
            while trips < 200 and block.reduce_all_max(change, N, real) > 1e-12:
                now = free + own * pushes[trips % 2, j]
                for c in range(N):
                    for a in range(N):
                        now += up[j, a] * right[a, c] * pushes[trips % 2, c]
                better = qd.max(pushes[trips % 2, j] - 0.125 * now / own, 0.0)
                change = qd.abs(better - pushes[trips % 2, j])
                pushes[(trips + 1) % 2, j] = better
                trips += 1
            block.sync()
            faster = w[t, e, j] + DT * right[j, N]
            for c in range(N):
                faster += right[j, c] * pushes[trips % 2, c]
            w[t + 1, e, j] = faster
            q[t + 1, e, j] = q[t, e, j] + DT * faster

    @qd.kernel
    def miss():
        for e, j in qd.ndrange(BODIES, N):
            loss[None] += (x[STEPS, e, j] - qd.Vector([0.5, 0.6])).norm_sqr()

    def run(**given):
        begin.from_numpy(BEGIN)
        parent.from_numpy(PARENT.astype(np.int32))
        mass.from_numpy(given["mass"])
        push.from_numpy(given["push"])
        with qd.ad.Tape(loss):
            start()
            for t in range(STEPS):
                kinematics(t)
                composites(t)
                step(t)
            kinematics(STEPS)
            miss()
        return {"loss": loss.to_numpy(), "q": q.to_numpy(),
                "mass.grad": mass.grad.to_numpy(), "push.grad": push.grad.to_numpy()}  # fmt: skip

    return run


def expected():
    """By the Jacobians of each mass, and impulses that go round until they stand still."""
    chain = np.eye(N)
    for j in range(1, N):
        chain[j] += chain[PARENT[j]]
    q, w, m = BEGIN, np.tile(PARAMS["push"], (BODIES, 1)), PARAMS["mass"]
    path = [q]
    for _ in range(STEPS):
        for e in range(BODIES):
            angle, spin = chain @ q[e], chain @ w[e]
            arms = LENGTH * np.stack([np.cos(angle), np.sin(angle)], 1)
            ends = chain @ arms + [0, 0.25 + 0.1 * e]
            r = (ends[:, None] - (ends - arms)) * chain[:, :, None]
            jacobian, up = np.stack([-r[:, :, 1], r[:, :, 0]], 2), r[:, :, 0]
            bias = [0, 9.8] - chain @ (arms * spin[:, None] ** 2)
            answer = np.linalg.inv(np.einsum("j,jak,jbk->ab", m, jacobian, jacobian) + ARMATURE * np.eye(N))
            free = w[e] - DT * answer @ np.einsum("j,jak,jk->a", m, jacobian, bias)
            coupling = up @ answer @ up.T
            coupling += np.diag(np.diag(coupling))
            pushes = np.zeros(N)
            for c in [*range(N)] * 200:
                pushes[c] -= (up[c] @ free + ends[c, 1] / DT + coupling[c] @ pushes) / coupling[c, c]
                pushes[c] = max(0.0, pushes[c])
            w[e] = free + answer @ up.T @ pushes
        q = q + DT * w
        path.append(q)
    return {"q": np.stack(path)}
