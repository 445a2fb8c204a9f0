"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


@generated((1, (0, 1, 0, 2), (2, 3, 2, 0)), (4, (0, 3, 1, 3), (3, 1, 0, 3)))
def kernel_017():
    for i in x:
        v = 0.3
        if A[at[i], (i + 1) % 4] > -0.331:
            V4_1 = qd.Vector([v, x[at[i]], v, x[(i + 3) % 4]])
            w2 = 0
            while True:
                w2 += 1
                if w2 > 3:
                    break
                if i < i:
                    break
                if i % 2 == 0:
                    v = i * 0.1
                    if not (w2 + 2) % 3 != 1:
                        y[None] += qd.exp(-z[(i + 3) % 4] * z[(i + 3) % 4])
                    else:
                        v3 = v * 0.7 - c[None] * 0.4 if v > 0.113 else qd.max(v, v - 0.013)
                        v4 = qd.log(qd.tanh(A[3 - i, at[i]]) * qd.tanh(A[3 - i, at[i]]) + 0.5)
                        if x[(w2 + 3) % 4] > -0.713 or w2 % 2 == 0:
                            v5 = P[i % 4].z
                else:
                    qd.atomic_sub(W0[i], P[(w2 + 3) % 4] * v * 0.7)
                    v = min(abs(z[at[i]]), (v + v) * 0.5 + 0.017)
                    V4_1 *= min(A[at[i], 0], v + 0.017)
                k6 = 0
                v = v
        W0[i][1] += -v
        for j7 in range((i * 2 + 1) // 2):
            v = qd.sin(qd.exp(-v * v))
        qd.atomic_sub(W0[i % 4], P[i].zyx)


@generated((4, (2, 1, 2, 2), (1, 0, 0, 0)), (4, (2, 0, 0, 3), (0, 3, 2, 0)))
def kernel_018():
    for i, j in A:
        v = z[i] * 0.9
        V3_1 = (qd.Vector([v, v, A[0, i]]) + P[at[j]]) * 0.5
        for u2 in qd.static(range(3)):
            p0[i, j] = min(min(x[3], v + 0.017), v + 0.017)
        if -0.6 < c[None] <= 0.4:
            v += 0.2 * qd.sin(v)
            qd.atomic_sub(r0[i], min(qd.cos(v), qd.cos(v) + 0.017))
            V3_1[0] = v ** 2 * 0.4
        else:
            qd.atomic_add(q0[3 - i, at[j]], qd.log(V3_1[2] * V3_1[2] + 0.5) ** 2 * 0.4)
        y[None] += V3_1.sum()


def f0_020(V2_a0, V3_a1):
    res = qd.atan2(qd.sin(0.829), 1.6 + 0.257 * 0.257)
    res = V3_a1[0]
    if V2_a0[0] > -0.713:
        if -0.6 < c[None] <= 0.4:
            for j1 in range(n[None], n[None]):
                res = min(res ** 2 * 0.4, res + 0.017)
        elif c[None] > 0.829:
            pass
    else:
        pass
    if -0.6 < V3_a1[2] <= 0.4:
        return V3_a1[0]
    return qd.tanh(0.257)


@generated((4, (1, 3, 4, 4), (3, 1, 1, 1)), (4, (0, 2, 1, 1), (2, 0, 1, 0)), funcs=(f0_020,))
def kernel_020():
    for i in range(n[None]):
        v = z[i] * 0.9
        V2_2 = qd.sin(qd.Vector([v, v]))
        y[None] += v * 0.7 - A[i % 4, i % 4] * 0.4


@generated((4, (4, 0, 4, 1), (0, 1, 0, 2)), (0, (0, 3, 0, 0), (3, 1, 3, 2)))
def kernel_021():
    h = n[None] + 1
    for i, j in qd.ndrange(4, n[None]):
        v = 0.3
        V3_1 = P[3 - i] * z[i] * 0.7
        if v > -0.713:
            V3_2 = min(qd.Vector([V3_1[i % 3], A[(h + 1) % 4, j], A[at[j], i]]), v) * -v * 0.7
            V3_2[2] = qd.log(v * v + 0.5)
            v -= (qd.cos(v) * qd.cos(v) + 0.2) ** qd.max(v, 0.829 - 0.013) * 0.3
        else:
            y[None] += A[3 - i, j]
        w3 = 0
        while w3 < 2:
            w3 += 1
            for j4 in range((w3 + n[None]) % 4):
                v = qd.cos(z[w3 % 4])
    for i in range(4):
        v = A[i, i]
        for j5 in range((i * 2 + 1) // 2):
            V3_6 = U0[3]
            v *= v
        r1[i % 4] += h * 0.1
        v7 = -(v * x[at[i]] * 0.6)
        s1[i] += v


@generated((0, (1, 3, 4, 3), (0, 3, 3, 3)), (3, (1, 4, 1, 2), (3, 1, 2, 0)))
def kernel_022():
    for i in x:
        v = z[i] * 0.9
        V2_1 = qd.sin(qd.Vector([c[None], v]).yx)
        v -= qd.tanh(v) ** 2 * 0.4
        o[(i + 2) % 4] += i
        y[None] += qd.sin(V2_1[i % 2])
        for u2 in qd.static(range(2)):
            qd.atomic_add(q0[at[i], at[i]], qd.log((v * v + 0.2) ** v * 0.3 * ((v * v + 0.2) ** v * 0.3) + 0.5))
            V2_1.xy += V2_1 * v * 0.7
        y[None] += qd.select(not i % 2 == 0, qd.tanh(x[i % 4]), qd.log(v * v + 0.5))
        y[None] += V2_1.sum()


def f0_023(a0, V2_a1):
    res = abs(a0)
    for j1 in range(1):
        v2 = -a0
        w3 = 0
        while w3 < 2 and V2_a1[j1 % 2] > 0.829:
            w3 += 1
            res = qd.tanh(V2_a1[j1 % 2] * c[None] * 0.6)
            if w3 < 1:
                res = V2_a1[0]
                continue
    return res + 0.2 * ((res * res + 0.2) ** res * 0.3)


def f1_023(V3_a0, V3_a1):
    V3_res = V3_a0
    v4 = qd.tanh((0.517 + 0.257) * 0.5)
    return V3_res


@generated((2, (3, 4, 1, 1), (0, 0, 0, 0)), (3, (2, 2, 3, 0), (1, 0, 0, 0)), funcs=(f0_023, f1_023,))
def kernel_023():
    for i in x:
        v = x[i]
        v5 = qd.max(v, v * v * 0.6 - 0.013)
    y[None] += 0.1 * c[None]


@generated((3, (4, 0, 3, 2), (2, 2, 0, 1)), (0, (2, 4, 4, 3), (2, 3, 0, 0)))
def kernel_028():
    for i, j in A:
        v = x[i]
        V3_1 = P[j] * x[3] * 0.7
        if -0.6 < x[j % 4] <= 0.4:
            k2 = max(n[None] - i, 0)
            if not (k2 + 2) % 3 != 1:
                for j3 in range(m[at[i % 4]]):
                    k4 = 2
                    p0[i, j] = v
        elif v > -0.713:
            v5 = P[(j + 2) % 4].z
            W0[j] += V3_1 * 0.7 - V3_1 * 0.4
        for j6 in range(i % 4):
            v = A[at[j], at[j]]
            for j7 in range(j):
                V3_1[i % 3] = (V3_1[2] * V3_1[2] + 0.2) ** qd.select(x[i % 4] > 0.113, z[1], v) * 0.3
                for j8 in range(2):
                    k9 = max(m[j7 % 4], 0)
                    qd.atomic_sub(r0[(j8 + 1) % 4], k9 * 0.1)
            v = qd.select(-0.6 < v <= 0.4, v, v) ** 2 * 0.4
        V3_1[i % 3] += qd.tanh(qd.max(A[at[j], 3 - i], A[at[j], 0] - 0.013))
        k10 = 0
        y[None] += v


def f0_030(a0, V3_a1):
    V3_res = qd.exp(-V3_a1 * V3_a1)
    for j1 in range(n[None]):
        for j2 in range(n[None] - 2, m[j1 % 4]):
            k3 = 0
            v4 = a0
        if c[None] < a0 + 0.011:
            continue
    return V3_res


def f1_030(a0):
    V3_res = qd.Vector([a0, a0, a0])
    v5 = V3_res[0]
    V3_res[2] *= qd.cos(qd.log(A[1, 0] * A[1, 0] + 0.5))
    v5 *= -(0.257 if v5 < v5 + 0.011 else v5)
    if V3_res[2] < v5 + 0.011 and v5 > -0.331:
        return V3_res if -0.6 < V3_res[2] <= 0.4 or x[0] < v5 + 0.011 else V3_res
    return V3_res + 0.2 * (V3_res / (1.0 + qd.Vector([x[3], v5, x[0]]) * qd.Vector([x[3], v5, x[0]])))


@generated((3, (2, 4, 0, 3), (2, 2, 1, 1)), (3, (4, 2, 3, 0), (0, 1, 1, 0)), funcs=(f0_030, f1_030,))
def kernel_030():
    for i in range(4):
        v = 0.3
        V2_6 = qd.Vector([v, 0.257]) * x[2] * 0.7
        v = qd.cos(i * 0.1)
        s0[i] = qd.sqrt(qd.cos(v) * qd.cos(v) + 0.3) * 0.8
        y[None] += min(V2_6[1], x[i % 4] + 0.017)


@generated((0, (1, 3, 4, 4), (2, 2, 1, 3)), (1, (2, 3, 2, 2), (3, 0, 0, 1)))
def kernel_032():
    for i in P:
        v = x[i]
        V4_1 = qd.Vector([0.9, -0.6, 0.9, 0.3]) * qd.Vector([x[3 - i], v, v, v]) * 0.6
        s0[i] = abs(qd.sin(v))
        y[None] += V4_1.sum()
    for i, j in A:
        v = 0.3
        if i < 2 and c[None] > 0.113:
            V2_2 = min(min(qd.Vector([0.9, 0.3]), v), qd.sin(qd.Vector([v, v])).sum() * 0.3)
        for j3 in range(n[None] - 2, m[i]):
            qd.atomic_add(q1[at[j], i % 4], (z[j % 4] + (0.517 + v) * 0.5) * 0.5)
            k4 = max(2, 0)
        if v > -0.713:
            v += 0.2 * (j * 0.1)
        v -= U0[3 - i][i % 3]
        V3_5 = W0[(j + 2) % 4]
        for j6 in range(3):
            p1[i, j] -= qd.tanh(c[None])
        y[None] += V3_5.sum()


def f0_035(V4_a0):
    V2_res = qd.Vector([-0.713, 0.517])
    k1 = max(n[None], 0)
    return min(V2_res, V2_res[0])


def f1_035(a0):
    res = a0 % (1.1 + a0 * a0)
    if res < 0.517 + 0.011:
        V2_2 = (max(qd.Vector([-0.331, 0.517]), qd.Vector([c[None], res]) - 0.013) + qd.Vector([a0, -0.331])) * 0.5
        if V2_2[1] > 0.829:
            if res > -0.713:
                if a0 > 0.517:
                    pass
                else:
                    pass
            else:
                pass
        else:
            pass
    else:
        pass
    return res


@generated((2, (1, 3, 1, 0), (2, 1, 2, 1)), (2, (0, 1, 2, 1), (1, 1, 2, 0)), funcs=(f0_035, f1_035,))
def kernel_035():
    g = qd.exp(-P[0] * P[0]).sum() * 0.3
    h = n[None] + 1
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        for j3 in range(2):
            k4 = max(I.x, 0)
    y[None] += 0.1 * c[None]
