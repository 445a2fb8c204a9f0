# ruff: noqa
CAP = 3


def unknown():
    for i in x:
        z[i] = speed * 2

def misspelled():
    velocity = 1.0
    z[0] = velocty

def ended_with_if():
    if n[None] > 0:
        v = 1
    else:
        v = 2
    z[0] = v

def ended_with_loop():
    for i in x:
        for j in range(3):
            v = j
        z[i] = v

def loop_variable_after_loop():
    for i in range(3):
        z[i] = 0
    z[0] = i

def assigned_static_loop_variable():
    for i in qd.static(range(3)):
        i = i + 1

@kernel(scalar(qd.f32))
def assigned_argument(s):
    s += 1

@kernel(const(3))
def assigned_template(k):
    k = 4

def assigned_static_variable():
    for k in qd.static(range(3)):
        k += 1

def hidden_local():
    i = 1
    for i in range(3):
        z[i] = 1

def hidden_index():
    for i in range(3):
        for i in range(2):
            z[i] = 1

def changed_capture():
    CAP += 1

def changed_unknown():
    total += 1

def unknown_operation():
    z[0] = qd.sine(1.0)

def field_method():
    x.fill(0)

def number_attribute():
    v = 1.0
    z[0] = v.real

def operation_without_module():
    z[0] = sin(x[0])

def operation_of_a_submodule():
    z[0] = isnan(x[0])
