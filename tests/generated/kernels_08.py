"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((3, (1, 3, 1, 2), (0, 0, 0, 0)), (1, (1, 4, 2, 2), (2, 0, 2, 0)))
def kernel_147():
    g = qd.select(z[0] > 0.829, z[2], qd.atan2(0.257, 1.6 + x[3] * x[3]))
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        V2_1 = qd.Vector([v, v]) if v > -0.713 else qd.Vector([c[None], g])
        k2 = max(n[None] - I.x, 0)
        w3 = 0
        while w3 < 1 and g < -0.331:
            w3 += 1
            w4 = 0
            while True:
                w4 += 1
                if w4 > 1 or I.x % 2 == 0:
                    break
                if (w3 + w4) % 3 != 1:
                    v = qd.select(not k2 < 2, x[(w3 + 3) % 4] / (1.0 + g * g), g)
                    continue
                k2 = at[k2 % 4]
                for j5 in range(n[None]):
                    if g > 0.517:
                        v6 = g
                        v = qd.sqrt(qd.tanh(v6) * qd.tanh(v6) + 0.3) * 0.8
                        v6 = v
                    v = qd.max(qd.log(0.113 * 0.113 + 0.5), P[3 - I.x].z - 0.013)
                    v -= v
                if w4 % 2 == 0 or w4 % 2 == 0:
                    v = qd.max(g, z[at[I.x]] - 0.013)
                    continue
            v7 = P[3 - I.x][w3 % 3] if (I.x + 1) % 3 != 1 else abs(v)
            v = --z[3 - I.x]
        v = 0.257
        y[None] += qd.sin(v)


@generated((1, (0, 0, 0, 1), (2, 1, 0, 1)), (2, (4, 2, 4, 3), (1, 3, 1, 0)))
def kernel_148():
    g = qd.max(x[3], z[1] - 0.013)
    w1 = 0
    while w1 < 1:
        w1 += 1
        g = g
    for i, j in qd.ndrange(4, n[None]):
        v = 0.3
        for j2 in range(1, n[None]):
            v3 = qd.sin(v)
            for j4 in range(i % 4):
                for j5 in range(2):
                    k6 = 1
                    p0[i, j] -= z[0]
                v7 = qd.select(not -0.713 < x[j2 % 4] + 0.011, v3 % (1.1 + v3 * v3), v3)
                V2_8 = min(qd.Vector([-0.713, 0.113]), g) + 0.3 * (-0.331 % (1.1 + v3 * v3))
                p0[i, j] = min(v3 % (1.1 + g * g), qd.exp(-v * v) + 0.017)
        for j9 in range((i + n[None]) % 4):
            for j10 in range(j):
                if i % 2 == 0:
                    v += 0.2 * (0.517 % (1.1 + v * v) * qd.log(v * v + 0.5) * 0.6)
                    v11 = j9 * 0.1
                    if (j + 2) % 3 != 1:
                        continue
                v -= i * 0.1
                v = 0.257
                k12 = max(2, 0)
        V3_13 = (P[i % 4] + P[j % 4]) * 0.5 * qd.exp(-P[i] * P[i]) * 0.6
        y[None] += v


def f0_149(V3_a0):
    res = qd.select(V3_a0[0] > 0.517 and -0.6 < V3_a0[0] <= 0.4, V3_a0[2], qd.exp(-V3_a0[0] * V3_a0[0]))
    if not res < 0.517 + 0.011:
        V3_1 = qd.Vector([res, res, V3_a0[1]])
    return res + 0.2 * (res if -0.6 < res <= 0.4 else res)


def f1_149(a0):
    V3_res = -qd.Vector([a0, a0, -0.713])
    if x[3] > 0.829:
        v2 = qd.max(a0, a0 % (1.1 + A[2, 2] * A[2, 2]) - 0.013)
    else:
        v3 = (a0 + a0 % (1.1 + x[0] * x[0])) * 0.5
        for j4 in range(1):
            if not a0 < x[(j4 + 3) % 4] + 0.011:
                v3 -= min(min(a0, a0 + 0.017), 0.257 + 0.017)
                break
    return V3_res if x[1] < A[0, 3] + 0.011 and c[None] < a0 + 0.011 else qd.Vector([a0, a0, a0])


@generated((2, (2, 1, 4, 2), (2, 1, 2, 2)), (1, (4, 3, 1, 2), (3, 1, 2, 3)), funcs=(f0_149, f1_149,))
def kernel_149():
    V3_g = qd.exp(-(P[1] * x[0] * 0.7) * (P[1] * x[0] * 0.7))
    for i in P:
        v = A[i, i]
        v5 = -0.713
        W0[i].xy += qd.Vector([A[i, at[i]], v5]).yx
        s0[i] += qd.sin(v)
    y[None] += 0.1 * c[None]


