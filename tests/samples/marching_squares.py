"""The line where a field is 0: cells look up their case in a table, an atomic counter gives their pieces places."""

import numpy as np

N = 17
# by which corners are inside: the edges (0 below, 1 right, 2 above, 3 left) that pieces of the line connect
CASES = [
    (), ((3, 0),), ((0, 1),), ((3, 1),), ((1, 2),), ((3, 0), (1, 2)), ((0, 2),), ((3, 2),),
    ((2, 3),), ((2, 0),), ((0, 1), (2, 3)), ((2, 1),), ((1, 3),), ((1, 0),), ((0, 3),), (),
]  # fmt: skip


def make(qd):
    value = qd.field(float, shape=(N, N))
    table = qd.field(qd.i32, shape=(16, 2, 2))
    piece = qd.types.struct(a=qd.types.vector(2, float), b=qd.types.vector(2, float))
    pieces = piece.field(shape=4 * N)
    count = qd.field(qd.i32, shape=())

    @qd.kernel
    def fill(radius: float):
        for i, j in value:
            p = qd.Vector([i, j]) / (N - 1) * 2.0 - 1.0
            value[i, j] = radius - qd.sqrt(p.x**2 + 2.0 * p.y**2)

    @qd.func
    def crossing(i, j, edge):
        p, q = qd.Vector([i, j]), qd.Vector([i, j])
        if edge == 0:
            q += qd.Vector([1, 0])
        elif edge == 1:
            p += qd.Vector([1, 0])
            q += qd.Vector([1, 1])
        elif edge == 2:
            p += qd.Vector([0, 1])
            q += qd.Vector([1, 1])
        else:
            q += qd.Vector([0, 1])
        return p + (q - p) * (value[p] / (value[p] - value[q]))

    @qd.kernel
    def draw():
        count[None] = 0
        for i, j in qd.ndrange(N - 1, N - 1):
            case = 0
            for k, corner in qd.static(enumerate(((0, 0), (1, 0), (1, 1), (0, 1)))):
                if value[i + corner[0], j + corner[1]] > 0:
                    case |= 1 << k
            for k in range(2):
                if table[case, k, 0] >= 0:
                    n = qd.atomic_add(count[None], 1)
                    pieces[n].a = crossing(i, j, table[case, k, 0])
                    pieces[n].b = crossing(i, j, table[case, k, 1])

    def run():
        rows = np.full((16, 2, 2), -1, np.int32)
        for case, edges in enumerate(CASES):
            rows[case, : len(edges)] = np.reshape(edges, (-1, 2))
        table.from_numpy(rows)
        fill(0.8)
        draw()
        n = count[None]
        a, b = pieces.a.to_numpy()[:n], pieces.b.to_numpy()[:n]
        return {"count": np.array(n), "length": np.linalg.norm(a - b, axis=1).sum() * 2 / (N - 1),
                "ends": np.sort(np.concatenate([a, b]), axis=0)}  # fmt: skip

    return run


def expected():
    """The length of an ellipse, from below."""
    t = np.linspace(0.0, 2 * np.pi, 10001)
    curve = 0.8 * np.stack([np.cos(t), np.sin(t) / np.sqrt(2)])
    return {"length": np.linalg.norm(np.diff(curve), axis=0).sum()}


EXPECTED = 0.01
