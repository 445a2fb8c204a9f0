"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((2, (3, 3, 1, 1), (0, 0, 2, 0)), (3, (4, 0, 1, 4), (1, 0, 2, 2)))
def kernel_183():
    V3_g = -qd.Vector([z[1], x[2], z[2]]).zxy
    h = n[None] + 1
    for i in range(4):
        v = 0.3
        v1 = -qd.exp(-v * v)
        for j2 in range(m[at[i]]):
            for j3 in range(n[None] - 2, j2 % 4):
                qd.atomic_add(q0[at[i], 3 - i], qd.log(v1 * v1 + 0.5))
                k4 = 2
                if not v < v + 0.011:
                    V3_5 = V3_g + 0.3 * V3_g[2]
                    v = qd.max(v1 % (1.1 + V3_5[k4 % 3] * V3_5[k4 % 3]), qd.tanh(v1) - 0.013)
                if (h + h) % 3 != 1:
                    k4 = max(k4 - 1, 0)
                else:
                    v6 = qd.exp(-(c[None] * 0.7 - z[j2 % 4] * 0.4) * (c[None] * 0.7 - z[j2 % 4] * 0.4))
                    v7 = qd.sin(v) * ((v1 + v) * 0.5) * 0.6
                    v8 = qd.max(qd.select(i % 2 == 0, 0.829, z[(k4 + 1) % 4]), V3_g[1] - 0.013)
        v -= V3_g[2]
        y[None] += v


@generated((0, (1, 3, 2, 1), (1, 3, 2, 0)), (2, (0, 1, 3, 3), (1, 1, 3, 3)))
def kernel_185():
    for i in x:
        v = z[i] * 0.9
        V3_1 = max(P[at[i]], qd.Vector([-0.6, -0.6, 0.9]) - 0.013)
        for j2 in range(i % 4):
            v3 = v % (1.1 + qd.cos(x[(j2 + 3) % 4]) * qd.cos(x[(j2 + 3) % 4]))
            y[None] += abs((v3 + A[i, (j2 + 2) % 4]) * 0.5)
        for j4 in range(n[None]):
            v *= qd.log(v * v + 0.5)
            v = v ** 2 * 0.4
        v += 0.2 * min((v * v + 0.2) ** v * 0.3, qd.atan2(v, 1.6 + v * v) + 0.017)
        s0[i] += qd.select((i + 2) % 3 != 1 or v > -0.331, v / (1.0 + v * v), V3_1[1])
        w5 = 0
        while w5 < 2 and i % 2 == 0:
            w5 += 1
            v += 0.2 * (i * 0.1)
        s0[i] += qd.sin(v)


def f0_186(V3_a0):
    res = min((V3_a0[1] + V3_a0[2]) * 0.5, -0.713 % (1.1 + V3_a0[2] * V3_a0[2]) + 0.017)
    w1 = 0
    while w1 < 4 and res < -0.331:
        w1 += 1
        w2 = 0
        while w2 < 2 and ((w1 + w1) % 3 != 1 or w1 % 2 == 0):
            w2 += 1
            res = qd.log(res * res + 0.5)
            res = c[None]
            res -= w1 * 0.1
    return res


@generated((3, (4, 0, 3, 3), (3, 3, 2, 2)), (0, (4, 0, 3, 1), (3, 3, 2, 3)), funcs=(f0_186,))
def kernel_186():
    h = n[None] + 1
    for i in range(n[None]):
        v = x[i]
        V3_3 = P[at[i]] * 0.7 - min(qd.Vector([0.3, 0.9, 0.9]), v) * 0.4
        s0[i] += V3_3.sum()
    y[None] += 0.1 * c[None]


@generated((1, (2, 1, 3, 4), (1, 2, 3, 1)), (0, (2, 0, 2, 1), (2, 1, 2, 2)))
def kernel_191():
    g = qd.atan2(z[3], 1.6 + x[0] * x[0])
    for i in P:
        v = 0.3
        V4_1 = qd.Vector([-0.6, -0.6, -0.6, -0.6]) * qd.Vector([v, v, v, v]) * 0.6
        v2 = i * 0.1
        for j3 in range(i % 4):
            v4 = V4_1[i]
        y[None] -= qd.exp(-(A[i, 0] * v2 * 0.6) * (A[i, 0] * v2 * 0.6))
        v = (V4_1 + 0.3 * z[i]).sum() * 0.3
        y[None] += qd.sin(v)


