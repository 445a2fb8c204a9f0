"""Programs of the user guide: gradients, graphs, streams, dispatch and caches."""

import math

import numpy as np
from lang.user_rows import page, refused

# --- derivatives

row = page("autodiff")

@row(0, 2, 4, 6)
def a_gradient_step_by_step(qd):
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    qd.root.dense(qd.i, 4).place(x, x.grad)
    qd.root.place(y, y.grad)
    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i] * x[i]
    for i in range(4):
        x[i] = i
    k()
    y.grad[None] = 1.0
    for i in range(4):
        x.grad[i] = 0
    k.grad()
    return x.grad.to_numpy()

@row(3, 3, 3, 5)
def a_tape_over_two_kernels(qd):
    x, y, z = (qd.field(qd.f32, shape=s, needs_grad=True) for s in (3, 3, ()))
    @qd.kernel
    def triple():
        for i in x:
            y[i] = 3 * x[i]
    @qd.kernel
    def total():
        for i in y:
            z[None] += y[i]
    x[0] = 5
    with qd.ad.Tape(loss=z):
        triple()
        total()
    return [*x.grad.to_numpy(), z[None] / 3]

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

@row(-math.sin(0.5), math.exp(0.5))
def forward_mode_of_one_parameter(qd):
    t = qd.field(qd.f32, shape=(), needs_dual=True)
    y = qd.field(qd.f32, shape=2, needs_dual=True)
    t[None] = 0.5
    @qd.kernel
    def k():
        y[0] = qd.cos(t[None])
        y[1] = qd.exp(t[None])
    with qd.ad.FwdMode(loss=y, param=t):
        k()
    return y.dual.to_numpy()

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

@row(2, 4, peer=(2, 4))
def gradients_of_arrays(qd):
    x, y = qd.ndarray(qd.f32, shape=(2,), needs_grad=True), qd.ndarray(qd.f32, shape=(1,), needs_grad=True)
    @qd.kernel
    def k(x: qd.types.NDArray[qd.f32, 1], y: qd.types.NDArray[qd.f32, 1]):
        for i in range(2):
            y[0] += x[i] * x[i]
    x[0], x[1] = 1, 2
    k(x, y)
    y.grad[0] = 1
    k.grad(x, y)
    return [x.grad[0], x.grad[1]]

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

@row(0, 12)
def gradients_are_cleared(qd):
    x, y = (qd.field(qd.f32, shape=(), needs_grad=True) for _ in range(2))
    x[None] = 6
    @qd.kernel
    def k():
        y[None] += x[None] ** 2
    x.grad[None] = 100
    qd.ad.clear_all_gradients()
    seen = x.grad[None]
    for _ in range(2):
        with qd.ad.Tape(y):
            k()
    return [seen, x.grad[None]]

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

