"""A scene of distance functions: marching, normals by differences, soft shadows; funcs passed to funcs as templates."""

SINGLE = 5e-3


def make(qd):
    vec2, vec3 = qd.math.vec2, qd.math.vec3
    width, height = 14, 10
    shade = qd.field(float, shape=(width, height))
    depth = qd.field(float, shape=(width, height))

    @qd.func
    def box(p, size):
        q = qd.abs(p) - size
        return qd.max(q, 0.0).norm() + qd.min(qd.max(q.x, q.y, q.z), 0.0)

    @qd.func
    def ring(p, big, small):
        return qd.Vector([qd.Vector([p.x, p.z]).norm() - big, p.y]).norm() - small

    @qd.func
    def blend(a, b, k):
        h = qd.math.clamp(0.5 + 0.5 * (b - a) / k, 0.0, 1.0)
        return qd.math.mix(b, a, h) - k * h * (1.0 - h)

    @qd.func
    def scene(p):
        things = blend(box(p - vec3(0.0, 0.5, 0.0), vec3(0.5, 0.4, 0.3)), ring(p - vec3(0, 0.5, 0), 0.8, 0.15), 0.3)
        return qd.min(things, p.y)

    @qd.func
    def march(origin, way, far, f: qd.template()):
        t, nearest = 0.02, 1.0
        for _ in range(60):
            d = f(origin + t * way)
            nearest = qd.min(nearest, 8.0 * d / t)
            t += d
            if d < 1e-3 or t > far:
                break
        return t, nearest

    @qd.func
    def normal(p, f: qd.template()):
        n = qd.Vector([0.0, 0.0, 0.0])
        for k in qd.static(range(3)):
            step = qd.Vector([0.0, 0.0, 0.0])
            step[k] = 1e-3
            n[k] = f(p + step) - f(p - step)
        return n.normalized()

    @qd.kernel
    def render(eye: vec3, sun: vec3):
        for i, j in shade:
            uv = (vec2(i, j) + 0.5) / height - vec2(0.5 * width / height, 0.5)
            way = vec3(uv.x, uv.y - 0.25, -1.0).normalized()
            t, _ = march(eye, way, 8.0, scene)
            depth[i, j] = qd.min(t, 8.0)
            if t < 8.0:
                p = eye + t * way
                n = normal(p, scene)
                _, open_ = march(p + 0.02 * n, sun, 4.0, scene)
                shade[i, j] = qd.max(n.dot(sun), 0.0) * qd.math.clamp(open_, 0.0, 1.0) + 0.1
            else:
                shade[i, j] = 0.3

    def run():
        render(vec3(0.1, 1.4, 3.0), vec3(0.48, 0.64, 0.6))
        return {"shade": shade.to_numpy(), "depth": depth.to_numpy()}

    return run
