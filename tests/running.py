"""Runs one program in each of the ways that must agree: the oracle, IR interpreted at every stage, and a backend."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from oracle import Outcome, run_oracle
from programs import Program, deep
from sessions import NIGHT, skips

import quadrants_lab as qd
from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import function_source
from quadrants_lab.frontend.specs import NdarraySpec, ScalarSpec
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType, f32, f64, i32
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.pipeline import Trace
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.compile import make_ir, tasks_ir
from quadrants_lab.runtime.compile.derivatives import counting_ir
from quadrants_lab.runtime.compile.specialisation import FORWARD, REVERSE
from quadrants_lab.runtime.interpret.interpreter import Result, interpret

Arrays = dict[str, np.ndarray]


@dataclass
class Job:
    """One launch and its gradient.

    ``floats`` and ``ints``: inputs by name. ``grads``: the floats with a gradient, ``seeds`` what is in it
    beforehand. ``arguments``: the names that are ndarray arguments rather than fields. ``scalars``: the scalar
    arguments. ``elements``: the shapes of the elements of fields of vectors and matrices. ``definitions``, ``structs``:
    see `programs.Program`.
    """

    fn: Callable
    funcs: tuple[Callable, ...]
    floats: Arrays
    ints: Arrays
    grads: tuple[str, ...]
    seeds: Arrays
    arguments: tuple[str, ...] = ()
    scalars: dict[str, Any] = field(default_factory=dict)
    elements: dict[str, tuple[int, ...]] = field(default_factory=dict)
    definitions: str = ""
    structs: dict[str, str] = field(default_factory=dict)

    def oracle(self, limit: int = 2_000_000) -> Outcome:
        given = {**self.floats, **self.ints}
        return run_oracle(
            self.fn, given, self.grads, self.seeds, funcs=self.funcs, scalars=self.scalars, elements=self.elements,
            definitions=self.definitions, structs=self.structs, limit=limit,
        )

    def arrays(self, fp: DType) -> Arrays:
        """Fresh copies of all buffers, gradients included."""
        out = {name: np.array(a, fp.numpy) for name, a in self.floats.items()}
        out |= {name: np.array(a, np.int32) for name, a in self.ints.items()}
        return out | {f"{name}.grad": np.array(self.seeds[name], fp.numpy) for name in self.grads}


def job_of(program: Program, case: dict) -> Job:
    inputs = program.inputs(case)
    return Job(
        program.fn,
        program.funcs,
        {name: a for name, a in inputs.items() if a.dtype.kind == "f"},
        {name: a for name, a in inputs.items() if a.dtype.kind != "f"},
        tuple(name for name, spec in program.fields.items() if spec.grad),
        program.seeds(),
        tuple(name for name, spec in program.fields.items() if spec.arg),
        program.arguments(case),
        {name: spec.element for name, spec in program.fields.items() if spec.element},
        program.definitions,
        program.structs,
    )


def define(text: str) -> dict[str, Callable]:
    """The functions that ``text`` defines over ``qd`` and ``real``, the float dtype."""
    return {k: v for k, v in deep.define(text, real=f64).items() if isinstance(v, types.FunctionType)}


def bound(job: Job, fields: dict[str, Any]) -> Callable:
    """The kernel's function with ``fields``, the language and the job's funcs as its globals."""
    space = {**job.fn.__globals__, **fields, "qd": qd}

    def over_space(fn: Callable) -> Callable:
        made = types.FunctionType(fn.__code__, space, fn.__name__, fn.__defaults__)
        made.__annotations__ = dict(fn.__annotations__)
        return made

    for fn in job.funcs:
        space[fn.__name__] = qd.func(over_space(fn))
    return over_space(job.fn)


# --- interpreted

@dataclass
class FakeField:
    """The attributes of a field that the front end reads."""

    dtype: DType
    shape: tuple[int, ...]
    grad: FakeField | None = None
    name: str = ""
    element_shape: tuple[int, ...] = ()
    __qd_field__ = True


@dataclass
class FakeStruct:
    """The attributes of a field of structs that the front end reads."""

    struct_type: Any
    members: dict[str, FakeField] = field(default_factory=dict)
    __qd_struct_field__ = True

    @property
    def shape(self) -> tuple[int, ...]:
        return next(iter(self.members.values())).shape


def _outer(name: str) -> tuple[str, str]:
    """A field's name, and that of its member: ("b", "r") of "b.r", ("x", "") of "x"."""
    first, _, member = name.partition(".")
    return first, member


def _is_grad(name: str) -> bool:
    """A gradient that a job gives beforehand or a kernel writes itself, by name."""
    return name.endswith(".grad")


