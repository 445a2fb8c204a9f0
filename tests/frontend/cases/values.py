# ruff: noqa
import math

CAP = 3
WIDE = np.float32(0.1)


def arithmetic():
    i = 7
    r = 2.5
    d[0] = i / 2
    d[1] = i // 2
    d[2] = i % 2
    d[3] = i + r
    d[4] = i**2 + r**3 + r**i
    d[5] = -i + ~i + +i
    d[6] = (i << 3) | (i >> 1) & (i ^ 5)

def dtypes():
    w: qd.f64 = 1
    k = qd.i64(3000000000)
    h = qd.cast(w, qd.f16)
    d[0] = w * 0.1
    d[1] = k + 1
    d[2] = h * 2
    d[3] = qd.bit_cast(qd.f32(1.0), qd.i32)
    d[4] = int(w) + float(k) + bool(k)
    u[0] = u[1] - 1

def constants():
    d[0] = CAP * 2 + 1
    d[1] = math.pi
    d[2] = WIDE
    d[3] = math.sin(1.0) + abs(-2) + max(1, 2.5)
    d[4] = (2 + 3) * 4 - 7 // 2

def comparisons():
    i = n[None]
    b[0] = 0 < i <= 5
    b[1] = (i < 3) & (i > 1)
    b[2] = not i
    b[3] = i == 1 or i == 2 and i != 7
    b[4] = i > 0 and a[i] > 0
    a[1] = i and 5
    b[5] = a[0] < a[1] < a[2]

def choices():
    i = n[None]
    d[0] = 1 if i == 0 else 2.5
    d[1] = 1.0 / i if i != 0 else 5
    d[2] = qd.select(i, 1, 2)

def operations():
    r = x[0]
    i = a[0]
    d[0] = qd.sin(r) + qd.atan2(r, 2) + qd.sqrt(2)
    d[1] = qd.floor(r) + qd.round(r, qd.i32)
    d[2] = qd.min(r, i, 2) + max(i, 3)
    d[3] = qd.abs(i) + abs(r)
    d[4] = qd.raw_div(i, 2) + qd.raw_mod(i, 2)
    d[5] = qd.math.popcnt(i) + qd.math.clz(i) + qd.bit_shr(i, 1)
    b[0] = qd.math.isnan(r) or qd.math.isinf(r)
    d[6] = qd.random() + qd.random(qd.i32)
    d[7] = qd.pow(r, 2) + pow(r, 0.5)

def library():
    r = x[0]
    d[0] = qd.math.smoothstep(0.0, 5.0, r)
    d[1] = qd.math.sign(a[0]) + qd.math.clamp(a[1], 0, 3)
    d[2] = qd.math.log2(r) + qd.math.fract(r)

def tuples():
    s = g.shape
    t = (1, 2.5)
    d[0] = s[0] * s[1] + t[0] + t[-1]

def assignments():
    p, q = 1, 2.0
    p, q = qd.cast(q, qd.i32), p
    s = t = 3
    a[0], a[1] = a[1], a[0]
    a[2] = p + s + t
    z[2] = q
    s += 1
    s //= 2
    t = s
    h, w = g.shape
    a[3] = h * w + len(g.shape)

def updates():
    x[0] += 1
    x[1] -= x[0]
    x[2] *= 2
    x[3] /= 3
    a[0] &= 3
    a[1] |= 4
    a[2] ^= 1
    a[3] <<= 2
    a[4] //= 2
    old = qd.atomic_add(a[5], 2)
    a[6] = qd.atomic_max(a[7], old)
    e = 1
    f = qd.atomic_add(e, 5)
    a[6] = e * f
    qd.atomic_exchange(a[6], 1)

def branches():
    v = 0.0
    i = n[None]
    if i == 0:
        v = 1.0
        t = 5
        v += t
    elif i == 1:
        v = 2.0
    else:
        pass
    y[None] = v
    if qd.static(CAP > 2):
        y[None] = 7
    else:
        y[None] = undefined_name

def gradients():
    for i in x:
        x.grad[i] = 1
    y.grad[None] += x.grad[0]

def prints():
    """A docstring."""
    print("a", 1, n[None], sep="-")
    print(f"x = {x[0]}, {CAP}!", end="")
    print()
    pass
    ...

@kernel(debug=True)
def asserts():
    assert n[None] > 0
    assert n[None] < 5, f"n is {n[None]} {{here}}"

def asserts_in_release():
    assert n[None] > 0
