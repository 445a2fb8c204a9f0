"""What the peer refuses to differentiate or gets wrong, each as small as it stays interesting."""

# ruff: noqa: F821
from programs import F, I, program

X_Y = {"x": F((6,)), "y": F()}


@program(X_Y, scalars={"m": 3}, cases=({"m": 0}, {"m": 1}, {"m": 6}))
def bound_is_a_scalar_argument(m: int):
    for i in x:
        v = x[i]
        for j in range(m):
            v = qd.sin(v) + 0.1 * j
        y[None] += v

@program(X_Y)
def while_in_a_kernel():
    for i in x:
        v = x[i]
        k = 0
        while v < 0.9 and k < 7:
            v = v * 0.8 + 0.3 * qd.cos(v)
            k += 1
        y[None] += v * k

@program({**X_Y, "n": I((), 3, 6)})
def break_in_a_loop():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = v * v + 0.3
            if v > 0.8:
                break
        y[None] += v

@program({**X_Y, "n": I((), 3, 6)})
def continue_in_a_loop():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            if (i + j) % 3 == 1:
                continue
            v = qd.sin(v) * 1.2
        y[None] += v

@program({"x": F((6,), 0.1, 0.9), "y": F()})
def bound_depends_on_data():
    for i in x:
        v = x[i]
        m = qd.cast(v * 5.0 + 0.013, qd.i32)
        for j in range(m):
            v = qd.cos(v) * 0.9
            m = m - 1
        for j in range(m + 2):
            v = v * v
        y[None] += v

@program({**X_Y, "m": I((6,), 0, 4)})
def bound_is_carried_by_an_outer_loop():
    for i in x:
        v = x[i]
        k = m[i]
        for t in range(3):
            for j in range(k):
                v = qd.sin(v) + 0.2
            k = (k * 3 + t) % 5
        y[None] += v

@program({"x": F((4,)), "p": F((3,)), "y": F()})
def struct_for_in_a_struct_for():
    for i in x:
        v = x[i]
        for j in p:
            v = qd.sin(v * p[j]) + 0.3
        y[None] += v

@program({"x": F((6,)), "z": F((6,)), "n": I(), "y": F()}, cases=({"n": 0}, {"n": 2}, {"n": 7}))
def operand_that_the_loop_does_not_change():
    for i in x:
        a = x[i]
        v = z[i]
        for j in range(n[None]):
            v = v * 0.5 + qd.sin(a)
        y[None] += qd.sin(v)

@program({"u": F((4, 6))}, scalars={"t": 1}, cases=({"t": 0}, {"t": 2}))
def next_time_level_from_this_one(t: int):
    for i in range(6):
        u[t + 1, i] = u[t, i] + 0.1 * qd.sin(u[t, (i + 1) % 6]) * u[t, i]

@program({"u": F((5,)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def time_levels_in_one_launch():
    for i in range(1):
        for t in range(n[None]):
            u[t + 1] = u[t] * u[t] + 0.1
        y[None] += u[n[None]]

def leaky(v, slope):
    r = v * slope
    if v > 0.0:
        r = v * v
    return r

@program({**X_Y, "n": I()}, funcs=(leaky,), cases=({"n": 0}, {"n": 5}))
def func_with_an_if_in_a_loop():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            v = leaky(v - 0.2, 0.3) + 0.1
        y[None] += leaky(v, 0.5)

@program({"x": F((6,)), "n": I((1,)), "y": F()}, cases=({"n": 0}, {"n": 1}, {"n": 20}, {"n": 512}, {"n": 5}))
def trip_counts_that_change_between_launches():
    for i in x:
        v = x[i]
        for j in range(n[0]):
            v = v * 0.95 + 0.01 * v * v
        y[None] += v

@program({"x": F((3, 4)), "limit": I((3, 4), 0, 5), "y": F((3, 4))})
def bound_from_an_element_of_an_image():
    for i, j in x:
        v = x[i, j]
        for k in range(limit[i, j]):
            v = qd.sin(v) * 1.1
        y[i, j] += v * v

@program({"x": F((8,)), "h": F((8,)), "w": F((8, 8)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def recurrence_with_shared_weights():
    for i in x:
        v = h[i]
        for t in range(n[None]):
            s = x[i] * w[i, t]
            for j in range(4):
                s += w[i, j] * v
            v = qd.tanh(s)
        y[None] += v

@program({"x": F((3,), 0.5, 2.0), "n": I((), 0, 9), "y": F()}, cases=({"n": 0}, {"n": 9}))
def lorenz_steps_of_a_vector():
    for i in range(1):
        s = qd.Vector([1.0, 0.5, 1.0])
        for t in range(n[None]):
            d = qd.Vector([x[0] * (s[1] - s[0]), s[0] * (x[1] - s[2]) - s[1], s[0] * s[1] - x[2] * s[2]])
            s += 0.05 * d
        y[None] += s[0] * s[2]

@program({"x": F((4,)), "s": F((4,)), "y": F((4,))})
def temporary_chosen_beside_a_loop_whose_trips_are_counted():
    g = x[0] if x[3] < x[2] else x[1]
    for i in s:
        v = x[i]
        k = 0
        while k < 3:
            k += 1
            v = qd.sin(v)
        s[i] += v
    for i in y:
        y[i] += g
