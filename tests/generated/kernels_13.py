"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_240(a0):
    V4_res = min(qd.Vector([0.3, 0.9, -0.6, 0.9]) * 0.7 - qd.Vector([a0, 0.517, a0, a0]) * 0.4, 0.829 ** 2 * 0.4)
    v1 = qd.select(a0 > 0.517 or a0 < a0 + 0.011, V4_res[3], a0) ** 2 * 0.4
    v2 = (c[None] + V4_res[1]) * 0.5 / (1.0 + v1 % (1.1 + v1 * v1) * (v1 % (1.1 + v1 * v1)))
    return qd.sin(V4_res)


@generated((0, (0, 4, 1, 4), (0, 1, 3, 1)), (2, (1, 1, 3, 1), (3, 3, 3, 0)), funcs=(f0_240,))
def kernel_240():
    for I in qd.grouped(x):
        v = 0.3
        w3 = 0
        while w3 < 2 and v < 0.257:
            w3 += 1
            v4 = qd.select((I.x + 1) % 3 != 1, I.x * 0.1, I.x * 0.1)
    y[None] += 0.1 * c[None]


@generated((1, (0, 0, 1, 2), (0, 3, 2, 1)), (0, (0, 0, 2, 3), (2, 2, 0, 0)))
def kernel_241():
    e1 = 0.517
    for i in x:
        e1 += x[(i + 1) % 4]
    y[None] += 0.1 * e1 * e1
    for i, j in A:
        v = x[i]
        V3_2 = P[0] * -qd.Vector([-0.713, 0.257, v]) * 0.6
        k3 = max(j + 1, 0)
        V3_2 *= v * 0.7 - e1 * 0.4
        v = min(0.829, c[None] + 0.017) if not (k3 + i) % 3 != 1 else v
        y[None] += v
    for i, j in qd.ndrange(4, n[None]):
        v = z[i] * 0.9
        V3_4 = P[1] / (1.0 + P[i] * P[i])
        v = e1
        w5 = 0
        while w5 < 3 and j < j:
            w5 += 1
            k6 = max(min(j, 3), 0)
            v = v * v * 0.6
        for j7 in range(n[None]):
            y[None] -= qd.exp(-e1 * e1) * 0.7 - (A[i, 3 - i] + v) * 0.5 * 0.4
            k8 = max(n[None], 0)
            v = e1
            v += 0.2 * qd.log(-v * -v + 0.5)
        v = A[i % 4, at[j]] * (c[None] / (1.0 + z[2] * z[2])) * 0.6
        V3_4[0] = qd.log(qd.max(s0[j], v - 0.013) * qd.max(s0[j], v - 0.013) + 0.5)


def f0_244(a0, a1):
    V4_res = -qd.Vector([a1, a1, a0, a0]).wzyx
    V4_res -= V4_res * 0.7 - V4_res * 0.4
    return V4_res


@generated((0, (0, 2, 1, 4), (2, 3, 0, 1)), (2, (2, 3, 0, 2), (2, 0, 0, 2)), funcs=(f0_244,))
def kernel_244():
    g = (A[3, 2] * 0.517 * 0.6 * (A[3, 2] * 0.517 * 0.6) + 0.2) ** (-0.331) * 0.3
    for i in range(4):
        v = z[i] * 0.9
        V4_1 = qd.Vector([v, g, g, g]) * 0.7 - qd.Vector([g, g, z[i % 4], 0.829]) * 0.4
        k2 = 0
        s0[i] = k2 * 0.1
        V4_1.xy = qd.Vector([v, v])
        if -0.6 < v <= 0.4:
            W0[(k2 + 1) % 4].zx += qd.Vector([c[None], x[i]])
            qd.atomic_sub(r0[at[i]], V4_1[1])
        w3 = 0
        while w3 < m[i] and (v < v + 0.011 or 0.829 < x[k2 % 4] + 0.011):
            w3 += 1
            v = qd.atan2(w3 * 0.1, 1.6 + v * v)
            y[None] -= qd.cos((z[i] + v) * 0.5)
        V4_1 += 0.2 * V4_1
        s0[i] += v


def f0_248(V3_a0):
    V4_res = qd.sin(qd.Vector([0.3, -0.6, 0.9, 0.9]))
    v1 = V4_res[2]
    return V4_res + 0.2 * V4_res


