"""Points fall into clusters: k means with atomics on a struct field of sums, until no point moves."""

import numpy as np

COUNT, CLUSTERS = 60, 4


def make(qd):
    point = qd.types.vector(2, float)
    cluster = qd.types.struct(mean=point, sum=point, count=qd.i32)
    clusters = cluster.field(shape=CLUSTERS)
    label = qd.field(qd.i32, shape=COUNT)

    @qd.kernel
    def assign(points: qd.types.ndarray(dtype=point, ndim=1)) -> qd.i32:
        changed = 0
        for c in clusters:
            clusters[c].sum = [0.0, 0.0]
            clusters[c].count = 0
        for i in points:
            best = 0
            for c in range(1, CLUSTERS):
                if (points[i] - clusters[c].mean).norm() < (points[i] - clusters[best].mean).norm():
                    best = c
            if label[i] != best:
                label[i] = best
                changed += 1
            clusters[best].sum += points[i]
            clusters[best].count += 1
        return changed

    @qd.kernel
    def average():
        for c in clusters:
            if clusters[c].count > 0:
                clusters[c].mean = clusters[c].sum / clusters[c].count

    def run():
        points = qd.Vector.ndarray(2, float, shape=COUNT)
        points.from_numpy(cloud())
        label.fill(-1)
        clusters.mean.from_numpy(cloud()[:CLUSTERS])
        course = [assign(points)]
        while course[-1]:
            average()
            course.append(assign(points))
        return {"mean": clusters.mean.to_numpy(), "label": label.to_numpy(), "course": np.array(course)}

    return run


def cloud():
    """Integers, whose distances no rounding makes equal or different."""
    k = np.arange(COUNT)
    return np.stack([k * 7 % 23 + 30 * (k % 2), k * 11 % 19 + 25 * (k % 3 == 0)], 1).astype(np.float32)
