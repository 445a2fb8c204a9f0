"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((2, (4, 3, 4, 0), (1, 0, 0, 1)), (4, (3, 0, 0, 2), (2, 2, 3, 1)))
def kernel_084():
    V3_g = P[3]
    V3_1 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_1 += -V3_g
    y[None] += 0.1 * V3_1.dot(V3_1)
    for i in P:
        v = 0.3
        V4_2 = qd.Vector([v, v, v, v]) + 0.3 * 0.257
        for J3 in qd.grouped(qd.ndrange(2, n[None] - i)):
            k4 = 2
            k4 = (k4 + m[k4 % 4]) % 5
        for j5 in range(n[None] - i):
            v = v
            v += 0.2 * qd.exp(-qd.exp(-v * v) * qd.exp(-v * v))
        v = qd.cos(z[i] * 0.7 - A[i, i % 4] * 0.4)
        y[None] -= qd.select(x[i] < A[i, (i + 1) % 4] + 0.011, i * 0.1, v)
        y[None] += v
    for i in range(4):
        v = 0.3
        V2_6 = qd.Vector([0.3, -0.6]) * qd.Vector([v, v]) * 0.6 + 0.3 * qd.sin(v)
        s1[i] += v
    for i in range(4):
        v = 0.3
        v = -v
        W2[at[i]].xy += qd.Vector([s1[3], v])
        k7 = 1
        V3_8 = W1[at[i]]
        V3_8 *= v % (1.1 + v * v)


@generated((3, (4, 0, 1, 0), (1, 2, 0, 2)), (1, (0, 1, 2, 4), (0, 2, 0, 2)))
def kernel_086():
    for I in qd.grouped(x):
        v = x[I.x]
        V3_1 = (P[at[I.x]] if v > 0.113 else qd.Vector([v, z[(I.x + 3) % 4], x[(I.x + 1) % 4]])) + 0.3 * qd.cos(v)
        for J2 in qd.static(qd.grouped(qd.ndrange(2, 1))):
            if not J2.x < I.x:
                w3 = 0
                while w3 < 4 and (not v < v + 0.011):
                    w3 += 1
                    v += 0.2 * x[(J2.x + 3) % 4]
                    k4 = max(3, 0)
                    v += 0.2 * (v * v * 0.6 if k4 % 2 == 0 else v)
        w5 = 0
        while w5 < 3 and v < -0.713:
            w5 += 1
            y[None] += qd.select(-0.6 < v <= 0.4, v * 0.7 - v * 0.4, -0.829)
            if v > 0.829:
                continue
        v = v
        y[None] += v
    for i in range(n[None]):
        v = A[i, i]
        v = qd.cos(v) if z[at[i]] < -0.331 + 0.011 else s0[at[i]]
        y[None] += qd.exp(-c[None] * c[None])


@generated((3, (2, 3, 0, 0), (0, 1, 1, 1)), (1, (3, 0, 0, 4), (2, 0, 2, 3)))
def kernel_088():
    g = x[1]
    w1 = 0
    while w1 < 1:
        w1 += 1
        g = g
    h = n[None] + 1
    for i, j in qd.ndrange(4, n[None]):
        v = A[i, i]
        qd.atomic_add(q0[3, j], qd.sqrt((v * v + 0.2) ** g * 0.3 * ((v * v + 0.2) ** g * 0.3) + 0.3) * 0.8)
        for j2 in range(m[j]):
            v3 = qd.exp(--v * -v)
            k4 = max(1, 0)
            p0[i, j] = (-v * -v + 0.2) ** qd.tanh(z[at[j]]) * 0.3
        y[None] -= (--0.713 * --0.713 + 0.2) ** x[i] * 0.3
        y[None] += qd.sin(v)
    for i in P:
        v = A[i, i]
        if i < 1 or h % 2 == 0:
            v = v
        v = W0[3 - i][i % 3] if -0.6 < s0[i] <= 0.4 else qd.max(v, -0.713 - 0.013)
        v = min(g, 0.257 + 0.017)
        y[None] += qd.sin(v)


@generated((2, (2, 0, 0, 4), (0, 1, 1, 0)), (3, (3, 2, 1, 3), (1, 3, 3, 0)))
def kernel_090():
    g = P[2].x
    w1 = 0
    while w1 < 1:
        w1 += 1
        g = qd.cos(-x[0])
    V3_g = qd.Vector([-0.331, g, x[1]]).xyz.zyx
    for i, j in A:
        v = z[i] * 0.9
        V3_2 = V3_g
        for j3 in range(m[at[j % 4]]):
            k4 = max(2, 0)
        y[None] += V3_2.sum()
    for i in x:
        v = z[i] * 0.9
        V3_5 = V3_g
        V3_5 = (qd.Vector([v, v, v]) * A[i % 4, (i + 1) % 4] * 0.7).xyz
        y[None] += v
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        v = (qd.atan2(z[I.x], 1.6 + V3_g[I.x % 3] * V3_g[I.x % 3]) + c[None] * g * 0.6) * 0.5
        V2_6 = qd.Vector([v, g])
        V2_6.yx += V2_6
        y[None] += I.x * 0.1