def f0_197(V4_a0):
    V2_res = qd.Vector([V4_a0[3], V4_a0[2]]) if V4_a0[2] > 0.257 else qd.Vector([-0.331, V4_a0[1]])
    v1 = (V4_a0.yxwz.sum() * 0.3 + qd.atan2(V4_a0[1], 1.6 + 0.257 * 0.257)) * 0.5
    v1 = v1 % (1.1 + v1 * v1)
    return V2_res


@generated((1, (0, 1, 3, 0), (1, 0, 2, 2)), (4, (1, 3, 2, 2), (2, 3, 3, 0)), funcs=(f0_197,))
def kernel_197():
    g = qd.cos(x[1] % (1.1 + 0.829 * 0.829))
    w2 = 0
    while w2 < 2:
        w2 += 1
        g = g
    for i, j in A:
        v = A[i, i]
        qd.atomic_sub(r0[at[j]], abs(0.113 % (1.1 + v * v)))
        y[None] += v
    for I in qd.grouped(x):
        v = x[I.x]
        s1[I] = s0[I.x] ** 2 * 0.4
        s1[I] += qd.sin(v)
    for i, j in qd.ndrange(4, n[None]):
        v = z[i] * 0.9
        V4_3 = (qd.Vector([0.3, 0.3, -0.6, -0.6]) + qd.Vector([s0[i], v, v, A[j % 4, 1]])) * 0.5
        w4 = 0
        while w4 < 4 and (i + 2) % 3 != 1:
            w4 += 1
            for j5 in range(3):
                v6 = qd.select(v < v + 0.011, x[j], qd.exp(-0.257 * 0.257))
        v7 = min(min(g, V4_3[3] + 0.017), min(v, s1[j % 4] + 0.017) + 0.017)
        y[None] += A[at[j], 3] * B[i].transpose().determinant() * 0.3 * 0.6
        y[None] += r0[3 - i] / (1.0 + c[None] * c[None])


@generated((2, (3, 0, 4, 3), (0, 1, 1, 0)), (3, (4, 3, 4, 2), (3, 1, 0, 0)))
def kernel_198():
    g = z[2]
    for i in range(n[None]):
        v = 0.3
        V2_1 = min(qd.Vector([-0.6, 0.9]) * 0.7 - qd.Vector([0.257, c[None]]) * 0.4, z[at[i]])
        v = V2_1[1]
        r0[i % 4] += x[i % 4]
        s0[i] += V2_1.sum()
    for i in P:
        v = z[i] * 0.9
        V3_2 = qd.sin(P[1])
        for j3 in range(m[i]):
            for j4 in range(i % 4):
                V3_2 += 0.2 * ((V3_2 + V3_2) * 0.5)
                for j5 in range(min(j4, 3)):
                    v += 0.2 * s0[j5 % 4]
                    v += 0.2 * g
                    W1[(j3 + 1) % 4][2] += qd.select(g > 0.829, v, A[3 - i, j5 % 4])
                    v *= i * 0.1
        v = (V3_2[2] + qd.log(g * g + 0.5)) * 0.5
    for i in x:
        v = z[i] * 0.9
        V3_6 = qd.Vector([g, r1[(i + 3) % 4], A[(i + 1) % 4, 3]])
        v -= -qd.exp(-v * v)
        V3_7 = qd.sin(V3_6) * min(g, g + 0.017) * 0.7
        V3_6 += 0.2 * (V3_6 + 0.3 * g)
        y[None] += qd.sin(v)


def f0_199(V3_a0, a1):
    V3_res = (qd.sin(V3_a0) + (V3_a0 if not a1 > 0.257 else V3_a0)) * 0.5
    v1 = a1
    v1 = qd.select(a1 > -0.331, v1 ** 2 * 0.4, V3_res[1])
    w2 = 0
    while w2 < 3 and -0.6 < c[None] <= 0.4:
        w2 += 1
        X_3 = qd.Matrix([[c[None], a1], [v1, V3_res[0]]]).transpose() * (qd.sqrt(v1 * v1 + 0.3) * 0.8) * 0.6
        w4 = 0
        while w4 < 3:
            w4 += 1
            pass
    return V3_res + 0.2 * (qd.Vector([a1, c[None], a1]) * V3_res[2] * 0.7)


