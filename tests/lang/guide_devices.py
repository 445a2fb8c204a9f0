"""Programs of the user guide: threads of a block, algorithms, solvers, times, tools and options."""

import os
import tempfile

import numpy as np
from lang.user_rows import page, refused

# --- threads of a block

row = page("block")

@row(2016, 6112, peer="")  # not on its CPU
def a_block_sums(qd):
    a, y = qd.field(qd.f32, shape=128), qd.field(qd.f32, shape=2)
    a.from_numpy(np.arange(128, dtype=np.float32))
    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(128):
            s = qd.simt.block.reduce_add(a[i], 64, qd.f32)
            if qd.simt.block.thread_idx() == 0:
                y[i // 64] = s
    k()
    return y.to_numpy()

@row(42, peer="")  # not on its CPU
def one_thread_publishes(qd):
    y = qd.field(qd.i32, shape=32)
    @qd.kernel
    def k():
        qd.loop_config(block_dim=32)
        for i in range(32):
            value = qd.simt.block.SharedArray((1,), qd.i32)
            if i % 32 == 0:
                value[0] = 42
                qd.simt.block.mem_fence()
            qd.simt.block.sync()
            y[i] = value[0]
    k()
    return [y[31]]

row = page("subgroup")

@row(1, 1, 1, peer="")  # not on its CPU
def lanes_exchange(qd):
    y, n = qd.field(qd.i32, shape=(2, 64)), qd.simt.subgroup.group_size()
    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(64):
            lane = qd.simt.subgroup.invocation_id()
            y[0, i] = qd.simt.subgroup.shuffle_xor(lane, qd.u32(1))
            y[1, i] = qd.simt.subgroup.broadcast(i, qd.u32(0))
    k()
    lanes = np.arange(64) % n
    return [
        (y.to_numpy()[0] == lanes ^ 1).all(), (y.to_numpy()[1] == np.arange(64) // n * n).all(),
        2 ** qd.simt.subgroup.log2_group_size() == n,
    ]

@row(1, 1, 1, peer="")  # not on its CPU
def lanes_sum_and_vote(qd):
    y, n = qd.field(qd.i32, shape=(3, 64)), qd.simt.subgroup.group_size()
    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(64):
            lane = qd.simt.subgroup.invocation_id()
            y[0, i] = qd.simt.subgroup.reduce_all_add(lane)
            y[1, i] = qd.simt.subgroup.inclusive_add(lane)
            y[2, i] = qd.simt.subgroup.any_true(lane == 1)
    k()
    a, lanes = y.to_numpy(), np.arange(64) % n
    return [(a[0] == n * (n - 1) // 2).all(), (a[1] == lanes * (lanes + 1) // 2).all(), (a[2] != 0).all()]

row = page("grid")

@row(3, peer="")  # not on its CPU
def a_fence_of_the_grid(qd):
    data, flag = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=())
    @qd.kernel
    def k():
        qd.loop_config(block_dim=32)
        for i in range(32):
            if i == 0:
                data[None] = 3
                qd.simt.grid.mem_fence()
                flag[None] = 1
    k()
    return [data[None] * flag[None]]

# --- algorithms

row = page("algorithms")

@row(0, 1, 2, 3, 5, 8)
def a_parallel_sort(qd):
    keys = qd.field(qd.i32, shape=6)
    keys.from_numpy(np.array([5, 3, 8, 0, 2, 1], np.int32))
    qd.algorithms.parallel_sort(keys)
    return keys.to_numpy()

@row(3, 1, 2, 10, 30, 20)
def values_are_sorted_with_their_keys(qd):
    keys, values = qd.field(qd.i32, shape=3), qd.field(qd.f32, shape=3)
    keys.from_numpy(np.array([9, 4, 6], np.int32))
    values.from_numpy(np.array([20, 10, 30], np.float32))
    qd.algorithms.parallel_sort(keys, values)
    return [3, 1, 2, *values.to_numpy()]

# --- solvers of sparse systems

row = page("linalg")

@row(1, 2, 3)
def a_sparse_system(qd):
    builder = qd.linalg.SparseMatrixBuilder(3, 3, max_num_triplets=9)
    @qd.kernel
    def fill(b: qd.types.sparse_matrix_builder()):
        for i in range(3):
            b[i, i] += i + 1.0
    fill(builder)
    a = builder.build()
    solver = qd.linalg.SparseSolver(solver_type="LLT")
    solver.analyze_pattern(a)
    solver.factorize(a)
    return np.round(solver.solve(np.array([1.0, 4.0, 9.0], np.float32)), 5)

@row(2, 0, 5)
def a_sparse_matrix_times_a_vector(qd):
    builder = qd.linalg.SparseMatrixBuilder(3, 3, max_num_triplets=9)
    @qd.kernel
    def fill(b: qd.types.sparse_matrix_builder()):
        b[0, 0] += 2.0
        b[2, 1] += 5.0
    fill(builder)
    return builder.build() @ np.ones(3, np.float32)

@row(1, 2)
def conjugate_gradients_without_a_matrix(qd):
    b, x = qd.field(qd.f32, shape=2), qd.field(qd.f32, shape=2)
    b.from_numpy(np.array([4, 7], np.float32))
    @qd.kernel
    def product(v: qd.template(), out: qd.template()):
        for _ in range(1):
            out[0] = 2 * v[0] + v[1]
            out[1] = v[0] + 3 * v[1]
    qd.linalg.MatrixFreeCG(qd.linalg.LinearOperator(product), b, x, maxiter=20, tol=1e-6, quiet=True)
    return np.round(x.to_numpy(), 4)

# --- times and tools

row = page("profiler")

@row(3, 1, kernel_profiler=True)
def launches_are_counted(qd):
    x = qd.field(qd.f32, shape=64)
    @qd.kernel
    def k():
        for i in x:
            x[i] += 1
    for _ in range(3):
        k()
    qd.sync()
    return [3, x[0] == 3]

@row(1)
def the_time_of_a_clock(qd):
    t = qd.field(qd.i64, shape=2)
    @qd.kernel
    def k():
        qd.loop_config(serialize=True)
        for _ in range(1):
            t[0] = qd.clock_counter()
            t[1] = qd.clock_counter()
    k()
    return [t[1] >= t[0]]

@row(1, 1)
def times_of_launches_and_of_the_compiler(qd):
    @qd.kernel
    def k() -> qd.i32:
        return 1
    qd.profiler.print_scoped_profiler_info()
    qd.profiler.clear_scoped_profiler_info()
    return [k(), qd.profiler.CuptiMetric("a", "b", "{}").scale]

@row(0, 16, 4)
def addresses_of_elements(qd):
    x, y = qd.field(qd.f32, shape=(4, 4)), qd.field(qd.u64, shape=3)
    @qd.kernel
    def k():
        for i in range(1):
            y[0] = qd.get_addr(x, [0, 1])
            y[1] = qd.get_addr(x, [1, 1])
            y[2] = qd.get_addr(x, [0, 2])
    k()
    return [0, y[1] - y[0], y[2] - y[0]]

row = page("tools")

@row(1, 1)
def points_are_written(qd):
    x = qd.Vector.field(3, qd.f32, shape=4)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "points.ply")
        writer = qd.tools.PLYWriter(num_vertices=4)
        a = x.to_numpy()
        writer.add_vertex_pos(a[:, 0], a[:, 1], a[:, 2])
        writer.export_ascii(path)
        text = open(path).read()
    return [text.startswith("ply"), "element vertex 4" in text]

# --- options

row = page("init_options")

@row(1, fast_math=False, num_compile_threads=2, cfg_optimization=False)
def options_of_init(qd):
    return [qd.cfg.fast_math is False]

@row(0.5, 3)
def default_types(qd):
    x = qd.field(float, shape=1)
    y = qd.field(int, shape=1)
    @qd.kernel
    def k():
        x[0] = 1 / 2
        y[0] = 3
    k()
    return [x[0], y[0]]

@row(1)
def an_option_that_there_is_not(qd):
    return [refused(KeyError, qd.init, arch=qd.cpu, no_such_option=1)]

@row(0, 1)
def a_version_that_is_too_new(qd):
    return [refused(Exception, qd.init, arch=qd.cpu, require_version=version) for version in ("1.3.0", "2.0.0")]

@row(0, 1)
def an_option_is_changed_later(qd):
    before = qd.cfg.debug
    qd.cfg.debug = True
    return [before, qd.cfg.debug]

# --- numbers of few bits

row = page("quant")

@row(-2, -1, 0, 1, 4)
def whole_numbers_of_five_bits(qd):
    x = qd.field(qd.types.quant.int(bits=5))
    y = qd.field(qd.types.quant.int(bits=6, signed=False))
    packed = qd.BitpackedFields(max_num_bits=32)
    packed.place(x, y)
    qd.root.dense(qd.i, 4).place(packed)
    @qd.kernel
    def k():
        for i in range(4):
            x[i] = i - 2
            y[i] = 100
    k()
    found = [x[i] for i in range(4)]
    x[1] = 100  # 1100100
    return [*found, x[1]]

@row(0, 0.30078125, 0.6015625, 0.8984375, -1.98828125)
def numbers_of_fixed_point(qd):
    x = qd.field(qd.types.quant.fixed(bits=10, max_value=2.0))
    packed = qd.BitpackedFields(max_num_bits=32)
    packed.place(x)
    qd.root.dense(qd.i, 4).place(packed)
    @qd.kernel
    def k():
        for i in range(4):
            x[i] = 0.3 * i
    k()
    found = [x[i] for i in range(4)]
    x[2] = -1.99
    return [*found, x[2]]

@row(1, 1.234375, 2.46875, -3.69921875, 0, 0.00099945068359375)
def short_floating_point_numbers(qd):
    x = qd.field(qd.types.quant.float(exp=5, frac=10))
    packed = qd.BitpackedFields(max_num_bits=32)
    packed.place(x)
    qd.root.dense(qd.i, 6).place(packed)
    for i, v in enumerate((1.0, 1.2345, 2.469, -3.7, 0.0, 1e-3)):
        x[i] = v
    return [x[i] for i in range(6)]

@row(4, 3)
def an_array_in_one_word(qd):
    x = qd.field(qd.types.quant.int(4))
    qd.root.quant_array(qd.i, 8, max_num_bits=32).place(x)
    @qd.kernel
    def fill():
        for i in range(8):
            x[i] = i - 3
    @qd.kernel
    def total() -> qd.i32:
        s = 0
        for i in x:
            s += x[i]
        return s
    fill()
    return [total(), x[6]]
