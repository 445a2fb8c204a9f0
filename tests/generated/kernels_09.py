"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_162(a0, a1):
    V3_res = qd.Vector([a1, a1, a0])
    v1 = qd.sin(a0)
    if V3_res[2] > 0.517:
        return qd.Vector([V3_res[1], V3_res[2], a1]) / (1.0 + V3_res * V3_res)
    return V3_res + 0.3 * 0.113


@generated((4, (3, 0, 3, 3), (0, 0, 0, 1)), (4, (1, 4, 3, 3), (0, 0, 0, 0)), funcs=(f0_162,))
def kernel_162():
    g = z[3]
    for i in x:
        v = A[i, i]
        V4_2 = qd.Vector([0.3, -0.6, -0.6, 0.9]) / (1.0 + qd.Vector([0.113, v, v, g]) * qd.Vector([0.113, v, v, g]))
        w3 = 0
        while w3 < i % 4 and (A[(i + 1) % 4, i] < c[None] + 0.011 and v > 0.829):
            w3 += 1
            for J4 in qd.static(qd.grouped(qd.ndrange(2, 1))):
                for j5 in range(i, m[at[i]]):
                    v = g
                    v = qd.sin(v) % (1.1 + abs(g) * abs(g))
                    V4_2[j5 % 4] -= -(j5 * 0.1)
                    V4_6 = ((V4_2 + qd.Vector([g, v, g, g])) * 0.5).xyzw
            V3_7 = qd.Vector([g, v, g])
            v8 = qd.max((v + v) * 0.5, (v + g) * 0.5 - 0.013)
        k9 = 1
        v10 = qd.atan2(qd.max(v, g - 0.013), 1.6 + (v + g) * 0.5 * ((v + g) * 0.5))
        v11 = v / (1.0 + v * v) if z[3] > 0.257 else (v10 + g) * 0.5
        v12 = qd.sin((x[0] + v) * 0.5)
    y[None] += 0.1 * c[None]


def f0_163(a0):
    res = 0.829
    res = min((a0 + res) * 0.5, (a0 if 0.517 > -0.331 else -0.713) + 0.017)
    if res > 0.113:
        return res
    return res


@generated((3, (1, 0, 0, 1), (1, 1, 1, 2)), (1, (4, 3, 2, 1), (0, 0, 2, 2)), funcs=(f0_163,))
def kernel_163():
    for i, j in qd.ndrange(4, n[None]):
        v = z[i] * 0.9
        for j1 in range(m[i]):
            for j2 in range(n[None] - 2, m[i]):
                k3 = 2
                for j4 in range(m[k3 % 4]):
                    p0[i, j] -= qd.atan2(qd.tanh(v), 1.6 + v * v)
                p0[i, j] = x[at[j]]
                v = qd.log(qd.select(v > 0.829, v, c[None]) * qd.select(v > 0.829, v, c[None]) + 0.5)
            if v > 0.829:
                k5 = 0
                v = qd.select(v < v + 0.011, qd.sqrt(-0.331 * -0.331 + 0.3) * 0.8, min(v, v + 0.017))
                v6 = -(v / (1.0 + v * v))
            else:
                p0[i, j] = qd.sqrt(j1 * 0.1 * (j1 * 0.1) + 0.3) * 0.8
            v = qd.sin(-z[j])
        y[None] += v


@generated((4, (0, 0, 2, 0), (2, 1, 2, 3)), (3, (3, 4, 2, 3), (0, 2, 2, 0)))
def kernel_167():
    for i in range(n[None]):
        v = x[i]
        w1 = 0
        while True:
            w1 += 1
            if w1 > 3 or v > -0.331:
                break
            v2 = qd.sin(i * 0.1)
            v += 0.2 * (qd.select((i + i) % 3 != 1 and w1 < 1, v, v2) ** 2 * 0.4)
    for i in P:
        v = x[i]
        V2_3 = qd.Vector([-0.6, -0.6]) / (1.0 + qd.Vector([0.3, -0.6]) * qd.Vector([0.3, -0.6]))
        qd.atomic_sub(r1[(i + 3) % 4], qd.sin(qd.sin(V2_3[1])))
        W1[(i + 2) % 4][i % 3] += qd.select(v > -0.331, v, v)
        y[None] += v ** 2 * 0.4


