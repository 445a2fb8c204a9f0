"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((2, (3, 1, 1, 1), (3, 0, 3, 3)), (2, (4, 2, 0, 4), (3, 2, 0, 0)))
def kernel_071():
    g = x[0]
    w1 = 0
    while w1 < 1:
        w1 += 1
        g = g
    for i in range(4):
        v = 0.3
        o[at[i]] += i
        v2 = qd.select(i < 1, 0.517, v) / (1.0 + i * 0.1 * (i * 0.1))
        y[None] += qd.sin(v)
    for i in range(n[None]):
        v = x[i]
        V4_3 = -qd.Vector([x[3 - i], g, g, z[i]])
        k4 = 2
        w5 = 0
        while w5 < i + 1:
            w5 += 1
            v = v
        y[None] += qd.sin(v)
    V3_6 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_6 += min(W0[(i + 1) % 4], g)
    y[None] += 0.1 * V3_6.dot(V3_6)
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        V2_7 = qd.Vector([v, g]) * qd.Vector([0.9, 0.9]) * 0.6
        y[None] -= qd.max(I.x * 0.1, qd.atan2(x[at[I.x]], 1.6 + A[I.x % 4, at[I.x]] * A[I.x % 4, at[I.x]]) - 0.013)


@generated((4, (2, 0, 3, 2), (2, 0, 1, 0)), (1, (4, 1, 2, 2), (2, 1, 2, 2)))
def kernel_072():
    for i, j in A:
        v = A[i, i]
        y[None] += z[at[j]]
        if -0.331 < z[i] + 0.011 and i % 2 == 0:
            V2_1 = (qd.Vector([v, v]) * v * 0.7).xy
        V2_2 = min(-qd.Vector([z[3 - i], 0.517]), qd.atan2(z[3 - i], 1.6 + 0.517 * 0.517))
        V2_2[j % 2] -= -(qd.sqrt(v * v + 0.3) * 0.8)
        qd.atomic_add(q0[(i + 1) % 4, 1], qd.Matrix([[c[None], x[i % 4]], [v, v]]).transpose().determinant() * 0.3)
        v3 = (qd.select(not v < v + 0.011, v, v) + qd.select((i + j) % 3 != 1, x[j], A[j % 4, at[j]])) * 0.5
    for i in P:
        v = z[i] * 0.9
        for j4 in range(m[i % 4]):
            v5 = v
        y[None] += qd.sin(v)


def f0_073(V2_a0):
    res = V2_a0[0]
    if res > -0.713 and res < V2_a0[0] + 0.011:
        V2_1 = V2_a0
        for j2 in range(1):
            res -= res
        k3 = 2
    return res % (1.1 + res * res)


@generated((2, (4, 2, 1, 1), (0, 0, 2, 2)), (1, (0, 3, 2, 3), (2, 3, 2, 1)), funcs=(f0_073,))
def kernel_073():
    for i in range(n[None]):
        v = 0.3
        V2_4 = qd.Vector([v, v]).yx
        v = qd.Vector([x[i], x[(i + 1) % 4], v]).sum() * 0.3
        y[None] += V2_4.sum()


def f0_075(V3_a0):
    V2_res = qd.sin(qd.Vector([V3_a0[1], -0.713]) / (1.0 + qd.Vector([0.3, -0.6]) * qd.Vector([0.3, -0.6])))
    for j1 in range(2):
        for j2 in range(1, n[None]):
            v3 = abs(qd.max(V2_res[j1 % 2], V3_a0[0] - 0.013))
            if v3 < c[None] + 0.011:
                break
            v3 = v3
    return V2_res


def f1_075(V4_a0):
    V2_res = qd.Vector([-0.6, 0.9]).xy
    V2_res += 0.2 * qd.Vector([-0.713, V4_a0[1]])
    return V2_res + 0.2 * V2_res.yx


@generated((1, (3, 3, 2, 4), (2, 2, 2, 1)), (0, (4, 3, 3, 2), (2, 1, 1, 1)), funcs=(f0_075, f1_075,))
def kernel_075():
    for i in range(4):
        v = A[i, i]
        k4 = 2
        V4_5 = -qd.Vector([v, v, 0.113, v])
        V4_5[1] -= v ** 2 * 0.4 * 0.7 - v * A[(i + 2) % 4, i] * 0.6 * 0.4
        v6 = qd.atan2(qd.tanh(A[2, at[i]]), 1.6 + (v + c[None]) * 0.5 * ((v + c[None]) * 0.5))
        y[None] += v6 ** 2 * 0.4
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        V2_7 = qd.Vector([r0[at[I.x]], v])
        V2_7 -= max(qd.Vector([v, z[(I.x + 1) % 4]]), qd.Vector([v, s0[0]]) - 0.013)


