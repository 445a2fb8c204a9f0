"""Decides for torch tensors to which memory a launch adds derivatives, and what the tensor's attribute `.grad` is
afterwards.

`settle` decides both for every tensor and every launch, by these rules:

- The gradient is the tensor `.grad`, whoever set it. If `.grad` is None, a launch sets it to a tensor of zeros.
- If kernels cannot use the memory of `.grad` (it is not contiguous, or of another layout or dtype), launches use a
  copy, and their writes are copied to `.grad`. If elements of `.grad` share memory, so that it cannot hold the result,
  the copy becomes `.grad`.
- A tensor that requires no gradient is a constant. If it has a `.grad` nevertheless, a launch may read this `.grad` as
  the start of a derivative, but adds nothing to it; a Tape does not write to it at all.
- Within a call of a backward function of a `torch.autograd.Function`, a `.grad` to which kernels only add starts as
  zeros, unless the user has set it within the call. When the call ends, the earlier `.grad` is restored: for an input
  of the function, before torch adds the gradient that the function returned; for any other tensor, with the result of
  the call added.
- A `.grad` that is set within a backward function may be torch's own array: kernels that would write to it get a copy.
"""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from quadrants_lab.errors import render, warn
from quadrants_lab.ir.record import dataclass
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.interop.tensors import Tensor, tensor_memory
from quadrants_lab.runtime.memory.memory import Memory


@dataclass(frozen=True, slots=True)
class Use:
    """How a kernel uses the gradient of an argument. ``reads``: it uses values of the gradient, and does not only add
    to it. ``writes``: it changes the gradient."""

    argument: str
    kernel: str
    reads: bool
    writes: bool


class Gradient:
    """The gradient that `settle` chose for a tensor. ``grad``: what `.grad` was then; None for a constant. ``mine``:
    whether `settle` made that tensor. ``copy``: what launches use instead, or None. ``memory``: what launches use.
    ``since``: the call of a backward function in which the gradient was chosen, or None; ``call``: the call in which it
    was last used. ``aside``: what is put back after that call. ``told``: the user was warned that the gradient ends
    here. ``unset``: it began as zeros, because there was no `.grad`."""

    __slots__ = ("aside", "call", "copy", "grad", "memory", "mine", "since", "told", "unset")

    def __init__(self) -> None:
        self.grad: Any = None
        self.mine = self.told = self.unset = False
        self.copy: _Copy | None = None
        self.memory: Any = None
        self.call: _Call = None
        self.since: _Call = None
        self.aside: _Aside | None = None

    def choose(self, known: Tensor, tensor: Any, grad: Any, mine: bool) -> None:
        """Makes ``grad`` the gradient."""
        self.grad, self.mine, self.since, self.unset = grad, mine, _call(running_backward()), False
        self.copy = None if mine or _usable(tensor, grad) else _Copy.of(known, tensor, grad)
        if self.copy is not None:
            self.memory = self.copy.memory
        else:
            self.memory = tensor_memory(grad, known.session, _WHAT)
            self.memory.on_flush = None if grad.is_inference() else lambda _: known.count(grad)
        known.gradient = self
        for ndarray in known.ndarrays.values():
            self.attach(ndarray)

    def attach(self, ndarray: Any) -> None:
        """Makes this the gradient of ``ndarray``, an ndarray over the tensor's memory."""
        if ndarray.grad is None:
            ndarray.grad = type(ndarray)(ndarray.dtype, ndarray.element_shape)
        ndarray.grad.use_memory(self.memory, ndarray.shape)

    def follow(self, tensor: Any) -> None:
        """Makes writes by torch visible to launches."""
        if self.copy is not None:
            self.copy.update()
        if self.memory is not None and self.memory.imported:
            dlpack.wait_stream(self.memory, dlpack.stream_of(tensor))


