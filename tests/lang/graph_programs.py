"""Kernels with loops and checkpoints around tasks, sections and streams, as what they leave in memory.

    python graph_programs.py PACKAGE    prints that of a package, as JSON
"""

import importlib
import json
import sys


def loops(qd):
    flag = qd.types.ndarray(qd.i32, ndim=0)

    @qd.kernel(graph=True)
    def k(v: qd.types.ndarray(qd.f32, 1), outer: flag, inner: flag):
        n = v.shape[0]
        for i in v:
            v[i] = 0.0
        while qd.graph.do_while(outer):
            for i in range(n):
                v[i] += 1.0
            inner[None] = 2
            while qd.graph.do_while(inner):
                for i in range(n):
                    v[i] += 10.0
                inner[None] = inner[None] - 1
            for _ in range(1):
                outer[None] = outer[None] - 1
        for i in range(n):
            v[i] += 1000.0

    v, outer, inner = qd.ndarray(qd.f32, 3), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    outer[None] = 3
    k(v, outer, inner)
    return [*v.to_numpy().tolist(), outer[None], inner[None]]


def checkpoints(qd):
    flag = qd.types.ndarray(qd.i32, ndim=0)

    @qd.kernel(graph=True, checkpoints=True)
    def k(v: qd.types.ndarray(qd.f32, 1), full: flag, left: flag):
        for i in v:
            v[i] += 1
        while qd.graph.do_while(left):
            for i in v:
                v[i] += 10
            with qd.checkpoint(7, yield_on=full):
                for i in v:
                    v[i] += 100
                for _ in range(1):
                    full[None] = 1 if v[0] < 300 else 0
            for i in v:
                v[i] += 1000
            for _ in range(1):
                left[None] -= 1
        for i in v:
            v[i] += 10000

    v, full, left = qd.ndarray(qd.f32, 2), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    v.fill(0)
    full[None], left[None] = 0, 2
    said = []
    status = k(v, full, left)
    while status.yielded:
        said += [status.checkpoint, v[0], left[None]]
        full[None] = 0
        status = k.resume(v, full, left, from_checkpoint=status.checkpoint)
    return [*said, status.checkpoint is None, v[0], left[None]]


def sections(qd):
    @qd.kernel(graph=True)
    def k(v: qd.types.ndarray(qd.f32, 1)):
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                for i in range(2):
                    v[i] = 1.0
                for i in range(2):
                    v[i] += i
            with qd.graph.parallel():
                for i in range(2, 4):
                    v[i] = 2.0

    v = qd.ndarray(qd.f32, 4)
    k(v)
    return v.to_numpy().tolist()


def streams(qd):
    x = qd.field(qd.f32, 4)

    @qd.kernel
    def add(by: qd.f32):
        with qd.stream_parallel():
            for i in range(2):
                x[i] += by
        with qd.stream_parallel():
            for i in range(2, 4):
                x[i] += 2 * by

    done = qd.create_event()
    with qd.create_stream() as first, qd.create_stream() as second:
        add(1.0, qd_stream=first)
        done.record(first)
        done.wait(second)
        add(by=2.0, qd_stream=second)
        second.synchronize()
        done.synchronize()
    done.destroy()
    return x.to_numpy().tolist()


PROGRAMS = {
    loops: [1063.0, 1063.0, 1063.0, 0, 0],
    checkpoints: [7, 111.0, 2, 7, 211.0, 2, True, 12421.0, 0],
    sections: [1.0, 2.0, 2.0, 2.0],
    streams: [3.0, 3.0, 6.0, 6.0],
}

if __name__ == "__main__":
    package = importlib.import_module(sys.argv[1])
    package.init(arch=package.cpu, log_level=package.ERROR)
    print(json.dumps({program.__name__: program(package) for program in PROGRAMS}))
