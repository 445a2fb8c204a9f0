# ruff: noqa
@qd.func
def scaled(v, by=2.0):
    v = v * by
    return v

@qd.func
def sign(v):
    if v > 0:
        return 1
    elif v < 0:
        return -1
    return 0

@qd.func
def clipped(v: qd.f32) -> qd.i32:
    r = v
    if v > 3:
        r = 3.0
    return r

@qd.func
def split(v):
    return v, v * 2

@qd.func
def bump(f: qd.template(), i):
    f[i] += 1

@qd.func
def power(v, k: qd.template()):
    r = 1.0
    for _ in qd.static(range(k)):
        r *= v
    return r

@qd.func
def both(v):
    return sign(v) + scaled(v)

def calls():
    r = 3.0
    y[None] = scaled(r) + scaled(r, by=4)
    a[0] = sign(r)
    a[1] = clipped(2)
    p, q = split(1)
    a[2] = p + q
    bump(a, 3)
    bump(z, 3)
    y[None] = power(r, 3)

def nested_calls():
    for i in x:
        z[i] = both(x[i])

@kernel(scalar(qd.f32), scalar(qd.i32))
def scalars(s, k) -> qd.f32:
    t = s
    for i in range(k):
        x[i] = s * t
    return s + k

def two_results() -> (qd.i32, qd.f64):
    return 1.5, n[None]

def result_as_text() -> "qd.f32":
    return 1

@kernel(array(qd.f32, 1, True), array(qd.i32, 2))
def arrays(p, q):
    for i in p:
        p[i] = q[i, 0] + p.grad[i]

@kernel(const(4), const(0.5))
def templates(count, weight):
    for i in qd.static(range(count)):
        z[i] = weight * i

@kernel(const(None))
def captured(unused):
    v = qd.static(x)
    v[0] = 1

@qd.func
def procedure(scale):
    for i in x:
        x[i] *= scale
    total = 0.0
    for i in x:
        total += x[i]
    y[None] = total

@qd.func
def measured():
    s = 0.0
    for i in x:
        s = s * 0.5 + x[i]
    return s

def parallel_inside_procedures():
    procedure(2.0)
    y[None] += measured()
