"""A box with a lamp and two balls: paths of light with a stream of random numbers a pixel, hits as structs."""

import numpy as np

SINGLE = 0.05


def make(qd):
    vec3 = qd.types.vector(3, float)
    width, height, paths, bounces = 8, 8, 4, 3

    @qd.dataclass
    class Ball:
        center: vec3
        radius: float
        colour: vec3
        glow: float

        @qd.func
        def meet(self, origin, way):
            to = origin - self.center
            b = to.dot(way)
            inside = b * b - to.norm_sqr() + self.radius**2
            t = 1e9
            if inside > 0.0:
                root = qd.sqrt(inside)
                t = -b - root if -b - root > 1e-3 else (-b + root if -b + root > 1e-3 else 1e9)
            return t

    balls = Ball.field(shape=7)
    picture = qd.Vector.field(3, float, shape=(width, height))
    state = qd.field(qd.u32, shape=(width, height))

    @qd.func
    def draw(I) -> float:
        state[I] = state[I] * qd.u32(1664525) + qd.u32(1013904223)
        bits = state[I] >> 8
        return bits / float(1 << 24)

    @qd.func
    def scatter(I, normal):
        z, angle = 2.0 * draw(I) - 1.0, 2.0 * qd.math.pi * draw(I)
        r = qd.sqrt(qd.max(1.0 - z * z, 0.0))
        return (normal + 0.999 * vec3(r * qd.cos(angle), r * qd.sin(angle), z)).normalized()

    @qd.func
    def nearest(origin, way):
        t, which = 1e8, -1
        for k in range(balls.shape[0]):
            now = balls[k].meet(origin, way)
            if now < t:
                t, which = now, k
        return t, which

    @qd.kernel
    def render():
        for I in qd.grouped(picture):
            state[I] = qd.cast(I[0] * height + I[1] + 1, qd.u32) * qd.u32(747796405)
            total = vec3(0.0)
            for _ in range(paths):
                origin = vec3(0.0, 0.0, 2.5)
                way = vec3((I[0] + draw(I)) / width - 0.5, (I[1] + draw(I)) / height - 0.5, -1.0).normalized()
                left = vec3(1.0)
                for _bounce in range(bounces):
                    t, which = nearest(origin, way)
                    if which < 0:
                        break
                    total += left * balls[which].colour * balls[which].glow
                    if balls[which].glow > 0.0:
                        break
                    left *= balls[which].colour
                    origin = origin + t * way
                    normal = (origin - balls[which].center) / balls[which].radius
                    way = scatter(I, normal if normal.dot(way) < 0.0 else -normal)
            picture[I] = total / paths

    def run():
        wall, red, green = vec3(0.8, 0.8, 0.8), vec3(0.8, 0.2, 0.2), vec3(0.2, 0.8, 0.2)
        scene = [((-51, 0, 0), 50, red, 0), ((51, 0, 0), 50, green, 0), ((0, -51, 0), 50, wall, 0),
                 ((0, 0, -51.5), 50, wall, 0), ((0, 1.7, 0), 1.0, wall, 3), ((-0.4, -0.7, -0.4), 0.3, wall, 0),
                 ((0.4, -0.6, 0.2), 0.4, wall, 0)]  # fmt: skip
        for k, (center, radius, colour, glow) in enumerate(scene):
            balls[k] = Ball(vec3(*center), radius, colour, glow)
        render()
        picture_ = picture.to_numpy()
        return {"mean": picture_.mean((0, 1)), "lit": np.array((picture_ > 0.01).mean())}

    return run
