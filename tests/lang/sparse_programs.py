"""Sparse matrices that kernels fill, as lists of numbers.

    python sparse_programs.py PACKAGE    prints those of a package, as JSON
"""

import importlib
import json
import sys

import numpy as np

DENSE = np.array([[4.0, 1.0, 0.0, 0.0], [1.0, 3.0, -1.0, 0.0], [0.0, -1.0, 2.0, 0.5], [0.0, 0.0, 0.5, 1.0]], np.float32)
RIGHT = np.array([1.0, 2.0, 3.0, -1.0], np.float32)


def built(qd, dense, room=40):
    dense = np.ascontiguousarray(dense)
    n, m = dense.shape
    builder = qd.linalg.SparseMatrixBuilder(n, m, max_num_triplets=room)

    @qd.kernel
    def fill(A: qd.types.sparse_matrix_builder(), m: qd.types.ndarray(qd.f32, 2), by: qd.f32):
        for i, j in m:
            if m[i, j] != 0.0:
                A[i, j] += m[i, j] * (1.0 + by)
                A[i, j] -= by * m[i, j]

    fill(builder, dense, 2.0)
    return builder.build()


def listed(A):
    return [[round(float(A[i, j]), 4) for j in range(A.shape[1])] for i in range(A.shape[0])]


def results(qd):
    A = built(qd, DENSE)
    B = built(qd, DENSE[:, :2])
    ours = qd.ndarray(qd.f32, 4)
    ours.from_numpy(RIGHT)
    found = [listed(m) for m in (A, B, B.transpose(), A + A, A - 2.0 * A, A * A, A @ B, A * 0.5)]
    found += [[round(float(v), 4) for v in x] for x in (A @ RIGHT, (A @ ours).to_numpy())]
    for kind in "LLT", "LDLT", "LU":
        solver = qd.linalg.SparseSolver(solver_type=kind)
        solver.analyze_pattern(A)
        solver.factorize(A)
        found += [solver.info(), [round(float(v), 3) for v in solver.solve(RIGHT)]]
    x, converged = qd.linalg.SparseCG(A, RIGHT).solve()
    triplets = qd.Vector.ndarray(3, qd.f32, 2)
    triplets.from_numpy(np.array([[0, 1, 2.5], [1, 0, -1.0]], np.float32))
    C = qd.linalg.SparseMatrix(n=2, m=2)
    C.build_from_ndarray(triplets)
    return [*found, [round(float(v), 3) for v in x], bool(converged), listed(C)]


if __name__ == "__main__":
    package = importlib.import_module(sys.argv[1])
    package.init(arch=package.cpu, log_level=package.ERROR)
    print(json.dumps(results(package)))