@generated((2, (0, 2, 4, 1), (2, 2, 1, 2)), (4, (1, 2, 2, 1), (3, 2, 2, 2)))
def kernel_076():
    for I in qd.grouped(x):
        v = 0.3
        V4_1 = qd.Vector([v, v, x[0], v]) * z[(I.x + 3) % 4] * 0.7
        for j2 in range(I.x + 1, min(I.x, 3)):
            s0[I] = qd.sqrt(qd.sin(v) * qd.sin(v) + 0.3) * 0.8
            V4_1[I.x % 4] += qd.max(v, v - 0.013) * qd.select((I.x + I.x) % 3 != 1, v, z[at[I.x]]) * 0.6
        y[None] += v
    e3 = -0.331
    for i in x:
        e3 += qd.log(r0[1] * r0[1] + 0.5) / (1.0 + qd.cos(-0.331) * qd.cos(-0.331))
    y[None] += 0.1 * e3 * e3
    for i in range(n[None]):
        v = x[i]
        V2_4 = -qd.Vector([e3, s0[3 - i]])
        V2_4[i % 2] += abs(v) * (c[None] / (1.0 + A[at[i], i] * A[at[i], i])) * 0.6
        V2_4[i % 2] += e3 if v > -0.713 else v * 0.7 - e3 * 0.4
        for j5 in range(m[i % 4]):
            qd.atomic_sub(W1[2], qd.Vector([v, e3, r0[(j5 + 1) % 4]]) * 0.7 - U0[0] * 0.4)
        s1[i] = (i * 0.1 * (i * 0.1) + 0.2) ** (qd.sqrt(A[i, at[i]] * A[i, at[i]] + 0.3) * 0.8) * 0.3
        qd.atomic_sub(W1[3 - i], qd.sin(P[i]))
        for j6 in range(min(i, 3)):
            W1[(i + 3) % 4].zx += (V2_4 + V2_4) * 0.5
            for j7 in range(i + 1):
                V2_4.yx = -V2_4
            v = qd.max(e3 * e3 * 0.6, s0[j6 % 4] - 0.013)
            v8 = qd.cos(qd.cos(z[at[i]]))
        y[None] += qd.log(0.829 * 0.829 + 0.5)


@generated((0, (1, 3, 4, 2), (3, 3, 2, 1)), (0, (0, 4, 2, 2), (3, 2, 2, 0)))
def kernel_078():
    g = qd.Matrix([[x[2], x[3]], [x[0], x[0]]]).determinant() * 0.3
    for I in qd.grouped(A):
        v = z[I[0]] * 0.9
        for j1 in range((I[0] + n[None]) % 4):
            r0[3 - I[0]] += qd.max(g, abs(g) - 0.013)
            if I[0] < I[0]:
                k2 = 1
        v3 = abs(qd.sqrt(g * g + 0.3) * 0.8)
        y[None] += v


def f0_079(V4_a0):
    res = V4_a0[1]
    k1 = max(1, 0)
    if -0.6 < res <= 0.4 and k1 < 1:
        return V4_a0[k1 % 4]
    return res


@generated((2, (4, 4, 2, 2), (1, 2, 0, 2)), (2, (0, 1, 2, 1), (1, 0, 0, 2)), funcs=(f0_079,))
def kernel_079():
    for i in x:
        v = z[i] * 0.9
        V3_2 = qd.Vector([x[i % 4], z[at[i]], v])
        V3_2 -= qd.exp(-V3_2 * V3_2)
        V3_2[0] *= v
        w3 = 0
        while True:
            w3 += 1
            if w3 > i:
                break
            v = qd.exp(-qd.cos(z[i]) * qd.cos(z[i]))
        s0[i] += -V3_2[i % 3]
    e4 = 0.113
    for i in x:
        e4 += min(0.829 % (1.1 + x[i] * x[i]), qd.tanh(s0[3 - i]) + 0.017)
    y[None] += 0.1 * e4 * e4
    for i, j in A:
        v = z[i] * 0.9
        v = i * 0.1


