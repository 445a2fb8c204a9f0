"""Arms of several links reach down to a table and push it: joint torques, a mass matrix that each step factors, and
impulses that go round until they fit; structures of arrays as arguments, the gradient through time."""

from dataclasses import dataclass

import numpy as np

LINKS, ENVS, STEPS = 3, 2, 30
PARAMS = {
    "torque": 2.0 * np.cos(np.arange(STEPS // 5)[:, None] * 1.3 + np.arange(LINKS)),
    "mass": np.array([1.0, 0.7, 0.5]),
}


def make(qd, envs=ENVS, steps=STEPS, sweeps=8):
    dt, length, gravity, armature, friction = 0.02, 0.4, 9.8, 0.03, 0.4
    real = qd.lang.impl.current_cfg().default_fp
    array = qd.types.ndarray()

    @dataclass
    class Model:
        mass: array  # (links,)
        torque: array  # (actions, links)
        height: array  # (envs,): of the shoulder above the table

    @dataclass
    class State:
        """(steps + 1, envs, links)."""

        q: array
        w: array

    @dataclass
    class Contacts:
        """(steps, envs, links): along the table, and up."""

        slide: array
        push: array

    @qd.func
    def pose(state: State, t, e):
        """The angles and turning speeds of links, seen from outside."""
        angle, spin = qd.Vector.zero(real, LINKS), qd.Vector.zero(real, LINKS)
        for j in range(LINKS):
            angle[j] = state.q[t, e, j]
            spin[j] = state.w[t, e, j]
            if j > 0:
                angle[j] += angle[j - 1]
                spin[j] += spin[j - 1]
        return angle, spin

    @qd.func
    def jacobian(angle, j, axis: qd.template()):
        """How fast the end of link j moves along the axis as each joint turns."""
        row = qd.Vector.zero(real, LINKS)
        for b in range(j + 1):
            k = j - b
            row[k] = -qd.sin(angle[k]) * length if qd.static(axis == 0) else qd.cos(angle[k]) * length
            if b > 0:
                row[k] += row[k + 1]
        return row

    @qd.func
    def factored(M):
        """Cholesky's factor, below the diagonal and on it."""
        L = M
        for j in range(LINKS):
            for k in range(j):
                L[j, j] -= L[j, k] * L[j, k]
            L[j, j] = qd.sqrt(L[j, j])
            for i in range(j + 1, LINKS):
                for k in range(j):
                    L[i, j] -= L[i, k] * L[j, k]
                L[i, j] /= L[j, j]
        return L

    @qd.func
    def solved(L, b):
        x = b
        for i in range(LINKS):
            for k in range(i):
                x[i] -= L[i, k] * x[k]
            x[i] /= L[i, i]
        for n in range(LINKS):
            i = LINKS - 1 - n
            for k in range(i + 1, LINKS):
                x[i] -= L[k, i] * x[k]
            x[i] /= L[i, i]
        return x

    @qd.kernel
    def begin(state: State):
        for e in range(envs):
            for j in range(LINKS):
                state.q[0, e, j] = -0.5 + 0.1 * e if j == 0 else -0.35
                state.w[0, e, j] = 0.0

    @qd.kernel
    def step(t: qd.i32, model: Model, state: State, contacts: Contacts):
        for e in range(envs):
            angle, spin = pose(state, t, e)
            M, force = armature * qd.Matrix.identity(real, LINKS), qd.Vector.zero(real, LINKS)
            for j in range(LINKS):
                force[j] += model.torque[t // 5, j] - 0.2 * state.w[t, e, j]
            ax, ay, high = 0.0, gravity, model.height[e]
            for j in range(LINKS):
                x, y = jacobian(angle, j, 0), jacobian(angle, j, 1)
                ax -= spin[j] ** 2 * qd.cos(angle[j]) * length
                ay -= spin[j] ** 2 * qd.sin(angle[j]) * length
                M += model.mass[j] * (x.outer_product(x) + y.outer_product(y))
                force -= model.mass[j] * (ax * x + ay * y)
            L, w = factored(M), qd.Vector([state.w[t, e, j] for j in range(LINKS)])
            w += dt * solved(L, force)
            for sweep in range(sweeps):
                high = model.height[e]
                for j in range(LINKS):
                    high += qd.sin(angle[j]) * length
                    if high < 0.02:
                        up, along = jacobian(angle, j, 1), jacobian(angle, j, 0)
                        by_up, by_along = solved(L, up), solved(L, along)
                        before = contacts.push[t, e, j]
                        after = qd.max(0.0, before - (up.dot(w) + 0.2 * high / dt) / up.dot(by_up))
                        contacts.push[t, e, j] = after
                        w += (after - before) * by_up
                        held = contacts.slide[t, e, j]
                        most = friction * after
                        slide = qd.math.clamp(held - along.dot(w) / along.dot(by_along), -most, most)
                        contacts.slide[t, e, j] = slide
                        w += (slide - held) * by_along
            for j in range(LINKS):
                state.w[t + 1, e, j] = w[j]
                state.q[t + 1, e, j] = state.q[t, e, j] + dt * w[j]

    @qd.kernel
    def miss(model: Model, state: State, loss: qd.types.ndarray(ndim=0)):
        for e in range(envs):
            angle, _ = pose(state, steps, e)
            hand = qd.Vector([0.0, model.height[e]], real)
            for j in range(LINKS):
                hand += length * qd.Vector([qd.cos(angle[j]), qd.sin(angle[j])])
            loss[None] += (hand - qd.Vector([1.0, 0.1])).norm_sqr()

    def made(*shape):
        return qd.ndarray(real, shape, needs_grad=True)

    model = Model(made(LINKS), made(steps // 5, LINKS), made(envs))
    state = State(made(steps + 1, envs, LINKS), made(steps + 1, envs, LINKS))
    contacts = Contacts(made(steps, envs, LINKS), made(steps, envs, LINKS))
    loss = made()

    def run(**given):
        model.mass.from_numpy(given["mass"])
        model.torque.from_numpy(given["torque"])
        model.height.from_numpy(0.55 + 0.05 * np.arange(envs))
        for impulses in (contacts.slide, contacts.push):
            impulses.fill(0.0)
        with qd.ad.Tape(loss):
            begin(state)
            for t in range(steps):
                step(t, model, state, contacts)
            miss(model, state, loss)
        return {"loss": loss.to_numpy(), "q": state.q.to_numpy(), "push": contacts.push.to_numpy(),
                "torque.grad": model.torque.grad.to_numpy(), "mass.grad": model.mass.grad.to_numpy()}  # fmt: skip

    return run


def learn(qd, rounds=10, rate=4.0):
    """The losses of an optimiser that changes the torques."""
    run, given, losses = make(qd), dict(PARAMS), []
    for _ in range(rounds):
        found = run(**given)
        losses.append(float(found["loss"]))
        given["torque"] = given["torque"] - rate * found["torque.grad"]
    return losses
