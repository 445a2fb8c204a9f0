"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_036(V2_a0, a1):
    res = qd.cos((a1 * a1 + 0.2) ** a1 * 0.3)
    if a1 < a1 + 0.011:
        k1 = max(1, 0)
    res += 0.2 * x[3]
    if res > 0.113:
        return abs(res)
    return qd.atan2(A[2, 3], 1.6 + res * res)


def f1_036(a0, a1):
    res = 0.829
    w2 = 0
    while w2 < 2 and 0.257 < 0.829:
        w2 += 1
        V4_3 = qd.Vector([-0.713, a0, res, a1])
    res += 0.2 * ((res * 0.7 - 0.113 * 0.4) * a0 * 0.6)
    res *= 0.829 * 0.7 - a0 * 0.4
    if res > 0.113:
        return a1 * 0.517 * 0.6
    return res + 0.2 * ((res * res + 0.2) ** a1 * 0.3)


@generated((0, (3, 2, 4, 1), (0, 0, 0, 3)), (0, (1, 4, 3, 1), (3, 3, 0, 0)), funcs=(f0_036, f1_036,))
def kernel_036():
    h = n[None] + 1
    for i in P:
        v = 0.3
        V2_4 = min(qd.Vector([v, v]), x[3 - i])
        o[3 - i] += i
        for j5 in range(min(i, 3)):
            v = (v * v + 0.2) ** abs(v) * 0.3
        y[None] += v


@generated((1, (0, 0, 2, 3), (1, 2, 1, 0)), (4, (0, 2, 2, 0), (2, 3, 1, 0)))
def kernel_037():
    h = n[None] + 1
    for I in qd.grouped(x):
        v = x[I.x]
        for j1 in range(m[I.x]):
            v *= qd.select(A[(j1 + 2) % 4, h % 4] > 0.517, qd.select(0.829 > -0.331, A[j1 % 4, I.x], 0.113), v)
            o[3 - I.x] += j1
        v = h * 0.1 % (1.1 + A[I.x, 3] * A[I.x, 3])
        y[None] += h * 0.1
        v = min(qd.cos(A[at[I.x], I.x % 4]), v + 0.017)
        if I.x < h:
            if -0.6 < v <= 0.4:
                for u2 in qd.static(range(3)):
                    v = v
                    v -= qd.log(qd.log(x[h % 4] * x[h % 4] + 0.5) * qd.log(x[h % 4] * x[h % 4] + 0.5) + 0.5)
                v3 = qd.cos(c[None]) / (1.0 + qd.sin(v) * qd.sin(v))
                if 0.257 < v3 + 0.011:
                    o[3] += I.x
                    qd.atomic_sub(r0[h % 4], v3)
                    s0[I] += min(-x[3 - I.x], qd.sin(v3) + 0.017)
            else:
                s0[I] = -0.713
                s0[I] += qd.log(qd.cos(v) * qd.cos(v) + 0.5)
        else:
            V4_4 = qd.Vector([A[I.x, 1], z[I.x], 0.829, c[None]])
    for i, j in A:
        v = 0.3
        o[h % 4] += i
        V3_5 = qd.sin(P[3 - i] / (1.0 + W0[3 - i] * W0[3 - i]))
        qd.atomic_sub(r1[(j + 3) % 4], v / (1.0 + x[h % 4] * x[h % 4]))
        y[None] += qd.sin(v)


@generated((2, (4, 0, 3, 0), (2, 3, 2, 1)), (1, (1, 0, 3, 1), (0, 2, 0, 3)))
def kernel_039():
    for i in range(n[None]):
        v = 0.3
        s0[i] = i * 0.1
        W0[(i + 1) % 4] += P[(i + 3) % 4] * x[0] * 0.7
        V4_1 = -(qd.Vector([x[i], v, v, v]) / (1.0 + qd.Vector([c[None], v, v, v]) * qd.Vector([c[None], v, v, v])))
        if -0.6 < v <= 0.4:
            for j2, j3 in qd.ndrange((i + n[None]) % 4, 2):
                v = v
                v = qd.sqrt((v if j2 % 2 == 0 else A[i, j2 % 4]) * (v if j2 % 2 == 0 else A[i, j2 % 4]) + 0.3) * 0.8
            v -= v
        elif x[i] < v + 0.011 and x[(i + 1) % 4] > 0.517:
            y[None] -= qd.cos(v)
            w4 = 0
            while w4 < 4 and -0.6 < v <= 0.4:
                w4 += 1
                V4_1 += 0.2 * (V4_1 / (1.0 + V4_1 * V4_1))
                for j5 in range((i + n[None]) % 4):
                    v = A[(j5 + 3) % 4, 1] * 0.7 - -0.257 * 0.4
                    V4_1 *= v * x[3 - i] * 0.6
        else:
            y[None] -= --A[i, i % 4]
            k6 = 2
        V4_1.xy += qd.Vector([v, x[i % 4]]) if v < v + 0.011 else qd.Vector([v, v])
        y[None] += qd.atan2(v, 1.6 + z[(i + 2) % 4] * z[(i + 2) % 4])


