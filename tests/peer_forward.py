"""Runs kernels forward with the peer: one a line of JSON in, one answer a line out.

`test_peer.py` starts it with an interpreter that has the peer. In: ``text``, the source of a module that defines
``kernel`` over the fields and ``qd`` as its globals; ``fields``: name -> {dtype, shape, grad, arg};
``cases``: what a launch finds in the fields (``values``; "x.grad" is a name too) and its scalar arguments
(``given``); ``parameters``, the kernel's. Out: {"cases": [{"values", "returned"}]} or {"refused": words}.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the peer prints, from its import on, is no answer

import numpy as np  # noqa: E402
import quadrants as qd  # noqa: E402

NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u32": np.uint32}
NUMPY |= {"u8": np.uint8, "i8": np.int8, "u1": np.bool_}


def answer(job: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    path.write_text(job["text"])
    fields: dict[str, Any] = {}
    for name, spec in job["fields"].items():
        dtype, shape = getattr(qd, spec["dtype"]), tuple(spec["shape"])
        fields[name] = qd.ndarray(dtype, shape) if spec["arg"] else qd.field(dtype, shape, needs_grad=spec["grad"])
    buffers = fields | {f"{name}.grad": fields[name].grad for name, spec in job["fields"].items() if spec["grad"]}
    space: dict[str, Any] = {**fields, "qd": qd, "__name__": path.stem, "__file__": str(path)}
    exec(compile(job["text"], str(path), "exec"), space)
    out = []
    for case in job["cases"]:
        for name, values in case["values"].items():
            dtype = job["fields"][name.removesuffix(".grad")]["dtype"]
            buffers[name].from_numpy(np.array(values, NUMPY[dtype]))
        given = {**fields, **case["given"]}
        returned = space[job["kernel"]](*(given[name] for name in job["parameters"]))
        out.append({"values": {n: buffers[n].to_numpy().tolist() for n in case["values"]}, "returned": returned})
    return out


def main() -> None:
    fp = ""
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(sys.stdin):
            job = json.loads(line)
            if number % 5 == 0 or job.get("fp", "f64") != fp:  # it takes longer than most programs
                fp = job.get("fp", "f64")
                qd.init(arch=qd.cpu, default_fp=getattr(qd, fp), log_level=qd.ERROR, offline_cache=False)
            try:
                reply: dict[str, Any] = {"cases": answer(job, Path(folder) / f"program_{number}.py")}
            except Exception as error:
                reply = {"refused": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