def settle(known: Tensor, tensor: Any, use: Use | None = None, node: Any = None, taped: bool = False) -> None:
    """Decides what the gradient of a tensor is, by the rules above. ``use``: how the launch that is about to start uses
    the gradient; None if it does not touch it. ``node``: the result of `running_backward`. ``taped``: whether a Tape
    launches."""
    gradient, grad = known.gradient or Gradient(), grad_of(tensor)
    starts = use is not None and use.reads and grad is not None
    if not tensor.requires_grad and (grad is None or (use is not None and (not starts or (taped and use.writes)))):
        if use is None:
            known.gradient = None
            for ndarray in known.ndarrays.values():
                ndarray.grad = None
        else:
            gradient.choose(known, tensor, _contiguous(tensor, grad) if starts else _zeros(tensor), True)
            gradient.grad = None
        return
    mine = False
    if use is not None and node is not None:
        grad, mine = _in_backward(node, gradient, known, tensor, grad, use, taped)
    unset = grad is None
    if unset:
        grad, mine = _zeros(tensor), True
    if grad is not gradient.grad:
        if mine:
            tensor.grad = grad
        gradient.choose(known, tensor, grad, mine)
        gradient.unset = unset
    elif use is not None:
        gradient.follow(tensor)
    if use is not None and node is None and use.writes and gradient.mine and not _torch_adds(tensor):
        _tell(gradient, use)


def settle_argument(ndarray: Any, use: Use | None = None, node: Any = None, taped: bool = False) -> None:
    """Calls `settle` for an ndarray over a tensor, if that has a gradient; does nothing for any other object. A tensor
    that torch has freed keeps its gradient."""
    if getattr(ndarray, "grad", None) is not None and (known := ndarray._memory.tensor) is not None:
        tensor = known.of()
        if tensor is not None:
            settle(known, tensor, use, node, taped)


def running_backward() -> Any:
    """The node of torch's graph that runs in this thread; None outside of a backward pass."""
    # looked up in ``sys.modules``, since another thread may be importing torch
    of_torch = getattr(sys.modules.get("torch"), "_C", None)
    return None if of_torch is None else of_torch._current_autograd_node()


def grad_of(tensor: Any) -> Any:
    """The `.grad` of a tensor, without torch's warning about tensors that are not leaves."""
    if not tensor.is_leaf and _QUIET not in warnings.filters[:1]:
        # catch_warnings is not used: at its end, filters that other threads have set meanwhile would be lost
        warnings.filterwarnings("ignore", category=UserWarning, module=_HERE)
    return tensor.grad


_HERE = re.escape(__name__)
_QUIET = "ignore", None, UserWarning, re.compile(_HERE), 0


def _torch_adds(tensor: Any) -> bool:
    """Whether torch's backward pass adds to the `.grad` of a tensor."""
    return bool(tensor.is_leaf or tensor.retains_grad)


# --- within a backward function -------------------------------------------------------------------------------------


_Call = tuple[int, int] | None  # identifies a call of a backward function


def _call(node: Any) -> _Call:
    """The call in which ``node``, the result of `running_backward`, runs."""
    return None if node is None else (_task(), id(node))


class _PassedOn(threading.local):
    """Records, for the backward pass ``task``, the nodes of torch's graph whose calls passed a gradient on."""

    task = -1
    nodes: frozenset[int] = frozenset()


_passed_on = _PassedOn()


def passed_on() -> None:
    """Call this when a gradient that reads the gradients of arrays is launched."""
    if (node := running_backward()) is not None:
        task = _task()
        before = _passed_on.nodes if _passed_on.task == task else frozenset()
        _passed_on.task, _passed_on.nodes = task, before | {id(node)}


def unless_passed_on(node: Any, tell: Callable[[], None]) -> None:
    """Calls ``tell`` at the end of torch's backward pass if the call of this node has passed no gradient on. Kernels
    that read only data pass none on either, and nothing is wrong if other kernels do."""
    call = _call(node)

    def over() -> None:
        if not _has_passed_on(call):
            tell()

    _torch().autograd.Variable._execution_engine.queue_callback(over)


