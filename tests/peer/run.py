"""Runs kernels and their gradients with the peer: one a line of JSON in, one answer a line out.

`peer.process.Peer` starts it with an interpreter that has the peer. In: ``text``, the source of a module that defines
``kernel`` over the fields, ``qd`` and ``real`` (f64) as its globals, and ``definitions``, one that defines its types;
``fields``: name -> {dtype, shape, element, grad, arg}, where "b.r" is member r of a field of structs, of the type
``structs["b"]`` if there is one; ``cases``: what a launch finds in the fields (``values``; "x.grad" is a name too) and
its scalar arguments (``given``); ``parameters``, the kernel's; ``gradient``: launch the gradient too, with adstacks;
``apart``: every case with fields and a kernel of its own; ``tangent``: {field: direction}, launch in forward mode
for the derivative of y.
Out: {"cases": [{"values", "returned", "tangent"}]} or {"refused": words}.
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


def executed(text: str, path: Path, space: dict[str, Any]) -> dict[str, Any]:
    path.write_text(text)
    space |= {"qd": qd, "real": qd.f64, "__name__": path.stem, "__file__": str(path)}
    exec(compile(text, str(path), "exec", dont_inherit=True), space)
    return space


def made(spec: dict[str, Any], dual: bool) -> Any:
    """The field or array that a spec describes."""
    dtype, shape, element = getattr(qd, spec["dtype"]), tuple(spec["shape"]), spec.get("element", ())
    home = (qd, qd.Vector, qd.Matrix)[len(element)]
    make = home.ndarray if spec["arg"] else home.field
    return make(*element, dtype, shape, needs_grad=spec["grad"], **({"needs_dual": spec["grad"]} if dual else {}))


def struct_fields(job: dict[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, dict[str, Any]] = {}
    for name, spec in job["fields"].items():
        first, _, member = name.partition(".")
        if member:
            members.setdefault(first, {})[member] = spec
    out = {}
    for first, specs in members.items():
        kind = types.get(job["structs"].get(first, ""))
        if kind is None:
            kinds = (lambda t: t, qd.types.vector, qd.types.matrix)
            given = {n: kinds[len(s["element"])](*s["element"], getattr(qd, s["dtype"])) for n, s in specs.items()}
            kind = qd.types.struct(**given)
        some = next(iter(specs.values()))
        out[first] = kind.field(shape=tuple(some["shape"]), needs_grad=some["grad"])
    return out


def answer(job: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    types = executed(job.get("definitions", ""), path.with_name(f"types_{path.name}"), {})
    structs = struct_fields(job, types)
    buffers: dict[str, Any] = {}
    for name, spec in job["fields"].items():
        first, _, member = name.partition(".")
        buffers[name] = structs[first].get_member_field(member) if member else made(spec, "tangent" in job)
    globals_ = {**types, **structs, **{name: b for name, b in buffers.items() if "." not in name}}
    grads = {f"{name}.grad": buffers[name].grad for name, spec in job["fields"].items() if spec["grad"]}
    buffers |= grads
    space = executed(job["text"], path, dict(globals_))
    kernel = space[job["kernel"]]
    out = []
    for case in job["cases"]:
        for name, values in case["values"].items():
            if np.ndim(values) == 0:  # so that the peer sees that a bound has changed: after from_numpy it does not
                buffers[name][None] = values
                continue
            dtype = job["fields"][name.removesuffix(".grad")]["dtype"]
            buffers[name].from_numpy(np.array(values, NUMPY[dtype]))
        given = {**globals_, **case["given"]}
        arguments = [given[name] for name in job["parameters"]]
        told: dict[str, Any] = {}
        if "tangent" in job:
            (param, way), loss = *job["tangent"].items(), buffers["y"]
            with qd.ad.FwdMode(loss=loss, param=buffers[param], seed=way):
                kernel(*arguments)
            told["tangent"] = loss.dual[None]
        else:
            told["returned"] = kernel(*arguments)
            if job.get("gradient"):
                kernel.grad(*arguments)
        out.append({"values": {n: buffers[n].to_numpy().tolist() for n in case["values"]}, **told})
    return out


def main() -> None:
    setting: Any = None
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(sys.stdin):
            job = json.loads(line)
            wanted = job.get("fp", "f64"), bool(job.get("gradient"))
            if number % 5 == 0 or wanted != setting:  # it takes longer than most programs
                setting = wanted
                how = {"ad_stack_experimental_enabled": True} if job.get("gradient") else {}
                fp = getattr(qd, wanted[0])
                qd.init(arch=qd.cpu, default_fp=fp, log_level=qd.ERROR, offline_cache=False, **how)
            path = Path(folder) / f"program_{number}.py"
            parts = [[case] for case in job["cases"]] if job.get("apart") else [job["cases"]]
            try:
                reply: dict[str, Any] = {"cases": [a for cases in parts for a in answer({**job, "cases": cases}, path)]}
            except Exception as error:
                reply = {"refused": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
