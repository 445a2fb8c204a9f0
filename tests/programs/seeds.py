"""Programs whose gradients went wrong in reference implementations, each under the name of what was wrong."""

# ruff: noqa: E741, F821
from programs import F, I, program

# --- bounds

@program({"x": F((5,)), "n": I((), 0, 5), "y": F()}, cases=({"n": 0}, {"n": 5}))
def inner_bound_is_an_expression_of_the_enclosing_index():
    for i in x:
        v = x[i]
        for j in range(n[None]):
            for k in range(2 * j - 3, (j * j) // 2 + i):
                v = qd.cos(v) * 0.8 + 0.05 * k
        y[None] += v * v

@program({"x": F((3,)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def three_loops_each_bounded_by_the_one_around_it():
    for i in x:
        v = x[i]
        for j in range(n[None] + 1):
            for k in range(j):
                for l in range(k + 1):
                    v = qd.sin(v) + x[i] * 0.1
        y[None] += v

@program({"x": F((6,), 0.2, 0.9), "y": F()})
def bound_is_computed_from_the_carried_value():
    for i in x:
        v = x[i]
        for t in range(4):
            m = qd.cast(qd.floor(v * 4.0 + 0.013), qd.i32)
            for j in range(m):
                v = v * 0.9 + 0.02
            v = v + 0.1
        y[None] += v * v

@program({"x": F((4,)), "y": F()}, scalars={"m": 3, "k": 2}, cases=({"m": 0, "k": 1}, {"m": 5, "k": 3}))
def bounds_are_scalar_arguments(m: int, k: int):
    for i in x:
        v = x[i]
        for a in range(m):
            for b in range(a, a + k):
                v = qd.sin(v) + 0.1 * b
            while v > 0.8:
                v = v * 0.6
        y[None] += v

# --- loops and branches

@program(
    {"x": F((6,)), "n": I(), "gate": I((6,), 0, 1), "y": F()},
    cases=({"n": 4}, {"n": 3, "gate": 0}, {"n": 3, "gate": 1}),
)
def guarded_loop_with_carried_values():
    for i in x:
        v = x[i]
        w = 0.5
        for t in range(3):
            if gate[i] == 1 and v < 3.0:
                for j in range(n[None]):
                    v = qd.sin(v) * w + 0.2
                    w = w + v * 0.1
            else:
                w = w * v
            v = 0.5 * v + 0.3 * w
        y[None] += v * w

@program({"x": F((4,)), "p": F((3,)), "y": F((4, 3))})
def nested_struct_for():
    for i in x:
        v = x[i]
        for j in p:
            v = qd.sin(v * p[j]) + 0.3
            y[i, j] = v * v

@program({"x": F((6,), 0.0, 1.0), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 3}))
def sibling_loops_hand_bounds_on():
    for i in x:
        v = x[i]
        c = 0
        for j in range(n[None]):
            v = qd.sin(v) + 0.3
            if v > 0.75:
                c += 2
        d = c + i % 2
        w = v
        for j in range(d):
            for k in range(c - j):
                w = w * 0.7 + 0.2 * v * qd.sin(w)
            v = 0.5 * v + 0.3 * w
        for j in range(d - 1):
            v = v * qd.cos(w)
        y[None] += v * w

# --- vectors carried by loops

@program({"x": F((4,)), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def carried_vector_in_nested_loops_with_exits():
    for i in x:
        v = qd.Vector([x[i], 0.3])
        w = v * 2.0
        for j in range(n[None]):
            for k in range(j + 1):
                if v[k % 2] > 1.5:
                    break
                v = v * w + 0.2
                w[j % 2] = qd.sin(v[0] + v[1])
            v[1] += w[0] * 0.5
        y[None] += v[0] * w[1] + v[1]

# --- values that are gone

@program({"x": F((4,)), "s": F((4, 3)), "n": I((), 0, 3), "y": F()}, cases=({"n": 0}, {"n": 3}))
def loads_of_what_the_iteration_stored_before():
    for i in x:
        for j in range(n[None]):
            s[i, j] = x[i] * (j + 1.0)
        v = 0.1
        for j in range(n[None]):
            for k in range(2):
                v = qd.sin(v + s[i, j]) * s[i, 0]
        y[None] += v

@program({"x": F((5,), 0.2, 0.9), "n": I((), 0, 4), "y": F()}, cases=({"n": 0}, {"n": 4}))
def rsqrt_tan_pow_and_atan2_in_a_loop():
    for i in x:
        v = x[i]
        w = 0.4
        for j in range(n[None]):
            v = qd.rsqrt(v + 1.0) * 0.9
            w = qd.tan(v * 0.5) + w ** 1.5
            v = v ** (w * 0.5 + 0.5)
            w = qd.atan2(w, v + 0.2) * 0.6
        y[None] += v * w

@program({"x": F((5,)), "y": F((5,))}, cases=({"x": 0.5}, {"x": 0.25}), exact=True)
def ties_of_min_and_max_in_a_loop():
    for i in x:
        v = x[i]
        for j in range(3):
            v = qd.max(v, 0.25) + qd.min(x[i], v) * 0.5
            v = qd.min(v, v)
        y[i] = qd.max(v, qd.min(x[i], 0.5))

# --- several tasks

@program({"x": F((6,)), "count": I((6,), 0, 4), "y": F((6,)), "z": F()})
def tasks_whose_loops_have_bounds_from_arrays():
    for i in x:
        v = x[i]
        for j in range(count[i]):
            v = qd.sin(v) * 1.1
        y[i] = v
    for i in x:
        w = y[i]
        for j in range(count[5 - i], count[5 - i] + i):
            w = w * y[(i + j) % 6] + 0.1
        z[None] += w

# --- what the peer refuses to differentiate or gets wrong, each as small as it stays interesting

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

@program({"x": F((6,)), "n": I((1,)), "y": F()}, cases=({"n": 0}, {"n": 1}, {"n": 20}, {"n": 512}, {"n": 5}))
def trip_counts_that_change_between_launches():
    for i in x:
        v = x[i]
        for j in range(n[0]):
            v = v * 0.95 + 0.01 * v * v
        y[None] += v
