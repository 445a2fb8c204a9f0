"""Programs of single features of the language: funcs that return early, grouped loops, compile-time evaluation."""

# ruff: noqa: B905, F821
from programs import F, I, program

# --- funcs that return from the middle

X_N_Y = {"x": F((8,), -2.0, 2.0), "n": I(), "y": F()}
N_CASES = ({"n": 0}, {"n": 1}, {"n": 6})


def first_above(v, t):
    for i in range(7):
        if v * i > t:
            return v * v + i
    return -v

def from_nested_loops(v, n):
    for i in range(n):
        v = qd.sin(v) * 1.5
        for j in range(i):
            v = v * 0.9 + 0.1
            if v > 1.2:
                return v * 2.0
            k = 0
            while True:
                k += 1
                if k > j:
                    break
                if v < -1.1:
                    return v - 1.0
                v = v * 1.1
        v -= 0.25
    if v > 0.0:
        if v > 1.0:
            return v * v
        v = v * 3.0
    return v

@program(X_N_Y, funcs=(from_nested_loops,), cases=N_CASES)
def returns_from_nested_loops():
    for i in x:
        y[None] += from_nested_loops(x[i], n[None]) * x[7 - i]

def halved(v):
    while True:
        v = v * 0.5 + 0.1
        if v < 0.7:
            return v, v * v

@program({"x": F((8,), -2.0, 5.0), "y": F((8,)), "z": F((8,))}, funcs=(halved,))
def return_from_an_endless_loop():
    for i in x:
        a, b = halved(x[i])
        y[i] = a * x[i]
        z[i] += b

def unrolled(v):
    for i in qd.static(range(4)):
        if v < i * 0.3:
            return v * (i + 1)
        for j in range(i):
            v = v - 0.2 * v * v
            if v < -1.0:
                return v * v
    return v * v * v

@program({"x": F((8,), -2.0, 2.0), "y": F((8,))}, funcs=(unrolled,))
def return_from_an_unrolled_loop():
    for i in x:
        y[i] = unrolled(x[i])

def neither_arm(v, w):
    if v > 0.0:
        if w > 0.0:
            return v * w
        v = v + w
    elif w > 0.5:
        v = v * w
    else:
        for i in range(3):
            if w < -0.5:
                return w * w
            w = w * 2.0
    return v * v + w

@program({"x": F((8, 8)), "z": F((8, 8)), "y": F()}, funcs=(neither_arm,))
def returns_where_neither_arm_always_does():
    for i, j in x:
        y[None] += neither_arm(x[i, j], z[i, j]) * x[j, i]

def over_a_box(v):
    for i, j in qd.ndrange(3, 4):
        v += 0.1 * i
        if v * j > 1.3:
            return v * i + j
    return v * 0.5

def outer_call(v, n):
    total = 0.0
    for k in range(n):
        w = over_a_box(v + k * 0.1)
        if w > 2.5:
            return total
        total += w * v
    return total + first_above(v, 1.0)

@program(X_N_Y, funcs=(over_a_box, first_above, outer_call), cases=N_CASES)
def returns_in_funcs_that_call_funcs():
    for i in x:
        y[None] += outer_call(x[i], n[None])

def emptied(i):
    if z[i] < 0.0:
        return
    for j in range(3):
        if z[i] * j > 1.0:
            return
        y[i] += z[i] * z[i]

@program({"z": F((8,)), "y": F((8,))}, funcs=(emptied,))
def return_without_a_value():
    for i in z:
        emptied(i)

def index_of_the_last(t):
    for j in range(7, -1, -1):
        if x[j] < t:
            return j
    return 0

@program({"x": F((8,)), "y": F((8,))}, funcs=(index_of_the_last,))
def returned_index_in_a_condition():
    for i in x:
        j = index_of_the_last(x[i] * 0.9)
        while index_of_the_last(x[i] + 0.05) > j + i:
            j += 1
        for k in range(index_of_the_last(0.1)):
            y[j] += x[i] * x[k]

# --- loops over vectors of indices

@program({"x": F((4, 5)), "y": F((4, 5)), "n": I((), 0, 2)}, cases=({"n": 0}, {"n": 1}, {"n": 2}))
def stencil_by_offsets():
    for P in qd.grouped(y):
        total = x[P] * 0.0
        for D in qd.grouped(qd.ndrange((-n[None], n[None] + 1), (-1, 2))):
            Q = P + D
            if 0 <= Q[0] and Q[0] < 4 and 0 <= Q.y and Q.y < 5:
                total += qd.sin(x[Q]) * x[P]
        y[P] += total * total

@program({"x": F((4, 4)), "y": F()})
def offsets_known_at_compile_time():
    for P in qd.grouped(qd.ndrange((1, 3), (1, 3))):
        for D in qd.static(qd.grouped(qd.ndrange((-1, 2), 2))):
            y[None] += x[P + D] * x[P] * (D[0] + 2 * D[1])
        for D in qd.static([(0, 1), (1, 0)]):
            y[None] += x[P - D] * x[P + D]

@program({"x": F((6, 3)), "y": F((6, 3))})
def grouped_with_continue_and_locals():
    for P in qd.grouped(x):
        if (P.x + P.y) % 2 == 0:
            continue
        v = x[P]
        for Q in qd.grouped(qd.ndrange(P.x, 3)):
            if Q.y == 2:
                break
            v = v * x[Q] + 0.1
        y[P % 3] += v * v