@generated((0, (3, 1, 0, 3), (0, 2, 1, 3)), (2, (3, 1, 4, 3), (3, 3, 1, 3)))
def kernel_080():
    g = qd.tanh(z[2] * 0.7 - z[1] * 0.4)
    w1 = 0
    while w1 < n[None]:
        w1 += 1
        g = -(g * 0.257 * 0.6)
    e2 = -0.713
    for i in x:
        e2 += -0.331
    y[None] += 0.1 * e2 * e2
    for i, j in A:
        v = z[i] * 0.9
        V3_3 = -qd.Vector([g, x[j % 4], z[3 - i]])
        V3_3[1] = z[0] ** 2 * 0.4 % (1.1 + v * v)
        y[None] += qd.sin(v)
    for i in range(4):
        v = z[i] * 0.9
        for u4 in qd.static(range(2)):
            v -= qd.sqrt(v * v + 0.3) * 0.8 / (1.0 + r0[3 - i] % (1.1 + v * v) * (r0[3 - i] % (1.1 + v * v)))
            k5 = max(i + 1, 0)
        V2_6 = max(qd.Vector([e2, v]), (qd.Vector([-0.6, 0.3]) + qd.Vector([-0.6, -0.6])) * 0.5 - 0.013)
        v = abs(qd.tanh(A[2, 0]))
    for I in qd.grouped(x):
        v = 0.3
        v7 = qd.select(r1[I.x % 4] > 0.113 or v < g + 0.011, qd.sqrt(g * g + 0.3) * 0.8, qd.tanh(e2))
        y[None] += v7
        v8 = g
        s2[I] += qd.sin(v)


@generated((2, (3, 0, 3, 1), (2, 2, 2, 0)), (3, (0, 3, 4, 0), (1, 0, 1, 1)))
def kernel_082():
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        V2_1 = qd.Vector([z[at[I.x]], v])
        v += 0.2 * qd.exp(-qd.select(not I.x < I.x, v, v) * qd.select(not I.x < I.x, v, v))
        y[None] += v
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        V3_2 = (qd.Vector([0.9, -0.6, 0.9]) + qd.Vector([0.257, v, c[None]])) * 0.5
        v -= A[at[I.y], at[I.y]]
        v += 0.2 * (v * (v * 0.7 - v * 0.4) * 0.6)
        for j3 in range(min(I[0], 3)):
            k4 = 2
        v *= v
        V3_2[I[0] % 3] -= qd.sqrt(V3_2[I[0] % 3] * V3_2[I[0] % 3] + 0.3) * 0.8
        y[None] += qd.sin(v)
    for i, j in A:
        v = x[i]
        qd.atomic_sub(W2[j % 4], P[0])
        V3_5 = W0[j].zyx.yzx
        y[None] += v


def f0_083(V3_a0):
    res = ((V3_a0 + V3_a0) * 0.5).dot(qd.sin(V3_a0)) * 0.2
    V3_1 = qd.Vector([-0.6, 0.9, 0.3]) / (1.0 + V3_a0 * V3_a0)
    X_2 = qd.Matrix([[res, V3_a0[2]], [res, V3_a0[2]]])
    k3 = max(1, 0)
    return res


def f1_083(a0, V2_a1):
    res = V2_a1[1]
    V4_4 = qd.sin(qd.sin(qd.Vector([a0, -0.331, V2_a1[0], res])))
    return V2_a1[0]


@generated((4, (1, 3, 0, 1), (1, 3, 1, 3)), (3, (2, 0, 2, 2), (2, 1, 1, 0)), funcs=(f0_083, f1_083,))
def kernel_083():
    g = min(qd.log(0.113 * 0.113 + 0.5), qd.sqrt(z[1] * z[1] + 0.3) * 0.8 + 0.017)
    for i in range(n[None]):
        v = z[i] * 0.9
        V3_5 = -P[3 - i]
        V3_5 += 0.2 * V3_5
        s0[i] += v
    for i in P:
        v = x[i]
        w6 = 0
        while True:
            w6 += 1
            if w6 > 4 or i % 2 == 0:
                break
            v *= abs(g)
            if w6 % 2 == 0 and c[None] > 0.113:
                v7 = qd.sin(g) / (1.0 + qd.log(c[None] * c[None] + 0.5) * qd.log(c[None] * c[None] + 0.5))
                y[None] += v
        v8 = 0.257 % (1.1 + v * v) * 0.7 - (v + v) * 0.5 * 0.4
        s1[i] += qd.sin(v)