@generated((1, (0, 4, 1, 1), (0, 1, 3, 1)), (4, (4, 4, 2, 1), (1, 1, 0, 1)), funcs=(f0_199,))
def kernel_199():
    for i, j in A:
        v = A[i, i]
        v = (B[i % 4] @ B[j % 4] * 0.4).determinant() * 0.3
    for I in qd.grouped(A):
        v = z[I[0]] * 0.9
        o[I.y] += I[0]
        v += 0.2 * (I[0] * 0.1)
        v5 = I[0] * 0.1
    y[None] += 0.1 * c[None]


def f0_200(V2_a0):
    V4_res = qd.Vector([-0.713, V2_a0[1], V2_a0[1], V2_a0[1]]) * V2_a0[0] * 0.7 * qd.cos(V2_a0[0]) * 0.7
    v1 = x[0]
    return V4_res


@generated((4, (1, 3, 2, 0), (2, 1, 3, 3)), (2, (4, 0, 4, 2), (0, 1, 3, 1)), funcs=(f0_200,))
def kernel_200():
    for i in P:
        v = 0.3
        for j2 in range(n[None] - i):
            s0[i] = abs(abs(x[3]))
            v3 = qd.exp(-qd.exp(-A[at[i], i % 4] * A[at[i], i % 4]) * qd.exp(-A[at[i], i % 4] * A[at[i], i % 4]))
    y[None] += 0.1 * c[None]


@generated((1, (0, 0, 2, 1), (3, 3, 1, 2)), (1, (4, 3, 3, 1), (2, 3, 0, 0)))
def kernel_201():
    g = (-x[0] * -x[0] + 0.2) ** (z[1] * x[3] * 0.6) * 0.3
    w1 = 0
    while w1 < 3:
        w1 += 1
        g = g % (1.1 + A[2, 1] * A[2, 1]) * qd.tanh(g) * 0.6
    h = n[None] + 1
    for I in qd.grouped(A):
        v = 0.3
        V3_2 = P[I[0]]
        for j3 in range(1):
            v = (v ** 2 * 0.4) ** 2 * 0.4
            if x[at[I.y]] < g + 0.011:
                continue
            V3_2.zx = qd.Vector([v, x[I.y]]) * qd.Vector([g, v]) * 0.6
        V3_2[1] = qd.sin(V3_2[I[0] % 3])
        o[I.y % 4] += h
        v -= h * 0.1
        y[None] += qd.cos(v)
    for i in P:
        v = A[i, i]
        V3_4 = U0[at[i]]
        V3_5 = (qd.Vector([0.9, 0.9, 0.3]) + 0.3 * g) * 0.7 - (V3_4 + 0.3 * z[i % 4]) * 0.4
        for u6 in qd.static(range(2)):
            V3_5, V3_4 = (V3_4, V3_5 * 0.7 - V3_5 * 0.4)
        s1[i] += qd.atan2(v, 1.6 + v * v)


@generated((2, (4, 1, 3, 0), (0, 3, 3, 1)), (3, (2, 4, 1, 4), (1, 2, 3, 2)))
def kernel_205():
    g = x[2]
    V3_g = qd.exp(-max(qd.Vector([g, g, z[3]]), P[2] - 0.013) * max(qd.Vector([g, g, z[3]]), P[2] - 0.013))
    for I in qd.grouped(A):
        v = x[I[0]]
        if not I.y % 2 == 0:
            for j1 in range(1, 2):
                qd.atomic_sub(r0[I.y], qd.log((v * v + 0.2) ** g * 0.3 * ((v * v + 0.2) ** g * 0.3) + 0.5))
            w2 = 0
            while w2 < 2:
                w2 += 1
                v3 = (v * v + 0.2) ** (g % (1.1 + -0.713 * -0.713)) * 0.3
        else:
            for j4 in range((I.y * 2 + 1) // 2):
                W0[1][I[0] % 3] += qd.sin(g)
            r0[3 - I[0]] += g ** 2 * 0.4 % (1.1 + qd.sin(v) * qd.sin(v))
        qd.atomic_sub(r0[I.y], qd.tanh(qd.select(-0.6 < g <= 0.4, g, v)))
        y[None] += v
