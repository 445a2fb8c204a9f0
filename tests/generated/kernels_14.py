"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((0, (2, 0, 4, 1), (0, 1, 3, 2)), (2, (1, 1, 3, 3), (0, 3, 0, 2)))
def kernel_259():
    V3_1 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_1 += qd.Vector([z[(i + 1) % 4], A[(i + 3) % 4, at[i]], z[i]]) * P[i % 4] * 0.6
    y[None] += 0.1 * V3_1.dot(V3_1)
    for i, j in A:
        v = A[i, i]
        V4_2 = qd.Vector([v, v, z[2], x[3 - i]]) * 0.7 - qd.Vector([z[(i + 3) % 4], 0.113, A[j, at[j]], v]) * 0.4
        if not (i + j) % 3 != 1:
            for j3 in range(m[at[i]]):
                v = qd.sin((v * v + 0.2) ** c[None] * 0.3)
        elif (j + 1) % 3 != 1:
            w4 = 0
            while w4 < m[i]:
                w4 += 1
                p0[i, j] -= (qd.sin(v) * qd.sin(v) + 0.2) ** qd.atan2(V3_1[0], 1.6 + v * v) * 0.3
        else:
            k5 = 1
        V4_2 *= v
        V4_2[i % 4] = v


def f0_261(V2_a0):
    V3_res = qd.Vector([V2_a0[1], V2_a0[1], V2_a0[0]])
    V3_res += 0.2 * qd.exp(-V3_res * V3_res)
    return V3_res + 0.2 * (V3_res / (1.0 + V3_res * V3_res))


def f1_261(V4_a0, V3_a1):
    V2_res = qd.Vector([V4_a0[2], V3_a1[0]])
    w1 = 0
    while True:
        w1 += 1
        if w1 > n[None] or V4_a0[0] < 0.257:
            break
        if not w1 < 1:
            v2 = min(-0.517, qd.log(-0.331 * -0.331 + 0.5) + 0.017)
            break
        k3 = 0
        for j4 in range(min(w1, 3)):
            v5 = -0.713
    return V2_res + 0.2 * qd.Vector([0.9, -0.6])


@generated((2, (2, 2, 1, 1), (3, 0, 3, 1)), (4, (0, 3, 0, 1), (0, 3, 2, 2)), funcs=(f0_261, f1_261,))
def kernel_261():
    for i in range(n[None]):
        v = x[i]
        V3_6 = qd.Vector([v, v, A[at[i], i]]) if v > -0.713 else qd.Vector([v, v, v])
        U0[i][1] = qd.log(x[at[i]] * x[at[i]] + 0.5)
        o[i] += i
        v = qd.log(abs(z[3 - i]) * abs(z[3 - i]) + 0.5)
        k7 = max(m[i], 0)
        U0[i].z *= 0.7
        k7 = (k7 + m[at[i % 4]]) % 5
        y[None] += qd.sin(v)