@generated((4, (4, 1, 2, 2), (1, 0, 2, 1)), (4, (4, 4, 1, 3), (1, 1, 2, 2)))
def kernel_096():
    for i in P:
        v = 0.3
        s0[i] = qd.tanh(min(z[at[i]], 0.517 + 0.017))
        w1 = 0
        while w1 < 3 and (v > 0.113 or (i + 1) % 3 != 1):
            w1 += 1
            V4_2 = qd.Vector([v, x[2], v, v]).yxwz * v * 0.7
            V4_2[3] = V4_2[0] * -v * 0.6
            k3 = max(w1 % 4, 0)
        for u4 in qd.static(range(2)):
            k5 = 1
        y[None] += v
    for i in x:
        v = 0.3
        V4_6 = min(qd.Vector([v, A[3 - i, 2], v, v]), v)
        for j7 in range(2, i):
            V4_8 = V4_6
            if i % 2 == 0:
                continue
        k9 = max(n[None] - i, 0)
        for j10 in range((i * 2 + 1) // 2):
            v11 = qd.atan2(v, 1.6 + v * v) / (1.0 + qd.max(v, v - 0.013) * qd.max(v, v - 0.013))
            s1[i] += qd.select(i % 2 == 0, v11, z[at[i]]) if -0.6 < v <= 0.4 else v11
            v12 = v11
        v = (v * 0.7 - v * 0.4) / (1.0 + qd.atan2(v, 1.6 + v * v) * qd.atan2(v, 1.6 + v * v))
        y[None] += abs(v)


def f0_098(V3_a0):
    res = (V3_a0[2] * V3_a0[2] + 0.2) ** abs(0.257) * 0.3
    for j1 in range(1, 3):
        for J2 in qd.static(qd.grouped(qd.ndrange(2, 1))):
            k3 = max(1, 0)
        V2_4 = qd.sin(qd.Vector([res, V3_a0[2]]) * qd.Vector([res, res]) * 0.6)
        res = (qd.cos(res) * qd.cos(res) + 0.2) ** abs(res) * 0.3
    return qd.select(res < res + 0.011, c[None], c[None])


def f1_098(V2_a0):
    V4_res = qd.Vector([-0.713, 0.257, V2_a0[1], V2_a0[0]])
    v5 = qd.tanh(qd.exp(-V2_a0[0] * V2_a0[0]))
    w6 = 0
    while w6 < 4:
        w6 += 1
        v7 = V4_res[w6 % 4] ** 2 * 0.4
    v5 += 0.2 * v5
    return V4_res


@generated((3, (0, 3, 3, 1), (3, 0, 0, 0)), (2, (0, 2, 3, 1), (1, 1, 0, 3)), funcs=(f0_098, f1_098,))
def kernel_098():
    V3_g = qd.exp(-P[2] * P[2]).zxy
    for i, j in A:
        v = x[i]
        V3_8 = P[at[j]]
        for u9 in qd.static(range(2)):
            for j10 in range(3):
                V3_8[j % 3] = (abs(V3_8[j10 % 3]) + abs(v)) * 0.5
                X_11 = B[2] @ B[i].transpose() * 0.4
                V3_8 *= qd.log(v * v + 0.5)
            W0[3 - i] += V3_g
        y[None] += v * 0.7 - v * 0.4


@generated((3, (3, 4, 3, 3), (2, 0, 0, 0)), (2, (3, 3, 0, 3), (0, 0, 2, 1)))
def kernel_101():
    h = n[None] + 1
    for i in P:
        v = A[i, i]
        if i % 2 == 0:
            V3_1 = qd.Vector([v, -0.713, x[3]]) * P[0] * 0.6 * 0.7 - qd.sin(qd.Vector([0.9, 0.9, 0.9])) * 0.4
        else:
            y[None] -= qd.cos(z[2] if v > 0.829 else 0.829)
            if v > 0.257:
                o[3 - i] += h
                v += 0.2 * qd.log(h * 0.1 * (h * 0.1) + 0.5)
                V3_2 = -(P[at[i]] * z[h % 4] * 0.7)
            v = z[i] ** 2 * 0.4
        v = qd.cos((0.829 * 0.829 + 0.2) ** A[at[i], (i + 2) % 4] * 0.3)
        for j3 in range(n[None] - i):
            v += 0.2 * (P[0].y * 0.7 - c[None] * 0.4)
        for j4 in range(i):
            v5 = qd.sin(x[j4 % 4]) if v < v + 0.011 else (v + c[None]) * 0.5
        y[None] += v
    for i, j in A:
        v = x[i]
        k6 = 1
        v7 = (qd.max(c[None], v - 0.013) + v / (1.0 + v * v)) * 0.5
    for i in x:
        v = x[i]
        v8 = (qd.max(v, v - 0.013) + (v + v) * 0.5) * 0.5
        U2[i] = qd.Vector([v, v8, v8])


def f0_104(a0):
    res = qd.sin(a0 * c[None] * 0.6)
    if res < c[None] + 0.011:
        if -0.6 < a0 <= 0.4:
            res -= qd.cos(a0 % (1.1 + a0 * a0))
            for j1 in range(2):
                V4_2 = (-qd.Vector([-0.6, 0.9, 0.3, 0.3])).xyzw
    else:
        pass
    return (-0.713 + 0.257) * 0.5


@generated((2, (2, 1, 3, 4), (3, 3, 2, 0)), (3, (4, 2, 1, 4), (2, 2, 0, 0)), funcs=(f0_104,))
def kernel_104():
    for i, j in A:
        v = A[i, i]
        V4_3 = qd.Vector([x[3 - i], -0.331, v, v])
        k4 = max(min(i, 3), 0)
        if v > 0.257:
            qd.atomic_sub(r0[at[j]], (v * 0.7 - v * 0.4) * v * 0.6)
            qd.atomic_add(q0[(i + 3) % 4, i % 4], qd.select((j + k4) % 3 != 1, qd.tanh(v), V4_3[i]))
        k4 = at[k4 % 4]
        v -= qd.exp(--0.713 * -0.713)
        v = v
        v5 = qd.sin(min(x[0], z[j] + 0.017))
    y[None] += 0.1 * c[None]


def f0_106(V2_a0, a1):
    res = qd.exp(-min(V2_a0[1], a1 + 0.017) * min(V2_a0[1], a1 + 0.017))
    y[None] += V2_a0[1]
    if a1 < a1 + 0.011:
        return min(a1, c[None] + 0.017)
    return res + 0.2 * res


def f1_106(a0):
    res = abs(qd.exp(-a0 * a0))
    res = abs(a0) % (1.1 + (0.829 * 0.829 + 0.2) ** a0 * 0.3 * ((0.829 * 0.829 + 0.2) ** a0 * 0.3))
    V4_1 = -qd.Vector([0.3, -0.6, 0.9, 0.9])
    v2 = qd.sqrt(a0 * a0 + 0.3) * 0.8
    if -0.6 < res <= 0.4:
        return res * 0.7 - res * 0.4
    return res


@generated((2, (4, 4, 0, 3), (0, 3, 0, 3)), (1, (2, 4, 1, 1), (2, 1, 2, 0)), funcs=(f0_106, f1_106,))
def kernel_106():
    for i in P:
        v = z[i] * 0.9
        v = v
        k3 = 1
        v = qd.exp(-v * v)
        y[None] += qd.sin(v)
    for i in range(n[None]):
        v = z[i] * 0.9
        V4_4 = qd.Vector([0.9, 0.3, 0.9, 0.3]) + 0.3 * s0[at[i]]
        for J5 in qd.grouped(qd.ndrange(2, 2)):
            V4_4[1] = qd.sqrt(-z[(J5[1] + 2) % 4] * -z[(J5[1] + 2) % 4] + 0.3) * 0.8
            s1[i] = min(P[i][0], v + 0.017)
        s1[i] += qd.sin(v)


@generated((0, (2, 3, 1, 1), (1, 3, 2, 0)), (2, (4, 3, 4, 2), (3, 2, 2, 2)))
def kernel_107():
    g = qd.log(x[2] * z[0] * 0.6 * (x[2] * z[0] * 0.6) + 0.5)
    V3_1 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_1 += (qd.Vector([z[i % 4], A[at[i], 1], g]) + P[(i + 1) % 4]) * 0.5
    y[None] += 0.1 * V3_1.dot(V3_1)
    for i in range(4):
        v = z[i] * 0.9
        V3_2 = V3_1
        s0[i] += i * 0.1
        v += 0.2 * (g * P[(i + 1) % 4].y * 0.6)
        k3 = max((i * 2 + 1) // 2, 0)
        qd.atomic_add(q0[(k3 + 3) % 4, i], qd.max(x[3], qd.max(g, v - 0.013) - 0.013))
        k4 = max(1, 0)
    for i in x:
        v = A[i, i]
        V2_5 = qd.Vector([z[at[i]], A[at[i], at[i]]])
        for j6 in range(n[None] - 2, 2):
            if g < V2_5[0] + 0.011:
                v = i * 0.1
                continue
            if not v > 0.113:
                break
            if g < g + 0.011:
                break
            v7 = ((0.257 + g) * 0.5 + v) * 0.5
        s1[i] += qd.sin(v)
