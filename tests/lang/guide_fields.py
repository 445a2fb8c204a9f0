"""Programs of the user guide: fields, tensors, views, exchange with other packages."""

import pickle

import numpy as np
from lang.user_rows import page, refused

# --- fields and where they are

row = page("fields")

@row(12, 3, 4, 0)
def the_shape_of_a_field(qd):
    x = qd.field(qd.f32, shape=(3, 4))
    @qd.kernel
    def k() -> qd.i32:
        return x.shape[0] * x.shape[1]
    return [k(), *x.shape, len(qd.field(qd.f32, shape=()).shape)]

@row(12, 5, 2)
def a_field_is_filled_and_copied(qd):
    x, y = qd.field(qd.f32, shape=(2, 3)), qd.field(qd.f32, shape=(2, 3))
    x.fill(2)
    y.copy_from(x)
    x[1, 2] = 5
    return [y.to_numpy().sum(), x[1, 2], y[1, 2]]

@row(0, 11, 22)
def layouts_are_placed_by_hand(qd):
    x, y = qd.field(qd.i32), qd.field(qd.i32)
    qd.root.dense(qd.i, 3).place(x, y)
    @qd.kernel
    def k():
        for i in x:
            x[i] = i
            y[i] = 10 * i
    k()
    return x.to_numpy() + y.to_numpy()

@row(0, 1, 10, 11)
def dense_in_dense(qd):
    x = qd.field(qd.i32)
    qd.root.dense(qd.i, 2).dense(qd.j, 2).place(x)
    @qd.kernel
    def k():
        for i, j in x:
            x[i, j] = 10 * i + j
    k()
    return x.to_numpy().flatten()

@row(1, 1, 0, 1)
def a_mask_of_bits(qd):
    x = qd.field(qd.f32)
    b = qd.root.bitmasked(qd.i, 4)
    b.place(x)
    y = qd.field(qd.i32, shape=4)
    @qd.kernel
    def put():
        for i in range(4):
            if i != 2:
                x[i] = 1.0
    @qd.kernel
    def look():
        for i in range(4):
            y[i] = qd.is_active(b, [i])
    put()
    look()
    return y.to_numpy()

@row(6, 2, 0)
def a_sparse_loop_visits_what_is_active(qd):
    x, s, n = qd.field(qd.f32), qd.field(qd.f32, shape=()), qd.field(qd.i32, shape=())
    p = qd.root.pointer(qd.i, 4)
    p.dense(qd.i, 2).place(x)
    @qd.kernel
    def k():
        for i in x:
            s[None] += x[i]
            n[None] += 1
    x[5] = 6
    k()
    first = [s[None], n[None]]
    p.deactivate_all()
    n[None] = 0
    k()
    return [*first, n[None]]

@row(3, 0, 1, 4)
def a_list_grows(qd):
    x = qd.field(qd.i32)
    p = qd.root.dynamic(qd.i, 16, chunk_size=4)
    p.place(x)
    n = qd.field(qd.i32, shape=())
    @qd.kernel
    def k():
        for _ in range(1):
            for i in range(3):
                qd.append(x.parent(), [], i * i)
            n[None] = qd.length(x.parent(), [])
    k()
    return [n[None], x[0], x[1], x[2]]

@row(4, 6)
def a_builder_of_fields(qd):
    builder = qd.FieldsBuilder()
    x = qd.field(qd.f32)
    builder.dense(qd.i, 3).place(x)
    tree = builder.finalize()
    x.fill(2)
    @qd.kernel
    def k() -> qd.f32:
        s = 0.0
        for i in x:
            s += x[i]
        return s
    total = k()
    tree.destroy()
    return [total - 2, total]

@row(-2, 1)
def indices_with_an_offset(qd):
    x = qd.field(qd.f32, shape=4, offset=-2)
    @qd.kernel
    def k():
        for i in x:
            x[i] = i
    k()
    return [x[-2], x[1]]

@row(5, 1)
def order_of_the_axes(qd):
    x = qd.field(qd.i32, shape=(2, 3), order="ji")
    @qd.kernel
    def k():
        for i, j in x:
            x[i, j] = 2 * j + i
    k()
    return [x[1, 2], x[1, 0]]

@row(*range(6))
def a_field_of_matrices_and_numpy(qd):
    m = qd.Matrix.field(3, 2, qd.f32, shape=(4,))
    m.from_numpy(np.arange(24, dtype=np.float32).reshape(4, 3, 2))
    return m.to_numpy()[0].flatten()

@row(2, 9)
def a_struct_field_and_numpy(qd):
    s = qd.Struct.field({"a": qd.f32, "v": qd.types.vector(2, qd.f32)}, shape=(3,))
    s.from_numpy({"a": np.full(3, 2, np.float32), "v": np.full((3, 2), 1.5, np.float32)})
    d = s.to_numpy()
    return [d["a"][1], d["v"].sum()]

