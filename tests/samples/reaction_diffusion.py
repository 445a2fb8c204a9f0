"""Gray and Scott's reaction on a torus: two chemicals in a field of pairs with a leading axis of two times."""

N, FEED, KILL, STEPS = 24, 0.06, 0.062, 50


def make(qd):
    uv = qd.Vector.field(2, float, shape=(2, N, N))
    rates = qd.types.struct(diffusion=qd.types.vector(2, float), feed=float, kill=float)

    @qd.kernel
    def begin():
        for i, j in qd.ndrange(N, N):
            uv[0, i, j] = [1.0, 0.0]
            if 8 <= i < 14 and 9 <= j < 13:
                uv[0, i, j] = [0.5, 0.25 + 0.01 * i]

    @qd.kernel
    def react(phase: qd.i32, given: rates):
        for i, j in qd.ndrange(N, N):
            c = uv[phase, i, j]
            around = qd.Vector([0.0, 0.0])
            around += uv[phase, (i + 1) % N, j] + uv[phase, (i - 1) % N, j]
            around += uv[phase, i, (j + 1) % N] + uv[phase, i, (j - 1) % N]
            eaten = c[0] * c[1] ** 2
            change = given.diffusion * (around - 4.0 * c)
            change += qd.Vector([given.feed * (1 - c[0]) - eaten, eaten - (given.feed + given.kill) * c[1]])
            uv[1 - phase, i, j] = c + change

    def run():
        begin()
        given = rates(diffusion=qd.Vector([0.2, 0.1]), feed=FEED, kill=KILL)
        for k in range(STEPS):
            react(k % 2, given)
        return {"uv": uv.to_numpy()[0]}

    return run