@generated((0, (1, 0, 1, 3), (2, 1, 2, 1)), (2, (4, 1, 0, 3), (0, 0, 2, 2)), funcs=(f0_248,))
def kernel_248():
    V3_2 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_2 += qd.Vector([z[3 - i], x[i], x[at[i]]])
    y[None] += 0.1 * V3_2.dot(V3_2)
    for i in range(4):
        v = z[i] * 0.9
        k3 = 2
        w4 = 0
        while w4 < 3 and v > -0.331:
            w4 += 1
            U0[i] += (V3_2 + V3_2) * 0.5
            V3_5 = min(V3_2 * v * 0.7, (A[i, at[i]] * A[i, at[i]] + 0.2) ** v * 0.3)
            if z[1] < v + 0.011:
                V3_5 += 0.2 * (V3_2 + 0.3 * z[at[i]])
                o[at[i]] += i
                w6 = 0
                while w6 < i % 4 and v < V3_5[0] + 0.011:
                    w6 += 1
                    v = qd.sin(qd.select(v > 0.829, c[None], v))
                    V3_5[1] += qd.max(P[k3 % 4].x, v - 0.013)
                    qd.atomic_sub(r0[(w4 + 1) % 4], B[3].determinant() * 0.3)
                    s0[i] = v
        V3_7 = qd.sin(V3_2)
        V3_7 += 0.2 * qd.sin(V3_2)
        s0[i] += v


@generated((1, (2, 4, 4, 1), (2, 1, 3, 0)), (4, (3, 0, 0, 0), (2, 1, 1, 1)))
def kernel_249():
    for i in range(4):
        v = x[i]
        v1 = v * qd.max(z[i % 4], v - 0.013) * 0.6
        w2 = 0
        while w2 < (i * 2 + 1) // 2 and (-0.6 < x[at[i]] <= 0.4 or v < v + 0.011):
            w2 += 1
            w3 = 0
            while w3 < 2 and v < v + 0.011:
                w3 += 1
                V2_4 = qd.Vector([v1, A[i, 0]]) * v1 * 0.7 * 0.7 - (qd.Vector([z[w3 % 4], v]) + 0.3 * v) * 0.4
                V3_5 = (P[at[i]] if not w2 < w3 else P[w2 % 4]) * P[i] * 0.6
                if v > 0.517:
                    continue
        v6 = v
        y[None] += qd.sin(v)


def f0_250(V2_a0, V4_a1):
    V2_res = (qd.Vector([0.517, V2_a0[1]]) + V2_a0) * 0.5 + 0.3 * qd.tanh(V2_a0[0])
    k1 = max(1, 0)
    return V2_res


