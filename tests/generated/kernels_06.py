"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((4, (3, 2, 0, 0), (0, 1, 1, 0)), (0, (0, 3, 4, 3), (0, 1, 0, 1)))
def kernel_111():
    for i in x:
        v = x[i]
        v = (-v) ** 2 * 0.4
        s0[i] += abs(z[i % 4]) * (v * -0.331 * 0.6) * 0.6
        if (i + 1) % 3 != 1:
            for j1 in range(2):
                V4_2 = min(-qd.Vector([v, v, v, v]), qd.max(v, z[3 - i] - 0.013))
                if -0.6 < v <= 0.4 or (j1 + 1) % 3 != 1:
                    v -= i * 0.1
                    v *= B[at[i]].transpose().determinant() * 0.3
                U0[i] = P[at[i]].xyz
                if (j1 + 2) % 3 != 1 or z[(i + 1) % 4] > -0.713:
                    break
    y[None] += 0.1 * c[None]


@generated((0, (1, 2, 2, 1), (2, 3, 3, 1)), (2, (2, 3, 3, 4), (1, 0, 1, 0)))
def kernel_113():
    for i in x:
        v = x[i]
        V2_1 = qd.Vector([v, v]) * qd.Vector([0.3, -0.6]) * 0.6
        s0[i] = 0.517
        y[None] += qd.atan2(0.517, 1.6 + qd.tanh(v) * qd.tanh(v))
        for j2 in range(1):
            v = qd.max(v, x[3 - i] - 0.013) ** 2 * 0.4
            for j3 in range((j2 + n[None]) % 4):
                for u4 in qd.static(range(2)):
                    v = abs(v)
                    v -= qd.sqrt((v + v) * 0.5 * ((v + v) * 0.5) + 0.3) * 0.8
                k5 = max(i, 0)
                if v < v + 0.011:
                    continue
                for j6 in range(m[at[j2 % 4]]):
                    v += 0.2 * (-z[(j2 + 1) % 4] if x[i] > 0.113 else qd.select(j6 < 2, v, v))
            if j2 % 2 == 0:
                continue


def f0_115(V3_a0):
    res = qd.select(not V3_a0[1] > -0.331, V3_a0[2], V3_a0[1])
    V2_1 = qd.Vector([x[3], res]) * qd.Vector([res, res]) * 0.6
    v2 = V2_1[0]
    if res > -0.713:
        w3 = 0
        while True:
            w3 += 1
            if w3 > 4 or res < v2 + 0.011:
                break
            V2_1.yx = min(V2_1, res)
    else:
        pass
    return res + 0.2 * qd.atan2(x[1], 1.6 + v2 * v2)


