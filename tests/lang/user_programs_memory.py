"""More programs of users: locals in parallel loops, memory, algorithms."""

import numpy as np
from lang.user_rows import row

# --- locals in parallel loops

@row(0, 1, 2, 3, 0, 2, 4, 6)
def an_iteration_assigns_a_local_before_it_reads_it(qd):
    x, y = qd.field(qd.f32, shape=4), qd.field(qd.f32, shape=4)
    @qd.kernel
    def k():
        r = 100.0
        for i in x:
            r = i * 1.0
            x[i] = r
        for i in x:
            r = 2
            r = r * x[i]
            y[i] = r
    k()
    return [*x.to_numpy(), *y.to_numpy()]

@row(2, 3, 2, 3)
def both_arms_of_a_condition_assign_a_local(qd):
    x = qd.field(qd.f32, shape=4)
    @qd.kernel
    def k():
        r = 100
        for i in x:
            if i % 2 == 0:
                r = 2.7
            else:
                r = 3.2
            x[i] = r
    k()
    return x.to_numpy()

@row(0, 2, 8, 18, peer="")
def the_gradient_of_a_local_of_the_iteration(qd):
    x, y = (qd.field(qd.f32, shape=s, needs_grad=True) for s in (4, ()))
    @qd.kernel
    def k():
        v = qd.Vector([0.0, 0.0])
        for i in x:
            v = qd.Vector([x[i], x[i]])
            y[None] += v.dot(v) * 0.5
    for i in range(4):
        x[i] = i
    with qd.ad.Tape(y):
        k()
    return x.grad.to_numpy() * x.to_numpy()

@row.filled(2, 4, 6)
def an_iteration_reads_its_own_element(qd, y):
    v = qd.Vector([0.0, 0.0, 0.0])
    for i in range(3):
        v[i] = i + 1.0
        y[i] = v[i] * 2.0

@row.filled(2, 1.5, 5)
def an_iteration_changes_its_own_element_again(qd, y):
    v = qd.Vector([1.0, 2.0, 3.0])
    for i in range(3):
        if i != 1:
            v[i] = v[i] * 2.0
        for _ in range(i):
            v[i] = v[i] - 0.5
    for j in qd.static(range(3)):
        y[j] = v[j]

@row(6, 12, peer="")
def the_gradient_of_an_iterations_own_element(qd):
    x, y = (qd.field(qd.f32, shape=s, needs_grad=True) for s in ((2, 2), ()))
    @qd.kernel
    def k():
        m = qd.Matrix([[0.0, 0.0], [0.0, 0.0]])
        for i, j in qd.ndrange(2, 2):
            m[i, j] = x[i, j] * 3.0
            m[i, j] = m[i, j] * x[i, j]
        y[None] += m.sum()
    x.from_numpy(np.array([[1, 1], [1, 2]], np.float32))
    with qd.ad.Tape(y):
        k()
    return [x.grad[0, 0], x.grad[1, 1]]


# --- memory

@row(0, 2, 4, 6)
def a_gradient_is_placed_alone(qd):
    p, y = qd.field(qd.f32), qd.field(qd.f32, shape=(), needs_grad=True)
    qd.root.dense(qd.i, 4).place(p)
    qd.root.dense(qd.i, 4).place(p.grad)
    @qd.kernel
    def k():
        for i in p:
            y[None] += p[i] * p[i]
    for i in range(4):
        p[i] = i
    with qd.ad.Tape(y):
        k()
    return p.grad.to_numpy()

@row(1, 2, 5)
def hints_about_one_entry_of_every_element(qd):
    v = qd.Vector.field(2, qd.f32, shape=2)
    @qd.kernel
    def k():
        for d in qd.static(range(2)):
            qd.block_local(v.get_scalar_field(d))
        for i in range(2):
            v[i][0] = i + 1.0
    k()
    v.get_scalar_field(1)[0] = 5
    return [*v.to_numpy()[:, 0], v[0][1]]

