"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_051(a0):
    V2_res = qd.Vector([0.113, a0]) + 0.3 * (qd.sqrt(0.829 * 0.829 + 0.3) * 0.8)
    if a0 < a0 + 0.011 and a0 > 0.113:
        v1 = a0 if a0 > 0.113 else min(a0, a0 + 0.017)
        v1 = qd.tanh(-v1)
        k2 = max(3, 0)
    else:
        v3 = a0 * 0.7 - qd.sin(x[2]) * 0.4
    return V2_res


def f1_051(V4_a0):
    V3_res = qd.Vector([c[None], V4_a0[3], V4_a0[2]]).xyz
    v4 = V4_a0[3]
    return V3_res + 0.2 * qd.exp(-V3_res * V3_res)


@generated((2, (0, 4, 2, 0), (0, 0, 2, 1)), (0, (0, 3, 4, 3), (3, 2, 0, 1)), funcs=(f0_051, f1_051,))
def kernel_051():
    for i, j in qd.ndrange(4, n[None]):
        v = A[i, i]
        for j5 in range(j + 1):
            if i < 1:
                k6 = 2
        p0[i, j] = v
    y[None] += 0.1 * c[None]


def f0_053(V4_a0):
    V3_res = qd.exp(-qd.Vector([0.3, -0.6, -0.6]) * qd.Vector([0.3, -0.6, -0.6]))
    v1 = qd.exp(-(x[0] if -0.6 < x[3] <= 0.4 else x[1]) * (x[0] if -0.6 < x[3] <= 0.4 else x[1]))
    return V3_res


@generated((0, (3, 0, 2, 1), (3, 3, 2, 1)), (4, (0, 0, 1, 1), (3, 1, 3, 3)), funcs=(f0_053,))
def kernel_053():
    for i in range(4):
        v = x[i]
        V3_2 = qd.exp(-P[i] * P[i])
        U0[i] += P[i] * z[1] * 0.7
        v = qd.log(v ** 2 * 0.4 * (v ** 2 * 0.4) + 0.5)
        w3 = 0
        while w3 < 3 and v < 0.517:
            w3 += 1
            v = qd.cos(x[0] / (1.0 + v * v))
            for j4 in range(w3 % 4):
                s0[i] = min(v, x[3] + 0.017)
            V3_2[0] -= w3 * 0.1
        for j5 in range(m[i]):
            for j6 in range(i % 4):
                v *= qd.tanh(x[at[i]]) ** 2 * 0.4
        qd.atomic_sub(r0[(i + 2) % 4], P[at[i]].y)
        v += 0.2 * ((min(v, v + 0.017) * min(v, v + 0.017) + 0.2) ** (i * 0.1) * 0.3)
        s0[i] += qd.max(v, c[None] - 0.013)
    for i in range(4):
        v = 0.3
        s1[i] = qd.max(v / (1.0 + A[3 - i, i] * A[3 - i, i]), 0.517 * 0.7 - -0.331 * 0.4 - 0.013)
    for i, j in A:
        v = 0.3
        V4_7 = qd.Vector([v, v, v, v])
        k8 = 2
    y[None] += 0.1 * c[None]


def f0_057(a0):
    res = a0 if a0 > 0.257 else a0
    res = qd.sqrt((-0.713 * -0.713 + 0.2) ** 0.113 * 0.3 * ((-0.713 * -0.713 + 0.2) ** 0.113 * 0.3) + 0.3) * 0.8
    k1 = max(2, 0)
    return (0.257 * 0.257 + 0.2) ** 0.829 * 0.3


