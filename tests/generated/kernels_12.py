"""Random kernels; the number in a name is the seed. See tests/generate.py."""

# ruff: noqa
from generated import generated


def f0_218(a0, V4_a1):
    V3_res = qd.sin(qd.Vector([c[None], 0.113, a0]))
    if not x[0] > 0.829:
        v1 = qd.sin(x[0]) % (1.1 + a0 * a0)
        v1 *= v1
        for u2 in qd.static(range(2)):
            v3 = u2 * 0.1
    elif c[None] > -0.331:
        pass
    return V3_res * 0.7 - qd.Vector([a0, A[3, 3], -0.331]) * 0.4


def f1_218(a0):
    V2_res = (qd.Vector([a0, c[None]]).xy + min(qd.Vector([a0, a0]), a0)) * 0.5
    v4 = a0 * 0.7 - qd.sqrt(a0 * a0 + 0.3) * 0.8 * 0.4
    for j5 in range(1):
        for j6 in range(n[None]):
            v4 = qd.sin(c[None] ** 2 * 0.4)
            for j7 in range(n[None] - 2, 2):
                pass
    return V2_res * V2_res * 0.6


@generated((3, (3, 3, 3, 3), (2, 0, 2, 1)), (4, (3, 1, 3, 3), (0, 1, 0, 1)), funcs=(f0_218, f1_218,))
def kernel_218():
    for I in qd.grouped(A):
        v = x[I[0]]
        o[0] += I[0]
        y[None] += v ** 2 * 0.4
    for i, j in A:
        v = x[i]
        V3_8 = qd.Vector([v, v, v]) * 0.7 - qd.Vector([v, v, v]) * 0.4
        v9 = v * v * 0.6 % (1.1 + -v * -v)


@generated((4, (3, 2, 3, 0), (0, 3, 1, 1)), (4, (2, 3, 1, 1), (0, 2, 0, 2)))
def kernel_223():
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        w1 = 0
        while w1 < 2 and (I.x + I.x) % 3 != 1:
            w1 += 1
            if v > -0.713:
                continue
        for j2 in range(m[at[I.x]]):
            v = qd.tanh(A[3 - I.x, 1] * 0.7 - 0.113 * 0.4)
        k3 = max(m[I.x], 0)
        V4_4 = qd.Vector([z[(k3 + 3) % 4], v, z[k3 % 4], v]) * 0.7 - qd.Vector([-0.6, 0.3, -0.6, -0.6]) * 0.4
        s0[I] += V4_4.sum()
    for i in range(4):
        v = z[i] * 0.9
        k5 = max(i % 4, 0)
        y[None] += v