@program({"x": F((2, 1, 2, 1, 3, 1, 2, 2)), "y": F()})
def eight_axes():
    for a, b, c, d, e, f, g, h in x:
        y[None] += x[a, b, c, d, e, f, g, h] * x[a, 0, 1 - c, d, 2 - e, 0, g, h] * (e + 1)

@program({"x": F((3, 4)), "y": F((3, 4)), "n": I((), 0, 4)}, cases=({"n": 0}, {"n": 4}))
def boxes_in_every_form():
    for i, j in qd.ndrange(x.shape[0], (1, 3)):
        y[i, j] += x[i, j] * x[0, j]
    for i, j in qd.ndrange(*x.shape):
        y[i, j] += x[i, j] * x[i, j]
    for i, j in qd.ndrange([1, 3], n[None]):
        for k in qd.ndrange(j):
            y[i, k] += x[i, j] * k
    for i in qd.ndrange((0, n[None])):
        y[0, i] *= 0.5

# --- what is known at compile time

WEIGHTS = [0.5, 0.25, 0.125]


@program({"x": F((8,)), "z": F((8,)), "y": F((8,))})
def static_loops_over_containers():
    for i in x:
        v = x[i]
        for k in qd.static(range(3)):
            v += WEIGHTS[k] * x[(i + k) % 8]
        for k, w in qd.static(enumerate([0.5, 0.25])):
            v = v * w + k
        for a, b in qd.static(zip((1, 2), [0.5, -0.5])):
            v += a * b * z[i]
        for f in qd.static([x, z]):
            v += f[i] * f[7 - i]
        for k, f in qd.static(enumerate((z, x))):
            v += f[k] * x[i]
        for k in qd.static([2 * j + 1 for j in range(4) if j != 2]):
            v = v * 0.9 + k * x[k]
        if qd.static(len(WEIGHTS) == 3 and 2 in [1, 2]):
            v = v * v
        y[i] = v

@program({"x": F((8,)), "y": F((8,))})
def static_loops_over_pairs():
    for i in x:
        v = x[i]
        for k, (a, b) in qd.static(enumerate([(1, 2.0), (3, 4.0)])):
            v += k * a * b * x[i]
        for k in qd.static(reversed(range(3))):
            v = v * 0.5 + k * x[7 - i]
        y[i] = v * v

@program({"x": F((8,)), "y": F((8,))})
def static_loops_over_what_exists_at_run_time():
    for i in x:
        v = x[i] * x[7 - i]
        for a in qd.static((v, x[i] + 1.0)):
            y[i] += a * a
        for k, a in qd.static(enumerate([x[i], v, i])):
            y[i] += k * a * x[i]

@program({"x": F((8,), -40.0, 40.0), "y": F((8,))})
def mantissa_and_exponent():
    for i in x:
        m, e = qd.frexp(x[i])
        y[i] = m * m + e * x[i] + qd.zero(m) + qd.one(e) + x[qd.assume_in_range(i, 0, 0, 8)]

# --- numbers, ranges and conditions as Python has them

EIGHT = {"a": I((8,), -5, 8), "d": F((8,)), "n": I((), 4, 4)}


@program({"x": F((8,)), "d": F((8,))})
def operators_of_reals():
    for i in d:
        p, q = d[i] + 3.0, x[i] + 4.0
        d[i] = p // q + p % q + p / q - q**3 + p**0.5 + p**-2 + abs(q) + min(p, q, 1) + max(p, q)

@program(EIGHT, grad=False)
def ranges_in_order():
    k = 0
    qd.loop_config(serialize=True)
    for i in range(10, 0, -1):
        k = (k * 3 + i) % 1000
    qd.loop_config(serialize=True)
    for i in range(n[None] - 6, n[None] * 3, n[None] - 1):
        k = (k * 3 + i) % 1000
    qd.loop_config(serialize=True)
    for i in range(20, n[None], 1 - n[None]):
        k = (k * 3 + i) % 1000
    qd.loop_config(serialize=True)
    for i in range(5, 5, 2):
        k = 0
    qd.loop_config(serialize=True)
    for i in range(3, 9, -2):
        k = 0
    a[0] = k

@program({"z": F((16,)), "n": I((), 4, 4)}, grad=False)
def steps_of_parallel_loops():
    for i in range(1, 16, 4):
        z[i] = i
    for i in range(15, n[None], -3):
        z[i] = -i
    for i in range(n[None], 13, n[None] - 1):
        z[i] += 100 * i

@program({**EIGHT, "z": F((8,))}, grad=False)
def conditions_of_integers():
    for i in a:
        p, r = a[i], 0
        if 0 < p <= 5 and (p != 3 or a[7 - i] > 0):
            r = 1
        elif not (p > 2):
            r = 2
        if p and a[7 - i]:
            r += 10
        if p or a[7 - i] > 3:
            r += 20
        r += (p and 5) + (p or 7)
        z[i] = r + (1.0 / p if p != 0 else 99.0)
        if a[0] < a[i] < a[7 - i] < 8:
            z[i] += 1000
        if 0 <= p and p < 8 and a[p] > 0:
            d[i] = a[p]
        d[i] += a[p] if 0 <= p < 8 else -1
