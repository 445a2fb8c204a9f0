# ruff: noqa
@qd.func
def in_loop(v):
    for i in range(5):
        if i == v:
            return i

@qd.func
def half_way(v):
    for i in range(v):
        if i > 3:
            return 1, 2
    return 0

@qd.func
def field_half_way(v):
    for i in range(v):
        if i > 3:
            return v
    return x

@qd.func
def sometimes(v):
    if v > 0:
        return 1

@qd.func
def one_of_two(v) -> (qd.i32, qd.i32):
    return v

def undeclared():
    return 1

def early() -> qd.i32:
    if n[None] > 0:
        return 1
    return 2

def from_loop() -> qd.i32:
    for i in range(3):
        return i

def missing() -> qd.i32:
    z[0] = 1

def too_few() -> (qd.i32, qd.f32):
    return 1

def field_returned() -> qd.f32:
    return x

def text_returned() -> qd.f32:
    return "text"

def no_dtype() -> x:
    return 1

def func_from_loop():
    a[0] = in_loop(3)

def func_field_half_way():
    a[0] = field_half_way(n[None])

def func_half_way():
    a[0] = half_way(n[None])

def func_sometimes():
    a[0] = sometimes(n[None])

def func_too_few():
    a[0], a[1] = one_of_two(1)

def variadic(*values):
    z[0] = 1

@kernel(scalar(qd.f32))
def described_wrongly():
    z[0] = 1

def nothing_from_loop():
    for i in range(3):
        if i > 1:
            return
