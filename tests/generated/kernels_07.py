"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((1, (2, 3, 1, 4), (1, 0, 1, 1)), (4, (0, 2, 0, 2), (1, 2, 1, 2)))
def kernel_125():
    for i in range(n[None]):
        v = 0.3
        V4_1 = qd.Vector([v, v, v, v])
        w2 = 0
        while True:
            w2 += 1
            if w2 > 4 or not v < v + 0.011:
                break
            V4_1[0] = v
        V3_3 = max(P[i % 4], qd.exp(-qd.Vector([v, v, v]) * qd.Vector([v, v, v])) - 0.013)
        v *= -(v % (1.1 + v * v))
        v = qd.Matrix([[V3_3[i % 3], v], [V4_1[3], z[at[i]]]]).determinant() * 0.3
        w4 = 0
        while w4 < 4 and v < -0.331:
            w4 += 1
            v5 = -v * (v / (1.0 + v * v)) * 0.6
            v = qd.select((w4 + w4) % 3 != 1, v, qd.sqrt(v * v + 0.3) * 0.8)
        y[None] += V4_1.sum()


def f0_127(V4_a0):
    res = 0.829
    for j1 in range(2):
        k2 = max(m[j1 % 4], 0)
        w3 = 0
        while True:
            w3 += 1
            if w3 > 2 or j1 % 2 == 0:
                break
            for j4 in range(j1 % 4):
                v5 = x[j4 % 4] * w3 * 0.1 * 0.6
    return x[1] % (1.1 + res * res)


@generated((3, (3, 4, 0, 0), (3, 3, 1, 0)), (3, (2, 3, 1, 4), (0, 3, 2, 3)), funcs=(f0_127,))
def kernel_127():
    for i in range(4):
        v = z[i] * 0.9
        V2_6 = qd.Vector([A[(i + 2) % 4, i % 4], v]) * v * 0.7
        k7 = max(m[at[i % 4]], 0)
        y[None] += v / (1.0 + v * v)
    for i, j in qd.ndrange(4, n[None]):
        v = 0.3
        V2_8 = min(qd.Vector([v, v]), v)
        p1[i, j] = qd.sin(v)
        k9 = max(n[None] - j, 0)
        y[None] += V2_8.sum()


def f0_128(V3_a0, V3_a1):
    V4_res = qd.Vector([0.829, V3_a0[2], -0.331, V3_a0[0]])
    v1 = 0.829
    v1 += 0.2 * qd.atan2(-0.713, 1.6 + v1 / (1.0 + v1 * v1) * (v1 / (1.0 + v1 * v1)))
    w2 = 0
    while w2 < 4 and -0.6 < v1 <= 0.4:
        w2 += 1
        w3 = 0
        while True:
            w3 += 1
            if w3 > 3 or v1 > 0.829:
                break
            if w3 < w3:
                pass
            elif v1 < v1 + 0.011:
                pass
    if -0.6 < v1 <= 0.4 and v1 < v1 + 0.011:
        return V4_res * -0.713 * 0.7
    return min(V4_res, v1)


@generated((4, (1, 1, 2, 3), (1, 0, 1, 3)), (4, (3, 0, 0, 2), (3, 0, 0, 0)), funcs=(f0_128,))
def kernel_128():
    for i, j in A:
        v = z[i] * 0.9
        v = v
        k4 = max(i + 1, 0)
        y[None] += v


def f0_129(a0):
    V2_res = qd.Vector([a0, a0]) * 0.517 * 0.7 * -0.713 * 0.7
    w1 = 0
    while w1 < 4:
        w1 += 1
        v2 = (V2_res[w1 % 2] / (1.0 + V2_res[w1 % 2] * V2_res[w1 % 2])) ** 2 * 0.4
        for j3, j4 in qd.ndrange(2, 1):
            if j3 < 2 or (j3 + j4) % 3 != 1:
                break
        V2_res[1] -= -0.713 * 0.7 - qd.sqrt(a0 * a0 + 0.3) * 0.8 * 0.4
    return V2_res.yx


@generated((0, (2, 0, 4, 2), (1, 1, 1, 1)), (0, (3, 3, 3, 2), (2, 2, 2, 1)), funcs=(f0_129,))
def kernel_129():
    e5 = -0.331
    for i in x:
        e5 += x[3 - i] * qd.atan2(0.829, 1.6 + x[(i + 3) % 4] * x[(i + 3) % 4]) * 0.6
    y[None] += 0.1 * e5 * e5
    for i in range(n[None]):
        v = 0.3
        qd.atomic_sub(r0[i % 4], v)
        y[None] += qd.select(not i < i, v, 0.829)


