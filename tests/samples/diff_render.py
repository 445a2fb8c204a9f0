"""Which discs make this picture: soft discs in ndarrays, and a gradient that a kernel's own call of grad computes."""

import numpy as np

PARAMS = {"centers": np.array([[4.0, 5.0], [8.5, 7.0], [6.0, 9.5]]), "radii": np.array([2.0, 3.0, 1.5])}
WIDTH, HEIGHT, SOFT = 12, 14, 0.7


def make(qd):
    vec2 = qd.types.vector(2, float)

    @qd.func
    def cover(p, center, radius):
        return 1.0 / (1.0 + qd.exp(((p - center).norm(1e-3) - radius) / SOFT))

    @qd.kernel
    def draw(
        centers: qd.types.ndarray(dtype=vec2, ndim=1), radii: qd.types.ndarray(dtype=float, ndim=1),
        picture: qd.types.ndarray(dtype=float, ndim=2),
    ):  # fmt: skip
        for i, j in picture:
            left = 1.0
            for k in range(centers.shape[0]):
                left *= 1.0 - cover(qd.Vector([i, j]) + 0.5, centers[k], radii[k])
            picture[i, j] = 1.0 - left

    @qd.kernel
    def compare(picture: qd.types.ndarray(dtype=float, ndim=2), loss: qd.types.ndarray(dtype=float, ndim=1)):
        for i, j in picture:
            target = 1.0 if i < 5 and j > 6 else 0.25
            loss[0] += (picture[i, j] - target) ** 2

    def run(**given):
        centers = qd.Vector.ndarray(2, float, shape=3, needs_grad=True)
        radii = qd.ndarray(float, shape=3, needs_grad=True)
        picture, loss = qd.ndarray(float, (WIDTH, HEIGHT), needs_grad=True), qd.ndarray(float, 1, needs_grad=True)
        centers.from_numpy(given["centers"].astype(centers.to_numpy().dtype))
        radii.from_numpy(given["radii"].astype(radii.to_numpy().dtype))
        draw(centers, radii, picture)
        compare(picture, loss)
        loss.grad.fill(1.0)
        compare.grad(picture, loss)
        draw.grad(centers, radii, picture)
        return {"loss": loss.to_numpy()[0], "picture": picture.to_numpy(),
                "centers.grad": centers.grad.to_numpy(), "radii.grad": radii.grad.to_numpy()}  # fmt: skip

    return run


def expected():
    i, j = np.mgrid[:WIDTH, :HEIGHT] + 0.5
    left = np.ones((WIDTH, HEIGHT))
    for (x, y), r in zip(PARAMS["centers"], PARAMS["radii"], strict=True):
        left *= 1 - 1 / (1 + np.exp((np.sqrt((i - x) ** 2 + (j - y) ** 2 + 1e-3) - r) / SOFT))
    return {"picture": 1 - left}
