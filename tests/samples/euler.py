"""A shock tube in two dimensions: Euler's equations by finite volumes with Rusanov's flux, states as vectors."""

NX, NY, GAMMA, DT, DX = 40, 6, 1.4, 0.008, 1.0 / 40


def make(qd):
    vec4 = qd.types.vector(4, float)
    q = qd.Vector.field(4, float, shape=(NX, NY))
    across, along = qd.Vector.field(4, float, shape=(NX + 1, NY)), qd.Vector.field(4, float, shape=(NX, NY + 1))

    @qd.func
    def pressure(w):
        return (GAMMA - 1) * (w[3] - 0.5 * (w[1] ** 2 + w[2] ** 2) / w[0])

    @qd.func
    def flow(w, axis: qd.template()):
        u = w[1 + axis] / w[0]
        out = w * u
        out[1 + axis] += pressure(w)
        out[3] += u * pressure(w)
        return out

    @qd.func
    def fastest(w, axis: qd.template()):
        return qd.abs(w[1 + axis]) / w[0] + qd.sqrt(GAMMA * pressure(w) / w[0])

    @qd.func
    def rusanov(left, right, axis: qd.template()):
        speed = qd.max(fastest(left, axis), fastest(right, axis))
        return 0.5 * (flow(left, axis) + flow(right, axis)) - 0.5 * speed * (right - left)

    @qd.kernel
    def start(dense: vec4, thin: vec4):
        for i, j in q:
            q[i, j] = dense if i + j < NX // 2 else thin

    @qd.kernel
    def step():
        for i, j in across:
            across[i, j] = rusanov(q[qd.max(i - 1, 0), j], q[qd.min(i, NX - 1), j], 0)
        for i, j in along:
            along[i, j] = rusanov(q[i, qd.max(j - 1, 0)], q[i, qd.min(j, NY - 1)], 1)
        for i, j in q:
            q[i, j] -= DT / DX * (across[i + 1, j] - across[i, j] + along[i, j + 1] - along[i, j])

    def run():
        start(vec4(1.0, 0.0, 0.0, 2.5), vec4(0.125, 0.0, 0.0, 0.25))
        for _ in range(20):
            step()
        return {"q": q.to_numpy()}

    return run
