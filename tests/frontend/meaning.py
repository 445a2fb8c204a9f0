# ruff: noqa
@kernel()
def recurrence():
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = v * 0.95 + 0.01
        z[i] = v


@kernel()
def integers():
    for i in range(8):
        p = a[i]
        q = a[7 - i] + 10
        d[i] = p // q + p % q + (p << 2) + (p >> 1) + (p & q) + (p | q) + (p ^ q) + ~p - -q + p**2 + p / q


@kernel()
def reals():
    for i in range(8):
        p = d[i] + 3.0
        q = x[i] + 4.0
        d[i] = p // q + p % q + p / q - q**3 + p**0.5 + p**-2 + abs(q) + min(p, q, 1) + max(p, q)


@kernel()
def ranges():
    k = 0
    qd.loop_config(serialize=True)
    for i in range(10, 0, -1):
        k = k * 3 + i
        k = k % 1000
    qd.loop_config(serialize=True)
    for i in range(n[None] - 6, n[None] * 3, n[None] - 1):
        k = k * 3 + i
        k = k % 1000
    qd.loop_config(serialize=True)
    for i in range(20, n[None], 1 - n[None]):
        k = k * 3 + i
        k = k % 1000
    qd.loop_config(serialize=True)
    for i in range(5, 5, 2):
        k = 0
    qd.loop_config(serialize=True)
    for i in range(3, 9, -2):
        k = 0
    a[0] = k


@kernel()
def parallel_steps():
    for i in range(1, 16, 4):
        z[i] = i
    for i in range(15, n[None], -3):
        z[i] = -i
    for i in range(n[None], 13, n[None] - 1):
        z[i] += 100 * i


@kernel()
def loops_with_exits():
    for i in range(8):
        s = 0
        t = 1
        for j in range(10):
            if j == a[i]:
                continue
            if s > 20:
                break
            k = 0
            while k < j:
                k += 1
                if k == 3:
                    continue
                if k > 6:
                    break
                t += k
            else_ = t
            s += else_ % 7
        a[i] = s * 100 + t


@kernel()
def nested_exits():
    for i in range(8):
        k = a[i]
        while True:
            if k > 5:
                if k % 2 == 0:
                    break
                else:
                    k -= 3
                    continue
            elif k < -2:
                break
            else:
                if k == 1:
                    k = 8
                    break
            k += 2
        a[i] = k


@kernel()
def boxes():
    for i, j in qd.ndrange((1, 3), 4):
        g[i, j] = i * 10 + j
    for i, j in g:
        g[i, j] += 1
    for i in range(2):
        s = 0.0
        for p, q in qd.ndrange(3, (1, 4)):
            if q == 2:
                continue
            s = s * 2 + g[p, q]
        z[i] = s


@kernel()
def logic():
    for i in range(8):
        p = a[i]
        r = 0
        if 0 < p <= 5 and (p != 3 or a[7 - i] > 0):
            r = 1
        elif not (p > 2):
            r = 2
        if p and a[7 - i]:
            r += 10
        if p or a[7 - i] > 3:
            r += 20
        r += (p and 5) + (p or 7)
        v = 1.0 / p if p != 0 else 99.0
        z[i] = r + v
        if a[0] < a[i] < a[7 - i] < 8:
            z[i] += 1000


@kernel()
def sums():
    s = 0.0
    c = 0
    for i in range(16):
        s += x[i]
        if x[i] > 0:
            c += 1
        s -= 0.5
    y[None] = s * c
    s = s + 1
    for i in range(3):
        for j in range(4):
            s += g[i, j]
    n[None] = c
    y[None] += s


@kernel()
def swaps():
    p, q, r = 1, 2, 3
    qd.loop_config(serialize=True)
    for i in range(5):
        p, q, r = q, r, p + q
    a[0], a[1] = a[1], a[0]
    a[2] = p * 100 + q * 10 + r
    h, w = g.shape
    a[3] = h * w


@kernel()
def updates():
    for i in range(8):
        a[i] += i
        a[i] -= 2
        a[i] *= 3
        a[i] //= 2
        a[i] %= 7
        a[i] &= 6
        a[i] |= 1
        a[i] ^= 5
        a[i] <<= 2
        a[i] >>= 1
        d[i] /= 3
        d[i] **= 2


@qd.func
def collatz(v, limit=20):
    k = 0
    while v != 1 and k < limit:
        k += 1
        v = v // 2 if v % 2 == 0 else 3 * v + 1
    return k


@qd.func
def kind(v):
    w = v * 2
    if v > 3:
        if v > 5:
            return w + 100
        else:
            return 200
    if v == 0:
        return 7
    w += 1
    if v < -3:
        return w
    else:
        w = 5
    return w - v


@qd.func
def two(v):
    return v + 1, v * 0.5


@kernel()
def funcs():
    for i in range(8):
        v = a[i]
        a[i] = collatz(i + 1) * 1000 + collatz(v=i + 1, limit=3) + kind(v)
        p, q = two(v)
        d[i] = p + q
        z[i] = v


@kernel()
def unrolled():
    for i in range(8):
        s = 0
        for k in qd.static(range(4)):
            if qd.static(k % 2 == 0):
                s += a[i] * k
            else:
                if s > 3:
                    s -= k
        a[i] = s


@kernel()
def while_of_the_kernel():
    k = 0
    t = 0
    while k < n[None]:
        k += 1
        for j in range(k):
            if j == 2:
                break
            t += j
        x[k] = t
    n[None] = t


@kernel()
def early_continue():
    for i in x:
        if x[i] > 0:
            if x[i] > 0.5:
                continue
            z[i] = 1
        else:
            z[i] = 2
        z[i] += x[i]


@kernel()
def short_circuit_guards():
    for i in range(8):
        k = a[i]
        if 0 <= k and k < 8 and a[k] > 0:
            d[i] = a[k]
        d[i] += a[k] if 0 <= k < 8 else -1


@kernel()
def shadowed_by_branch():
    for i in range(4):
        v = 1.0
        if a[i] > 0:
            t = 2
            v += t
        if a[i] > 1:
            t = 0.25
            v += t
        z[i] = v
