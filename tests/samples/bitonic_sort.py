"""A bitonic network sorts keys, each with a value, in an ndarray: a launch a stage, an iteration a comparison."""

import numpy as np

N = 64


def make(qd):
    @qd.func
    def swap(a: qd.template(), i, j):
        a[i], a[j] = a[j], a[i]

    @qd.kernel
    def compare(keys: qd.types.ndarray(ndim=1), values: qd.types.ndarray(ndim=1), size: qd.i32, stride: qd.i32):
        for k in range(keys.shape[0] // 2):
            i = 2 * k - (k & (stride - 1))
            j = i + stride
            rising = (i & size) == 0
            if (keys[i] > keys[j]) == rising:
                swap(keys, i, j)
                swap(values, i, j)

    def run():
        keys, values = qd.ndarray(float, N), qd.ndarray(qd.i32, N)
        keys.from_numpy(unsorted())
        values.from_numpy(np.arange(N, dtype=np.int32))
        size = 2
        while size <= N:
            stride = size // 2
            while stride:
                compare(keys, values, size, stride)
                stride //= 2
            size *= 2
        return {"keys": keys.to_numpy(), "values": values.to_numpy()}

    return run


def unsorted():
    return (np.arange(N) * 37 % 101 / 8.0).astype(np.float32)


def expected():
    keys = unsorted()
    return {"keys": np.sort(keys), "values": np.argsort(keys)}