@generated((0, (3, 4, 4, 3), (3, 3, 2, 2)), (1, (3, 4, 4, 3), (0, 0, 2, 0)))
def kernel_131():
    for i, j in A:
        v = x[i]
        V2_1 = qd.exp(-qd.Vector([x[(i + 2) % 4], A[at[j], i % 4]]) * qd.Vector([x[(i + 2) % 4], A[at[j], i % 4]]))
        r0[at[j]] += j * 0.1
        if i % 2 == 0:
            k2 = max(j % 4, 0)
            v += 0.2 * ((V2_1[1] * V2_1[1] + 0.2) ** (v * 0.7 - v * 0.4) * 0.3)
            v3 = --v
        else:
            w4 = 0
            while True:
                w4 += 1
                if w4 > n[None] - j or i < 2:
                    break
                k5 = 0
        y[None] += v


def f0_135(V3_a0):
    res = qd.cos(qd.sqrt(-0.331 * -0.331 + 0.3) * 0.8)
    y[None] += V3_a0[1]
    return res


@generated((4, (1, 3, 2, 1), (0, 1, 0, 3)), (3, (4, 4, 4, 0), (2, 0, 1, 2)), funcs=(f0_135,))
def kernel_135():
    e1 = 0.113
    for i in x:
        e1 += qd.max(qd.exp(-x[(i + 2) % 4] * x[(i + 2) % 4]), A[(i + 3) % 4, 3 - i] - 0.013)
    y[None] += 0.1 * e1 * e1
    for i in range(n[None]):
        v = A[i, i]
        for J2 in qd.grouped(qd.ndrange((1, 3), m[i % 4])):
            for j3 in range(i):
                r0[3 - i] += J2[1] * 0.1
                V2_4 = max(qd.Vector([-0.6, 0.9]), qd.Vector([e1, x[1]]) - 0.013).xy
            v = qd.select(v > -0.713, ((P[at[i]] + qd.Vector([v, 0.517, v])) * 0.5).sum() * 0.3, P[i][J2[1] % 3])
        y[None] += qd.sin(v)


def f0_136(V4_a0):
    V2_res = min(qd.Vector([c[None], V4_a0[0]]) if not -0.331 < 0.517 + 0.011 else qd.Vector([0.3, -0.6]), V4_a0[3])
    if V4_a0[1] > 0.517:
        v1 = V4_a0[2]
        v2 = qd.exp(-V2_res[1] * V2_res[1]) ** 2 * 0.4
    v3 = ((V4_a0 * V4_a0 * 0.6).dot(-V4_a0) * 0.2 + qd.cos(V4_a0[0])) * 0.5
    return V2_res / (1.0 + qd.Vector([v3, V4_a0[0]]) * qd.Vector([v3, V4_a0[0]]))


@generated((0, (2, 3, 4, 1), (3, 1, 1, 2)), (0, (0, 2, 3, 1), (2, 3, 3, 1)), funcs=(f0_136,))
def kernel_136():
    for i, j in qd.ndrange(4, n[None]):
        v = A[i, i]
        w4 = 0
        while True:
            w4 += 1
            if w4 > m[at[j]] or v < 0.829:
                break
            V4_5 = qd.sin(max(qd.Vector([c[None], v, v, v]), qd.Vector([v, v, v, v]) - 0.013))
        y[None] += qd.sin(v)
    for I in qd.grouped(x):
        v = x[I.x]
        k6 = max(I.x % 4, 0)
        v = z[(k6 + 2) % 4]
        s1[I] += qd.sin(v)
    for i in range(n[None]):
        v = A[i, i]
        V2_7 = qd.Vector([-0.6, 0.3])
        v8 = qd.cos(abs(v))
        v8 = qd.sqrt(r0[(i + 2) % 4] * r0[(i + 2) % 4] + 0.3) * 0.8
        y[None] += v


def f0_140(a0, V4_a1):
    V4_res = min(V4_a1 if c[None] > 0.113 else V4_a1, (c[None] * c[None] + 0.2) ** a0 * 0.3)
    for J1 in qd.grouped(qd.ndrange(2, 2)):
        for j2 in range(m[at[J1[1] % 4]]):
            y[None] += V4_a1[1]
            v3 = a0
            w4 = 0
            while True:
                w4 += 1
                if w4 > 3 or (J1[1] + J1[1]) % 3 != 1:
                    break
                pass
    return V4_res + 0.2 * qd.exp(-qd.Vector([-0.6, 0.3, -0.6, -0.6]) * qd.Vector([-0.6, 0.3, -0.6, -0.6]))


