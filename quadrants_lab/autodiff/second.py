"""Makes second derivatives, by reverse mode over forward mode.

Let f be a program from x to a loss, and v a direction. Forward mode gives the tangent of the loss, (grad f(x)) . v.
The derivative of this number by x is the Hessian times v, and its derivative by v, the tangent of x, is the gradient.
So `with_tangents` and the pass `forward` make a kernel with twice as many buffers, and `reverse` makes the gradient
of that kernel.

The adjoint of ``x.tangent`` is ``x.grad``. The adjoint of ``x`` is ``x.grad.tangent``, the derivative of the gradient
along v.
"""

from dataclasses import replace

from quadrants_lab.autodiff.derivative_expressions import active_values
from quadrants_lab.autodiff.diagnostics import refusal
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find, rewrite

TANGENT = "tangent"


def with_tangents(kernel: N.Kernel, adjoints: bool = False) -> N.Kernel:
    """The front end's kernel with a tangent buffer ``x.tangent`` for each buffer x that has a gradient and no dual.
    With ``adjoints``, for second derivatives: every buffer x with a gradient gets ``x.tangent``, and each tangent has
    an adjoint."""
    buffers = dict(kernel.buffers)
    for name, b in kernel.buffers.items():
        if b.grad and not b.transient and (adjoints or not b.dual):
            tangent = replace(b, name=f"{name}.{TANGENT}", grad=b.grad if adjoints else "", dual="")
            second = replace(b, name=f"{b.grad}.{TANGENT}", grad="", dual="")
            buffers[name] = replace(b, dual=tangent.name, grad=second.name if adjoints else b.grad)
            buffers[tangent.name] = tangent
            if adjoints:
                buffers[second.name] = second
    return replace(kernel, buffers=buffers)


def is_second(kernel: N.Kernel) -> bool:
    """Whether the kernel is for second derivatives: its tangents have adjoints."""
    return any(b.dual and kernel.buffers[b.dual].grad for b in kernel.buffers.values())


def to_be_differentiated(kernel: N.Kernel) -> N.Kernel:
    """Makes of the result of `forward` a kernel that `reverse` accepts: tangents of launch temporaries get adjoints,
    the statements of tangents no longer name the statement that they differentiate, and the counts of winners of atomic
    mins and maxes stay in scratch memory for the gradient."""
    buffers = dict(kernel.buffers)
    for b in kernel.buffers.values():
        if b.transient and b.dual:
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
    """Raises QL0418 if a derivative of an offloaded kernel uses a formula that is right only for first derivatives."""
    active = active_values(kernel, {name for name, b in kernel.buffers.items() if b.dual})
    for s in find(kernel.body, N.Op):
        if s.prim == "custom_jvp" and s.id in active:
            raise refusal("QL0418", s.span)
