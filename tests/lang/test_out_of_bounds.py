"""Indices that are out of bounds in every launch: told when the kernel is compiled, where no check is made. Indices
that are not, or need not be, are no errors."""

import numpy as np
import pytest
from sessions import EVERYWHERE, ended

import quadrants_lab as qd
from quadrants_lab.runtime.backend import backend

end = ended
N = 16

# kernel -> the end of the message
TOLD = {
    "for i in a: a[i + 1] = 3.0": "index 16 is out of bounds for axis 0 of a with extent 16, in the iteration i = 15",
    "for i in range(N): a[i] = b[i - 1, 0]":
        "index -1 is out of bounds for axis 0 of b with extent 4, in the iteration i = 0",
    "for i, j in b: b[j, i] = 1.0":
        "index 4 is out of bounds for axis 0 of b with extent 4, in the iteration i = 0, j = 4",
    "for I in qd.grouped(b): b[I + qd.Vector([0, 2])] += 1.0": "index 6 is out of bounds for axis 1 of b with extent 5",
    "for i in c: c[i - 1] = 1":
        "index -5 is out of bounds for axis 0 of c with extent 8 from -4, in the iteration i = -4",
    "for i in range(N): a[i] = a[N]":
        "index 16 is out of bounds for axis 0 of a with extent 16, in the iteration i = 0",
    "a[N] = 1.0": "index 16 is out of bounds for axis 0 of a with extent 16",
    "for i in range(N - 1, -1, -1): a[i - 1] += 1.0": "index -1 is out of bounds",
    "for _ in range(1):\n    for j in range(N + 1): a[j] = 1.0": "index 16 is out of bounds",
    "for _ in range(1):\n    for j in range(3, 3 + N): a[j] = 1.0": "index 17 is out of bounds",
    "for i in range(N):\n    v = qd.Vector([1.0, 2.0, 3.0])\n    for j in range(4): a[i] += v[j]":
        "index 3 is out of bounds for 'v' with extent 3, in the iteration i = 0, j = 3",
    "v = qd.Vector([1.0, 2.0])\nfor _ in range(1):\n    for j in range(3): v[j] = 1.0\na[0] = v[0]":
        "index 2 is out of bounds for 'v' with extent 2",
    "for i in range(4):\n    for j in range(4): m[i][j, 0] = 1.0": "index 3 is out of bounds for 'm[i]' with extent 3",
    "for i in range(4):\n    for j in range(4): m[i % 2][0, j] = 1.0": "index 3 is out of bounds for 'm[i % 2]'",
    "for i in qd.static(range(N + 1)): a[i] = 1.0": "index 16 is out of bounds",
    "for i in range(N):\n    if i > 3: a[i + 10] = 1.0": "index 25 is out of bounds",
    "for i in range(N):\n    if i < 3: continue\n    a[i * 2] += 1.0": "index 30 is out of bounds",
    "for i in range(N):\n    for j in range(100):\n        if j > 2: break\n        a[i + j] += 1.0":
        "index 16 is out of bounds",
    "for i in range(N): a[ints[i] % 8 + 16] = 1.0": "index 16..23 is out of bounds for axis 0 of a",
    "k = 0\nfor _ in range(1):\n    while a[0] > k: k += 1\n    a[N + 1] = 1.0": "index 17 is out of bounds",
    "for i in range(N): b[i % 4, 0] += far(i)": "index 22 is out of bounds for axis 0 of a",
    "for i in range(N): qd.atomic_add(a[i + 4], 1.0)": "index 19 is out of bounds",
    "for i in range(N): a[qd.u8(i) - qd.u8(1)] = 1.0": "index 255 is out of bounds",
}  # fmt: skip