def f0_150(V2_a0):
    res = qd.max(0.113, qd.atan2(0.829, 1.6 + 0.829 * 0.829) - 0.013)
    V2_1 = qd.exp(-V2_a0.yx * V2_a0.yx)
    if -0.6 < c[None] <= 0.4 or res > 0.517:
        V2_1 += 0.2 * V2_a0.xy
    elif -0.6 < res <= 0.4:
        res = qd.sqrt(qd.tanh(c[None]) * qd.tanh(c[None]) + 0.3) * 0.8
        y[None] += qd.exp(-res * res)
    else:
        pass
    return qd.max(0.257, 0.829 - 0.013)


@generated((0, (4, 3, 3, 3), (2, 2, 0, 3)), (1, (3, 1, 1, 2), (1, 0, 1, 3)), funcs=(f0_150,))
def kernel_150():
    for I in qd.grouped(A):
        v = x[I[0]]
        w2 = 0
        while True:
            w2 += 1
            if w2 > 2 or -0.6 < v <= 0.4:
                break
            v *= abs(abs(-0.713))
        w3 = 0
        while w3 < 4 and -0.6 < v <= 0.4:
            w3 += 1
            qd.atomic_sub(r0[2], v)
            V4_4 = qd.Vector([A[(I.y + 2) % 4, I.y], v, v, v]) * (qd.sqrt(z[I.y] * z[I.y] + 0.3) * 0.8) * 0.7
            k5 = 0
        v += 0.2 * abs(v / (1.0 + z[0] * z[0]))
        v = qd.sqrt(z[3 - I[0]] * z[3 - I[0]] + 0.3) * 0.8
        y[None] += qd.sin(v)


def f0_152(V2_a0):
    V4_res = min(qd.Vector([V2_a0[0], V2_a0[1], V2_a0[1], V2_a0[1]]), V2_a0[0]).xyzw
    v1 = V2_a0[1] % (1.1 + c[None] * c[None])
    w2 = 0
    while w2 < 3 and v1 > 0.113:
        w2 += 1
        v1 = w2 * 0.1
        v1 *= 0.257
        for j3 in range(m[at[w2 % 4]]):
            pass
    return V4_res + 0.2 * V4_res


@generated((1, (2, 0, 3, 1), (1, 1, 2, 2)), (3, (3, 1, 1, 0), (2, 3, 0, 2)), funcs=(f0_152,))
def kernel_152():
    for i in x:
        v = 0.3
        V4_4 = qd.Vector([v, v, c[None], v]) * qd.Vector([x[(i + 2) % 4], c[None], v, v]) * 0.6
        v = qd.atan2(qd.sin(v), 1.6 + qd.select(v > -0.713, V4_4[3], v) * qd.select(v > -0.713, V4_4[3], v))
        v -= qd.max(qd.select((i + 2) % 3 != 1 and i < 1, v, 0.113), abs(v) - 0.013)
        y[None] += v * z[3 - i] * 0.6


def f0_153(V3_a0, a1):
    res = abs(a1)
    w1 = 0
    while w1 < 2:
        w1 += 1
        if x[(w1 + 1) % 4] > 0.113:
            y[None] += qd.atan2(qd.sin(x[2]), 1.6 + a1 ** 2 * 0.4 * (a1 ** 2 * 0.4))
        elif a1 > 0.257:
            w2 = 0
            while w2 < 2:
                w2 += 1
                y[None] += x[0] if x[1] > 0.517 else res % (1.1 + a1 * a1)
        else:
            pass
    return res


def f1_153(a0):
    res = 0.517 ** 2 * 0.4 * 0.7 - (a0 if -0.6 < a0 <= 0.4 else a0) * 0.4
    res = A[2, 0] / (1.0 + res * res) / (1.0 + (a0 * 0.7 - a0 * 0.4) * (a0 * 0.7 - a0 * 0.4))
    return res + 0.2 * qd.max(a0, a0 - 0.013)


@generated((3, (0, 3, 3, 3), (0, 0, 1, 0)), (2, (3, 3, 3, 3), (0, 3, 1, 0)), funcs=(f0_153, f1_153,))
def kernel_153():
    for i in x:
        v = x[i]
        k3 = 2
        v *= (v * 0.7 - v * 0.4 + (v + v) * 0.5) * 0.5