@generated((4, (0, 3, 0, 0), (1, 0, 2, 3)), (2, (0, 1, 4, 1), (2, 2, 3, 2)))
def kernel_168():
    h = n[None] + 1
    for i in range(4):
        v = A[i, i]
        V4_1 = qd.exp(-qd.Vector([v, v, v, v]) * qd.Vector([v, v, v, v]))
        if not v > 0.113:
            for j2 in range(m[at[i]]):
                for j3 in range(m[at[i % 4]]):
                    v = qd.tanh(V4_1[h % 4])
                    v = qd.sin(v)
                    v = v
                    if h % 2 == 0:
                        break
                v = V4_1[2]
                v -= qd.exp(--x[at[i]] * -x[at[i]])
        else:
            v = -qd.cos(v)
        V4_1[0] = qd.exp(-v * v)
        qd.atomic_sub(r0[3], h * 0.1)
        s0[i] += qd.sin(v)
    y[None] += 0.1 * c[None]


def f0_169(V3_a0):
    V4_res = qd.Vector([0.9, 0.3, 0.9, -0.6])
    v1 = V3_a0[2]
    return V4_res


def f1_169(V2_a0, V4_a1):
    V3_res = qd.Vector([0.517, -0.331, V4_a1[0]])
    v2 = qd.sin(x[0])
    v3 = abs(x[0])
    return V3_res + 0.2 * (qd.Vector([-0.6, 0.3, 0.3]) if -0.713 < v3 + 0.011 else qd.Vector([v3, v3, x[3]]))


@generated((1, (3, 1, 3, 4), (0, 0, 1, 2)), (2, (4, 0, 0, 3), (0, 3, 1, 2)), funcs=(f0_169, f1_169,))
def kernel_169():
    V3_g = qd.Vector([0.3, 0.3, 0.9]).xyz * (qd.Vector([z[3], x[3], -0.331]) * x[1] * 0.7) * 0.6
    for I in qd.grouped(A):
        v = z[I[0]] * 0.9
        V2_4 = qd.Vector([0.3, 0.9]) * 0.7 - qd.Vector([A[(I.y + 3) % 4, I.y], V3_g[I.y % 3]]) * 0.4
        for u5 in qd.static(range(3)):
            v *= I.y * 0.1
            v = I.y * 0.1
        r0[at[I.y]] += v
    y[None] += 0.1 * c[None]


def f0_171(V4_a0):
    res = c[None]
    res *= qd.sqrt(c[None] ** 2 * 0.4 * (c[None] ** 2 * 0.4) + 0.3) * 0.8
    res += 0.2 * ((0.829 * 0.829 + 0.2) ** (-0.331) * 0.3)
    return res


@generated((3, (3, 4, 0, 2), (3, 3, 3, 1)), (4, (0, 0, 3, 3), (0, 1, 2, 2)), funcs=(f0_171,))
def kernel_171():
    V3_g = qd.Vector([x[1], 0.829, x[3]])
    for i in P:
        v = 0.3
        V4_1 = qd.Vector([v, v, v, v])
        V4_1 += 0.2 * qd.Vector([v, v, v, v])
        V4_1[0] = v / (1.0 + qd.tanh(v) * qd.tanh(v))
        if not v > 0.517:
            k2 = 0
            v = x[i] / (1.0 + v * v) if v > -0.331 else min(v, V4_1[2] + 0.017)
        w3 = 0
        while w3 < 4 and (not x[at[i]] > 0.113):
            w3 += 1
            qd.atomic_add(q0[at[i], w3 % 4], V3_g[2])
            v -= f0_171(V4_1) % (1.1 + min(v, v + 0.017) * min(v, v + 0.017))
            V4_1[2] += qd.atan2(v, 1.6 + (v + x[1]) * 0.5 * ((v + x[1]) * 0.5))
            v4 = qd.cos(v * 0.7 - v * 0.4)
    for i in range(n[None]):
        v = z[i] * 0.9
        r1[(i + 1) % 4] += (i * 0.1 * (i * 0.1) + 0.2) ** v * 0.3
        s1[i] += qd.sin(v)
    for I in qd.grouped(x):
        v = 0.3
        k5 = max((I.x + n[None]) % 4, 0)
        y[None] += v


@generated((1, (3, 4, 1, 4), (3, 2, 1, 2)), (4, (2, 1, 3, 2), (2, 3, 3, 0)))
def kernel_174():
    g = x[2]
    for I in qd.grouped(A):
        v = A[I[0], I[0]]
        V4_1 = qd.Vector([v, v, v, v])
        w2 = 0
        while True:
            w2 += 1
            if w2 > n[None]:
                break
            V4_1 *= V4_1[I[0] % 4]
            v -= qd.select(-0.6 < x[at[I.y]] <= 0.4, abs(c[None]), v)
            v = qd.sin(qd.select(A[I.y % 4, I.y % 4] < g + 0.011, V4_1[0], z[I.y]))
            V4_1[I[0] % 4] -= qd.sqrt(g * g + 0.3) * 0.8
        for J3 in qd.grouped(qd.ndrange(2, min(I[0], 3))):
            v4 = P[at[I.y]].y
        V4_1[I[0]] = qd.select(I.y < I[0], abs(z[3 - I[0]]), g * g * 0.6)
        o[I.y % 4] += I.y
        qd.atomic_add(q0[at[I.y], 1], I.y * 0.1)
        y[None] += V4_1.sum()