@generated((3, (3, 3, 4, 3), (1, 3, 0, 2)), (3, (3, 4, 4, 0), (0, 0, 1, 3)))
def kernel_264():
    for i, j in qd.ndrange(4, n[None]):
        v = x[i]
        w1 = 0
        while w1 < 2 and v > 0.113:
            w1 += 1
            v2 = v
            w3 = 0
            while w3 < n[None] - j and (i < j or -0.6 < v2 <= 0.4):
                w3 += 1
                r0[i] += w3 * 0.1 * 0.7 - v * 0.4
                for j4 in range((j * 2 + 1) // 2):
                    V4_5 = qd.Vector([v, v, v2, v2])
                    V4_5[i % 4] = qd.sqrt(x[3 - i] % (1.1 + v * v) * (x[3 - i] % (1.1 + v * v)) + 0.3) * 0.8
    y[None] += 0.1 * c[None]


@generated((1, (4, 3, 4, 3), (0, 0, 3, 0)), (0, (1, 3, 0, 2), (0, 3, 0, 1)))
def kernel_268():
    e1 = 0.829
    for i in x:
        e1 += (x[3 - i] + -0.331) * 0.5 * 0.7 - qd.atan2(x[at[i]], 1.6 + z[i] * z[i]) * 0.4
    y[None] += 0.1 * e1 * e1
    for i in P:
        v = x[i]
        V2_2 = qd.Vector([x[i], v]) * qd.Vector([c[None], 0.829]) * 0.6
        v -= qd.tanh(qd.sin(e1))
        v -= qd.select(i % 2 == 0, e1, v) * qd.atan2(e1, 1.6 + e1 * e1) * 0.6
        y[None] += v
    for i in P:
        v = z[i] * 0.9
        for u3 in qd.static(range(3)):
            w4 = 0
            while w4 < 4 and x[(u3 + 3) % 4] > 0.257:
                w4 += 1
                k5 = max(n[None] - i, 0)
        y[None] += v


def f0_269(a0, a1):
    res = c[None]
    res = -qd.tanh(a1)
    V4_1 = qd.sin(qd.Vector([a1, res, 0.517, -0.713]) if a1 < 0.829 + 0.011 else qd.Vector([res, a1, a0, res]))
    res = abs(-c[None])
    return res


@generated((3, (4, 3, 2, 1), (1, 1, 1, 2)), (3, (0, 4, 2, 2), (0, 0, 1, 2)), funcs=(f0_269,))
def kernel_269():
    for i in range(n[None]):
        v = z[i] * 0.9
        V2_2 = qd.Vector([v, 0.517]) / (1.0 + qd.Vector([x[at[i]], v]) * qd.Vector([x[at[i]], v]))
        k3 = max(i + 1, 0)
        for j4 in range(i):
            v *= 0.257 * c[None] * 0.6 % (1.1 + qd.cos(v) * qd.cos(v))
            v5 = v
            w6 = 0
            while w6 < m[at[i]] and i < j4:
                w6 += 1
                v, v5 = (v5, qd.tanh(v5))
                V2_2[0] = min(k3 * 0.1, k3 * 0.1 + 0.017)
        v = (V2_2 * v * 0.7).dot((qd.Vector([0.517, v]) + V2_2) * 0.5) * 0.2
        for j7 in range(n[None] - 2, m[i % 4]):
            v8 = f0_269(v, v) if i < k3 else f0_269(V2_2[i % 2], v)
            v8 += 0.2 * qd.max(abs(A[k3 % 4, i % 4]), qd.tanh(v) - 0.013)
            for J9 in qd.static(qd.grouped(qd.ndrange(2, 1))):
                w10 = 0
                while w10 < 4 and v8 > -0.713:
                    w10 += 1
                    v8 *= qd.atan2(v8 * v * 0.6, 1.6 + qd.tanh(v8) * qd.tanh(v8))
        qd.atomic_sub(r0[(i + 2) % 4], v)
        y[None] += min(z[(k3 + 2) % 4], A[(i + 2) % 4, at[i]] + 0.017)


def f0_271(V3_a0):
    res = -0.331
    w1 = 0
    while w1 < 3 and c[None] < 0.113:
        w1 += 1
        V4_2 = (qd.Vector([res, res, res, 0.257]) + 0.3 * res).wzyx
    res -= res
    if res < c[None] + 0.011:
        return res
    return res


@generated((0, (4, 3, 4, 4), (1, 3, 2, 3)), (4, (4, 4, 2, 2), (0, 0, 0, 2)), funcs=(f0_271,))
def kernel_271():
    for i in range(4):
        v = 0.3
        V2_3 = qd.Vector([v, v]) + 0.3 * -0.331
        if i % 2 == 0:
            qd.atomic_add(q0[3 - i, i], min(i * 0.1, z[i % 4] + 0.017))
            if (i + 1) % 3 != 1 and i < i:
                qd.atomic_sub(r0[at[i]], abs(qd.sqrt(v * v + 0.3) * 0.8))
                V2_3[0] *= qd.sqrt(v * v + 0.3) * 0.8
                v4 = qd.sin(v)
        elif -0.6 < v <= 0.4 or i % 2 == 0:
            for j5 in range(min(i, 3)):
                o[(j5 + 3) % 4] += j5
            U0[i].z *= 0.7
        V2_3[1] = qd.sqrt(v * v + 0.3) * 0.8 * abs(v) * 0.6
        V2_3[i % 2] *= qd.atan2(v, 1.6 + qd.exp(-v * v) * qd.exp(-v * v))
        V2_3[0] += v
        k6 = max(n[None] - i, 0)
        v += 0.2 * -(v ** 2 * 0.4)
        y[None] += V2_3.sum()


@generated((3, (4, 1, 2, 4), (0, 1, 2, 1)), (3, (0, 0, 2, 0), (0, 1, 3, 1)))
def kernel_272():
    for i in range(4):
        v = A[i, i]
        V2_1 = max(qd.Vector([0.9, -0.6]), qd.Vector([-0.6, 0.3]) - 0.013)
        v2 = qd.cos(0.257) * 0.7 - qd.log(v * v + 0.5) * 0.4
    for i, j in A:
        v = 0.3
        p1[i, j] = qd.sqrt(v % (1.1 + x[i] * x[i]) * (v % (1.1 + x[i] * x[i])) + 0.3) * 0.8
        for j3 in range(j):
            V3_4 = (W0[(i + 2) % 4] * 0.7 - U0[3 - i] * 0.4) * qd.sin(W0[at[j]]) * 0.6
            w5 = 0
            while True:
                w5 += 1
                if w5 > 3 or j3 < i:
                    break
                qd.atomic_sub(r1[j], i * 0.1 * 0.7 - v * 0.4)
                v += 0.2 * qd.atan2((v + v) * 0.5, 1.6 + qd.sqrt(v * v + 0.3) * 0.8 * (qd.sqrt(v * v + 0.3) * 0.8))
        W1[1].xy += qd.Vector([c[None], v]) * qd.Vector([v, z[at[j]]]) * 0.6
        y[None] += v


def f0_273(a0, V2_a1):
    V2_res = qd.Vector([a0, a0]) / (1.0 + V2_a1 * V2_a1) * V2_a1 * 0.6
    y[None] += V2_a1[0]
    y[None] += qd.log((c[None] * c[None] + 0.2) ** 0.257 * 0.3 * ((c[None] * c[None] + 0.2) ** 0.257 * 0.3) + 0.5)
    V2_res *= a0 / (1.0 + a0 * a0)
    return V2_res + 0.2 * (qd.Vector([a0, x[1]]) * 0.7 - qd.Vector([a0, a0]) * 0.4)


@generated((4, (0, 2, 0, 3), (3, 3, 1, 3)), (4, (1, 0, 1, 0), (2, 3, 2, 3)), funcs=(f0_273,))
def kernel_273():
    h = n[None] + 1
    for i in range(n[None]):
        v = x[i]
        o[h % 4] += i
        k1 = max(m[i % 4], 0)
        w2 = 0
        while w2 < (k1 + n[None]) % 4 and v < -0.331:
            w2 += 1
            V3_3 = P[i]
            V3_3 *= x[w2 % 4]
        y[None] += v


def f0_274(V3_a0):
    res = V3_a0[2]
    res -= abs(res)
    v1 = min(V3_a0[2], 0.829 + 0.017) * qd.tanh(c[None]) * 0.6
    v2 = -0.713
    return v2


@generated((1, (4, 1, 1, 1), (3, 2, 3, 1)), (4, (2, 3, 2, 3), (0, 3, 0, 3)), funcs=(f0_274,))
def kernel_274():
    for i, j in A:
        v = 0.3
        V3_3 = max(P[3], P[3 - i] - 0.013)
        for j4 in range(1):
            w5 = 0
            while w5 < m[at[j % 4]] and V3_3[i % 3] < v + 0.011:
                w5 += 1
                X_6 = B[(j + 2) % 4] * v * 0.6 * 0.7 - B[i % 4] * 0.4
                v -= qd.sin((V3_3[j4 % 3] + x[3]) * 0.5)
                if (j4 + j4) % 3 != 1:
                    continue
            v = qd.log(qd.sqrt(v * v + 0.3) * 0.8 * (qd.sqrt(v * v + 0.3) * 0.8) + 0.5)
            w7 = 0
            while w7 < 3 and v < 0.829:
                w7 += 1
                v = min(x[0], v + 0.017) ** 2 * 0.4
        V3_3 -= V3_3.yzx
        k8 = max(n[None], 0)
        y[None] += V3_3[2]


@generated((3, (3, 2, 4, 2), (2, 0, 0, 2)), (1, (1, 1, 2, 1), (3, 2, 0, 2)))
def kernel_276():
    h = n[None] + 1
    for i in P:
        v = 0.3
        k1 = max(3, 0)
        qd.atomic_sub(r0[3 - i], qd.sqrt(qd.max(v, v - 0.013) * qd.max(v, v - 0.013) + 0.3) * 0.8)
        v -= v
        r0[i % 4] += qd.select(-0.713 < v + 0.011, qd.sin(0.517), qd.sin(c[None]))
        s0[i] = (A[k1 % 4, at[i]] if v < v + 0.011 else v) * 0.7 - qd.max(v, c[None] - 0.013) * 0.4
        qd.atomic_add(q0[(k1 + 2) % 4, 2], qd.cos(v) / (1.0 + abs(v) * abs(v)))
        y[None] += qd.cos(v)
    for i in P:
        v = A[i, i]
        for j2 in range(i + 1):
            V2_3 = qd.Vector([v, v]) if -0.331 > -0.713 and j2 % 2 == 0 else qd.Vector([0.257, z[3]]) * 0.829 * 0.7
        y[None] += qd.sin(v)
