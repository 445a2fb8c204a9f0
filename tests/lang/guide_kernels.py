"""Programs of the user guide: `qd.static`, funcs, and what of Python kernels take."""

import enum

from lang.user_rows import page, refused

# --- qd.static

row = page("static")

@row(0, 18, 1, 28)
def a_branch_is_decided_when_compiled(qd):
    y = qd.field(qd.i32, shape=10)
    @qd.kernel
    def k(fast: qd.Template, a: qd.Template) -> None:
        for i in range(10):
            if qd.static(fast):
                a[i] = i * 2
            else:
                a[i] = i * 3 + 1
    k(True, y)
    first = [y[0], y[9]]
    k(False, y)
    return [*first, y[0], y[9]]

@row(5, 5, 0)
def a_static_condition_around_a_parallel_loop(qd):
    y = qd.field(qd.i32, shape=5)
    @qd.kernel
    def k(on: qd.Template, n: int, a: qd.Template) -> None:
        if qd.static(on):
            for i in range(n):
                a[i] += 1
    k(True, 5, y)
    first = y.to_numpy().sum()
    k(False, 5, y)
    return [first, y.to_numpy().sum(), y[0] - 1]

@row(1)
def a_value_of_the_run_is_not_static(qd):
    @qd.kernel
    def k(v: float) -> None:
        if qd.static(v > 0.5):
            pass
    return [refused(qd.QuadrantsCompilationError, k, 1.0)]

@row(7, 1)
def an_entry_of_a_dict_by_name(qd):
    options, chosen = {"a": 7, "b": 2}, "a"
    y = qd.field(qd.i32, shape=2)
    @qd.kernel
    def k():
        v = qd.static(options[chosen])
        y[0] = v
        if qd.static(chosen == "a" and len(options) == 2):
            y[1] = 1
    k()
    return y.to_numpy()

@row(3, 2)
def static_assertions_and_prints(qd):
    x = qd.field(qd.f32, shape=(3, 4))
    @qd.kernel
    def k() -> qd.i32:
        qd.static_assert(len(x.shape) == 2, "a matrix is needed")
        qd.static_print("axes", len(x.shape))
        return x.shape[0]
    return [k(), len(x.shape)]

# --- funcs

row = page("sub_functions")

@row(1, 2, peer="")  # an array is no template
def memory_goes_to_a_func(qd):
    y, z = qd.field(qd.i32, shape=10), qd.ndarray(qd.i32, shape=(10,))
    @qd.func
    def add(a: qd.Template, i: qd.i32, v: qd.i32) -> None:
        a[i] += v
    @qd.kernel
    def k(a: qd.Template, b: qd.types.NDArray[qd.i32, 1]) -> None:
        for i in range(10):
            add(a, i, 1)
            add(b, i, 2)
    k(y, z)
    return [y[3], z[9]]

@row(2, 4, 1)
def funcs_at_the_top_alone(qd):
    @qd.func(requires_top_level=True)
    def phase(a: qd.Template, n: qd.i32) -> None:
        for i in range(n):
            a[i] = a[i] + 1
        for i in range(n):
            a[i] = a[i] + 1
    @qd.kernel
    def good(a: qd.Template, n: qd.i32) -> None:
        phase(a, n)
    @qd.kernel
    def unrolled(a: qd.Template, n: qd.i32) -> None:
        for _ in qd.static(range(2)):
            phase(a, n)
    @qd.kernel
    def bad(a: qd.Template, n: qd.i32, on: qd.i32) -> None:
        if on > 0:
            phase(a, n)
    y = qd.field(qd.i32, shape=4)
    good(y, 4)
    first = y[3]
    y.fill(0)
    unrolled(y, 4)
    return [first, y[3], refused(qd.QuadrantsSyntaxError, bad, y, 4, 1)]

@row(0, 2.5)
def a_real_func_returns_early(qd):
    @qd.real_func
    def divided(a: qd.f32, b: qd.f32) -> qd.f32:
        if b == 0.0:
            return 0.0
        return a / b
    @qd.kernel
    def k(b: qd.f32) -> qd.f32:
        return divided(5.0, b)
    return [k(0.0), k(2.0)]