# what may look like it, and is none
RIGHT = [
    "for i in range(N):\n    if i < N - 1: a[i + 1] = 1.0",
    "for i in range(N - 1): a[i + 1] = 1.0",
    "for i in range(N): b[i % 4, 0] += 1.0 if i == 0 or a[i - 1] > 0.0 else 2.0",
    "for i in range(N):\n    if i > 0 and a[i - 1] > 0.0: c[i % 2] += 1",
    "for i in range(N):\n    if i == N - 1: continue\n    b[i % 4, 0] += a[i + 1]",
    "for i in range(N): b[i % 4, 0] += far_if_there(i)",
    "for _ in range(1):\n    for j in range(100):\n        if j == N: break\n        a[j] = 1.0",
    "for _ in range(1):\n    for j in range(100):\n        if j == N + 2 - 2 or a[j] > 1e9: break",
    "for i in range(N):\n    if ints[i] > 100: a[i + N] = 1.0",
    "for i in range(N):\n    for j in range(ints[i]): a[j + N] = 1.0",
    "for i in range(N): a[ints[i]] = 1.0",
    "for i in range(0): a[i + N] = 1.0",
    "for _ in range(1):\n    for j in range(5, 5): a[j + N] = 1.0",
    "for i in range(n): a[i + N] = 1.0",
    "if n > 0: a[N] = 1.0",
    "for i in c: c[i] = i",
    "for i in range(N):\n    if qd.static(False): a[i + N] = 1.0",
    "for i in range(N):\n    k = 0\n    while k < N and a[k] < -1.0: k += 1",
    "for i in range(N):\n    v = qd.Vector([1.0, 2.0, 3.0])\n    for j in range(4):\n        if j < 3: a[i] += v[j]",
    "for i in range(N): b[qd.min(i, 3), qd.max(i - 11, 0)] = 1.0",
    "for i in range(N): a[(i + 1) % N] += 1.0",
    "for i in a:\n    k = i\n    for j in range(3):\n        if k > 10: k = 0\n        a[k] += 1.0\n        k += 1",
    "for i in range(arr.shape[0]): arr[i + 20] += 1.0",
    "stops_early()",
]

a = b = c = m = ints = None


@qd.func
def far(i):
    return a[i + 7]


@qd.func
def far_if_there(i):
    if i + 7 >= N:
        return 0.0
    return a[i + 7]


@qd.func
def stops_early():
    for _ in range(1):
        for j in range(3):
            if a[j] > -1.0:
                break
            a[N] = 1.0


def kernel(text, tmp_path, args=""):
    """The kernel with this body over new fields; the file gives its lines to messages."""
    body = "\n".join(f"    {line}" for line in text.splitlines())
    path = tmp_path / "case.py"
    path.write_text(f"def k({args}):\n{body}\n")
    fields = {
        "a": qd.field(qd.f32, N), "b": qd.field(qd.f32, (4, 5)), "c": qd.field(qd.i32, 8, offset=-4),
        "m": qd.Matrix.field(3, 3, qd.f32, 4), "ints": qd.field(qd.i32, N),
    }  # fmt: skip
    globals().update(fields)
    exec(compile(path.read_text(), str(path), "exec"), globals())
    return qd.kernel(globals()["k"])


@pytest.mark.parametrize("text", TOLD)
def test_told_when_compiled(text, tmp_path):
    qd.init(arch=qd.cpu)
    with pytest.raises(qd.lang.exception.QuadrantsIndexError, match="QL1510") as told:
        kernel(text, tmp_path)()
    said = str(told.value)
    assert TOLD[text] in said
    assert "--> " in said
    assert "^ there is no such element" in said


@pytest.mark.parametrize("how", EVERYWHERE)
def test_told_on_every_backend_also_by_a_gradient(how, tmp_path):
    qd.init(**how)
    told = kernel("for i in a: a[i + 1] = 3.0", tmp_path)
    checked = backend(how["arch"]).CAPABILITIES.checks_bounds  # as in a debug session
    for launch in (told,) if checked else (told, told.grad):  # the gradient of this kernel does nothing
        error, code = (qd.QuadrantsAssertionError, "QL2070") if checked else (IndexError, "QL1510")
        with pytest.raises(error, match=code):
            launch()


@pytest.mark.parametrize("text", TOLD)
def test_told_by_checks_in_a_debug_session(text, tmp_path):
    """These name the values of the launch that failed."""
    qd.init(arch=qd.cpu, debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"QL2070.*out of bounds"):
        kernel(text, tmp_path)()


@pytest.mark.parametrize("text", RIGHT)
def test_right_programs_run(text, tmp_path):
    qd.init(arch=qd.cpu)
    args, given = [], []
    if "range(n)" in text or "n >" in text:
        args, given = ["n: qd.i32"], [0]
    if "arr" in text:
        args, given = ["arr: qd.types.ndarray()"], [np.zeros(0, np.float32)]
    kernel(text, tmp_path, ", ".join(args))(*given)
    qd.sync()