@generated((2, (0, 0, 3, 1), (0, 1, 2, 0)), (1, (3, 3, 1, 2), (1, 3, 1, 3)), funcs=(f0_057,))
def kernel_057():
    g = z[0]
    w2 = 0
    while w2 < 1:
        w2 += 1
        g = -0.713
    for i in range(4):
        v = z[i] * 0.9
        v = min(f0_057(z[3]), qd.tanh(g) + 0.017)
        V4_3 = min(qd.Vector([c[None], -0.713, v, v]) * qd.Vector([g, v, g, g]) * 0.6, v)
        for j4 in range(m[i], n[None]):
            qd.atomic_add(q0[3 - i, 3], (v + qd.cos(v)) * 0.5)
        V4_3[0] += qd.max(g, g * v * 0.6 - 0.013)
        y[None] += qd.sin(v)
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        V4_5 = qd.Vector([z[I.y % 4], g, s0[I[0] % 4], z[1]])
        y[None] += qd.sin(v)


def f0_061(a0, a1):
    V2_res = -qd.Vector([a1, a0])
    V2_res[0] += a0 % (1.1 + (a0 + a0) * 0.5 * ((a0 + a0) * 0.5))
    w1 = 0
    while w1 < 4 and -0.6 < x[1] <= 0.4:
        w1 += 1
        v2 = x[1]
        v3 = min(a0, qd.sin(v2) + 0.017)
        for j4 in range(2):
            pass
    return V2_res


def f1_061(V3_a0, V3_a1):
    V2_res = -(qd.Vector([-0.6, 0.3]) + 0.3 * V3_a1[1])
    v5 = qd.max(0.113, c[None] - 0.013) ** 2 * 0.4
    return V2_res + 0.2 * (V2_res * 0.7 - V2_res * 0.4)


@generated((1, (0, 2, 3, 3), (1, 3, 2, 1)), (0, (2, 1, 3, 2), (2, 1, 1, 0)), funcs=(f0_061, f1_061,))
def kernel_061():
    g = P[2][2]
    for i, j in A:
        v = A[i, i]
        k6 = 1
        k6 = (k6 * 3 + 1) % 7
        v += 0.2 * qd.exp(-(qd.sqrt(x[3 - i] * x[3 - i] + 0.3) * 0.8) * (qd.sqrt(x[3 - i] * x[3 - i] + 0.3) * 0.8))
        k7 = max(m[j % 4], 0)
        v8 = v
        V3_9 = qd.exp(-P[i] * P[i]) * (P[j % 4] * 0.7 - P[j] * 0.4) * 0.6
        y[None] += (v + g) * 0.5


@generated((0, (2, 2, 0, 4), (0, 0, 0, 3)), (1, (1, 1, 2, 2), (3, 2, 0, 1)))
def kernel_062():
    V3_g = -P[3]
    for i in range(4):
        v = 0.3
        for j1 in range(3, m[i]):
            for u2 in qd.static(range(3)):
                v3 = v
            v4 = v % (1.1 + v * v) % (1.1 + qd.log(z[3] * z[3] + 0.5) * qd.log(z[3] * z[3] + 0.5))
        for J5 in qd.grouped(qd.ndrange((1, 3), m[i])):
            if z[J5.x % 4] > 0.829:
                v = min(v, z[i % 4] + 0.017) % (1.1 + z[1] * z[1])
                continue
        for j6 in range(i + 1):
            k7 = max(1, 0)
        V3_8 = qd.exp(-max(P[at[i]], V3_g - 0.013) * max(P[at[i]], V3_g - 0.013))
        k9 = max((i + n[None]) % 4, 0)
    y[None] += 0.1 * c[None]


