"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_000(V4_a0, V3_a1):
    V2_res = min(-qd.Vector([V4_a0[0], V4_a0[0]]), qd.max(V3_a1[1], V3_a1[1] - 0.013))
    v1 = V2_res[1]
    v1 -= v1 / (1.0 + qd.tanh(V3_a1[2]) * qd.tanh(V3_a1[2]))
    v2 = V4_a0[3] * 0.7 - qd.select(V3_a1[1] > -0.713, v1, v1) * 0.4
    return V2_res


@generated((4, (4, 1, 0, 1), (1, 0, 3, 2)), (3, (4, 0, 2, 1), (3, 0, 2, 0)), funcs=(f0_000,))
def kernel_000():
    g = x[1]
    w3 = 0
    while w3 < 1:
        w3 += 1
        g = g % (1.1 + P[1].yzx.dot(qd.exp(-P[3] * P[3])) * 0.2 * (P[1].yzx.dot(qd.exp(-P[3] * P[3])) * 0.2))
    h = n[None] + 1
    for i in range(n[None]):
        v = A[i, i]
        V2_4 = qd.Vector([z[(i + 3) % 4], g]) * 0.7 - qd.Vector([v, 0.113]) * 0.4
        v5 = g
        for j6 in range(1, m[at[i]]):
            V2_4[i % 2] -= qd.atan2(-0.713, 1.6 + z[2] ** 2 * 0.4 * (z[2] ** 2 * 0.4))
        qd.atomic_add(q0[i, i % 4], (qd.exp(-g * g) * qd.exp(-g * g) + 0.2) ** (-z[i % 4]) * 0.3)
        for j7 in range(m[at[i % 4]]):
            v5 = P[at[i]].x
        V2_4[h % 2] = (i * 0.1 + (v if i % 2 == 0 else v5)) * 0.5
    y[None] += 0.1 * c[None]