@generated((3, (0, 1, 0, 4), (1, 0, 1, 1)), (2, (2, 0, 1, 3), (1, 1, 3, 1)))
def kernel_175():
    for i, j in A:
        v = x[i]
        V4_1 = qd.Vector([v, z[i], -0.331, x[i % 4]]) * 0.7 - qd.Vector([0.9, -0.6, 0.9, 0.9]) * 0.4
        v2 = z[j % 4]
        qd.atomic_add(q0[i, (j + 1) % 4], qd.sin(qd.Vector([v2, x[j % 4], x[j]])).sum() * 0.3)
        r0[at[j]] += P[j % 4][j % 3]
        v3 = v
        y[None] -= 0.829
        V4_1[i] -= v
        y[None] += V4_1.sum()
    for i in P:
        v = 0.3
        v = z[0] * qd.sin(r0[1]) * 0.6
        for u4 in qd.static(range(2)):
            v *= x[u4 % 4]
        k5 = 1
        V4_6 = qd.Vector([c[None], v, v, v])
        y[None] += v


@generated((0, (0, 2, 0, 4), (1, 1, 0, 2)), (2, (2, 1, 2, 0), (2, 2, 0, 2)))
def kernel_178():
    for i in P:
        v = A[i, i]
        V3_1 = P[i] if x[3 - i] > 0.829 else qd.Vector([0.3, 0.3, 0.9])
        U0[i].z *= 0.7
        s0[i] = qd.atan2(v / (1.0 + v * v), 1.6 + qd.cos(A[(i + 2) % 4, 0]) * qd.cos(A[(i + 2) % 4, 0]))
        w2 = 0
        while w2 < (i * 2 + 1) // 2 and i % 2 == 0:
            w2 += 1
            V3_1[2] -= min(V3_1[w2 % 3], c[None] + 0.017)
            r0[(w2 + 3) % 4] += v
        V2_3 = qd.exp(-qd.Vector([v, z[3 - i]]) * qd.Vector([v, z[3 - i]])).yx
        s0[i] += qd.sin(v)
    for i in P:
        v = z[i] * 0.9
        k4 = 2
        v = B[3 - i].determinant() * 0.3
        v5 = qd.tanh(c[None])
        v5 = v5 ** 2 * 0.4
        y[None] += qd.sin(v)


def f0_182(a0):
    V2_res = qd.Vector([-0.331, -0.713])
    V2_res[1] *= qd.sqrt(0.113 * 0.113 + 0.3) * 0.8 % (1.1 + min(a0, a0 + 0.017) * min(a0, a0 + 0.017))
    y[None] += -V2_res[0] if -0.6 < a0 <= 0.4 and a0 > 0.113 else min(a0, V2_res[0] + 0.017)
    if V2_res[1] < c[None] + 0.011:
        return V2_res * 0.829 * 0.7
    return V2_res + 0.2 * (V2_res * V2_res * 0.6)


@generated((3, (3, 3, 3, 4), (2, 2, 0, 2)), (3, (2, 3, 3, 3), (0, 0, 0, 0)), funcs=(f0_182,))
def kernel_182():
    for I in qd.grouped(x):
        v = x[I.x]
        V3_1 = min(P[I.x % 4] * 0.7 - qd.Vector([x[I.x], v, c[None]]) * 0.4, z[3 - I.x] / (1.0 + x[0] * x[0]))
    for i in x:
        v = A[i, i]
        w2 = 0
        while w2 < 4:
            w2 += 1
            k3 = 2
        k4 = max(2, 0)
        v5 = (qd.Vector([v, v, v]) * qd.Vector([v, v, s0[3]]) * 0.6).sum() * 0.3
        v6 = ((v5 + s0[(i + 2) % 4]) * 0.5 * ((v5 + s0[(i + 2) % 4]) * 0.5) + 0.2) ** ((0.517 + v) * 0.5) * 0.3
        v -= k4 * 0.1 * qd.max(v6, v - 0.013) * 0.6
        v7 = (B[3 - i] @ B[(k4 + 1) % 4] * 0.4).determinant() * 0.3
    for i in x:
        v = x[i]
        v8 = qd.sqrt(v * v + 0.3) * 0.8 % (1.1 + (v if v > -0.331 else v) * (v if v > -0.331 else v))