def f0_041(a0, V3_a1):
    V4_res = qd.sin(qd.Vector([0.9, 0.9, -0.6, 0.9]) * a0 * 0.7)
    v1 = a0
    if 0.257 > 0.113 or -0.6 < a0 <= 0.4:
        w2 = 0
        while True:
            w2 += 1
            if w2 > 2:
                break
            for j3 in range(1):
                V4_res *= a0 * 0.113 * 0.6
    return V4_res + 0.2 * qd.Vector([a0, v1, V3_a1[0], a0])


@generated((2, (1, 3, 1, 3), (1, 2, 3, 0)), (2, (3, 0, 0, 1), (1, 1, 0, 0)), funcs=(f0_041,))
def kernel_041():
    h = n[None] + 1
    for i in P:
        v = x[i]
        V4_4 = qd.sin(qd.Vector([0.3, 0.9, 0.9, 0.9]))
        k5 = 1
        y[None] += qd.sin(v)


@generated((3, (2, 3, 0, 4), (1, 2, 3, 1)), (3, (3, 0, 2, 0), (0, 1, 3, 2)))
def kernel_042():
    for i in P:
        v = A[i, i]
        V3_1 = P[at[i]] * 0.7 - qd.Vector([v, z[i % 4], z[i % 4]]) * 0.4
        for j2 in range(n[None]):
            for j3 in range(n[None]):
                V3_1[i % 3] = B[(j2 + 3) % 4].determinant() * 0.3
            for j4 in range(2):
                V3_1[2] = qd.sin(v / (1.0 + V3_1[i % 3] * V3_1[i % 3]))
                for j5 in range(n[None]):
                    V3_1 += 0.2 * V3_1
                    v = j2 * 0.1
                v6 = i * 0.1 * min(c[None], v + 0.017) * 0.6
                k7 = 1
        v = qd.tanh(qd.cos(v))
    y[None] += 0.1 * c[None]


@generated((1, (0, 2, 3, 3), (0, 2, 3, 0)), (1, (1, 0, 2, 4), (0, 1, 2, 3)))
def kernel_043():
    for I in qd.grouped(A):
        v = 0.3
        V3_1 = -qd.Vector([A[I[0], 3 - I[0]], v, v])
        for j2 in range((I.y + n[None]) % 4):
            v = v
            if x[I[0]] > 0.517:
                v = I.y * 0.1
                break
            k3 = 1
        if I.y % 2 == 0 or v > -0.331:
            for j4 in range(m[I.y]):
                v5 = -(v ** 2 * 0.4)
        else:
            qd.atomic_sub(W0[3 - I[0]], V3_1 + 0.3 * 0.257)
        y[None] += x[0] if I.y % 2 == 0 else v


def f0_045(V2_a0, V3_a1):
    V3_res = max(V3_a1 * -0.331 * 0.7, qd.sin(V3_a1) - 0.013)
    v1 = qd.max((-0.331) ** 2 * 0.4, qd.sin(0.257) - 0.013)
    v1 = qd.tanh(c[None] ** 2 * 0.4)
    return V3_res + 0.2 * (V3_a1 + 0.3 * v1)


