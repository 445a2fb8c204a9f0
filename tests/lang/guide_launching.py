"""Programs of the user guide: gradients, graphs, streams, dispatch and caches."""

import math

from lang.user_rows import page

# --- derivatives

row = page("autodiff")

@row(7, peer=(7,))
def forward_mode(qd):
    x, loss = qd.field(qd.f32, shape=5), qd.field(qd.f32, shape=5)
    qd.root.lazy_dual()
    for i in range(5):
        x[i] = i
    @qd.kernel
    def k():
        loss[1] += x[3] * x[4]
    with qd.ad.FwdMode(loss=loss, param=x, seed=[0, 0, 0, 1, 1]):
        k()
    return [loss.dual[1]]

@row(4, 4)
def a_gradient_is_replaced(qd):
    x, total = qd.field(qd.f32), qd.field(qd.f32)
    qd.root.dense(qd.i, 8).place(x)
    qd.root.place(total)
    qd.root.lazy_grad()
    @qd.kernel
    def add(m: qd.f32):
        for i in range(8):
            qd.atomic_add(total[None], x[i] * m)
    @qd.ad.grad_replaced
    def forward(m):
        add(m)
        add(m)
    @qd.ad.grad_for(forward)
    def backward(m):
        add.grad(m)
    with qd.ad.Tape(loss=total):
        forward(4)
    return [x.grad[0], x.grad[7]]

def _decay(v, n):
    dv, dtotal = 1.0, 0.0
    for _ in range(n):
        dtotal += math.cos(v) * dv
        v, dv = v * 0.95 + 0.01, dv * 0.95
    return dtotal

@row(_decay(0.3, 6), ad_stack_experimental_enabled=True)
def a_loop_that_carries_a_value(qd):
    x, y = (qd.field(qd.f32, shape=s, needs_grad=True) for s in (1, ()))
    n = qd.field(qd.i32, shape=())
    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                y[None] += qd.sin(v)
                v = v * 0.95 + 0.01
    n[None] = 6
    x[0] = 0.3
    with qd.ad.Tape(y):
        k()
    return [x.grad[0]]

@row(5, 2)
def read_and_write_in_two_kernels(qd):
    x, b, loss = (qd.field(qd.f32, shape=s, needs_grad=True) for s in (2, (), ()))
    x[1], b[None] = 2, 5
    @qd.kernel
    def compute():
        loss[None] = x[1] * b[None]
    @qd.kernel
    def update():
        b[None] += 100
    loss.grad[None] = 1
    compute()
    compute.grad()
    update()
    return [x.grad[1], b.grad[None]]

# --- graphs

row = page("graph")

@row(3, 6, 3)
def loops_in_one_launch(qd):
    @qd.kernel(graph=True)
    def k(x: qd.types.ndarray(qd.f32, ndim=1), y: qd.types.ndarray(qd.f32, ndim=1)):
        for i in range(x.shape[0]):
            x[i] = x[i] + 1.0
        for i in range(y.shape[0]):
            y[i] = y[i] + 2.0
    x, y, z = (qd.ndarray(qd.f32, shape=(8,)) for _ in range(3))
    for a in (x, y, z):
        a.fill(0)
    for _ in range(3):
        k(x, y)
    k(z, x)
    return [x[3] - 2, y[7], z[0] + 2]

@row(1, 7, 0, 1, 3)
def a_stage_asks_the_host(qd):
    @qd.kernel(graph=True, checkpoints=True)
    def k(
        x: qd.types.ndarray(qd.f32, ndim=1), full: qd.types.ndarray(qd.i32, ndim=0),
        room: qd.types.ndarray(qd.i32, ndim=0),
    ):
        with qd.checkpoint(7, yield_on=full):
            for i in range(1):
                if room[()] < 2:
                    full[()] = 1
                else:
                    x[1] += 1
        for i in range(1):
            x[2] += 3
    x, full, room = qd.ndarray(qd.f32, shape=(3,)), qd.ndarray(qd.i32, shape=()), qd.ndarray(qd.i32, shape=())
    for a in (x, full, room):
        a.fill(0)
    s = k(x, full, room)
    first = [s.yielded, s.checkpoint]
    full.fill(0)
    room.fill(2)
    s = k.resume(x, full, room, from_checkpoint=s.checkpoint)
    return [*first, s.yielded, x[1], x[2]]

# --- streams

row = page("streams")

@row(2)
def a_stream_for_a_while(qd):
    a = qd.field(qd.f32, shape=4)
    @qd.kernel
    def k():
        for i in range(4):
            a[i] = 2
    with qd.create_stream() as s:
        k(qd_stream=s)
        s.synchronize()
    return [a[3]]

# --- the fastest of several kernels

row = page("perf_dispatch")

@row(1, 2)
def what_is_compatible(qd):
    array = qd.types.NDArray[qd.f32, 1]
    @qd.perf_dispatch(get_geometry_hash=lambda x: x.shape[0])
    def which(x: array): ...
    @which.register(is_compatible=lambda x: x.shape[0] >= 4)
    @qd.kernel
    def large(x: array) -> None:
        x[0] = 2
    @which.register(is_compatible=lambda x: x.shape[0] < 4)
    @qd.kernel
    def small(x: array) -> None:
        x[0] = 1
    found = []
    for n in (2, 8):
        x = qd.ndarray(qd.f32, shape=(n,))
        which(x)
        found.append(x[0])
    return found

@row(5)
def a_result_goes_to_the_caller(qd):
    array = qd.types.NDArray[qd.f32, 1]
    @qd.perf_dispatch(get_geometry_hash=lambda x: 0)
    def size(x: array) -> int: ...
    @size.register
    def by_shape(x: array) -> int:
        return x.shape[0]
    return [size(qd.ndarray(qd.f32, shape=(5,)))]

# --- caches

row = page("fastcache")

@row(2, 3)
def values_that_are_part_of_the_key(qd):
    import dataclasses
    import importlib
    key = importlib.import_module(f"{qd.__name__}.lang._fast_caching").FIELD_METADATA_CACHE_VALUE
    @dataclasses.dataclass
    class Settings:
        n: int = dataclasses.field(metadata={key: True})
        y: qd.types.NDArray[qd.f32, 1]
    @qd.kernel(fastcache=True)
    def k(s: Settings) -> None:
        s.y[0] = s.n
    y = qd.ndarray(qd.f32, (1,))
    found = []
    for n in (2, 3):
        k(Settings(n=n, y=y))
        found.append(y[0])
    return found