@generated((3, (4, 0, 0, 1), (0, 2, 0, 0)), (4, (4, 4, 3, 0), (0, 0, 1, 2)), funcs=(f0_250,))
def kernel_250():
    h = n[None] + 1
    for i, j in A:
        v = z[i] * 0.9
        o[j] += h
        o[3] += i
        for j2 in range((j * 2 + 1) // 2, m[at[j]]):
            w3 = 0
            while w3 < 2 and v > 0.257:
                w3 += 1
                if j < h:
                    qd.atomic_sub(W0[2], P[i] / (1.0 + P[at[j]] * P[at[j]]))
                    v4 = B[3].transpose().determinant() * 0.3
                else:
                    v += 0.2 * ((z[h % 4] * v * 0.6 * (z[h % 4] * v * 0.6) + 0.2) ** min(v, v + 0.017) * 0.3)
                    v5 = ((v + -0.331) * 0.5 + j * 0.1) * 0.5
            if -0.331 > 0.517:
                v6 = qd.atan2(z[at[j]], 1.6 + qd.tanh(v) * qd.tanh(v))
                break
            v += 0.2 * -(v if z[j2 % 4] < v + 0.011 or j2 < i else v)
        V2_7 = --qd.Vector([-0.6, 0.3])
        y[None] += qd.atan2(v, 1.6 + v * v)
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        p1[I] -= qd.cos(0.517) if I.y < 2 and -0.6 < v <= 0.4 else I[0] * 0.1
        y[None] += h * 0.1


@generated((2, (1, 4, 2, 3), (3, 0, 0, 3)), (2, (4, 4, 3, 3), (2, 1, 2, 0)))
def kernel_251():
    h = n[None] + 1
    for I in qd.grouped(x):
        v = x[I.x]
        V4_1 = qd.Vector([0.9, -0.6, 0.3, -0.6]) * qd.Vector([0.9, 0.9, -0.6, 0.9]) * 0.6
        s0[I] = qd.log(qd.cos(x[at[I.x]]) * qd.cos(x[at[I.x]]) + 0.5)
        qd.atomic_sub(r0[h % 4], 0.113)
        W0[3 - I.x].zx += qd.Vector([v, v])
        if h < I.x:
            y[None] -= (c[None] * c[None] + 0.2) ** v * 0.3 if c[None] > -0.713 else V4_1[2]
        elif -0.6 < V4_1[2] <= 0.4:
            v2 = min(v, 0.113 + 0.017)
            w3 = 0
            while w3 < 4 and (I.x + 2) % 3 != 1:
                w3 += 1
                k4 = max(m[w3 % 4], 0)
                V2_5 = qd.Vector([A[at[I.x], at[I.x]], x[at[I.x]]]).xy * -v2 * 0.7
                if not (k4 + w3) % 3 != 1:
                    k6 = max(m[I.x], 0)
                v7 = k4 * 0.1
    for i in P:
        v = z[i] * 0.9
        v8 = v
        v9 = qd.log(r0[i] * r0[i] + 0.5) * 0.7 - qd.tanh(v8) * 0.4
        y[None] += v


@generated((4, (0, 2, 1, 3), (0, 1, 0, 3)), (4, (4, 1, 0, 3), (1, 3, 3, 2)))
def kernel_253():
    g = (x[0] / (1.0 + z[3] * z[3]) + qd.sin(c[None])) * 0.5
    w1 = 0
    while w1 < 3:
        w1 += 1
        g = qd.cos(g)
    for I in qd.grouped(x):
        v = x[I.x]
        for j2 in range((I.x * 2 + 1) // 2, I.x + 1):
            k3 = max(3, 0)
        k4 = max((I.x * 2 + 1) // 2, 0)
        r0[2] += g
        v -= qd.max(g * 0.7 - A[I.x, 1] * 0.4, qd.cos(v) - 0.013)
        V3_5 = P[2]
        y[None] += qd.sin(v)


def f0_256(a0):
    res = abs(qd.log(-0.331 * -0.331 + 0.5))
    res *= 0.257
    return res + 0.2 * qd.log(res * res + 0.5)


@generated((1, (0, 2, 0, 0), (3, 3, 2, 3)), (2, (3, 2, 0, 0), (1, 2, 1, 0)), funcs=(f0_256,))
def kernel_256():
    for i in P:
        v = A[i, i]
        V2_1 = (qd.Vector([x[2], z[i]]) + qd.Vector([v, v])) * 0.5
        s0[i] = v
        v2 = v
        v2 *= i * 0.1
        if i < 2:
            w3 = 0
            while True:
                w3 += 1
                if w3 > 3 or (v > -0.331 or i % 2 == 0):
                    break
                v2 = w3 * 0.1
                if -0.6 < v2 <= 0.4:
                    break
            k4 = 1
            v = abs(qd.sin(c[None]))
        elif (i + i) % 3 != 1 or (i + 2) % 3 != 1:
            v *= qd.tanh(qd.sqrt(v2 * v2 + 0.3) * 0.8)
            qd.atomic_sub(W0[i % 4], min(qd.Vector([V2_1[0], v2, z[i % 4]]), v))
        qd.atomic_sub(r0[i], 0.113)
        y[None] += v


@generated((2, (4, 1, 2, 2), (1, 0, 3, 2)), (1, (2, 4, 0, 4), (3, 0, 0, 3)))
def kernel_258():
    g = qd.cos(z[0]) % (1.1 + qd.atan2(z[2], 1.6 + z[3] * z[3]) * qd.atan2(z[2], 1.6 + z[3] * z[3]))
    w1 = 0
    while w1 < 3:
        w1 += 1
        g = (x[2] * x[2] + 0.2) ** g * 0.3
    V3_g = qd.Vector([0.9, 0.9, -0.6])
    for i, j in A:
        v = x[i]
        V3_2 = qd.Vector([v, v, x[3 - i]]) + 0.3 * v
        for j3 in range(2):
            v = -0.713
        y[None] += A[3, i]
        y[None] -= min(g ** 2 * 0.4, j * 0.1 + 0.017)
        v *= qd.log(g ** 2 * 0.4 * (g ** 2 * 0.4) + 0.5)
        V3_2[j % 3] += qd.exp(-v * v) if A[at[j], at[j]] < 0.517 + 0.011 else g * c[None] * 0.6
        y[None] += v