@row(4, 1, 0)
def dtypes_of_fields(qd):
    x = qd.field(qd.u8, shape=2)
    b = qd.field(qd.u1, shape=2)
    @qd.kernel
    def k():
        x[0] = 260 & 255
        b[1] = x[0] > 3
    k()
    return [x[0], b[1], b[0]]

@row(0.5, 3, 70000)
def narrow_and_wide_numbers(qd):
    h, s, w = qd.field(qd.f16, shape=()), qd.field(qd.i16, shape=()), qd.field(qd.u32, shape=())
    @qd.kernel
    def k():
        h[None] = 0.5
        s[None] = 3
        w[None] = 70000
    k()
    return [h[None], s[None], w[None]]

# --- tensors

row = page("tensor")

@row(1, 1, 1, 1)
def memory_behind_a_tensor(qd):
    a = qd.tensor(qd.f32, shape=(4, 5))
    b = qd.tensor(qd.f32, shape=(4, 5), backend=qd.Backend.FIELD)
    return [
        isinstance(a, qd.Tensor), isinstance(b, qd.Tensor),
        isinstance(a._unwrap(), qd.Ndarray), isinstance(b._unwrap(), qd.Field),
    ]

@row(6, 6)
def one_kernel_takes_both(qd):
    @qd.kernel
    def fill(x: qd.Tensor):
        for i in range(x.shape[0]):
            x[i] = i
    sums = []
    for backend in (qd.Backend.FIELD, qd.Backend.NDARRAY):
        x = qd.tensor(qd.f32, shape=(4,), backend=backend)
        fill(x)
        sums.append(x.to_numpy().sum())
    return sums

@row(4, 3, 3, 2, 2)
def tensors_of_vectors_and_matrices(qd):
    v = qd.Vector.tensor(3, qd.f32, shape=(4,))
    m = qd.Matrix.tensor(2, 2, qd.f32, shape=(3,), backend=qd.Backend.FIELD)
    return [*v.to_numpy().shape, *m.to_numpy().shape]

@row(0, 100, 200, 300)
def a_kernel_writes_a_gradient(qd):
    a = qd.tensor(qd.f32, shape=(4,), needs_grad=True)
    @qd.kernel
    def k(x: qd.Tensor):
        for i in range(4):
            x.grad[i] = i * 100.0
    k(a)
    return a.grad.to_numpy()

@row(2, 3, 1, 0, 12)
def a_tensor_is_transposed_in_memory(qd):
    a = qd.tensor(qd.f32, shape=(2, 3), layout=(1, 0))
    @qd.kernel
    def k(x: qd.Tensor):
        for i, j in qd.ndrange(2, 3, axes=(1, 0)):
            x[i, j] = 10 * i + j
    k(a)
    return [*a.shape, *a.layout, a.to_numpy()[1, 2]]

@row(1, 1, 1)
def layouts_that_are_wrong(qd):
    wrong = (ValueError, {"layout": (0, 1, 2)}), (ValueError, {"layout": (0, 0)}), (TypeError, {"order": "ji"})
    return [refused(error, qd.tensor, qd.f32, shape=(4, 5), **options) for error, options in wrong]

@row(3, 4, 1, 1)
def a_tensor_is_pickled(qd):
    a = qd.tensor(qd.f32, shape=(3, 4), backend=qd.Backend.FIELD, layout=(1, 0))
    a.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
    b = pickle.loads(pickle.dumps(a))
    return [*b.shape, b.layout == (1, 0), (b.to_numpy() == a.to_numpy()).all()]

@row(1, 1)
def a_bare_array_is_wrapped(qd):
    a = qd.ndarray(qd.f32, shape=(4, 5))
    t = qd.wrap(a)
    return [isinstance(t, qd.Tensor), t._unwrap() is a]

@row(0, 0, 1)
def whether_a_tensor_has_a_gradient(qd):
    a = qd.tensor(qd.f32, shape=(4,), backend=qd.Backend.FIELD)
    b = qd.tensor(qd.f32, shape=(4,))
    c = qd.tensor(qd.f32, shape=(4,), needs_grad=True)
    return [t.has_grad() for t in (a, b, c)]

@row(3, 0)
def a_tensor_may_be_none(qd):
    y = qd.field(qd.i32, shape=())
    @qd.kernel
    def k(x: qd.Tensor):
        if qd.static(x is not None):
            y[None] = x.shape[0]
        else:
            y[None] = 0
    k(qd.tensor(qd.f32, shape=(3,)))
    first = y[None]
    k(None)
    return [first, y[None]]

@row(3)
def a_dataclass_of_tensors(qd):
    from dataclasses import dataclass
    @dataclass
    class State:
        a: qd.Tensor
        b: qd.Tensor
    @qd.kernel
    def k(s: State):
        for i in range(2):
            s.a[i] = 1
            s.b[i] = s.a[i] + 1
    s = State(qd.tensor(qd.f32, shape=(2,)), qd.tensor(qd.f32, shape=(2,), backend=qd.Backend.FIELD))
    k(s)
    return [s.a[0] + s.b[1]]

# --- views

row = page("buffer_view")

