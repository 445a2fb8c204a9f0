# ruff: noqa
def try_():
    try:
        z[0] = 1
    except ValueError:
        pass

def with_():
    with open("f") as f:
        pass

def lambda_():
    f = lambda v: v + 1
    z[0] = f(1)

def comprehension():
    v = [i * 2 for i in range(n[None])]

def comprehension_with_condition():
    v = [i * 2 for i in range(3) if x[i] > 0.0]

def set_comprehension():
    v = {i * 2 for i in range(3)}

def a_class():
    class C:
        pass

def a_function():
    def f():
        return 1

def yields():
    yield 1

def global_():
    global z
    z[0] = 1

def del_():
    v = 1
    del v

def starred():
    p, *q = 1, 2, 3

def raise_():
    if n[None] < 0:
        raise ValueError("negative")

def import_():
    import math

def matrix_product():
    v = x[0] @ x[1]

def attribute_target():
    x.value = 1

def module_attribute_target():
    math.pi = 3

def bare_annotation():
    v: qd.f32

def for_else():
    for i in range(3):
        z[i] = 1
    else:
        z[0] = 2

def while_else():
    k = 0
    while k < 3:
        k += 1
    else:
        k = 0

def is_():
    v = n[None] is None

def in_():
    v = n[None] in x

def format_spec():
    print(f"{x[0]:.3d}")

def format_spec_at_run_time():
    print(f"{x[0]:{n[None]}}")

def format_without_argument():
    print("{} {}".format(x[0]))

def format_broken():
    print("{} {".format(x[0]))

def format_of_text():
    assert x[0] > 0.0, f"{'text':.2f}"

def format_value():
    v = f"{x[0]}"

def indented_and_wide():
    if True:
        äöü = 1; z[0] = ünknown + äöü