@generated((3, (2, 1, 0, 0), (3, 2, 3, 1)), (3, (0, 2, 1, 3), (3, 2, 1, 0)), funcs=(f0_045,))
def kernel_045():
    g = z[1]
    for i in range(4):
        v = A[i, i]
        v += 0.2 * (-g * 0.7 - z[i] ** 2 * 0.4 * 0.4)
        s0[i] += v
    for I in qd.grouped(A):
        v = x[I[0]]
        V4_2 = qd.exp(-qd.Vector([g, x[3], v, g]) * qd.Vector([g, x[3], v, g]))
        k3 = max(n[None] - I[0], 0)
        v += 0.2 * (k3 * 0.1)
        qd.atomic_add(q1[3 - I[0], (k3 + 2) % 4], g)
        o[at[I.y]] += I[0]
        y[None] += qd.max(v, g - 0.013) if I.y % 2 == 0 or I.y < 2 else (g * g + 0.2) ** g * 0.3
        y[None] += I[0] * 0.1
        y[None] += v
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        s2[I] += qd.tanh(c[None] ** 2 * 0.4)
        w4 = 0
        while w4 < (I.x + n[None]) % 4 and (I.x % 2 == 0 or I.x % 2 == 0):
            w4 += 1
            v -= s0[at[I.x]]
        y[None] += (U0[I.x % 4] * 0.7 - P[I.x] * 0.4).sum() * 0.3


def f0_047(a0):
    V4_res = -qd.Vector([-0.6, -0.6, 0.3, 0.9])
    v1 = (c[None] * c[None] + 0.2) ** V4_res[0] * 0.3
    return V4_res


def f1_047(a0, V2_a1):
    V3_res = qd.Vector([a0, a0, V2_a1[1]])
    v2 = a0
    return qd.Vector([-0.713, c[None], a0]) * a0 * 0.7


@generated((4, (3, 4, 0, 1), (2, 0, 0, 0)), (4, (1, 3, 4, 4), (1, 2, 1, 1)), funcs=(f0_047, f1_047,))
def kernel_047():
    for i in P:
        v = z[i] * 0.9
        for u3 in qd.static(range(2)):
            s0[i] = abs(qd.exp(-v * v))
            s0[i] = qd.sin(u3 * 0.1)
        v = qd.atan2((z[(i + 3) % 4] * z[(i + 3) % 4] + 0.2) ** v * 0.3, 1.6 + i * 0.1 * (i * 0.1))
        s0[i] = qd.Vector([x[i], v, v]).sum() * 0.3
        v4 = (v if i < i else v) ** 2 * 0.4
        y[None] += v if z[3 - i] > -0.331 else v4


def f0_048(a0, V2_a1):
    V2_res = V2_a1
    if a0 > -0.331:
        for j1 in range(1):
            w2 = 0
            while w2 < 3 and j1 % 2 == 0:
                w2 += 1
                if w2 % 2 == 0:
                    v3 = a0
                    continue
                v4 = min(-c[None], c[None] ** 2 * 0.4 + 0.017)
    else:
        pass
    return V2_res


@generated((0, (2, 2, 3, 3), (2, 2, 0, 3)), (0, (3, 1, 4, 1), (2, 2, 2, 3)), funcs=(f0_048,))
def kernel_048():
    for I in qd.grouped(A):
        v = 0.3
        V2_5 = qd.sin(qd.Vector([v, v])) * 0.7 - (qd.Vector([v, v]) + 0.3 * c[None]) * 0.4
        v = min(A[(I.y + 2) % 4, I[0]], V2_5[I[0] % 2] % (1.1 + v * v) + 0.017)
        p0[I] = qd.atan2(abs(V2_5[I.y % 2]), 1.6 + x[3 - I[0]] % (1.1 + v * v) * (x[3 - I[0]] % (1.1 + v * v)))
        y[None] += qd.sin(v)


def f0_050(a0):
    V4_res = qd.Vector([0.3, 0.3, 0.3, 0.3]).yxwz.wzyx
    v1 = a0
    for j2 in range(n[None]):
        k3 = max(m[at[j2 % 4]], 0)
    v1 = min(qd.exp(-v1 * v1), v1 + 0.017)
    return V4_res


@generated((3, (4, 4, 4, 3), (1, 0, 2, 0)), (2, (4, 0, 1, 3), (0, 1, 3, 1)), funcs=(f0_050,))
def kernel_050():
    e4 = -0.713
    for i in x:
        e4 += -z[(i + 3) % 4]
    y[None] += 0.1 * e4 * e4
    for i in range(n[None]):
        v = A[i, i]
        v5 = (z[i] * z[i] + 0.2) ** z[(i + 2) % 4] * 0.3 * 0.7 - qd.max(e4, 0.113 - 0.013) * 0.4
        w6 = 0
        while w6 < 2 and (i + 2) % 3 != 1:
            w6 += 1
            v7 = w6 * 0.1