@generated((0, (0, 2, 2, 3), (0, 1, 3, 0)), (3, (4, 1, 0, 4), (0, 3, 2, 0)))
def kernel_064():
    for I in qd.grouped(A):
        v = 0.3
        V3_1 = P[I[0]] / (1.0 + P[0] * P[0])
        p0[I] -= abs(x[I[0]]) ** 2 * 0.4
        V4_2 = qd.sin(min(qd.Vector([v, v, v, v]), v))
        qd.atomic_add(q0[at[I.y], at[I.y]], qd.cos(V4_2[1]) if I.y % 2 == 0 else qd.exp(-v * v))
        v3 = I[0] * 0.1
        v = qd.max((z[I[0]] * z[I[0]] + 0.2) ** v * 0.3, qd.exp(-v * v) - 0.013)
        for j4 in range((I.y + n[None]) % 4):
            for j5 in range(I[0]):
                V4_2[j4 % 4] += qd.cos(x[I[0]])
                V4_2[I[0] % 4] = c[None]
        y[None] += min(V3_1[I.y % 3], v + 0.017)
    e6 = 0.829
    for i in x:
        e6 += -s0[3 - i] / (1.0 + -z[i % 4] * -z[i % 4])
    y[None] += 0.1 * e6 * e6
    for i in x:
        v = 0.3
        k7 = 2
        v = qd.tanh((c[None] * c[None] + 0.2) ** v * 0.3)
        V3_8 = W0[at[i]].xyz * (max(W0[at[i]], qd.Vector([e6, A[1, i % 4], e6]) - 0.013).dot(W0[3 - i]) * 0.2) * 0.7
        k7 = at[k7 % 4]
        V3_8[i % 3] -= qd.max(z[i], abs(x[i]) - 0.013)
        y[None] += qd.atan2(V3_8[0], 1.6 + v * v)


def f0_066(V4_a0):
    V3_res = qd.Vector([V4_a0[3], -0.331, V4_a0[1]])
    v1 = qd.select(-0.331 > 0.517, qd.sin(c[None]), V3_res[1])
    v1 *= v1 / (1.0 + min(v1, v1 + 0.017) * min(v1, v1 + 0.017))
    return V3_res + 0.2 * qd.Vector([0.257, v1, v1])


