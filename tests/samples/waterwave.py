"""Rings on a pond: heights and speeds of the water between walls, and the light that its slopes reflect."""

N, DT, SPEED, DAMPING = 24, 0.1, 4.0, 0.999


def make(qd):
    height, speed, light = qd.field(float, (N, N)), qd.field(float, (N, N)), qd.field(float, (N, N))

    @qd.kernel
    def drop(x: float, y: float, strength: float):
        for i, j in height:
            r2 = (i - x) ** 2 + (j - y) ** 2
            height[i, j] += strength * qd.exp(-0.2 * r2)

    @qd.func
    def laplacian(f: qd.template(), i, j):
        return (-4.0 * f[i, j] + f[qd.max(i - 1, 0), j] + f[qd.min(i + 1, N - 1), j]
                + f[i, qd.max(j - 1, 0)] + f[i, qd.min(j + 1, N - 1)])  # fmt: skip

    @qd.kernel
    def step():
        for i, j in height:
            speed[i, j] = (speed[i, j] + DT * SPEED * laplacian(height, i, j)) * DAMPING
        for i, j in height:
            height[i, j] += DT * speed[i, j]

    @qd.kernel
    def shine():
        for i, j in qd.ndrange((1, N - 1), (1, N - 1)):
            slope = qd.Vector([height[i + 1, j] - height[i - 1, j], height[i, j + 1] - height[i, j - 1], 1.0])
            light[i, j] = qd.abs(slope.normalized().dot(qd.Vector([0.6, 0.0, 0.8])))

    def run():
        drop(6.0, 7.0, 2.0)
        drop(15.5, 12.0, -1.0)
        for _ in range(60):
            step()
        shine()
        return {"height": height.to_numpy(), "light": light.to_numpy()}

    return run