@row(5, 5, 6, 6, 7, 8)
def an_array_clamps_indices(qd):
    array = qd.types.ndarray(dtype=qd.f32, ndim=1, boundary="clamp")
    @qd.kernel
    def k(a: array, y: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        for i in range(4):
            y[i] = a[i - 1]
    @qd.kernel
    def add(a: array):
        for i in range(5):
            a[i - 1] += 1.0
    a, y = qd.ndarray(qd.f32, shape=(2,)), qd.ndarray(qd.f32, shape=(4,))
    a[0], a[1] = 5, 6
    k(a, y)
    add(a)
    return [*y.to_numpy(), a[0], a[1] - 1]

@row(7, 7)
def a_volatile_load(qd):
    x, y = qd.field(qd.i32, shape=2), qd.field(qd.f32, shape=2)
    x[1], y[1] = 7, 7
    @qd.kernel
    def k() -> qd.i32:
        return qd.volatile_load(x[1])
    @qd.kernel
    def h() -> qd.f32:
        return qd.volatile_load(y[1])
    return [k(), h()]


@row(0, 0.01, 1)
def a_sparse_grid(qd):
    grid = qd.sparse.grid({"pos": qd.math.vec2, "mass": qd.f32}, shape=(10, 10))
    before = qd.sparse.usage(grid)
    @qd.kernel
    def put():
        grid[2, 3].mass = 1.0
    @qd.kernel
    def count() -> qd.i32:
        n = 0
        for _ in qd.grouped(grid):
            n += 1
        return n
    put()
    return [before, qd.sparse.usage(grid), count()]


# --- algorithms and algebra

@row(1, 2, 3, 4, peer="")
def sort_takes_the_number_of_keys_in_an_array(qd):
    keys, tmp = qd.ndarray(qd.u32, shape=(4,)), qd.ndarray(qd.u32, shape=(4,))
    keys.from_numpy(np.array([3, 1, 4, 2], np.uint32))
    scratch = qd.ndarray(qd.u32, shape=(qd.algorithms.sort_scratch_slots(4, 1),))
    n = qd.ndarray(qd.i32, shape=())
    n[()] = 4
    @qd.kernel
    def k(
        keys: qd.types.ndarray(qd.u32, 1), tmp: qd.types.ndarray(qd.u32, 1), scratch: qd.types.ndarray(qd.u32, 1),
        n: qd.types.ndarray(qd.i32, 0),
    ):
        qd.algorithms.sort(keys, tmp, keys, tmp, scratch, n, qd.u32, False, 32, 1)
    k(keys, tmp, scratch, n)
    return keys.to_numpy()

@row(1)
def a_kernel_asks_for_scratch_slots(qd):
    @qd.kernel
    def k() -> qd.i32:
        return qd.static(qd.algorithms.reduce_scratch_slots(1000))
    return [k() > 0]

@row(1, 1)
def inverses_of_large_matrices(qd):
    def right(m):
        n = len(m)
        a, b = (qd.Matrix.field(n, n, qd.f32, shape=()) for _ in range(2))
        a.from_numpy(m.astype(np.float32))
        @qd.kernel
        def k():
            b[None] = a[None].inverse()
        k()
        return bool(abs(b.to_numpy() @ m - np.eye(n)).max() < 1e-4)
    def full(n):
        return np.eye(n) * 2 + np.fromfunction(lambda i, j: (i + 2 * j) % 3 / 10, (n, n))
    return [right(np.roll(np.eye(5), 1, 0)), right(full(7))]


# --- graphs

@row(1063, 1063, 1063, 0, 0)
def loops_of_a_graph_in_a_loop(qd):
    flag = qd.types.ndarray(qd.i32, ndim=0)
    @qd.kernel(graph=True)
    def k(v: qd.types.ndarray(qd.f32, 1), outer: flag, inner: flag):
        n = v.shape[0]
        for i in v:
            v[i] = 0.0
        while qd.graph.do_while(outer):
            for i in range(n):
                v[i] += 1.0
            inner[None] = 2
            while qd.graph.do_while(inner):
                for i in range(n):
                    v[i] += 10.0
                inner[None] = inner[None] - 1
            for _ in range(1):
                outer[None] = outer[None] - 1
        for i in range(n):
            v[i] += 1000.0
    v, outer, inner = qd.ndarray(qd.f32, 3), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    outer[None] = 3
    k(v, outer, inner)
    return [*v.to_numpy().tolist(), outer[None], inner[None]]

@row(7, 111, 2, 7, 211, 2, 1, 12421, 0)
def checkpoints_in_a_loop_of_a_graph(qd):
    flag = qd.types.ndarray(qd.i32, ndim=0)
    @qd.kernel(graph=True, checkpoints=True)
    def k(v: qd.types.ndarray(qd.f32, 1), full: flag, left: flag):
        for i in v:
            v[i] += 1
        while qd.graph.do_while(left):
            for i in v:
                v[i] += 10
            with qd.checkpoint(7, yield_on=full):
                for i in v:
                    v[i] += 100
                for _ in range(1):
                    full[None] = 1 if v[0] < 300 else 0
            for i in v:
                v[i] += 1000
            for _ in range(1):
                left[None] -= 1
        for i in v:
            v[i] += 10000
    v, full, left = qd.ndarray(qd.f32, 2), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    v.fill(0)
    full[None], left[None] = 0, 2
    said = []
    status = k(v, full, left)
    while status.yielded:
        said += [status.checkpoint, v[0], left[None]]
        full[None] = 0
        status = k.resume(v, full, left, from_checkpoint=status.checkpoint)
    return [*said, status.checkpoint is None, v[0], left[None]]

@row(1, 2, 2, 2)
def sections_of_a_graph(qd):
    @qd.kernel(graph=True)
    def k(v: qd.types.ndarray(qd.f32, 1)):
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                for i in range(2):
                    v[i] = 1.0
                for i in range(2):
                    v[i] += i
            with qd.graph.parallel():
                for i in range(2, 4):
                    v[i] = 2.0
    v = qd.ndarray(qd.f32, 4)
    k(v)
    return v.to_numpy().tolist()
