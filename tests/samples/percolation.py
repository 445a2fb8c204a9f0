"""Does water get through a wall of random stones: labels spread by atomics until nothing changes, on a deep tree."""

N, CHANCE = 24, 0.62


def make(qd):
    is_open, label = qd.field(dtype=qd.u8), qd.field(dtype=qd.i32)
    qd.root.dense(qd.ij, (2, 3)).dense(qd.ij, (4, 4)).dense(qd.i, 3).dense(qd.j, 2).place(is_open, label)
    changed, through = qd.field(qd.i32, shape=()), qd.field(qd.u1, shape=())
    sizes = qd.field(qd.i32, shape=N * N)

    @qd.func
    def hashed(i, j):
        h = qd.cast(i * N + j + 1, qd.u32) * qd.u32(2654435761)
        h ^= h >> 15
        h *= qd.u32(2246822519)
        return (h >> 8) / float(1 << 24)

    @qd.kernel
    def build():
        for i, j in label:
            is_open[i, j] = hashed(i, j) < CHANCE
            label[i, j] = i * N + j if is_open[i, j] else -1

    @qd.kernel
    def spread():
        changed[None] = 0
        for i, j in label:
            if is_open[i, j]:
                for di, dj in qd.static(((0, 1), (1, 0), (0, -1), (-1, 0))):
                    k, l = i + di, j + dj
                    if 0 <= k < N and 0 <= l < N and is_open[k, l]:
                        if qd.atomic_min(label[i, j], qd.atomic_add(label[k, l], 0)) > label[k, l]:
                            changed[None] = 1

    @qd.kernel
    def judge():
        for i, j in label:
            if is_open[i, j]:
                sizes[label[i, j]] += 1
        for j, k in qd.ndrange(N, N):
            if is_open[0, j] and label[0, j] == label[N - 1, k]:
                through[None] = True

    def run():
        build()
        changed[None] = 1
        while changed[None]:
            spread()
        judge()
        return {"label": label.to_numpy(), "sizes": sizes.to_numpy(), "through": through.to_numpy()}

    return run
