"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_206(a0, a1):
    V4_res = max(qd.Vector([a0, a1, a1, a0]), qd.Vector([a0, a1, 0.517, a1]) - 0.013).yxwz
    V4_res -= qd.Vector([a0, a1, c[None], x[3]])
    return qd.Vector([x[1], a1, V4_res[0], a0]) * V4_res * 0.6


def f1_206(V2_a0, a1):
    V2_res = qd.exp(-V2_a0.yx * V2_a0.yx)
    for j1 in range(1, 1):
        v2 = j1 * 0.1
        v2 = -0.331 * 0.7 - a1 * 0.4
        if not (j1 + 2) % 3 != 1:
            v2 = j1 * 0.1 / (1.0 + qd.log(v2 * v2 + 0.5) * qd.log(v2 * v2 + 0.5))
            continue
        v2 -= (a1 * 0.7 - a1 * 0.4) * qd.atan2(c[None], 1.6 + v2 * v2) * 0.6
    return V2_res + 0.2 * (V2_a0 * 0.7 - V2_a0 * 0.4)


@generated((4, (3, 4, 2, 2), (3, 1, 0, 1)), (4, (3, 0, 4, 4), (1, 2, 3, 1)), funcs=(f0_206, f1_206,))
def kernel_206():
    e3 = 0.829
    for i in x:
        e3 += x[at[i]]
    y[None] += 0.1 * e3 * e3
    for i in x:
        v = z[i] * 0.9
        for j4 in range((i * 2 + 1) // 2):
            if -0.6 < 0.829 <= 0.4:
                break
            k5 = max(2, 0)
            for j6 in range(n[None]):
                qd.atomic_add(q0[at[i], 0], qd.cos(0.517 / (1.0 + e3 * e3)))
                if v > 0.113:
                    break
            V3_7 = qd.sin(qd.Vector([A[3 - i, 2], z[3 - i], e3])) * (e3 % (1.1 + v * v)) * 0.7


def f0_207(V3_a0):
    V4_res = min(qd.Vector([V3_a0[1], V3_a0[0], V3_a0[2], V3_a0[1]]) * -0.713 * 0.7, qd.sin(V3_a0[2]))
    if 0.257 < V4_res[0] + 0.011:
        y[None] += V3_a0[1]
        k1 = max(3, 0)
        v2 = qd.select(0.829 > 0.517, (V4_res[k1 % 4] * V4_res[k1 % 4] + 0.2) ** 0.257 * 0.3, c[None] ** 2 * 0.4)
    elif 0.829 < V4_res[3] + 0.011 and -0.713 > 0.113:
        w3 = 0
        while w3 < 4 and -0.6 < V4_res[3] <= 0.4:
            w3 += 1
            pass
    return V4_res


@generated((0, (0, 3, 3, 4), (3, 0, 2, 2)), (3, (3, 2, 1, 4), (1, 0, 0, 0)), funcs=(f0_207,))
def kernel_207():
    V3_g = max(qd.sin(P[2]), -P[3] - 0.013)
    for I in qd.grouped(x):
        v = x[I.x]
        v = I.x * 0.1
        if v > 0.829:
            qd.atomic_sub(W0[I.x % 4], V3_g if z[I.x % 4] > 0.113 else V3_g)
        v = qd.tanh(v)
        y[None] += A[I.x % 4, (I.x + 2) % 4]


@generated((1, (2, 4, 3, 1), (1, 1, 2, 3)), (4, (4, 2, 4, 3), (2, 2, 0, 3)))
def kernel_208():
    for i in x:
        v = 0.3
        V4_1 = -qd.Vector([0.829, v, v, v])
        qd.atomic_sub(r0[at[i]], v)
        w2 = 0
        while True:
            w2 += 1
            if w2 > m[at[i]] or v > -0.331:
                break
            V4_1 += 0.2 * V4_1.wzyx
            V4_1[i % 4] -= -(i * 0.1)
            v -= qd.max(abs(v), w2 * 0.1 - 0.013)
            if -0.6 < v <= 0.4 or (w2 + w2) % 3 != 1:
                V4_1[i] = qd.sqrt(z[i % 4] * v * 0.6 * (z[i % 4] * v * 0.6) + 0.3) * 0.8
        r0[i] += V4_1[i % 4]
        for j3 in range((i * 2 + 1) // 2):
            V2_4 = -min(qd.Vector([v, v]), z[(i + 1) % 4])
        v = qd.exp(-v * v) ** 2 * 0.4
        qd.atomic_sub(r0[3 - i], qd.log(i * 0.1 * (i * 0.1) + 0.5))
        s0[i] += i * 0.1
    for i in P:
        v = 0.3
        V2_5 = -qd.Vector([-0.6, -0.6])
        v += 0.2 * (-v * 0.7 - x[i % 4] * -0.713 * 0.6 * 0.4)
        k6 = 0
        w7 = 0
        while w7 < 3:
            w7 += 1
            k8 = 1
            v = (B[3].determinant() * 0.3) ** 2 * 0.4
        y[None] += V2_5.sum()


@generated((3, (3, 2, 0, 4), (0, 1, 2, 3)), (0, (0, 1, 1, 1), (0, 0, 3, 3)))
def kernel_209():
    for i, j in qd.ndrange(4, n[None]):
        v = x[i]
        V2_1 = qd.Vector([0.9, 0.3]).xy * min(0.829, z[i] + 0.017) * 0.7
        for j2 in range(1, j % 4):
            k3 = 1
            v = qd.sin(v) / (1.0 + (-0.713 + v) * 0.5 * ((-0.713 + v) * 0.5))
            y[None] += i * 0.1
        v -= qd.atan2(v, 1.6 + v * v) / (1.0 + B[at[j]].determinant() * 0.3 * (B[at[j]].determinant() * 0.3))
        y[None] += v


def f0_210(V2_a0, V2_a1):
    V3_res = qd.Vector([-0.713, V2_a1[0], 0.829])
    v1 = qd.sin(V2_a1[1])
    if -0.6 < v1 <= 0.4:
        return V3_res + 0.3 * c[None]
    return V3_res + 0.2 * ((V3_res + V3_res) * 0.5)


@generated((2, (4, 3, 3, 2), (3, 0, 1, 2)), (0, (2, 1, 4, 3), (1, 2, 0, 1)), funcs=(f0_210,))
def kernel_210():
    for i in x:
        v = x[i]
        V3_2 = P[i % 4] if v > 0.517 or i < 1 else P[(i + 2) % 4]
        o[at[i]] += i
        for j3 in range(2):
            y[None] += (j3 * 0.1) ** 2 * 0.4
            w4 = 0
            while w4 < 3:
                w4 += 1
                for j5 in range(m[j3 % 4]):
                    v = qd.cos(v)
                V3_2[2] *= P[at[i]][i % 3] / (1.0 + qd.max(0.517, z[i] - 0.013) * qd.max(0.517, z[i] - 0.013))
        X_6 = qd.Matrix([[0.517, A[i, (i + 1) % 4]], [v, v]]).transpose()
        k7 = max(min(i, 3), 0)
        V3_2[2] = i * 0.1
        y[None] += qd.max(v, v - 0.013)


@generated((1, (2, 2, 4, 2), (0, 2, 3, 0)), (3, (0, 2, 4, 2), (1, 3, 1, 3)))
def kernel_211():
    for i in range(4):
        v = 0.3
        V4_1 = qd.sin(qd.Vector([v, v, v, v]))
        W0[i] += P[at[i]]
        W0[i].xy += qd.Vector([v, v]) * z[at[i]] * 0.7
        if v < z[(i + 1) % 4] + 0.011:
            for u2 in qd.static(range(3)):
                k3 = 0
        v = P[at[i]][2]
        s0[i] += qd.sin(v)
    y[None] += 0.1 * c[None]


@generated((3, (2, 4, 0, 1), (0, 0, 2, 3)), (2, (2, 4, 4, 4), (1, 1, 0, 0)))
def kernel_212():
    g = qd.exp(--0.829 * -0.829)
    V3_1 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_1 += max(qd.Vector([g, g, g]), P[3] - 0.013)
    y[None] += 0.1 * V3_1.dot(V3_1)
    for i in P:
        v = A[i, i]
        V2_2 = qd.Vector([0.3, -0.6])
        s0[i] = (P[3 - i][i % 3] * P[3 - i][i % 3] + 0.2) ** A[i, 2] * 0.3
        w3 = 0
        while w3 < 3:
            w3 += 1
            if (w3 + w3) % 3 != 1 and (i + w3) % 3 != 1:
                break
            v4 = qd.tanh(v)
        V3_5 = max(-P[(i + 2) % 4], V3_1.zxy - 0.013)
        y[None] += V2_2.sum()


def f0_213(a0, a1):
    res = -(a1 if a0 > -0.713 else a1)
    for u1 in qd.static(range(2)):
        res = (u1 * 0.1) ** 2 * 0.4
    v2 = 0.517 / (1.0 + a0 * a1 * 0.6 * (a0 * a1 * 0.6))
    return a1 % (1.1 + v2 * v2)


@generated((4, (2, 1, 4, 0), (2, 1, 1, 1)), (2, (0, 3, 1, 0), (0, 1, 1, 3)), funcs=(f0_213,))
def kernel_213():
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        V4_3 = qd.Vector([x[0], v, v, z[at[I.x]]])
        for j4 in range(n[None]):
            V4_3[0] *= qd.select(v < V4_3[1] + 0.011 and -0.331 > 0.257, v, v) ** 2 * 0.4
            V4_3 *= P[I.x].z
            v += 0.2 * v
        s0[I] = qd.cos(qd.atan2(v, 1.6 + v * v))
        if (I.x + 1) % 3 != 1:
            y[None] += -qd.cos(A[I.x, 3 - I.x])
            k5 = 0
        v = v % (1.1 + -v * -v)
    for I in qd.grouped(A):
        v = x[I[0]]
        V2_6 = qd.Vector([-0.6, 0.3])
        qd.atomic_sub(r1[(I[0] + 3) % 4], z[2] if I.y < 1 else qd.sin(v))
        y[None] -= qd.log(z[3 - I[0]] ** 2 * 0.4 * (z[3 - I[0]] ** 2 * 0.4) + 0.5)
        r1[3 - I[0]] += I.y * 0.1
        v7 = v
        v7 = qd.sqrt(qd.log(v * v + 0.5) * qd.log(v * v + 0.5) + 0.3) * 0.8


@generated((4, (2, 0, 1, 2), (2, 2, 2, 0)), (1, (2, 1, 4, 4), (0, 1, 0, 2)))
def kernel_214():
    for i in range(n[None]):
        v = x[i]
        V2_1 = qd.Vector([v, A[2, (i + 2) % 4]])
        w2 = 0
        while w2 < 4 and v > 0.829:
            w2 += 1
            v *= P[i % 4][0]
        for u3 in qd.static(range(3)):
            V2_1[i % 2] -= qd.sin(v / (1.0 + v * v))
        V2_1[0] -= qd.atan2(min(z[i], v + 0.017), 1.6 + 0.113 / (1.0 + v * v) * (0.113 / (1.0 + v * v)))
        s0[i] += V2_1.sum()
    y[None] += 0.1 * c[None]


@generated((1, (3, 4, 1, 3), (2, 1, 0, 3)), (3, (4, 0, 0, 4), (3, 3, 1, 0)))
def kernel_217():
    g = qd.sin(qd.log(z[3] * z[3] + 0.5))
    for i, j in qd.ndrange(4, n[None]):
        v = z[i] * 0.9
        v1 = x[j] * v * v * 0.6 * 0.6
        v1, v = (v, v1)
        w2 = 0
        while w2 < m[at[i]] and j < i:
            w2 += 1
            V2_3 = qd.sin(qd.Vector([x[j], -0.331]))
            if -0.6 < v <= 0.4 and -0.6 < z[(i + 3) % 4] <= 0.4:
                v1 -= qd.exp(-(x[w2 % 4] * v1 * 0.6) * (x[w2 % 4] * v1 * 0.6))
                continue
            v = qd.exp(-A[3 - i, 0] * A[3 - i, 0]) * (g / (1.0 + g * g)) * 0.6
        v1 = qd.sin(qd.sqrt(-0.713 * -0.713 + 0.3) * 0.8)
        r0[3 - i] += qd.exp(-v * v)
        y[None] += qd.cos(0.257)
    for I in qd.grouped(x):
        v = 0.3
        V3_4 = U0[at[I.x]]
        o[I.x] += I.x
        for J5 in qd.static(qd.grouped(qd.ndrange(2, 1))):
            s1[I] = z[I.x]
            k6 = max(n[None] - I.x, 0)
        k7 = 1
