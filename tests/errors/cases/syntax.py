# ruff: noqa
@kernel()
def try_():
    try:
        z[0] = 1
    except ValueError:
        pass


@kernel()
def with_():
    with open("f") as f:
        pass


@kernel()
def lambda_():
    f = lambda v: v + 1
    z[0] = f(1)


@kernel()
def comprehension():
    v = [i * 2 for i in range(n[None])]


@kernel()
def comprehension_with_condition():
    v = [i * 2 for i in range(3) if x[i] > 0.0]


@kernel()
def set_comprehension():
    v = {i * 2 for i in range(3)}


@kernel()
def a_class():
    class C:
        pass


@kernel()
def a_function():
    def f():
        return 1


@kernel()
def yields():
    yield 1


@kernel()
def global_():
    global z
    z[0] = 1


@kernel()
def del_():
    v = 1
    del v


@kernel()
def starred():
    p, *q = 1, 2, 3


@kernel()
def raise_():
    if n[None] < 0:
        raise ValueError("negative")


@kernel()
def import_():
    import math


@kernel()
def matrix_product():
    v = x[0] @ x[1]


@kernel()
def attribute_target():
    x.value = 1


@kernel()
def module_attribute_target():
    math.pi = 3


@kernel()
def bare_annotation():
    v: qd.f32


@kernel()
def for_else():
    for i in range(3):
        z[i] = 1
    else:
        z[0] = 2


@kernel()
def while_else():
    k = 0
    while k < 3:
        k += 1
    else:
        k = 0


@kernel()
def is_():
    v = n[None] is None


@kernel()
def in_():
    v = n[None] in (1, 2)


@kernel()
def format_spec():
    print(f"{x[0]:.3d}")


@kernel()
def format_spec_at_run_time():
    print(f"{x[0]:{n[None]}}")


@kernel()
def format_without_argument():
    print("{} {}".format(x[0]))


@kernel()
def format_broken():
    print("{} {".format(x[0]))


@kernel()
def format_of_text():
    assert x[0] > 0.0, f"{'text':.2f}"


@kernel()
def format_value():
    v = f"{x[0]}"


@kernel()
def indented_and_wide():
    if True:
        äöü = 1; z[0] = ünknown + äöü