@generated((3, (0, 2, 1, 3), (1, 3, 3, 2)), (4, (1, 3, 4, 4), (0, 0, 3, 2)), funcs=(f0_066,))
def kernel_066():
    for i in P:
        v = 0.3
        V4_2 = min(qd.Vector([v, z[i], v, v]), x[1])
        y[None] -= qd.log((v + v) * 0.5 * ((v + v) * 0.5) + 0.5)
        w3 = 0
        while w3 < 2 and v < -0.331:
            w3 += 1
            v *= qd.sin((0.113 + -0.713) * 0.5)
            if (i + w3) % 3 != 1:
                continue
        r0[1] += v
        k4 = max((i * 2 + 1) // 2, 0)
        qd.atomic_add(q0[(i + 1) % 4, (k4 + 2) % 4], qd.sin(z[at[i]]))


def f0_067(V3_a0, V4_a1):
    res = min(V4_a1[1] * 0.7 - V3_a0[2] * 0.4, qd.log(V4_a1[1] * V4_a1[1] + 0.5) + 0.017)
    for j1 in range(2):
        V3_2 = qd.sin(V3_a0).yzx
        v3 = c[None]
    return res + 0.2 * (qd.sqrt(res * res + 0.3) * 0.8)


def f1_067(V4_a0):
    res = 0.257 % (1.1 + 0.113 / (1.0 + 0.829 * 0.829) * (0.113 / (1.0 + 0.829 * 0.829)))
    v4 = qd.sin((qd.Vector([res, V4_a0[3]]) * 0.7 - qd.Vector([res, A[3, 1]]) * 0.4).sum() * 0.3)
    v5 = qd.tanh(res) if res < v4 + 0.011 else v4
    v4 = qd.select(x[0] < 0.829 + 0.011, qd.tanh(v4), res * res * 0.6)
    if x[2] > 0.257:
        return qd.select(-0.6 < A[1, 0] <= 0.4, v4, x[2])
    return res


@generated((0, (1, 4, 0, 2), (0, 0, 3, 0)), (1, (2, 0, 2, 3), (0, 2, 2, 2)), funcs=(f0_067, f1_067,))
def kernel_067():
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        for j6 in range(m[at[I.x % 4]]):
            V4_7 = -max(qd.Vector([0.9, 0.9, -0.6, 0.3]), qd.Vector([z[3 - I.x], x[at[I.x]], v, v]) - 0.013)
        y[None] += (v * v + 0.2) ** v * 0.3


@generated((2, (4, 3, 0, 1), (1, 3, 3, 1)), (0, (0, 2, 1, 0), (2, 0, 2, 0)))
def kernel_069():
    g = (z[2] * x[1] * 0.6) ** 2 * 0.4
    w1 = 0
    while w1 < 2:
        w1 += 1
        g = x[3]
    for i in x:
        v = z[i] * 0.9
        V4_2 = qd.Vector([x[(i + 2) % 4], v, 0.829, z[i % 4]]) * qd.Vector([0.829, g, v, v]) * 0.6
        for j3 in range(i + 1):
            v *= (c[None] * c[None] + 0.2) ** qd.select(-0.6 < g <= 0.4, x[j3 % 4], z[(j3 + 1) % 4]) * 0.3
            V4_2 += 0.2 * (V4_2 * 0.7 - qd.Vector([v, v, c[None], v]) * 0.4)
        v = ((V4_2[1] * V4_2[1] + 0.2) ** V4_2[1] * 0.3 + i * 0.1) * 0.5
        W0[i][i % 3] += x[(i + 3) % 4] / (1.0 + x[at[i]] * x[at[i]])
        v = qd.sqrt(qd.select(i < i or g > 0.257, v, v) * qd.select(i < i or g > 0.257, v, v) + 0.3) * 0.8
        if i < 1:
            v -= x[0]
            for j4 in range(m[at[i]]):
                y[None] += j4 * 0.1
                for j5 in range((i * 2 + 1) // 2):
                    k6 = 0
                    v -= B[1].determinant() * 0.3
                v *= v
                v7 = (qd.tanh(g) + z[0]) * 0.5
        y[None] += V4_2.sum()


def f0_070(a0):
    res = (B[3] * -0.331 * 0.6).determinant() * 0.3
    res = res * a0 * 0.6 * a0 * 0.6
    V4_1 = qd.exp(-qd.Vector([x[3], a0, a0, a0]) * qd.Vector([x[3], a0, a0, a0])) + 0.3 * (res % (1.1 + a0 * a0))
    return x[0]


@generated((4, (3, 4, 4, 0), (1, 1, 1, 0)), (1, (1, 1, 3, 3), (3, 1, 1, 0)), funcs=(f0_070,))
def kernel_070():
    for i in range(4):
        v = x[i]
        V4_2 = max(qd.Vector([v, v, 0.113, x[3 - i]]), qd.Vector([-0.6, 0.9, 0.9, 0.3]) - 0.013)
        V3_3 = max(qd.sin(P[i]), qd.Vector([v, v, A[at[i], at[i]]]) * P[i % 4] * 0.6 - 0.013)
        v += 0.2 * (-v * f0_070(v) * 0.6)
        y[None] += qd.sin(v)
    for I in qd.grouped(x):
        v = x[I.x]
        if I.x < 2:
            v4 = qd.sqrt(qd.sin(v) * qd.sin(v) + 0.3) * 0.8
            for j5 in range(n[None]):
                v4 = -(j5 * 0.1)
        else:
            w6 = 0
            while w6 < I.x and (not (I.x + I.x) % 3 != 1):
                w6 += 1
                V4_7 = max(qd.Vector([0.9, -0.6, -0.6, 0.3]) + 0.3 * v, -qd.Vector([v, v, x[I.x], c[None]]) - 0.013)
            y[None] += f0_070(z[3 - I.x] * 0.7 - v * 0.4)
        k8 = 1
        s1[I] = f0_070(v)
        v9 = qd.sqrt(qd.sin(v) * qd.sin(v) + 0.3) * 0.8
        v10 = 0.829 % (1.1 + -v9 * -v9)
        s1[I] += v ** 2 * 0.4