def unset(node: Any, ndarrays: Sequence[Any]) -> bool:
    """Whether the call of this node has set no gradient of these arrays: they are the zeros that `settle` made. (The
    gradients that torch gives to a backward function may all be 0.)"""
    gradients = [x._memory.tensor and x._memory.tensor.gradient for x in ndarrays]
    return not _has_passed_on(_call(node)) and all(g is not None and g.unset for g in gradients)


def _has_passed_on(call: _Call) -> bool:
    return call is not None and _passed_on.task == call[0] and call[1] in _passed_on.nodes


def function_of(node: Any) -> str:
    """The name of the `torch.autograd.Function` of a node."""
    return type(node).__name__.removesuffix("Backward")


def _task() -> int:
    """A number that torch gives to the backward pass that runs in this thread."""
    number: int = _torch()._C._current_graph_task_id()
    return number


def _in_backward(
    node: Any, gradient: Gradient, known: Tensor, tensor: Any, grad: Any, use: Use, taped: bool
) -> tuple[Any, bool]:
    """Decides the gradient of a tensor within a call of a backward function. Returns the tensor that is the gradient,
    or None if new zeros are to be made; and whether `settle` made it."""
    call = _call(node)
    begins, gradient.call = gradient.call != call, call
    if begins and not use.reads:
        before = grad is gradient.grad and gradient.since != call
        is_input, adds = _is_input(node, tensor), _torch_adds(tensor)
        if (before or adds) if is_input else (before and grad is not None and not taped):
            _put_aside(gradient, known, tensor, is_input, adds)
            return None, True
    mine = grad is gradient.grad and gradient.mine
    if grad is None or mine or not use.writes:
        return grad, mine
    return _contiguous(tensor, grad), True


def _put_aside(gradient: Gradient, known: Tensor, tensor: Any, is_input: bool, adds: bool) -> None:
    """Saves the `.grad` of a tensor in an `_Aside`, so that zeros can replace it during a call of a backward
    function."""
    aside, task = gradient.aside, _task()
    if aside is not None and not (is_input and aside.is_input and aside.task == task):
        aside.put_back(not aside.is_input)  # of another call, or of a backward pass that failed
        aside = None
    if aside is None and (adds or not is_input):  # torch gives no `.grad` to inputs that are not leaves
        gradient.aside = _Aside(known.of, gradient, tensor, is_input)


class _Aside:
    """The `.grad` that a tensor had before a backward function ran. It becomes the tensor's `.grad` again when torch is
    about to add the gradient that the function returned for an input, or else when the backward pass is over. If the
    function computed a gradient for the tensor but did not return it (the tensor is no input, or torch uses no gradient
    of it), that result is added."""

    def __init__(self, of: Callable[[], Any], gradient: Gradient, tensor: Any, is_input: bool) -> None:
        self.of, self.gradient, self.task, self.is_input = of, gradient, _task(), is_input
        self.grad = grad_of(tensor)
        self.hook = tensor.register_hook(lambda given: self.put_back(given is None)) if is_input else None
        over = partial(self.put_back, not is_input)
        _torch().autograd.Variable._execution_engine.queue_callback(over)  # if the hook does not run

    def put_back(self, add: bool) -> None:
        """Makes the earlier `.grad` the tensor's `.grad` again. ``add``: adds the current `.grad` to it."""
        tensor, gradient = self.of(), self.gradient
        if tensor is None or gradient.aside is not self:
            return
        gradient.aside = None
        if self.hook is not None:
            self.hook.remove()
        have = grad_of(tensor)
        if have is not gradient.grad and self.task != _task():
            return  # after a pass that failed, the user has set another `.grad`, which stays
        if not add or have is None:
            tensor.grad = self.grad
        elif self.grad is not None and _elements(self.grad):
            self.grad.detach().add_(have)
            tensor.grad = self.grad
        elif self.grad is not None:
            tensor.grad = have + self.grad


