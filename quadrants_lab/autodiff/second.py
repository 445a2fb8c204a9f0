"""Second derivatives: the tangents of a kernel, differentiated in reverse.

Let f be a program from x to a loss, and v a direction. Forward mode gives the tangent of the loss, (grad f(x)) . v,
which is a number like any other: its derivative by x is the product of the Hessian with v, and its derivative by the
tangent of x, v itself, is the gradient. So a kernel is given tangents (`with_tangents`, then the pass `forward`), the
result is a kernel of twice as many buffers, and the gradient of that is what `reverse` makes of it.

The adjoint of ``x.tangent`` is ``x.grad``; that of ``x`` is ``x.grad.tangent``, the derivative of the gradient along v.
"""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.autodiff.activity import active_values
from quadrants_lab.autodiff.refusals import refusal
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import rewrite, walk

TANGENT = "tangent"


def with_tangents(kernel: N.Kernel, adjoints: bool = False) -> N.Kernel:
    """The front end's kernel with a tangent, ``x.tangent``, for each buffer of the user's that has a gradient and no
    dual. ``adjoints``: for each that has a gradient, and with the adjoints that make it one to be differentiated
    twice."""
    buffers = dict(kernel.buffers)
    for name, b in kernel.buffers.items():
        if b.grad and not b.passing and (adjoints or not b.dual):
            tangent = replace(b, name=f"{name}.{TANGENT}", grad=b.grad if adjoints else "", dual="")
            second = replace(b, name=f"{b.grad}.{TANGENT}", grad="", dual="")
            buffers[name] = replace(b, dual=tangent.name, grad=second.name if adjoints else b.grad)
            buffers[tangent.name] = tangent
            if adjoints:
                buffers[second.name] = second
    return replace(kernel, buffers=buffers)


def is_second(kernel: N.Kernel) -> bool:
    """Whether the kernel is to be differentiated twice: its tangents have adjoints."""
    return any(b.dual and kernel.buffers[b.dual].grad for b in kernel.buffers.values())


def to_be_differentiated(kernel: N.Kernel) -> N.Kernel:
    """The kernel after `forward` as one that `reverse` takes: tangents of launch temporaries have adjoints, a statement
    of a tangent stands for itself, and how many iterations won an atomic min or max is kept for the gradient."""
    buffers = dict(kernel.buffers)
    for b in kernel.buffers.values():
        if b.passing and b.dual:
            adjoint = f"{b.dual}.grad"
            buffers[b.dual] = replace(kernel.buffers[b.dual], grad=adjoint)
            buffers[adjoint] = replace(kernel.buffers[b.dual], name=adjoint, grad="")
    work = {name: f"{name}.kept" for name, b in buffers.items() if b.role == "work"}
    buffers |= {kept: replace(buffers.pop(name), name=kept, role="kept") for name, kept in work.items()}

    def one(s: N.Stmt) -> N.Stmt:
        if isinstance(s, N.Access) and s.buffer in work:
            s = replace(s, buffer=work[s.buffer])
        return replace(s, adjoint_of=N.NO_ID)

    return replace(kernel, buffers=buffers, body=rewrite(kernel.body, one), mode="forward")


def check_second(kernel: N.Kernel) -> None:
    """Raises QL0418 for a derivative of an offloaded kernel that is a formula, which holds for the first one only."""
    active = active_values(kernel, {name for name, b in kernel.buffers.items() if b.dual})
    for s in walk(kernel.body):
        if isinstance(s, N.Op) and s.prim == "custom_jvp" and s.id in active:
            raise refusal("QL0418", s.span)