@row(10, 0)
def a_body_repeats_while_a_number_is_not_zero(qd):
    @qd.kernel(graph=True)
    def k(x: qd.types.ndarray(qd.f32, ndim=1), n: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph_do_while(n):
            for i in range(x.shape[0]):
                x[i] = x[i] + 1.0
            for i in range(1):
                n[()] = n[()] - 1
    x, n = qd.ndarray(qd.f32, shape=(4,)), qd.ndarray(qd.i32, shape=())
    x.fill(0)
    n.from_numpy(np.array(10, np.int32))
    k(x, n)
    return [x[2], n.to_numpy()]

@row(8, 0)
def a_body_repeats_until_it_converged(qd):
    @qd.kernel(graph=True)
    def k(x: qd.types.ndarray(qd.f32, ndim=1), on: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph_do_while(on):
            for i in range(x.shape[0]):
                x[i] = 2 * x[i]
            for i in range(1):
                if x[0] > 7:
                    on[()] = 0
    x, on = qd.ndarray(qd.f32, shape=(2,)), qd.ndarray(qd.i32, shape=())
    x.fill(1)
    on.from_numpy(np.array(1, np.int32))
    k(x, on)
    return [x[1], on.to_numpy()]

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

@row(1)
def a_checkpoint_has_a_label_and_a_flag(qd):
    def launch():
        @qd.kernel(graph=True, checkpoints=True)
        def k(x: qd.types.ndarray(qd.f32, ndim=1)):
            with qd.checkpoint():
                for i in range(1):
                    x[0] += 1
        k(qd.ndarray(qd.f32, shape=(1,)))
    return [refused(qd.QuadrantsSyntaxError, launch)]

@row(1)
def a_graph_over_a_field(qd):
    y = qd.field(qd.i32, shape=())
    @qd.kernel(graph=True)
    def k(a: qd.Template):
        for i in range(1):
            a[None] = 1
    k(y)
    return [y[None]]

# --- streams

row = page("streams")

@row(3, 4, 7)
def loops_beside_each_other(qd):
    a, b, c = (qd.field(qd.f32, shape=16) for _ in range(3))
    @qd.kernel
    def both():
        with qd.stream_parallel():
            for i in range(16):
                a[i] = 3
        with qd.stream_parallel():
            for j in range(16):
                b[j] = 4
    @qd.kernel
    def combine():
        for i in range(16):
            c[i] = a[i] + b[i]
    both()
    combine()
    return [a[5], b[6], c[7]]

@row(10, 10)
def streams_and_events(qd):
    a, b = qd.field(qd.f32, shape=16), qd.field(qd.f32, shape=16)
    @qd.kernel
    def produce():
        for i in range(16):
            a[i] = 10.0
    @qd.kernel
    def consume():
        for i in range(16):
            b[i] = a[i]
    s, t = qd.create_stream(), qd.create_stream()
    produce(qd_stream=s)
    e = qd.create_event()
    e.record(s)
    e.wait(qd_stream=t)
    consume(qd_stream=t)
    t.synchronize()
    e.destroy()
    s.destroy()
    t.destroy()
    return [a[0], b[15]]

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

@row(1)
def streams_are_not_mixed_with_loops(qd):
    a = qd.field(qd.f32, shape=4)
    @qd.kernel
    def k():
        with qd.stream_parallel():
            for i in range(4):
                a[i] = 2
        for i in range(4):
            a[i] = 3
    return [refused(qd.QuadrantsCompilationError, k)]

# --- the fastest of several kernels

row = page("perf_dispatch")

@row(*[2.0 * i for i in range(4)], 30)
def the_fastest_of_two(qd):
    array = qd.types.NDArray[qd.f32, 1]
    @qd.perf_dispatch(get_geometry_hash=lambda x, y: hash(x.shape + y.shape), warmup=1, active=1)
    def double(x: array, y: array): ...
    calls = []
    @double.register
    @qd.kernel
    def first(x: array, y: array) -> None:
        for i in range(x.shape[0]):
            y[i] = x[i] * 2
    @double.register
    def second(x: array, y: array) -> None:
        calls.append(1)
        y.from_numpy(x.to_numpy() * 2)
    x, y = qd.ndarray(qd.f32, shape=(4,)), qd.ndarray(qd.f32, shape=(4,))
    x.from_numpy(np.arange(4, dtype=np.float32))
    for _ in range(30):
        double(x, y)
    return [*y.to_numpy(), 30 if 2 <= len(calls) <= 30 else 0]

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

@row(1, 1, 4)
def a_pure_kernel(qd):
    array = qd.types.NDArray[qd.f32, 1]
    @qd.kernel(fastcache=True)
    def k(a: array, b: array) -> None:
        for i in range(a.shape[0]):
            b[i] = a[i] * 2.0
    a, b = qd.ndarray(qd.f32, shape=(4,)), qd.ndarray(qd.f32, shape=(4,))
    a.fill(2)
    k(a, b)
    seen = k._primal.src_ll_cache_observations
    return [seen.cache_key_generated, not seen.cache_loaded, b[3]]

@row(1)
def a_pure_kernel_captures_nothing(qd):
    a = qd.ndarray(qd.f32, (10,))
    @qd.kernel(fastcache=True)
    def k() -> None:
        for i in range(10):
            a[i] = 0.0
    return [refused(qd.QuadrantsCompilationError, k)]

@row(math.pi)
def a_pure_kernel_may_know_constants(qd):
    @qd.kernel(fastcache=True)
    def k(a: qd.types.NDArray[qd.f32, 1]) -> None:
        a[0] = math.pi
    a = qd.ndarray(qd.f32, (1,))
    k(a)
    return a.to_numpy()

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