@row(120)
def a_func_calls_itself_with_templates(qd):
    @qd.func
    def product(n: qd.template()):
        r = 1
        if qd.static(n > 1):
            r = n * product(n - 1)
        return r
    @qd.kernel
    def k() -> qd.i32:
        return product(5)
    return [k()]

@row(7, 12)
def a_pyfunc_runs_in_both_worlds(qd):
    @qd.pyfunc
    def line(x):
        return 5 * x + 2
    @qd.kernel
    def k(x: qd.i32) -> qd.i32:
        return line(x)
    return [k(1), line(2)]

# --- Python in kernels

row = page("unsupported_python")

@row(1)
def an_argument_is_not_assigned(qd):
    @qd.kernel
    def k(n: int) -> int:
        n += 1
        return n
    return [refused(qd.QuadrantsCompilationError, k, 1)]

row.values("lists_and_comprehensions", "a = [1, 2, 3]", "b = [v * 2 for v in a]", {
    "a[0] + a[1] + a[2]": 6, "b[0] + b[1] + b[2]": 12, "len(a)": 3,
}, dtype="i32")

@row(1, 1, 1, 1)
def statements_that_kernels_lack(qd):
    y = qd.field(qd.i32, shape=())
    @qd.kernel
    def tries():
        try:
            y[None] = 1
        except ValueError:
            y[None] = 2
    @qd.kernel
    def raises():
        raise ValueError
    @qd.kernel
    def imports():
        import math  # noqa: F401
    @qd.kernel
    def yields():
        yield 1
    return [refused(qd.QuadrantsCompilationError, kernel) for kernel in (tries, raises, imports, yields)]

@row(1, 1, 1, 1)
def expressions_that_kernels_lack(qd):
    y = qd.field(qd.i32, shape=())
    @qd.kernel
    def sets():
        a = {1, 2}
        y[None] = a
    @qd.kernel
    def lambdas():
        f = lambda v: v
        y[None] = f
    @qd.kernel
    def defines():
        def f():
            return 1
        y[None] = f()
    @qd.kernel
    def otherwise():
        for i in range(3):
            y[None] = i
        else:
            y[None] = 5
    return [refused(qd.QuadrantsCompilationError, kernel) for kernel in (sets, lambdas, defines, otherwise)]

@row(1)
def the_outermost_loop_has_no_break(qd):
    y = qd.field(qd.i32, shape=4)
    @qd.kernel
    def k():
        for i in range(4):
            if i == 2:
                break
            y[i] = 1
    return [refused(qd.QuadrantsCompilationError, k)]

@row(5, 10, 15)
def arguments_are_unpacked(qd):
    y = qd.field(qd.i32, shape=3)
    @qd.func
    def put(i, a, b):
        y[i] = a * b
    @qd.kernel
    def k():
        for i in qd.static(range(3)):
            args = (i + 1, 5)
            put(i, *args)
    k()
    return y.to_numpy()

@row(2, 1)
def members_of_an_enum(qd):
    class Mode(enum.IntEnum):
        SLOW = 1
        FAST = 2
    @qd.kernel
    def k(m: qd.i32) -> qd.i32:
        r = 1
        if m == Mode.FAST:
            r = 2
        return r
    return [k(Mode.FAST), k(Mode.SLOW)]

row.values("casts", {
    "int(v)": 3, "float(5) / 2": 2.5, "bool(v)": 1,
}, given={"v": 3.7}, peer="")  # bool of a local ends the process

@row.filled(1.5, 6, 2, 1, peer="")
def types_of_values(qd, y):
    a = qd.f32(3) / 2
    b = qd.i32(6)
    c = 2
    c = 2.7  # c stays an integer
    y[0] = a
    y[1] = b
    y[2] = c
    y[3] = qd.cast(qd.cast(a * 2, qd.i32) + 254, qd.u8)