@dataclass
class Stage:
    """The kernel after one pass; ``steps`` counts from the front end's output, which is the first stage."""

    name: str
    kernel: N.Kernel


@dataclass
class Interpreted:
    """Every stage of a job's two kernels, ready to run; ``names``: buffer name -> the job's name for it; ``launched``:
    what the forward kernel left, once it has run."""

    job: Job
    fp: DType
    forward: list[Stage]
    reverse: list[Stage]
    counting: N.Kernel | None
    names: dict[str, str]
    launched: tuple[Arrays, Arrays] | None = None

    def of(self, job: Job) -> Interpreted:
        """The same two kernels with the numbers of another job."""
        return replace(self, job=job, launched=None)

    def run_forward(self, kernel: N.Kernel) -> tuple[Arrays, Result]:
        arrays = self.job.arrays(self.fp)
        return arrays, interpret(kernel, self.job.scalars, self._named(arrays))

    def run_reverse(
        self, kernel: N.Kernel, lower: N.Pass = lambda kernel: kernel, most: int | None = None
    ) -> tuple[Arrays, Result, dict[int, int]]:
        """Buffers after forward and gradient, what the gradient left, and the capacity of each stack (none while
        the kernel has not been sized), which is not above ``most``. ``lower``: what becomes of the kernel's adstacks,
        for which there is then room as on a device of one lane."""
        if self.launched is None:
            arrays, forward = self.run_forward(self.forward[-1].kernel)
            self.launched = arrays, forward.scratch
        arrays, scratch = ({name: a.copy() for name, a in found.items()} for found in self.launched)
        named = self._named(arrays) | scratch
        caps: dict[int, int] = {}
        stacks = [s for s in walk(kernel.body) if isinstance(s, N.AdStackAlloca)]
        if all(s.size is not None for s in stacks):
            counted = {}
            if self.counting is not None:
                rets = interpret(self.counting, self.job.scalars, named).rets
                counted = {int(name.removeprefix("depth")): int(v) for name, v in rets.items()}
            live = LiveData(dict(self.job.scalars), named)
            caps = {s.id: min(evaluate(s.size, live, counted), 1 << 30 if most is None else most) for s in stacks}
        args, lowered = dict(self.job.scalars), lower(kernel)
        for b in lowered.buffers.values():
            if b.kind == "heap":
                cap = caps[int(b.name.split("$")[1].split(".")[0])]
                args |= {f"{b.name}.capacity": cap, f"{b.name}.last": max(cap, 1) - 1}
                named[b.name] = np.zeros([max(cap, 1), *[1] * (b.ndim - 1)], b.dtype.numpy)
        return arrays, interpret(lowered, args, named, caps=caps), caps

    def _named(self, arrays: Arrays) -> Arrays:
        return {buffer: arrays[name] for buffer, name in self.names.items() if name in arrays}


MADE: dict[Any, Interpreted] = {}  # the last kernels that `interpreted` made, by what they depend on


def interpreted(job: Job, fp: DType = f64, gradient: bool = True, **options: Any) -> Interpreted:
    """Front end and passes over ``job``, verified at every step. Jobs that differ in their numbers have one kernel."""
    shapes = [(name, a.shape, name in job.floats) for name, a in {**job.floats, **job.ints}.items()]
    scalars = [(name, type(value)) for name, value in job.scalars.items()]
    key = job.fn, job.funcs, job.definitions, fp, gradient, *options.items(), *shapes, *scalars, *job.grads
    if key not in MADE:
        if len(MADE) == 100:
            del MADE[next(iter(MADE))]
        MADE[key] = _interpreted(job, fp, gradient, options)
    return MADE[key].of(job)