@generated((4, (1, 2, 3, 0), (3, 3, 3, 1)), (2, (3, 3, 0, 1), (3, 2, 3, 1)))
def kernel_002():
    h = n[None] + 1
    V3_1 = qd.Vector([0.2, 0.5, -0.3])
    for i in x:
        V3_1 += P[3] + 0.3 * z[3 - i]
    y[None] += 0.1 * V3_1.dot(V3_1)
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        V3_2 = (V3_1 + V3_1) * 0.5
        for j3 in range(n[None] - 2, (I.x * 2 + 1) // 2):
            v *= P[0].y * -v * 0.6
        s0[I] += qd.exp(-z[h % 4] * z[h % 4])


@generated((2, (4, 4, 4, 4), (0, 3, 2, 0)), (2, (2, 1, 2, 0), (2, 1, 0, 2)))
def kernel_003():
    V3_g = qd.exp(--P[2] * -P[2])
    for i in range(n[None]):
        v = z[i] * 0.9
        V3_1 = P[i] if -0.6 < z[i] <= 0.4 else V3_g
        V2_2 = qd.Vector([v, v])
        W0[0].zx += qd.sin(qd.Vector([v, v]))
        if i % 2 == 0 and -0.6 < v <= 0.4:
            if i < 2:
                w3 = 0
                while w3 < m[i]:
                    w3 += 1
                    k4 = max((i * 2 + 1) // 2, 0)
                    V2_2[i % 2] = V3_1[1]
                    y[None] += min(z[1] if not w3 % 2 == 0 else v, V3_1[2] % (1.1 + v * v) + 0.017)
            v5 = c[None]
        else:
            o[at[i]] += i
            o[i % 4] += i
        k6 = max(1, 0)
        y[None] += V3_1.sum()


def f0_004(a0, V2_a1):
    res = V2_a1[0]
    V2_1 = qd.exp(-qd.Vector([0.9, 0.3]) * qd.Vector([0.9, 0.3])) * 0.7 - V2_a1 * 0.4
    return qd.max(a0, res - 0.013)


def f1_004(V2_a0, V2_a1):
    V2_res = (V2_a0 + qd.Vector([0.517, 0.517])) * 0.5 * (0.517 * V2_a0[1] * 0.6) * 0.7
    w2 = 0
    while True:
        w2 += 1
        if w2 > 4 or not x[1] > 0.517:
            break
        V2_res[w2 % 2] = qd.sin(qd.exp(-x[3] * x[3]))
        if x[2] > -0.331 or -0.6 < c[None] <= 0.4:
            continue
        for J3 in qd.static(qd.grouped(qd.ndrange(2, 2))):
            v4 = qd.tanh((x[0] * x[0] + 0.2) ** x[1] * 0.3)
    return V2_res


@generated((4, (4, 3, 3, 3), (1, 1, 0, 2)), (3, (1, 3, 3, 3), (0, 2, 0, 1)), funcs=(f0_004, f1_004,))
def kernel_004():
    for i in x:
        v = 0.3
        v5 = (v + v) * 0.5 * qd.max(x[0], x[(i + 1) % 4] - 0.013) * 0.6
    y[None] += 0.1 * c[None]


@generated((3, (2, 2, 4, 2), (1, 3, 1, 3)), (0, (1, 4, 0, 1), (0, 0, 3, 3)))
def kernel_005():
    for i, j in A:
        v = z[i] * 0.9
        v = z[at[j]]
        V4_1 = qd.Vector([v, v, x[j % 4], v]).wzyx + 0.3 * z[1]
        w2 = 0
        while w2 < 4:
            w2 += 1
            v3 = qd.cos(qd.tanh(v))
            k4 = 2
            r0[(i + 3) % 4] += qd.sin(v / (1.0 + v * v))
        V4_1 *= qd.atan2(v, 1.6 + v * v)
        y[None] -= i * 0.1
        y[None] += qd.sin(v)


@generated((4, (4, 0, 0, 0), (2, 3, 0, 2)), (2, (2, 3, 4, 2), (3, 2, 2, 2)))
def kernel_007():
    for i in x:
        v = 0.3
        w1 = 0
        while True:
            w1 += 1
            if w1 > 2 or not -0.6 < v <= 0.4:
                break
            s0[i] = qd.select(not v > -0.331, qd.cos(v), qd.max(v, v - 0.013))
            for j2 in range(i):
                qd.atomic_sub(r0[0], qd.atan2(v, 1.6 + v * v) if not w1 % 2 == 0 else qd.log(-0.713 * -0.713 + 0.5))
                v *= v
                if (i + w1) % 3 != 1:
                    break
        v *= -0.331 / (1.0 + v * v) % (1.1 + 0.257 % (1.1 + v * v) * (0.257 % (1.1 + v * v)))
        v3 = -0.331 % (1.1 + qd.sin(0.829) * qd.sin(0.829))
        k4 = 2
        V3_5 = qd.Vector([z[(k4 + 1) % 4], z[3 - i], -0.331])
        y[None] += v
    for I in qd.grouped(A):
        v = x[I[0]]
        V3_6 = (W0[I[0] % 4] + P[3 - I[0]]) * 0.5
        qd.atomic_sub(W1[I.y], qd.sin(W0[I[0]]))
        v7 = A[3 - I[0], I[0]]
        y[None] += qd.sin(v)


def f0_010(a0):
    res = qd.cos(a0 ** 2 * 0.4)
    v1 = abs(res if -0.6 < -0.331 <= 0.4 else 0.517)
    return res


@generated((1, (2, 3, 2, 3), (1, 3, 3, 0)), (3, (2, 3, 1, 3), (3, 3, 3, 0)), funcs=(f0_010,))
def kernel_010():
    g = abs(x[1])
    V3_g = min(max(P[0], qd.Vector([g, c[None], A[1, 1]]) - 0.013), z[1])
    e2 = 0.829
    for i in x:
        e2 += 0.257
    y[None] += 0.1 * e2 * e2
    for I in qd.grouped(x):
        v = x[I.x]
        y[None] -= min(qd.atan2(v, 1.6 + z[I.x] * z[I.x]), v + 0.017)
        v3 = abs(min(v, v + 0.017))
        y[None] += (z[1] * z[1] + 0.2) ** v3 * 0.3
    for i in P:
        v = 0.3
        r1[i % 4] += qd.sqrt(min(e2, c[None] + 0.017) * min(e2, c[None] + 0.017) + 0.3) * 0.8
        for j4 in range((i + n[None]) % 4):
            y[None] += v
            V4_5 = qd.exp(-qd.Vector([v, g, e2, e2]) * qd.Vector([v, g, e2, e2])) * qd.max(e2, v - 0.013) * 0.7
            w6 = 0
            while w6 < min(j4, 3) and e2 > 0.829:
                w6 += 1
                y[None] -= (g / (1.0 + e2 * e2) + r0[3] * g * 0.6) * 0.5
                v -= abs(e2 ** 2 * 0.4)
        V4_7 = qd.sin(qd.Vector([g, g, x[3], V3_g[2]])) + 0.3 * g
        y[None] += min(e2, z[i] + 0.017)


def f0_011(V2_a0):
    V2_res = qd.exp(-V2_a0 * V2_a0)
    for J1 in qd.static(qd.grouped(qd.ndrange(2, 1))):
        v2 = x[2] if J1.x < J1[1] else qd.sqrt(x[(J1.x + 1) % 4] * x[(J1.x + 1) % 4] + 0.3) * 0.8
    V2_res[1] *= x[2]
    return min(V2_res, V2_res[1])


@generated((0, (4, 1, 0, 0), (1, 0, 1, 2)), (2, (4, 3, 2, 4), (3, 1, 1, 2)), funcs=(f0_011,))
def kernel_011():
    g = qd.tanh((z[3] * z[3] + 0.2) ** z[3] * 0.3)
    w3 = 0
    while w3 < 1:
        w3 += 1
        g = g % (1.1 + z[0] * z[0])
    for I in qd.grouped(x):
        v = A[I.x, I.x]
        V4_4 = qd.exp(-qd.Vector([v, g, v, v]) * qd.Vector([v, g, v, v]))
        qd.atomic_add(q0[I.x, at[I.x]], A[2, I.x % 4])
        v5 = qd.exp(-qd.cos(v) * qd.cos(v))
        w6 = 0
        while w6 < 2 and -0.713 < 0.517:
            w6 += 1
            V4_7 = qd.Vector([g, 0.257, x[I.x % 4], g]) * ((v * v + 0.2) ** A[3 - I.x, at[I.x]] * 0.3) * 0.7
        qd.atomic_sub(r0[3 - I.x], qd.tanh(P[I.x % 4][I.x % 3]))
    for i, j in qd.ndrange(4, n[None]):
        v = z[i] * 0.9
        V4_8 = qd.sin(qd.Vector([v, c[None], g, v]) * qd.Vector([v, v, g, v]) * 0.6)
        v9 = -(x[3 - i] % (1.1 + g * g))
        V4_8[j % 4] *= (j * 0.1) ** 2 * 0.4
        o[i] += i
        y[None] += qd.sin(v)


def f0_013(V2_a0, a1):
    V3_res = qd.Vector([V2_a0[1], V2_a0[1], a1]).zyx + 0.3 * (a1 * -0.713 * 0.6)
    v1 = qd.sqrt(c[None] * c[None] + 0.3) * 0.8
    v2 = V2_a0[1] * ((v1 * v1 + 0.2) ** (-0.713) * 0.3) * 0.6
    return (V3_res + qd.Vector([a1, V3_res[2], c[None]])) * 0.5


def f1_013(a0):
    V2_res = qd.Vector([a0, a0])
    V2_res[0] += qd.exp(-V2_res[0] * V2_res[0])
    return V2_res + 0.2 * max(V2_res, V2_res - 0.013)


@generated((3, (0, 2, 3, 3), (2, 3, 3, 2)), (0, (2, 1, 2, 3), (2, 1, 0, 1)), funcs=(f0_013, f1_013,))
def kernel_013():
    for i in range(n[None]):
        v = z[i] * 0.9
        for u3 in qd.static(range(2)):
            V3_4 = qd.exp(-P[3 - i].xyz * P[3 - i].xyz)
            V3_4[i % 3] -= qd.select(not i < u3, A[at[i], 0] * x[i] * 0.6, qd.cos(x[(i + 3) % 4]))
        w5 = 0
        while w5 < 4 and i % 2 == 0:
            w5 += 1
            V2_6 = -qd.Vector([x[3 - i], v])
            k7 = max((w5 + n[None]) % 4, 0)
            o[3] += k7
        s0[i] += v
    y[None] += 0.1 * c[None]


def f0_014(V3_a0, V4_a1):
    V4_res = V4_a1
    v1 = min(0.517, V4_res[1] + 0.017)
    return qd.Vector([0.113, v1, V4_a1[0], v1]) / (1.0 + V4_res * V4_res)


def f1_014(V3_a0):
    res = qd.sqrt(qd.exp(-V3_a0[1] * V3_a0[1]) * qd.exp(-V3_a0[1] * V3_a0[1]) + 0.3) * 0.8
    res = -res
    return res


@generated((1, (3, 0, 1, 4), (1, 2, 1, 0)), (0, (3, 1, 3, 2), (1, 1, 1, 1)), funcs=(f0_014, f1_014,))
def kernel_014():
    g = qd.exp(-(x[0] / (1.0 + x[3] * x[3])) * (x[0] / (1.0 + x[3] * x[3])))
    w2 = 0
    while w2 < n[None]:
        w2 += 1
        g = qd.atan2((0.517 + g) * 0.5, 1.6 + (x[3] * 0.7 - c[None] * 0.4) * (x[3] * 0.7 - c[None] * 0.4))
    V3_g = (P[2] + 0.3 * g + qd.exp(-qd.Vector([0.3, 0.9, 0.3]) * qd.Vector([0.3, 0.9, 0.3]))) * 0.5
    for i in P:
        v = A[i, i]
        k3 = 0
        y[None] += v
    for i in range(n[None]):
        v = z[i] * 0.9
        v = i * 0.1
        v += 0.2 * (qd.sin(v) / (1.0 + g ** 2 * 0.4 * (g ** 2 * 0.4)))
        w4 = 0
        while w4 < n[None]:
            w4 += 1
            v -= qd.sin(abs(g))
            V3_5 = (V3_g * qd.Vector([v, x[i], z[3]]) * 0.6).zyx
            v *= qd.sqrt(g * g + 0.3) * 0.8 if v < g + 0.011 else -g
        y[None] += qd.sqrt(0.829 * 0.829 + 0.3) * 0.8
