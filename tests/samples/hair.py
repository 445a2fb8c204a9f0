"""Strands of hair on a turning head: position-based constraints along each strand, strands in parallel."""

import numpy as np


def make(qd):
    vec3 = qd.types.vector(3, float)
    strands, length, dt = 12, 8, 0.02
    gap = 0.08

    @qd.dataclass
    class Bead:
        at: vec3
        before: vec3
        weight: float

        @qd.func
        def drift(self, force):
            """Where inertia and a force would take it."""
            return self.at + 0.98 * (self.at - self.before) + dt * dt * force

    beads = Bead.field(shape=(strands, length))
    turn = qd.field(float, shape=())

    @qd.func
    def root_at(s):
        angle = 2.0 * qd.math.pi * s / strands + turn[None]
        return 0.3 * vec3(qd.cos(angle), 0.5, qd.sin(angle))

    @qd.kernel
    def grow():
        for s, k in beads:
            root = root_at(s)
            beads[s, k] = Bead(root * (1.0 + gap * k / root.norm()), root * (1.0 + gap * k / root.norm()), 1.0)
            if k == 0:
                beads[s, k].weight = 0.0

    @qd.kernel
    def comb(rounds: qd.i32):
        for s in range(strands):
            for k in range(1, length):
                there = beads[s, k].drift(vec3(0.0, -9.8, 0.0))
                beads[s, k].before = beads[s, k].at
                beads[s, k].at = there
            beads[s, 0].at = root_at(s)
            for _ in range(rounds):
                for k in range(length - 1):
                    d = beads[s, k + 1].at - beads[s, k].at
                    w0, w1 = beads[s, k].weight, beads[s, k + 1].weight
                    off = (d.norm() - gap) / (w0 + w1) * d.normalized()
                    beads[s, k].at += w0 * off
                    beads[s, k + 1].at -= w1 * off
                for k in range(1, length):
                    far = beads[s, k].at.norm()
                    if far < 0.32:
                        beads[s, k].at *= 0.32 / far

    def run():
        grow()
        for step in range(30):
            turn[None] = 0.02 * step
            comb(8)
        at = beads.at.to_numpy()
        gaps = np.linalg.norm(np.diff(at, axis=1), axis=-1)
        return {"at": at, "held": abs(gaps / gap - 1).max() < 0.2}

    return run


def expected():
    return {"held": np.array(True)}