@generated((0, (2, 1, 3, 4), (0, 1, 0, 3)), (3, (0, 1, 1, 2), (2, 1, 1, 0)), funcs=(f0_140,))
def kernel_140():
    h = n[None] + 1
    for I in qd.grouped(A):
        v = 0.3
        V3_5 = P[(h + 3) % 4]
        v = v * 0.7 - (v if h % 2 == 0 or v > -0.331 else v) * 0.4
        v6 = qd.cos(qd.cos(v))
        V3_7 = V3_5
        V3_7[2] = v
        y[None] += v
    for i in range(4):
        v = A[i, i]
        V3_8 = qd.exp(-U0[at[i]] * U0[at[i]])
        V3_8[i % 3] += qd.log(qd.max(v, s0[3 - i] - 0.013) * qd.max(v, s0[3 - i] - 0.013) + 0.5)
        v9 = v if v < s0[3] + 0.011 else v ** 2 * 0.4
        v10 = qd.sqrt(v ** 2 * 0.4 * (v ** 2 * 0.4) + 0.3) * 0.8
        s1[i] += V3_8.sum()


@generated((0, (2, 4, 0, 2), (3, 3, 0, 1)), (0, (1, 4, 3, 2), (2, 1, 3, 1)))
def kernel_142():
    for i in range(n[None]):
        v = 0.3
        v = i * 0.1
        V3_1 = (qd.Vector([0.3, 0.9, 0.9]) + P[3 - i].zxy) * 0.5
        y[None] += v ** 2 * 0.4
        s0[i] += v
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        for J2 in qd.static(qd.grouped(qd.ndrange(2, 1))):
            V3_3 = U0[3 - I.x]
            V3_3[1] += qd.select(v < v + 0.011, v / (1.0 + v * v), qd.sin(v))
        y[None] += v
    for i in x:
        v = z[i] * 0.9
        v = s1[3 - i]
        for j4 in range(min(i, 3)):
            v = U1[(i + 3) % 4][0]
            if j4 < 2:
                continue
            V3_5 = max(qd.Vector([v, v, v]), qd.Vector([0.3, -0.6, 0.9]) - 0.013) * qd.max(v, c[None] - 0.013) * 0.7
        k6 = max(i + 1, 0)
        v7 = qd.max(qd.sin(v), qd.atan2(v, 1.6 + v * v) - 0.013)
        v7 = (0.829 ** 2 * 0.4 * (0.829 ** 2 * 0.4) + 0.2) ** ((v * v + 0.2) ** v * 0.3) * 0.3
        o[3] += i
        s2[i] += v


@generated((1, (4, 2, 0, 2), (1, 2, 2, 1)), (0, (0, 4, 3, 3), (0, 2, 1, 0)))
def kernel_145():
    h = n[None] + 1
    V3_1 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_1 += qd.exp(-qd.Vector([z[at[i]], x[3], x[0]]) * qd.Vector([z[at[i]], x[3], x[0]]))
    y[None] += 0.1 * V3_1.dot(V3_1)
    for i, j in qd.ndrange(4, n[None]):
        v = x[i]
        p0[i, j] = qd.tanh(v if v < 0.829 + 0.011 else z[j % 4])
        v2 = abs(z[j % 4])
        V3_3 = qd.sin(max(qd.Vector([v, 0.517, V3_1[2]]), V3_1 - 0.013))
        y[None] += x[(h + 3) % 4]
        w4 = 0
        while w4 < 2:
            w4 += 1
            if -0.6 < V3_3[0] <= 0.4:
                v -= -v if x[0] > 0.257 else (v2 + V3_1[j % 3]) * 0.5
                break
            v2 -= (0.257 * 0.257 + 0.2) ** v2 * 0.3 / (1.0 + h * 0.1 * (h * 0.1))
            o[at[j]] += j
            V3_3[2] = min(V3_1[j % 3], qd.cos(v2) + 0.017)
        y[None] += v2 / (1.0 + v2 * v2)
    for i in P:
        v = A[i, i]
        V3_5 = V3_1
        y[None] += qd.tanh(v)
    for i in P:
        v = x[i]
        v6 = B[at[i]].transpose().determinant() * 0.3
        U2[i][i % 3] = qd.exp(-V3_1[1] * V3_1[1])
        y[None] += v