def _is_input(node: Any, tensor: Any) -> bool:
    """Whether the tensor is an input of the backward function ``node``, which returns a gradient for each input."""
    of = tensor.grad_fn
    if of is None:
        return any(getattr(function, "variable", None) is tensor for function, _ in node.next_functions)
    return any(function is of and n == tensor.output_nr for function, n in node.next_functions)


# --- memory ---------------------------------------------------------------------------------------------------------


_WHAT = "the .grad of a tensor"


def _torch() -> Any:
    return sys.modules["torch"]


def _zeros(tensor: Any) -> Any:
    torch = _torch()
    if not torch.is_inference_mode_enabled():
        return torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    with torch.inference_mode(False):  # so that torch may write to it afterwards
        return _zeros(tensor)


def _contiguous(tensor: Any, grad: Any) -> Any:
    """A copy of the gradient of ``tensor`` in contiguous memory."""
    made = _zeros(tensor)
    made.copy_(_dense(grad))
    return made


def _dense(grad: Any) -> Any:
    grad = grad.detach()
    return grad if grad.layout is _torch().strided else grad.to_dense()


def _usable(tensor: Any, grad: Any) -> bool:
    """Whether kernels can use the memory of a gradient."""
    plain = grad.layout is _torch().strided and grad.dtype is tensor.dtype
    return plain and grad.is_contiguous() and not grad.is_neg()


class _Copy:
    """A contiguous copy of a `.grad`, which launches use instead. Tensors whose `.grad` has the same elements share the
    copy. At each `Memory.flush`, the writes of launches are copied from it to `.grad`."""

    known: WeakValueDictionary[Any, _Copy] = WeakValueDictionary()

    def __init__(self, known: Tensor, tensor: Any, grad: Any) -> None:
        self.grad = grad  # kept alive, so that no other tensor gets its address
        self.tensor = _contiguous(tensor, grad)
        self.memory = tensor_memory(self.tensor, known.session, _WHAT)
        self.memory.on_flush = partial(_given_back, known.of, grad, self.tensor)

    @staticmethod
    def of(known: Tensor, tensor: Any, grad: Any) -> _Copy:
        if not _elements(grad):
            return _Copy(known, tensor, grad)
        key = known.session.serial, grad.data_ptr(), grad.stride(), grad.shape, grad.dtype, grad.is_neg(), tensor.dtype
        found = _Copy.known.get(key)
        if found is None:
            found = _Copy.known[key] = _Copy(known, tensor, grad)
        else:
            found.update()
        return found

    def update(self) -> None:
        """Copies the current values of `.grad` to the copy."""
        self.tensor.copy_(_dense(self.grad))


def _given_back(of: Callable[[], Any], grad: Any, copy: Any, memory: Memory) -> None:
    """Copies the values that launches wrote from the copy to the tensor's `.grad`. If elements of `.grad` share memory,
    the copy becomes the `.grad`."""
    dlpack.signal_stream(memory)
    if _elements(grad):
        grad.detach().copy_(copy)
    elif (tensor := of()) is not None and grad_of(tensor) is grad:
        tensor.grad = copy


def _elements(grad: Any) -> bool:
    """Whether no two elements of a gradient share memory."""
    spans = 1
    if grad.layout is not _torch().strided:
        return False
    for stride, size in sorted(zip(grad.stride(), grad.shape, strict=True)):
        if size > 1:
            if stride < spans:
                return False
            spans += stride * (size - 1)
    return True


def _tell(gradient: Gradient, use: Use) -> None:
    """Warns, once for each tensor, that derivatives end at it."""
    if not gradient.told:
        gradient.told = True
        name = use.argument
        text = render(
            "QL2054",
            f"the gradient of kernel {use.kernel} is added to the .grad of argument {name!r}, a tensor that torch "
            "computed: torch does not carry it on to the tensors from which it was computed",
            help=f"pass it on: {name}.backward({name}.grad); or make a qd.torch_op of the kernels, or launch them in a "
            f"torch.autograd.Function; {name}.retain_grad() says that it may end there",
            kind="warning",
        )
        warn(text)