def _interpreted(job: Job, fp: DType, gradient: bool, options: dict[str, Any]) -> Interpreted:
    opts = CompileOptions(default_fp=fp, verify=True, **options)
    fields: dict[str, Any] = {}
    space = deep.define(job.definitions, real=fp)
    for name, a in {**job.floats, **job.ints}.items():
        if _is_grad(name):
            continue
        dtype = fp if name in job.floats else i32
        has_grad = name in job.grads or f"{name}.grad" in job.floats
        element = job.elements.get(name, ())
        shape = a.shape[: a.ndim - len(element)]
        grad = FakeField(dtype, shape, element_shape=element) if has_grad else None
        fields[name] = FakeField(dtype, shape, grad, name, element)
    specs: list[Any] = []
    for name in job.fn.__code__.co_varnames[: job.fn.__code__.co_argcount]:
        if name in fields:
            f = fields[name]
            specs.append(NdarraySpec(f.dtype, len(f.shape), f.grad is not None, f.element_shape))
        else:
            specs.append(ScalarSpec(i32 if isinstance(job.scalars[name], int) else fp))
    views: dict[str, Any] = {}
    for name, f in fields.items():
        first, member = _outer(name)
        if member:
            views.setdefault(first, FakeStruct(space.get(job.structs.get(first, "")))).members[member] = f
        else:
            views[name] = f
    lowered = lower(function_source(bound(job, {**space, **views})), specs, opts)

    def stages(mode: str) -> list[Stage]:
        trace = Trace()
        make_ir(lowered.kernel, mode, opts, trace)
        steps = [s for s in trace.steps if s.after != s.before]
        return [Stage("front end", lowered.kernel), *(Stage(s.name, s.after) for s in steps)]

    reverse = stages(REVERSE) if gradient else []
    names = {name: name for name in lowered.kernel.buffers}
    for buffer, bound_field in lowered.bindings.items():
        for name, f in fields.items():
            if bound_field is f or bound_field is f.grad:
                names[buffer] = name if bound_field is f else f"{name}.grad"
    for buffer in lowered.kernel.buffers.values():
        if buffer.grad:
            names[buffer.grad] = f"{names[buffer.name]}.grad"
    counting = counting_ir(reverse[-1].kernel, tasks_ir(lowered.kernel, opts), opts) if reverse else None
    return Interpreted(job, fp, stages(FORWARD), reverse, counting, names)


# --- on a backend

def _make(
    ndarray: bool, dtype: DType, shape: tuple[int, ...], element: tuple[int, ...], grad: bool, dual: bool = False
) -> Any:
    """A field or ndarray of numbers, vectors or matrices."""
    home = (qd, qd.Vector, qd.Matrix)[len(element)]
    make = home.ndarray if ndarray else home.field
    more = {"needs_grad": True} if grad else {}
    return make(*element, dtype, shape, **more, **({"needs_dual": True} if dual and grad else {}))


class Bench:
    """A session, and the fields and kernels made in it so far: a job that needs the same ones gets those."""

    def __init__(self, fp: DType = f64, arch: str = "cpu", **options: Any) -> None:
        self.fp = fp
        how = {"default_fp": fp, "default_ip": i32, "offline_cache": False, "simulate": True}
        qd.init(arch=getattr(qd, arch), enable_fallback=False, **how, **options)
        self.made: dict[tuple, Any] = {}
        self.defined: dict[str, dict[str, Any]] = {"": {}}
        self.kernels: dict[tuple[Callable, bool], Any] = {}

    def place(self, job: Job, needs_dual: bool = False) -> dict[str, Any]:
        """The job's fields and ndarrays by name, filled; ``needs_dual``: with tangents, where they have gradients."""
        placed = {}
        structs = self._structs(job)
        for name, a in {**job.floats, **job.ints}.items():
            if _is_grad(name):
                continue
            dtype = self.fp if name in job.floats else i32
            element = job.elements.get(name, ())
            grad = name in job.grads or f"{name}.grad" in job.floats
            key = (name, name in job.arguments, a.shape, element, dtype.name, grad, needs_dual)
            first, member = _outer(name)
            if member:
                self.made[key] = structs[first].get_member_field(member)
            elif key not in self.made:
                shape = a.shape[: a.ndim - len(element)]
                self.made[key] = _make(name in job.arguments, dtype, shape, element, grad, needs_dual)
            placed[name] = self.made[key]
            placed[name].from_numpy(np.asarray(a, dtype.numpy))
            if grad:
                seed = job.seeds.get(name, job.floats.get(f"{name}.grad"))
                placed[name].grad.from_numpy(np.asarray(seed, dtype.numpy))
        return placed

    def _structs(self, job: Job) -> dict[str, Any]:
        """The job's fields of structs by name; made anew for every kernel."""
        if job.definitions not in self.defined:
            self.defined[job.definitions] = deep.define(job.definitions, real=self.fp)
        members: dict[str, dict[str, Any]] = {}
        for name, a in {**job.floats, **job.ints}.items():
            first, member = _outer(name)
            if member and not _is_grad(name):
                element = job.elements.get(name, ())
                dtype = self.fp if name in job.floats else i32
                kind = (dtype, qd.types.vector, qd.types.matrix)[len(element)]
                spec = kind(*element, dtype) if element else dtype
                members.setdefault(first, {})[member] = (spec, a.shape[: a.ndim - len(element)])
        out = {}
        for first, specs in members.items():
            key = (job.fn, first)
            if key not in self.made:
                shape = next(iter(specs.values()))[1]
                types_ = {name: spec for name, (spec, _) in specs.items()}
                kind = self.defined[job.definitions].get(job.structs.get(first, "")) or qd.types.struct(**types_)
                self.made[key] = kind.field(shape=shape, needs_grad=any(n.startswith(f"{first}.") for n in job.grads))
            out[first] = self.made[key]
        return out

    def kernel(self, job: Job, needs_dual: bool = False) -> tuple[Any, list[Any], dict[str, Any]]:
        """The job's kernel, its arguments and its fields and ndarrays by name, filled."""
        placed = self.place(job, needs_dual)
        fields = {name: f for name, f in placed.items() if name not in job.arguments}
        key = (job.fn, needs_dual)
        if key not in self.kernels:
            space = {**self.defined[job.definitions], **fields, **self._structs(job)}
            self.kernels[key] = qd.kernel(bound(job, space))
        names = job.fn.__code__.co_varnames[: job.fn.__code__.co_argcount]
        return self.kernels[key], [placed[n] if n in placed else job.scalars[n] for n in names], placed

    def run(self, job: Job, gradient: bool = True, together: bool = False) -> tuple[Arrays, Any]:
        """Buffers after the launch and, if asked for, its gradient, ``together``: by `value_and_grad`; and what the
        kernel returned."""
        kernel, args, placed = self.kernel(job)
        returned = (kernel.value_and_grad if together else kernel)(*args)
        if gradient and not together:
            kernel.grad(*args)
        out = {name: f.to_numpy() for name, f in placed.items()}
        for name, f in placed.items():
            if f.grad:
                out[f"{name}.grad"] = f.grad.to_numpy()
        return out, returned


