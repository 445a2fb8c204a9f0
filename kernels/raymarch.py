"""A scene drawn by marching along rays, and drawn to fit: where must the balls be for the picture to be this one?

Each pixel's ray goes on by the distance ``d(p)`` to the nearest surface, until that is small or the ray has
left the scene:

    t <- t + d(o + t w)     while d > tolerance and t < far

The number of steps depends on the pixel and on the scene, so a counting slice sizes the stacks. The
scene is a floor and balls that blend into each other, ``min_k(a, b) = min(a, b) - h**2 k / 4`` with ``h =
max(k - |a - b|, 0) / k``. Surfaces are lit by Lambert's law with the normal ``n`` from four samples of
``d`` (a tetrahedron), so the brightness is a smooth function of centres, radii and light wherever the ray
does not graze a surface. As in `kernels.kepler`, the iterates' derivative converges to that of the solution.

Shapes: ``balls`` (n,) of Ball, ``light`` () a 3-vector towards the light, ``image`` and ``target`` (width,
height), ``loss`` (); default_fp.
"""

import numpy as np

import quadrants_lab as qd

vec3 = qd.types.vector(3, float)
MELT, FAR, TOLERANCE, SPREAD = 0.3, 12.0, 1e-4, 1e-3


@qd.dataclass
class Ball:
    center: vec3
    radius: float

    @qd.func
    def distance(self, p):
        return (p - self.center).norm() - self.radius


@qd.dataclass
class Ray:
    origin: vec3
    way: vec3

    @qd.func
    def at(self, t):
        return self.origin + t * self.way


@qd.func
def melted(a, b):
    """The smaller of two distances; where they are nearly equal, a smooth transition between both."""
    h = qd.max(MELT - qd.abs(a - b), 0.0) / MELT
    return qd.min(a, b) - 0.25 * MELT * h * h


@qd.func
def distance(balls: qd.template(), p):
    """The distance from ``p`` to the scene: the floor y = 0 and the balls."""
    d = p.y
    for k in range(balls.shape[0]):
        d = melted(d, balls[k].distance(p))
    return d


@qd.func
def normal(balls: qd.template(), p):
    """The unit vector along the slope of the distance at ``p``."""
    n = qd.Vector([0.0, 0.0, 0.0])
    for k in range(4):
        corner = qd.Vector([1.0, 1.0, 1.0])
        if k > 0:
            corner = qd.Vector([-1.0, -1.0, -1.0])
            corner[k - 1] = 1.0
        n += corner * distance(balls, p + SPREAD * corner)
    return n.normalized()


@qd.func
def eye(i, j, width, height):
    """The ray of pixel (i, j)."""
    x = (2.0 * (i + 0.5) - width) / height
    y = (2.0 * (j + 0.5) - height) / height
    return Ray(origin=vec3(0.0, 1.5, -5.0), way=qd.math.normalize(vec3(x, y - 0.3, 2.5)))


@qd.kernel
def draw(balls: qd.template(), light: qd.template(), image: qd.template()):
    """image[i, j] = the brightness that pixel sees: 0.1 of the sky, 0 in the dark."""
    for i, j in image:
        ray = eye(i, j, image.shape[0], image.shape[1])
        t = 0.0
        d = distance(balls, ray.at(t))
        while d > TOLERANCE and t < FAR:
            t += d
            d = distance(balls, ray.at(t))
        image[i, j] = 0.1
        if t < FAR:
            n = normal(balls, ray.at(t))
            image[i, j] = qd.max(n.dot(light[None].normalized()), 0.0)


@qd.kernel
def compare(image: qd.template(), target: qd.template(), loss: qd.template()):
    """loss[None] += |image - target|**2."""
    for i, j in image:
        loss[None] += (image[i, j] - target[i, j]) ** 2


class Picture:
    """The scene and its picture of ``width`` by ``height`` pixels."""

    def __init__(self, balls: int, width: int, height: int) -> None:
        self.balls = Ball.field(shape=balls, needs_grad=True)
        self.light = qd.Vector.field(3, float, shape=(), needs_grad=True)
        self.image = qd.field(float, shape=(width, height), needs_grad=True)
        self.target = qd.field(float, shape=(width, height))
        self.loss = qd.field(float, shape=(), needs_grad=True)

    def set(self, center: np.ndarray, radius: np.ndarray, light: np.ndarray) -> None:
        self.balls.center.from_numpy(center)
        self.balls.radius.from_numpy(radius)
        self.light[None] = light.tolist()

    def drawn(self) -> np.ndarray:
        """The picture (width, height) of the scene as it is set."""
        draw(self.balls, self.light, self.image)
        return self.image.to_numpy()

    def gradient(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """The squared difference of the picture from ``target``, and its derivatives by centres, radii and light."""
        with qd.ad.Tape(self.loss):
            draw(self.balls, self.light, self.image)
            compare(self.image, self.target, self.loss)
        slopes = (x.grad.to_numpy() for x in (self.balls.center, self.balls.radius, self.light))
        return float(self.loss[None]), *slopes


CENTER = np.array([[-0.8, 0.7, 0.0], [0.9, 0.9, 0.5], [0.1, 0.4, -1.0]], np.float32)
RADIUS = np.array([0.7, 0.8, 0.4], np.float32)
LIGHT = np.array([0.5, 1.0, -0.8], np.float32)


def text(image: np.ndarray) -> str:
    """The picture in letters, the top row first."""
    shades = " .:-=+*#%@"
    rows = np.clip(image.T[::-1] * len(shades), 0, len(shades) - 1).astype(int)
    return "\n".join("".join(shades[v] for v in row) for row in rows)


def main(width: int = 32, height: int = 18, rounds: int = 40, rate: float = 0.001) -> tuple[list[float], str]:
    """Moves balls and light to match a picture; returns the loss before each round, and the last picture in letters."""
    qd.init(arch=qd.cpu)
    picture = Picture(len(RADIUS), width, height)
    picture.set(CENTER, RADIUS, LIGHT)
    picture.target.from_numpy(picture.drawn())
    scene = [CENTER + np.float32(0.12), RADIUS * np.float32(0.9), LIGHT * np.float32([0.5, 1.0, 0.7])]
    losses = []
    for _ in range(rounds):
        picture.set(*scene)
        loss, *slopes = picture.gradient()
        losses.append(loss)
        scene = [x - np.float32(rate) * s for x, s in zip(scene, slopes, strict=True)]
    return losses, text(picture.drawn())


if __name__ == "__main__":
    losses, shown = main()
    print(f"{shown}\ndifference from the picture wanted {losses[0]:.3g} -> {losses[-1]:.3g}")
