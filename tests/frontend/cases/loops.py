# ruff: noqa
def first_program():
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = v * 0.95 + 0.01
        y[None] += v

def bounds():
    for i in range(2, 10):
        z[i] = i

def steps():
    for i in range(1, 10, 3):
        z[i] = 1
    for i in range(9, -1, -1):
        z[i] = 2

def steps_inside():
    for i in range(2):
        for j in range(9, -1, -1):
            z[j] = i
        for j in range(0, n[None], 2):
            z[j] = i
        for j in range(n[None], 0, -3):
            z[j] = i

def boxes():
    for i, j in qd.ndrange((1, 3), 4):
        g[i, j] = i * j
    for i, j in g:
        g[i, j] = 0
    for p, q, r, s in deep:
        deep[p, q, r, s] = p

@kernel(array(qd.f32, 2))
def array_loop(m):
    for i, j in m:
        m[i, j] = m.shape[1]

def nested_box():
    for i in range(2):
        s = 0.0
        for p, q in qd.ndrange(3, 4):
            if q == 2:
                continue
            s += g[p, q]
        z[i] = s

def break_from_box():
    for i in range(2):
        for p, q in qd.ndrange((1, 3), 4):
            if g[p, q] > 1:
                break
            z[i] += g[p, q]

def exits():
    for i in x:
        v = x[i]
        k = 0
        while True:
            k += 1
            if k == 3:
                continue
            if v > 10.0 or k > n[None]:
                break
            v = v * 2
        y[None] += v

def both_arms_leave():
    for i in range(4):
        for j in range(4):
            if j > i:
                break
            else:
                continue
            z[i] = 1

def continue_in_task():
    for i in x:
        if i == 3:
            continue
        z[i] = x[i]

def serialized():
    s = 1.0
    qd.loop_config(serialize=True)
    for i in range(4):
        s = s * 0.5 + i
        if s > 3:
            break
    y[None] = s

def reduction():
    s = 0.0
    low = 100
    for i in x:
        s += x[i]
        s -= 1
        qd.atomic_min(low, a[i])
    y[None] = s * 2 + low

def while_at_top():
    i = 0
    while i < n[None]:
        i += 1
    n[None] = i

def unrolled():
    for i in qd.static(range(3)):
        z[i] = i
    for i, j in qd.static(qd.ndrange(2, 2)):
        g[i, j] = i + j
    for k, w in qd.static(enumerate((0.5, 1.5))):
        if qd.static(k == 1):
            z[k] = w
    for c in qd.static(range(2)):
        for i in x:
            x[i] += c

def static_break():
    for k in qd.static(range(10)):
        if qd.static(k == 2):
            break
        z[k] = k
