"""A thrown plank touches the ground with its corners: a body as a struct field, impulses, all steps in one kernel."""

import numpy as np

PARAMS = {"v": np.array([0.8, 0.4]), "turn": np.array(1.7)}


def make(qd):
    vec2 = qd.types.vector(2, float)
    steps, dt, half = 40, 0.02, (0.3, 0.1)
    body = qd.types.struct(x=vec2, v=vec2, angle=float, omega=float)
    plank = body.field(shape=steps + 1, needs_grad=True)
    v, turn = qd.Vector.field(2, float, shape=(), needs_grad=True), qd.field(float, shape=(), needs_grad=True)
    loss = qd.field(float, shape=(), needs_grad=True)

    @qd.func
    def turned(p, angle):
        c, s = qd.cos(angle), qd.sin(angle)
        return qd.Matrix([[c, -s], [s, c]]) @ p

    @qd.func
    def cross(a, b):
        return a.x * b.y - a.y * b.x

    @qd.func
    def kick(arm, speed, depth):
        """The impulse of the ground on a corner."""
        up = qd.Vector([0.0, 1.0])
        heavy = 1.0 + cross(arm, up) ** 2 / 0.02
        push = qd.max(-1.4 * speed.y / heavy + 0.5 * depth, 0.0)
        return qd.Vector([-0.3 * qd.tanh(speed.x) * push, push])

    @qd.kernel
    def begin():
        plank[0].x = [0.0, 0.5]
        plank[0].v = v[None]
        plank[0].omega = turn[None]

    @qd.kernel
    def throw():
        for _ in range(1):
            for t in range(steps):
                now = plank[t]
                impulse, torque = qd.Vector([0.0, 0.0]), 0.0
                for a, b in qd.static(qd.ndrange(2, 2)):
                    arm = turned(qd.Vector([(2 * a - 1) * half[0], (2 * b - 1) * half[1]]), now.angle)
                    speed = now.v + now.omega * qd.Vector([-arm.y, arm.x])
                    depth = -(now.x.y + arm.y)
                    if depth > 0.0 and speed.y < 0.0:
                        j = kick(arm, speed, depth)
                        impulse += j
                        torque += cross(arm, j)
                plank[t + 1].v = now.v + impulse - dt * qd.Vector([0.0, 3.0])
                plank[t + 1].omega = now.omega + torque / 0.02
                plank[t + 1].x = now.x + dt * plank[t + 1].v
                plank[t + 1].angle = now.angle + dt * plank[t + 1].omega

    @qd.kernel
    def miss():
        end = plank[steps]
        loss[None] = (end.x - qd.Vector([1.0, 0.1])).norm_sqr() + 0.1 * qd.sin(end.angle) ** 2

    def run(**given):
        v[None], turn[None] = given["v"], given["turn"]
        with qd.ad.Tape(loss):
            begin()
            throw()
            miss()
        return {"loss": loss.to_numpy(), "x": plank.x.to_numpy(), "angle": plank.angle.to_numpy(),
                "v.grad": v.grad.to_numpy(), "turn.grad": turn.grad.to_numpy()}  # fmt: skip

    return run