@generated((3, (4, 0, 0, 1), (2, 0, 0, 2)), (3, (4, 1, 0, 4), (1, 0, 3, 0)), funcs=(f0_115,))
def kernel_115():
    g = qd.atan2(z[1], 1.6 + z[0] * z[0])
    h = n[None] + 1
    for i in P:
        v = x[i]
        V2_4 = min(qd.Vector([c[None], g]), v)
        k5 = 1
        if V2_4[i % 2] > 0.829:
            V2_4[i % 2] += qd.sqrt(v * v + 0.3) * 0.8 % (1.1 + k5 * 0.1 * (k5 * 0.1))
            for J6 in qd.grouped(qd.ndrange(2, (i * 2 + 1) // 2)):
                V2_4[0] *= v
                v = (qd.log(v * v + 0.5) * qd.log(v * v + 0.5) + 0.2) ** qd.exp(-z[J6.x % 4] * z[J6.x % 4]) * 0.3
        y[None] += v


@generated((1, (1, 4, 1, 0), (2, 3, 2, 2)), (2, (2, 4, 3, 3), (3, 3, 1, 1)))
def kernel_116():
    g = min(x[2], (0.829 * 0.829 + 0.2) ** z[2] * 0.3 + 0.017)
    w1 = 0
    while w1 < 1:
        w1 += 1
        g = qd.select(x[1] > 0.113, A[3, 2], 0.113) if -0.6 < c[None] <= 0.4 else qd.max(g, z[1] - 0.013)
    for i, j in A:
        v = z[i] * 0.9
        V4_2 = qd.Vector([v, g, z[3 - i], 0.113])
        p0[i, j] -= min((x[(j + 1) % 4] * x[(j + 1) % 4] + 0.2) ** z[(i + 1) % 4] * 0.3, g + 0.017)
        for j3 in range(i):
            if -0.6 < g <= 0.4:
                v = i * 0.1
                continue
            k4 = 2
        w5 = 0
        while w5 < 3:
            w5 += 1
            for u6 in qd.static(range(3)):
                k7 = max((j + n[None]) % 4, 0)
        y[None] += v
    V3_8 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_8 += qd.sin(W0[3 - i])
    y[None] += 0.1 * V3_8.dot(V3_8)
    for i in x:
        v = z[i] * 0.9
        V4_9 = qd.Vector([g, s0[3 - i], g, 0.517]) * v * 0.7
        X_10 = B[at[i]].transpose() * qd.tanh(v) * 0.6
        v = qd.sin(g)
        y[None] += qd.sin(v)


@generated((2, (4, 3, 3, 0), (2, 3, 1, 1)), (1, (3, 2, 2, 3), (1, 3, 1, 2)))
def kernel_117():
    g = qd.exp(-z[3] * z[3])
    w1 = 0
    while w1 < 2:
        w1 += 1
        g = min(x[1], x[3] + 0.017) if 0.113 > 0.517 else (g + g) * 0.5
    for I in qd.grouped(A):
        v = 0.3
        V4_2 = qd.Vector([v, v, v, v]) / (1.0 + qd.Vector([0.9, -0.6, 0.9, 0.3]) * qd.Vector([0.9, -0.6, 0.9, 0.3]))
        p0[I] = qd.max(qd.select((I.y + 2) % 3 != 1, v, g), P[(I.y + 1) % 4][I.y % 3] - 0.013)
        k3 = 1
        w4 = 0
        while True:
            w4 += 1
            if w4 > m[I[0]]:
                break
            p0[I] = I[0] * 0.1
        for j5 in range(k3 % 4):
            if k3 < I[0]:
                continue
            y[None] -= qd.select(g > 0.113, V4_2[2], qd.sin(z[3 - I[0]]))
            v = x[I[0]]
            v *= g % (1.1 + (x[I.y] * x[I.y] + 0.2) ** x[0] * 0.3 * ((x[I.y] * x[I.y] + 0.2) ** x[0] * 0.3))
        V4_2 *= v * 0.7 - x[3 - I[0]] * 0.4
        V4_2[I.y % 4] *= qd.max((v + x[I[0]]) * 0.5, k3 * 0.1 - 0.013)
        y[None] += V4_2.sum()


def f0_118(V3_a0):
    V3_res = qd.Vector([0.9, 0.9, 0.9])
    v1 = qd.max(abs(0.257), -c[None] - 0.013)
    v1 *= (qd.sin(V3_a0[2]) + V3_res[2]) * 0.5
    for j2 in range(n[None]):
        v1 = v1
    return V3_res * V3_res * 0.6


@generated((0, (1, 4, 4, 3), (2, 3, 0, 3)), (0, (0, 3, 0, 3), (0, 1, 1, 0)), funcs=(f0_118,))
def kernel_118():
    g = z[3]
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        for j3 in range(3):
            v4 = -(g ** 2 * 0.4)
    for i in x:
        v = A[i, i]
        k5 = max(3, 0)
        v6 = -qd.log(v * v + 0.5)
        s1[i] += v
    y[None] += 0.1 * c[None]


@generated((3, (4, 3, 2, 3), (2, 3, 1, 1)), (3, (2, 2, 2, 1), (2, 1, 2, 2)))
def kernel_119():
    for I in qd.grouped(x):
        v = 0.3
        V4_1 = qd.exp(-qd.Vector([-0.6, -0.6, 0.3, 0.3]) * qd.Vector([-0.6, -0.6, 0.3, 0.3]))
        U0[I] += qd.exp(-P[(I.x + 3) % 4] * P[(I.x + 3) % 4])
        o[(I.x + 2) % 4] += I.x
        v2 = qd.sqrt(qd.tanh(v) * qd.tanh(v) + 0.3) * 0.8
        y[None] += qd.sin(v)
    e3 = 0.829
    for i in x:
        e3 += qd.tanh(x[3 - i])
    y[None] += 0.1 * e3 * e3
    for i in x:
        v = z[i] * 0.9
        for j4 in range(3):
            U1[i] = max(W0[3 - i], qd.Vector([v, e3, e3]) - 0.013)
            v -= -e3
            V3_5 = qd.sin(qd.Vector([s0[i], e3, r0[0]]))
            V3_5 = (V3_5 * v * 0.7 + W0[i % 4] * V3_5 * 0.6) * 0.5
        s1[i] += v
    for i in range(4):
        v = 0.3
        for j6 in range(m[i % 4]):
            k7 = max(m[i], 0)
            v -= min(c[None], x[i % 4] + 0.017) * 0.7 - j6 * 0.1 * 0.4
        v = qd.exp(-(qd.sqrt(e3 * e3 + 0.3) * 0.8) * (qd.sqrt(e3 * e3 + 0.3) * 0.8))
        y[None] += v


def f0_120(a0):
    V2_res = qd.sin(-qd.Vector([a0, a0]))
    v1 = qd.sin(qd.max(a0, 0.257 - 0.013))
    v1 = abs(V2_res[1])
    w2 = 0
    while w2 < 2 and a0 > -0.331:
        w2 += 1
        v1 *= v1
        V2_res += 0.2 * qd.Vector([0.9, -0.6])
    return qd.Vector([a0, c[None]]).xy


@generated((3, (0, 3, 4, 2), (3, 3, 1, 1)), (2, (0, 1, 1, 0), (2, 3, 0, 1)), funcs=(f0_120,))
def kernel_120():
    for i, j in A:
        v = A[i, i]
        v = qd.cos(qd.cos(0.829))
        v3 = j * 0.1 if i % 2 == 0 else qd.tanh(-0.713)
        p0[i, j] -= v3
        for j4 in range(n[None]):
            v3 = qd.select(v3 < x[i] + 0.011, v * v3 * 0.6, qd.exp(-v3 * v3))
            v, v3 = (v3, (qd.sqrt(x[j] * x[j] + 0.3) * 0.8 + qd.tanh(v)) * 0.5)
        y[None] += v
    for i in range(4):
        v = z[i] * 0.9
        o[2] += i
        r1[at[i]] += i * 0.1
        y[None] += v ** 2 * 0.4 / (1.0 + v ** 2 * 0.4 * (v ** 2 * 0.4))
        k5 = 1
        y[None] += v


def f0_123(a0, V4_a1):
    res = min(a0 ** 2 * 0.4, (a0 if -0.6 < a0 <= 0.4 else a0) + 0.017)
    res += 0.2 * min(qd.tanh(V4_a1[0]), qd.sin(a0) + 0.017)
    res *= qd.sqrt(a0 * a0 + 0.3) * 0.8
    v1 = (-res) ** 2 * 0.4
    if not V4_a1[3] < res + 0.011:
        return (V4_a1 if c[None] > -0.713 and V4_a1[2] > 0.257 else V4_a1).sum() * 0.3
    return res


@generated((4, (4, 0, 3, 3), (3, 2, 3, 3)), (2, (1, 1, 4, 2), (3, 3, 2, 2)), funcs=(f0_123,))
def kernel_123():
    h = n[None] + 1
    for i, j in A:
        v = 0.3
        v = qd.max(qd.max(0.257, v - 0.013), (v + v) * 0.5 - 0.013)
        w2 = 0
        while w2 < 3 and (x[at[j]] < A[at[j], at[j]] + 0.011 and j % 2 == 0):
            w2 += 1
            k3 = max(min(w2, 3), 0)
            y[None] += v / (1.0 + v * v) * min(v, v + 0.017) * 0.6
        V3_4 = -qd.Vector([v, v, c[None]]) / (1.0 + (P[3 - i] + 0.3 * -0.713) * (P[3 - i] + 0.3 * -0.713))


@generated((2, (4, 4, 4, 4), (2, 2, 1, 2)), (2, (1, 2, 4, 0), (1, 2, 2, 1)))
def kernel_124():
    h = n[None] + 1
    for i in range(n[None]):
        v = 0.3
        V4_1 = qd.Vector([0.9, 0.9, 0.3, 0.9]) if -0.6 < v <= 0.4 else qd.Vector([-0.6, 0.3, 0.3, -0.6])
        for j2 in range(n[None]):
            v3 = qd.atan2(P[(i + 3) % 4][1], 1.6 + (v + x[i]) * 0.5 * ((v + x[i]) * 0.5))
        s0[i] = B[at[i]].determinant() * 0.3
        s0[i] += v
    for i, j in qd.ndrange(4, n[None]):
        v = z[i] * 0.9
        qd.atomic_sub(r1[j], qd.max(v, z[j] - 0.013) if i < i else qd.log(A[j % 4, j] * A[j % 4, j] + 0.5))
        V3_4 = min(P[(i + 2) % 4], 0.829) if h < 2 else qd.Vector([A[(h + 3) % 4, j], 0.517, v]) * v * 0.7
        if not h < 2:
            for j5 in range(2):
                V3_4[1] = j5 * 0.1
                y[None] += i * 0.1
                if v < v + 0.011 or h % 2 == 0:
                    continue
            y[None] -= v
        y[None] += V3_4.sum()
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        V3_6 = W1[I.y % 4] * s1[I.y] * 0.7
        v *= (V3_6[2] + -v) * 0.5
        y[None] += s1[(h + 2) % 4] if v < v + 0.011 and h % 2 == 0 else v
