"""Programs of single features of the language: funcs that return early, grouped loops, compile-time evaluation."""

# ruff: noqa: F821
from programs import F, I, program

# --- funcs that return from the middle

X_N_Y = {"x": F((8,), -2.0, 2.0), "n": I(), "y": F()}
N_CASES = ({"n": 0}, {"n": 1}, {"n": 6})


def first_above(v, t):
    for i in range(7):
        if v * i > t:
            return v * v + i
    return -v


@program({"x": F((8,), -2.0, 2.0), "y": F((8,))}, funcs=(first_above,))
def return_from_a_loop():
    for i in x:
        y[i] += first_above(x[i], 2.5) * x[i]


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
