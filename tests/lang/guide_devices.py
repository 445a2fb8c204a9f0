"""Programs of the user guide: threads of a block, algorithms, solvers, times, tools and options."""


import numpy as np
from lang.user_rows import page

# --- threads of a block

row = page("block")

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

# --- times and tools

row = page("profiler")

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

# --- options

row = page("init_options")

@row(1, fast_math=False, num_compile_threads=2, cfg_optimization=False)
def options_of_init(qd):
    return [qd.cfg.fast_math is False]

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