@row(0, 2, 4, 3)
def a_kernel_scales_a_part(qd):
    data = qd.ndarray(qd.f32, shape=(8,))
    data.from_numpy(np.arange(8, dtype=np.float32))
    @qd.kernel
    def k(v: qd.BufferView[qd.f32], factor: qd.f32):
        for i in range(v.size):
            v[i] = v[i] * factor
    k(data[:3], 2.0)
    return data.to_numpy()[:4]

@row(4, 12, 14, 3, 3)
def views_without_a_dtype(qd):
    data = qd.ndarray(qd.f32, shape=(8,))
    data.from_numpy(np.arange(8, dtype=np.float32))
    @qd.kernel
    def k(v: qd.BufferView):
        for i in range(v.size):
            v[i] = v[i] * 2.0
    view = qd.BufferView(data, offset=6, size=2)
    k(view)
    @qd.kernel
    def shape(v: qd.BufferView) -> qd.i32:
        return v.shape[0]
    return [data[4], data[6], data[7], shape(data[-3:]), data[2:5].size]

@row(1, 1)
def slices_that_are_no_views(qd):
    data, square = qd.ndarray(qd.f32, shape=(8,)), qd.ndarray(qd.f32, shape=(2, 2))
    return [refused(Exception, lambda: data[::2]), refused(Exception, lambda: square[:1])]

@row(1, debug=True)
def an_index_out_of_a_view(qd):
    @qd.func
    def write(v: qd.BufferView[qd.f32], i: qd.i32):
        v[i] = 99.0
    @qd.kernel
    def k(v: qd.BufferView[qd.f32]):
        for i in range(v.size):
            if i == 0:
                write(v, v.size)
    try:
        k(qd.ndarray(qd.f32, shape=(32,))[:16])
        qd.sync()
    except Exception as error:
        return ["16" in str(error)]
    return [0]

# --- other packages

row = page("interop")

@row(3, 45)
def numpy_in_and_out(qd):
    f, a = qd.field(qd.f32, shape=(4, 4)), qd.ndarray(qd.i32, shape=(10,))
    f.from_numpy(np.ones((4, 4), np.float32) * 3)
    a.from_numpy(np.arange(10, dtype=np.int32))
    return [f.to_numpy()[0, 0], a.to_numpy().sum()]

@row(0, 1, 4, 9)
def a_kernel_takes_arrays_of_numpy(qd):
    @qd.kernel
    def k(x: qd.types.ndarray(), y: qd.types.ndarray()) -> None:
        for i in range(4):
            y[i] = x[i] * x[i]
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    k(x, y)
    return y

@row(9, 9, needs="torch")
def a_kernel_takes_tensors_of_torch(qd):
    import torch
    @qd.kernel
    def k(x: qd.types.ndarray(), y: qd.types.ndarray()) -> None:
        for i in range(8):
            y[i] = x[i] * x[i]
    x, y = torch.ones(8) * 3, torch.zeros(8)
    k(x, y)
    f = qd.field(qd.f32, shape=8)
    f.from_torch(y)
    return [y[0], f.to_torch(device="cpu")[7]]

@row(4, 8, needs="torch")
def a_function_of_torch_has_kernels(qd):
    import torch
    @qd.kernel
    def forward_kernel(x: qd.types.ndarray(), y: qd.types.ndarray()) -> None:
        for i in range(4):
            y[i] = x[i] * x[i]
    @qd.kernel
    def backward_kernel(dx: qd.types.ndarray(), x: qd.types.ndarray(), dy: qd.types.ndarray()) -> None:
        for i in range(4):
            dx[i] = 2 * x[i] * dy[i]
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.zeros_like(x)
            ctx.save_for_backward(x)
            forward_kernel(x, y)
            return y
        @staticmethod
        def backward(ctx, dy):
            dy = dy.contiguous()
            dx = torch.zeros_like(dy)
            backward_kernel(dx, ctx.saved_tensors[0], dy)
            return dx
    x = torch.tensor([2.0, 4.0, 1.0, 0.0], requires_grad=True)
    Square.apply(x).sum().backward()
    return x.grad[:2]

@row(1, 1)
def a_wrong_shape_is_refused(qd):
    f, a = qd.field(qd.f32, shape=(4, 4)), qd.ndarray(qd.f32, shape=(4,))
    wrong = (f, np.ones((4, 3), np.float32)), (a, np.ones(5, np.float32))
    return [refused(Exception, x.from_numpy, array) for x, array in wrong]

@row(1, 2, 5)
def a_copy_is_apart(qd):
    a = qd.ndarray(qd.f32, shape=(4,))
    a.fill(1)
    copy = a.to_numpy()
    again = a.to_numpy(copy=True)
    again += 1
    a.fill(5)
    return [copy[0], again[0], a.to_numpy()[3]]

@row(7, 7)
def a_struct_field_and_torch_names(qd):
    s = qd.Struct.field({"position": qd.f32, "speed": qd.f32}, shape=(16,), layout=qd.Layout.SOA)
    s.position.fill(7)
    d = s.to_numpy()
    return [d["position"][3], s[4].position]