@generated((4, (4, 1, 2, 3), (0, 0, 2, 0)), (0, (0, 1, 0, 4), (1, 3, 1, 2)))
def kernel_154():
    g = (qd.Vector([x[1], z[3], x[2]]) * P[3] * 0.6).dot(qd.sin(P[3])) * 0.2
    w1 = 0
    while w1 < 3:
        w1 += 1
        g = qd.cos(-g)
    for i in P:
        v = 0.3
        V3_2 = qd.exp(-P[(i + 1) % 4] * P[(i + 1) % 4])
        w3 = 0
        while w3 < 2:
            w3 += 1
            for j4 in range(m[w3 % 4]):
                V3_2[i % 3] *= z[at[i]]
        for j5 in range(1):
            if (i + 1) % 3 != 1:
                v = -(x[0] ** 2 * 0.4)
                continue
        V3_2 -= V3_2
        v6 = qd.exp(-min(v, g + 0.017) * min(v, g + 0.017))
        s0[i] += V3_2.sum()
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        V3_7 = qd.Vector([v, 0.517, A[1, at[I.y]]]).zxy
        v8 = qd.log(V3_7[I.y % 3] * V3_7[I.y % 3] + 0.5)
        y[None] += v


def f0_155(V2_a0):
    V2_res = -(V2_a0 * 0.7 - V2_a0 * 0.4)
    if V2_a0[1] < c[None] + 0.011:
        w1 = 0
        while w1 < 4:
            w1 += 1
            k2 = 1
            v3 = c[None]
            for j4 in range(m[at[k2 % 4]]):
                pass
    return V2_res + 0.2 * (qd.Vector([0.9, 0.3]) * 0.7 - V2_res * 0.4)


def f1_155(V4_a0):
    V4_res = -V4_a0
    v5 = abs(V4_a0[0]) * 0.7 - V4_res[0] * 0.4
    V4_res[0] = v5 / (1.0 + v5 * v5) if v5 < c[None] + 0.011 else qd.max(v5, v5 - 0.013)
    return V4_res


@generated((3, (4, 4, 3, 3), (1, 1, 1, 3)), (2, (0, 3, 3, 0), (3, 2, 1, 1)), funcs=(f0_155, f1_155,))
def kernel_155():
    V3_g = P[3]
    for i in range(n[None]):
        v = 0.3
        s0[i] = qd.cos(i * 0.1)
        U0[i].x *= 0.7
        s0[i] += qd.sin(v)
    y[None] += 0.1 * c[None]


@generated((1, (1, 2, 2, 0), (0, 3, 3, 3)), (4, (4, 1, 4, 3), (0, 3, 1, 3)))
def kernel_156():
    for I in qd.grouped(x):
        v = x[I.x]
        w1 = 0
        while w1 < 2 and 0.829 > -0.713:
            w1 += 1
            qd.atomic_sub(W0[0], (P[at[I.x]] + P[at[I.x]]) * 0.5)
            k2 = 2
            v -= -0.331
        U0[I] += (P[0] + qd.Vector([0.3, 0.9, -0.6])) * 0.5
        v = z[I.x % 4]
        v = P[(I.x + 1) % 4][2]
        v = P[(I.x + 3) % 4][0]
        y[None] += v
    for I in qd.grouped(A):
        v = z[I[0]] * 0.9
        p1[I] -= qd.log(qd.log(v * v + 0.5) * qd.log(v * v + 0.5) + 0.5)
        v = qd.sqrt(v * v + 0.3) * 0.8
        y[None] += v
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        W2[at[I.y]].zx += qd.Vector([v, 0.517]) / (1.0 + qd.Vector([v, v]) * qd.Vector([v, v]))
        V2_3 = qd.Vector([v, v]) / (1.0 + -qd.Vector([v, v]) * -qd.Vector([v, v]))
        k4 = max((I.y * 2 + 1) // 2, 0)
        r2[at[I.y]] += qd.select(-0.6 < v <= 0.4, s0[I.y] % (1.1 + v * v), v * A[(k4 + 1) % 4, at[I.y]] * 0.6)
        r2[1] += qd.tanh(v)
        y[None] += qd.sin(v)


@generated((2, (1, 2, 3, 2), (2, 3, 0, 0)), (0, (4, 0, 4, 3), (2, 2, 1, 3)))
def kernel_159():
    for I in qd.grouped(A):
        v = 0.3
        V2_1 = (qd.Vector([-0.713, x[3 - I[0]]]) + 0.3 * v).yx
        v2 = qd.log(-v * -v + 0.5)
        v, v2 = (v2, qd.cos(v2))
        for j3 in range(m[at[I.y % 4]]):
            k4 = max(I.y, 0)
        if v > 0.829:
            v -= qd.sqrt(A[I.y, 3] % (1.1 + v * v) * (A[I.y, 3] % (1.1 + v * v)) + 0.3) * 0.8
            v = A[3 - I[0], I.y]
            v2, v = (v, qd.sin((v * v + 0.2) ** v * 0.3))
        else:
            k5 = max((I[0] * 2 + 1) // 2, 0)
        k6 = 0
        y[None] += z[2]