def way(arch: str, fp: DType) -> Any:
    """A backend and a dtype as a test's parameter. By night only: f32 in C, f64 on Vulkan, whose operations have
    tests of their own, and CUDA where a stand-in has to do."""
    by_night = (arch, fp) in (("vulkan", f64), ("c", f32)) or (arch == "cuda" and backend(arch).probe())
    return pytest.param(arch, fp, id=f"{arch}-{fp}", marks=[*skips(arch), *([pytest.mark.slow] if by_night else [])])


# every backend, with the dtypes that it has
WAYS = [
    way(arch, fp)
    for arch in ("cpu", "c", "cuda", "vulkan", "metal", "amdgpu", "wasm")
    for fp in ((f32,) if arch == "metal" else (f64, f32))
]


def each(programs: Iterable[Any], every: int = 1) -> pytest.MarkDecorator:
    """Each program as ``program``; by day one of ``every``."""
    return pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in programs][:: 1 if NIGHT else every])


def spread(programs: list[Program], ways: list[Any]) -> pytest.MarkDecorator:
    """Each program in each way, as ``program``, ``arch`` and ``fp``. By day it runs on the CPU in f64, on CUDA where
    there is a device, and in one of the other ways, in turn."""
    turns = [w for w in ways if w.values != ("cpu", f64) and w.values[0] != "cuda" and not _by_night(w)]
    rows = []
    for n, p in enumerate(programs):
        off = [w for k, w in enumerate(turns) if k != n % len(turns)]
        today = [w for w in ways if NIGHT or not (w in off or _by_night(w))]
        rows += [pytest.param(p, *w.values, id=f"{w.id}-{p.name}", marks=w.marks) for w in today]
    return pytest.mark.parametrize(("program", "arch", "fp"), rows)


def _by_night(way: Any) -> bool:
    return any(mark.name == "slow" for mark in way.marks)


# --- compared

def differences(job: Job, outcome: Outcome, got: Arrays, tol: float, gradient: bool) -> list[str]:
    """In words, where ``got`` is further from the oracle than ``tol``: of the value, or of the summed absolute
    contributions to a gradient."""
    wrong = []
    for name, want in outcome.values.items():
        if gradient and name.endswith(".grad"):
            continue
        scale = np.maximum(1.0, np.abs(want)) if name in job.floats else 0.0
        error = np.abs(got[name].astype(np.float64) - want)
        if not (error <= tol * scale).all():
            wrong.append(f"{name} is {got[name]}, should be {want}")
    if gradient:
        for name, want in outcome.grads.items():
            have = got[f"{name}.grad"].astype(np.float64)
            if not (np.abs(have - want) <= tol * (outcome.scales[name] + 1e-3)).all():
                wrong.append(f"{name}.grad is {have}, should be {want}")
    return wrong


__all__ = [
    "MADE", "WAYS", "Bench", "Job", "define", "differences", "each", "f32", "f64", "interpreted", "job_of", "spread",
    "way",
]  # fmt: skip
