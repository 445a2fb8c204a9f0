"""Gaussians in space become ellipses of an image: the projection with its Jacobian, and what is blended from front to
back, as functions of torch in a module of torch."""

import numpy as np

SINGLE, NEEDS = 5e-3, ("torch",)
_DRAW = np.random.default_rng(3)
COUNT, SIZE, FOCAL = 6, 10, 11.0
PARAMS = {
    "mean": np.concatenate([_DRAW.uniform(-0.6, 0.6, (COUNT, 2)), _DRAW.uniform(2.0, 3.0, (COUNT, 1))], 1),
    "scale": _DRAW.uniform(-2.0, -1.2, (COUNT, 3)),  # logarithms
    "turn": _DRAW.normal(size=(COUNT, 4)),  # quaternions of any length
    "colour": _DRAW.uniform(0.2, 0.9, (COUNT, 3)),
    "opacity": _DRAW.normal(size=COUNT),  # before the sigmoid
}


def make(qd, count=COUNT, size=SIZE):
    import torch

    real = qd.lang.impl.current_cfg().default_fp
    array, focal, middle = qd.types.ndarray(), FOCAL * size / SIZE, size / 2.0
    mat23, mat3 = qd.types.matrix(2, 3, real), qd.types.matrix(3, 3, real)

    @qd.func
    def rotation(q):
        w, x, y, z = q.x, q.y, q.z, q.w
        return mat3(
            1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
            2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
            2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
        )  # fmt: skip

    @qd.kernel
    def project(mean: array, scale: array, turn: array, centre: array, conic: array):
        """Where the middle of each is in the image, and the inverse of its covariance there: J R S S^T R^T J^T."""
        for i in range(mean.shape[0]):
            at = qd.Vector([mean[i, 0], mean[i, 1], mean[i, 2]])
            q = qd.Vector([turn[i, 0], turn[i, 1], turn[i, 2], turn[i, 3]]).normalized()
            M = rotation(q) @ qd.Matrix(
                [[qd.exp(scale[i, 0]), 0.0, 0.0], [0.0, qd.exp(scale[i, 1]), 0.0], [0.0, 0.0, qd.exp(scale[i, 2])]]
            )
            J = mat23(
                focal / at.z, 0.0, -focal * at.x / at.z**2,
                0.0, focal / at.z, -focal * at.y / at.z**2,
            )  # fmt: skip
            T = J @ M
            cov = T @ T.transpose() + 0.3 * qd.Matrix.identity(real, 2)
            inverse = cov.inverse()
            for d in qd.static(range(2)):
                centre[i, d] = focal * at[d] / at.z + middle
            conic[i, 0], conic[i, 1], conic[i, 2] = inverse[0, 0], inverse[0, 1], inverse[1, 1]

    @qd.kernel
    def blend(order: array, centre: array, conic: array, colour: array, opacity: array, image: array):
        for i, j in qd.ndrange(size, size):
            light = qd.Vector([0.0, 0.0, 0.0], real)
            through = 1.0
            for k in range(order.shape[0]):
                g = order[k]
                dx, dy = i + 0.5 - centre[g, 0], j + 0.5 - centre[g, 1]
                power = -0.5 * (conic[g, 0] * dx * dx + conic[g, 2] * dy * dy) - conic[g, 1] * dx * dy
                alpha = opacity[g] * qd.exp(power)
                if alpha > 1e-3 and through > 1e-4:
                    light += through * alpha * qd.Vector([colour[g, 0], colour[g, 1], colour[g, 2]])
                    through *= 1.0 - alpha
            for c in qd.static(range(3)):
                image[i, j, c] = light[c]

    class Project(torch.autograd.Function):
        @staticmethod
        def forward(ctx, mean, scale, turn):
            centre, conic = mean.new_zeros(len(mean), 2), mean.new_zeros(len(mean), 3)
            project(mean, scale, turn, centre, conic)
            ctx.save_for_backward(mean, scale, turn, centre, conic)
            return centre, conic

        @staticmethod
        def backward(ctx, by_centre, by_conic):
            mean, scale, turn, centre, conic = ctx.saved_tensors
            centre.grad, conic.grad = by_centre.contiguous(), by_conic.contiguous()
            project.grad(mean, scale, turn, centre, conic)
            return mean.grad, scale.grad, turn.grad

    class Blend(torch.autograd.Function):
        @staticmethod
        def forward(ctx, order, centre, conic, colour, opacity):
            image = centre.new_zeros(size, size, 3)
            blend(order, centre, conic, colour, opacity, image)
            ctx.save_for_backward(order, centre, conic, colour, opacity, image)
            return image

        @staticmethod
        def backward(ctx, by_image):
            order, centre, conic, colour, opacity, image = ctx.saved_tensors
            image.grad = by_image.contiguous()
            blend.grad(order, centre, conic, colour, opacity, image)
            return None, centre.grad, conic.grad, colour.grad, opacity.grad

    class Splats(torch.nn.Module):
        def __init__(self, **given):
            super().__init__()
            for name, value in given.items():
                value = torch.tensor(value, dtype=torch.float64 if real == qd.f64 else torch.float32)
                self.register_parameter(name, torch.nn.Parameter(value))

        def forward(self):
            order = self.mean.detach()[:, 2].argsort().int()
            centre, conic = Project.apply(self.mean, self.scale, self.turn)
            return Blend.apply(order, centre, conic, self.colour, torch.sigmoid(self.opacity))

    def run(**given):
        splats = Splats(**given)
        image = splats()
        loss = ((image - 0.4) ** 2).sum()
        loss.backward()
        found = {"loss": loss.detach().numpy(), "image": image.detach().numpy()}
        return found | {f"{name}.grad": value.grad.numpy() for name, value in splats.named_parameters()}

    return run


def expected():
    """Computed by torch's own operations and derivatives."""
    import torch

    given = {name: torch.tensor(value, requires_grad=True) for name, value in PARAMS.items()}
    mean, scale, turn, colour, opacity = given.values()
    w, x, y, z = torch.nn.functional.normalize(turn, dim=1).unbind(1)
    R = torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ], 1).view(-1, 3, 3)  # fmt: skip
    sigma = R @ torch.diag_embed(torch.exp(2 * scale)) @ R.mT
    a, b, c = mean.unbind(1)
    flat = torch.zeros_like(a)
    J = FOCAL * torch.stack([1 / c, flat, -a / c**2, flat, 1 / c, -b / c**2], 1).view(-1, 2, 3)
    conic = torch.linalg.inv(J @ sigma @ J.mT + 0.3 * torch.eye(2, dtype=a.dtype))
    centre = FOCAL * mean[:, :2] / mean[:, 2:] + SIZE / 2
    line = torch.arange(SIZE, dtype=a.dtype) + 0.5
    pixels = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
    image, through = torch.zeros(SIZE, SIZE, 3, dtype=a.dtype), torch.ones(SIZE, SIZE, dtype=a.dtype)
    for g in mean[:, 2].argsort():
        d = pixels - centre[g]
        alpha = torch.sigmoid(opacity[g]) * torch.exp(-0.5 * torch.einsum("ija,ab,ijb->ij", d, conic[g], d))
        alpha = torch.where((alpha > 1e-3) & (through > 1e-4), alpha, 0.0)
        image = image + (through * alpha)[..., None] * colour[g]
        through = through * (1 - alpha)
    loss = ((image - 0.4) ** 2).sum()
    loss.backward()
    found = {"loss": loss.detach().numpy(), "image": image.detach().numpy()}
    return found | {f"{name}.grad": value.grad.numpy() for name, value in given.items()}