@generated((0, (1, 2, 4, 0), (1, 0, 0, 1)), (0, (1, 4, 0, 2), (0, 0, 1, 1)))
def kernel_226():
    h = n[None] + 1
    for i in range(4):
        v = x[i]
        V3_1 = P[h % 4]
        v = qd.sin(qd.select(-0.6 < v <= 0.4 and i < 2, v, v))
        v = (-v) ** 2 * 0.4
        s0[i] = V3_1[0]
        for J2 in qd.grouped(qd.ndrange(2, min(i, 3))):
            v3 = h * 0.1
            U0[i] += V3_1 * V3_1 * 0.6
        s0[i] = qd.log(v * v + 0.5)
        y[None] += h * 0.1
    for i in range(4):
        v = z[i] * 0.9
        for j4 in range((i * 2 + 1) // 2):
            w5 = 0
            while w5 < 2 and i % 2 == 0:
                w5 += 1
                for j6 in range(m[at[w5 % 4]]):
                    if v > 0.517:
                        break
                v *= qd.log((v * 0.7 - v * 0.4) * (v * 0.7 - v * 0.4) + 0.5)
                v = h * 0.1
        v *= W0[h % 4][1]
        y[None] += v
        V4_7 = qd.Vector([v, v, v, 0.517])
        v8 = h * 0.1
        y[None] += qd.sin(v)


def f0_227(V3_a0):
    V3_res = qd.exp(-V3_a0 * V3_a0) + 0.3 * (qd.Vector([V3_a0[1], V3_a0[0], 0.113]).sum() * 0.3)
    v1 = -0.713 * 0.7 - (V3_res[0] * 0.7 - -0.713 * 0.4) * 0.4
    V3_res[0] = qd.sin(qd.max(-0.331, v1 - 0.013))
    return V3_res


def f1_227(a0):
    res = a0 / (1.0 + qd.log(a0 * a0 + 0.5) * qd.log(a0 * a0 + 0.5))
    k2 = 0
    if -0.6 < x[(k2 + 2) % 4] <= 0.4:
        return qd.exp(-a0 * a0)
    return res + 0.2 * qd.exp(--0.713 * -0.713)


@generated((4, (1, 1, 0, 4), (0, 2, 1, 2)), (1, (3, 3, 3, 0), (1, 2, 3, 3)), funcs=(f0_227, f1_227,))
def kernel_227():
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        s0[I] += qd.cos(qd.exp(-c[None] * c[None]))
        if -0.6 < v <= 0.4:
            V2_3 = (qd.Vector([v, v]) + 0.3 * 0.113).xy
            k4 = max(1, 0)
        elif I.x % 2 == 0:
            for j5 in range(n[None] - I.x):
                V4_6 = qd.sin(qd.Vector([-0.713, v, x[I.x], v]) + 0.3 * v)
                v = -f1_227(v)
                qd.atomic_sub(r0[I.x], v)
        else:
            v7 = x[I.x % 4]
        y[None] += v


@generated((0, (2, 3, 0, 2), (3, 2, 1, 3)), (4, (3, 1, 4, 3), (2, 0, 2, 0)))
def kernel_229():
    for I in qd.grouped(x):
        v = z[I.x] * 0.9
        V3_1 = qd.Vector([v, z[1], v]).zyx
        w2 = 0
        while w2 < 2 and I.x < I.x:
            w2 += 1
            qd.atomic_add(q0[at[I.x], (I.x + 1) % 4], abs(v))
        U0[I].x *= 0.7
        v = P[2].z
        v -= qd.sin(c[None])
        y[None] += V3_1.sum()


@generated((2, (3, 0, 0, 3), (1, 0, 2, 3)), (0, (3, 2, 1, 0), (2, 1, 1, 1)))
def kernel_232():
    for i, j in A:
        v = A[i, i]
        w1 = 0
        while w1 < 2 and -0.6 < v <= 0.4:
            w1 += 1
            k2 = max(m[w1 % 4], 0)
            k3 = 2
            for u4 in qd.static(range(2)):
                v *= qd.tanh(qd.Matrix([[v, v], [z[(w1 + 3) % 4], v]]).determinant() * 0.3)
        y[None] += qd.Vector([0.3, 0.9, 0.3, 0.9]).dot(qd.sin(qd.Vector([z[i], v, v, v]))) * 0.2
    for i in P:
        v = A[i, i]
        V3_5 = U0[i % 4] / (1.0 + P[(i + 3) % 4] * P[(i + 3) % 4])
        for j6 in range(1, 2):
            v7 = qd.cos(V3_5[2]) if v < v + 0.011 else (v + v) * 0.5
            V3_5 -= max(V3_5, W0[(i + 2) % 4] - 0.013)
        v = (i * 0.1 + v) * 0.5
        v8 = x[i % 4]
        if i < 1 and v8 < V3_5[0] + 0.011:
            U1[i] += V3_5 * 0.7 - V3_5 * 0.4
            V3_5.zx += qd.Vector([v, v]) / (1.0 + qd.Vector([v8, x[3 - i]]) * qd.Vector([v8, x[3 - i]]))
        else:
            r1[i] += V3_5[i % 3] if v > 0.517 else V3_5[0]
            v8 *= v
    for I in qd.grouped(A):
        v = x[I[0]]
        V3_9 = P[I.y].zyx
        p2[I] = qd.max(v, I[0] * 0.1 - 0.013)
        y[None] += v


def f0_233(V3_a0, V2_a1):
    res = V2_a1[0] * qd.sin(V2_a1[0]) * 0.6
    w1 = 0
    while True:
        w1 += 1
        if w1 > 2 or not x[3] < res + 0.011:
            break
        w2 = 0
        while w2 < w1 % 4 and -0.6 < 0.113 <= 0.4:
            w2 += 1
            for j3 in range(n[None]):
                V3_4 = qd.Vector([res, x[1], res]).xyz
            V4_5 = -((qd.Vector([0.3, 0.9, 0.3, 0.9]) + qd.Vector([res, res, res, x[w2 % 4]])) * 0.5)
    return res


@generated((1, (1, 4, 4, 1), (3, 3, 2, 2)), (3, (0, 2, 0, 0), (0, 2, 0, 0)), funcs=(f0_233,))
def kernel_233():
    for i in range(n[None]):
        v = 0.3
        V3_6 = qd.sin(P[(i + 2) % 4])
        v = v
        k7 = 2
        y[None] += V3_6.sum()


def f0_236(V3_a0):
    res = qd.sqrt((0.517 * 0.517 + 0.2) ** 0.517 * 0.3 * ((0.517 * 0.517 + 0.2) ** 0.517 * 0.3) + 0.3) * 0.8
    w1 = 0
    while True:
        w1 += 1
        if w1 > 3 or -0.6 < V3_a0[0] <= 0.4:
            break
        w2 = 0
        while w2 < (w1 + n[None]) % 4 and res < 0.257:
            w2 += 1
            if res < res + 0.011:
                break
    res = x[3]
    return res


@generated((2, (0, 1, 1, 4), (2, 2, 3, 0)), (4, (4, 1, 0, 3), (2, 3, 2, 3)), funcs=(f0_236,))
def kernel_236():
    g = qd.select(x[1] > 0.829 or 0.113 < x[0] + 0.011, qd.log(z[0] * z[0] + 0.5), x[1])
    for i, j in A:
        v = 0.3
        V4_3 = qd.Vector([g, v, g, -0.713])
        k4 = max(2, 0)
        y[None] += qd.sin(v)


@generated((0, (2, 1, 4, 3), (0, 0, 3, 3)), (0, (0, 0, 3, 2), (2, 0, 1, 1)))
def kernel_237():
    for I in qd.grouped(x):
        v = 0.3
        V3_1 = P[(I.x + 3) % 4] / (1.0 + P[I.x] * P[I.x])
        r0[(I.x + 3) % 4] += qd.tanh(P[2].z)
        k2 = max(m[I.x % 4], 0)
    for i in x:
        v = 0.3
        w3 = 0
        while True:
            w3 += 1
            if w3 > 2 or i < 1:
                break
            y[None] -= v
        w4 = 0
        while w4 < 2 and v < 0.829:
            w4 += 1
            v += 0.2 * (i * 0.1 * 0.7 - r0[at[i]] * 0.4)
        v5 = (qd.Vector([v, v, v, v]) * v * 0.7).dot(qd.Vector([s0[at[i]], v, v, v]).yxwz) * 0.2
        V4_6 = qd.Vector([v, x[at[i]], z[(i + 2) % 4], v]) + 0.3 * qd.cos(v)
        v7 = qd.atan2(v * c[None] * 0.6, 1.6 + v * v)
        y[None] += V4_6.sum()


@generated((2, (3, 2, 1, 2), (1, 0, 0, 2)), (0, (0, 0, 4, 3), (3, 3, 1, 0)))
def kernel_239():
    for i in x:
        v = A[i, i]
        V2_1 = qd.Vector([v, v])
        for j2 in range(m[i]):
            k3 = 1
            v -= v
            v4 = abs(min(z[i], v + 0.017))
            if j2 % 2 == 0:
                for J5 in qd.static(qd.grouped(qd.ndrange(2, 2))):
                    v4 = min((z[3 - i] * z[3 - i] + 0.2) ** v4 * 0.3, qd.cos(x[k3 % 4]) + 0.017)
                W0[(k3 + 1) % 4].zx += V2_1
        V2_1[i % 2] = qd.atan2(v, 1.6 + qd.atan2(v, 1.6 + v * v) * qd.atan2(v, 1.6 + v * v))
        v = qd.sqrt((v * v + 0.2) ** (-0.331) * 0.3 * ((v * v + 0.2) ** (-0.331) * 0.3) + 0.3) * 0.8
        U0[i].x *= 0.7
        y[None] += V2_1[i % 2]
    for I in qd.grouped(A):
        v = 0.3
        V4_6 = qd.sin(qd.Vector([v, v, v, v]))
        w7 = 0
        while w7 < 3 and I[0] % 2 == 0:
            w7 += 1
            V4_6[2] = v
            if (I[0] + I[0]) % 3 != 1 or I.y < 1:
                V4_6 *= qd.log(v * v + 0.5)
            elif I[0] < w7:
                k8 = max(m[I.y], 0)
        V3_9 = qd.Vector([v, v, A[I[0], I.y]]) + 0.3 * qd.select(v > 0.113, v, V4_6[1])
        v10 = v
        qd.atomic_sub(W1[(I[0] + 3) % 4], qd.exp(-V3_9 * V3_9))
