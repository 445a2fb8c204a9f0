"""Measures what PyTorch's anomaly mode, JAX's debug_nans and a check by finite differences report about programs with
the defects that the doctor (`qd.ad.check`) is tested with.

    .venv/bin/python scripts/doctors.py

measures with those of torch, jax and quadrants_lab that it can import, and writes their columns of the table in
`docs/autodiff/elsewhere.md`. Other columns stay as they are, so the script can run under several Pythons in turn.
"""

from __future__ import annotations

import inspect
import io
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "autodiff" / "elsewhere.md"
COLUMNS = ("the doctor", "anomaly mode", "debug_nans", "differences")
NO_RACES = "nothing like it: operations on arrays do not race"
NO_SEED = "nothing like it: the loss is seeded with 1"
NO_LEFT = "nothing like it: gradients are returned"
CLOSED = "nothing like it: arrays do not change"
NO_OVERWRITING = "nothing like it: a function returns arrays, and overwrites none"


# --- the same defects in terms of operations on arrays --------------------------------------------------------------
#
# ``m`` has the functions of torch or jax.numpy, and functions that differ between the two: ``stop``, ``to_int``,
# ``number``, ``own``. HERE marks the line that is to blame; in a program of one line it is that line.


def asin_at_one_in_a_loop(m: Any, x: Any) -> Any:
    v = x[:3]
    for _ in range(2):
        v = m.asin(v) * 0.5  # HERE
    return v.sum()


def a_product_that_overflows_after_steps(m: Any, x: Any) -> Any:
    w = 0.0 * x + 2.0
    for _ in range(12):
        w = w * w  # HERE
    return (w + x).sum()


def an_overwritten_field(m: Any, x: Any) -> Any:
    w = x * 2.0
    w = m.ones(4)  # HERE
    return w.sum()


def overwritten_by_python(m: Any, x: Any) -> Any:
    w = x * 2.0
    w = m.stop(w) * 0.0 + 1.0  # HERE
    return w.sum()


def a_loop_bound_that_nobody_set(m: Any, x: Any) -> Any:
    y = 0.0 * x
    for _ in range(0):  # HERE
        y = y + x
    return y.sum()


def a_loss_that_does_not_depend_on_it(m: Any, x: Any) -> Any:
    _ = x * 2.0  # HERE
    return m.ones(1).sum()


def a_number_that_goes_through_python(m: Any, x: Any) -> Any:
    a = m.number(x[1])  # HERE
    return m.ones(1).sum() * a * a


def the_second_of_three_steps(m: Any, x: Any) -> Any:
    w = m.sin(x)
    v = m.own(lambda a: a * a, lambda a, g: a * g, w)  # HERE
    return (v * x).sum()


def a_value_that_changes_in_place_before_the_gradient(m: Any, x: Any) -> Any:
    w = 0.0 * x + 3.0
    y = (w * w * x).sum()
    w.mul_(2.0)  # HERE
    return y


def a_gradient_that_is_cleared_after(m: Any, x: Any) -> Any:
    (x * x).sum().backward()
    x.grad.zero_()  # HERE
    return 0.0 * x.sum()


def a_gradient_that_is_not_cleared(m: Any, x: Any) -> Any:
    (x * x).sum().backward()
    (x * x).sum().backward()  # HERE
    return 0.0 * x.sum()


def _squares(m: Any, x: Any, factor: float) -> Any:
    return m.own(lambda v: (v * v).sum(), lambda v, g: 2.0 * factor * v * g, x)  # HERE


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "norm_by_hand_at_zero": lambda m, x: m.sqrt(x * x + 4.0 * x * x).sum(),
    "root_in_the_operand_that_is_not_selected": lambda m, x: m.where(x > 0.0, m.sqrt(x), 0.0 * x).sum(),
    "acos_at_one": lambda m, x: m.acos(x[:3]).sum(),
    "power_with_a_fraction_at_zero": lambda m, x: (x**0.5).sum(),
    "second_of_two_launches": lambda m, x: m.sqrt(x * x).sum(),
    "log_of_a_negative": lambda m, x: m.log(x - 1.5).sum(),
    "division_by_a_count_of_zero": lambda m, x: (x / (0.0 * x.sum())).sum(),
    "power_of_a_negative_base": lambda m, x: ((x - 1.2) ** 1.5).sum(),
    "overflow_to_infinity": lambda m, x: m.exp(400.0 * x).sum(),
    "zero_over_zero": lambda m, x: (m.sin(x) / x).sum(),
    "a_field_without_gradient_between_launches": lambda m, x: m.stop(x * 3.0).sum(),
    "a_field_without_gradient_within_a_kernel": lambda m, x: m.stop(m.sin(x)).sum(),
    "a_cast_to_an_integer": lambda m, x: (0.5 * m.to_int(4.0 * x + 0.3)).sum(),
    "integers_between_launches": lambda m, x: (0.5 * m.to_int(8.0 * x + 0.3)).sum(),
    "a_floor": lambda m, x: m.floor(4.0 * x + 0.3).sum(),
    "a_stop_grad_of_a_value": lambda m, x: (m.stop(x * 2.0) ** 2).sum(),
    "a_stop_grad_of_a_field": lambda m, x: m.stop(x).sum(),
    "launches_under_no_grad": lambda m, x: m.no_grad(lambda: x.sum()),
    "a_branch_that_is_not_taken": lambda m, x: m.where(x * 0.0 > 3.0, x, 0.0 * x).sum(),
    "only_a_decision": lambda m, x: m.where(x > 0.55, 1.0, 0.0).sum(),
    "an_input_that_nobody_reads": lambda m, x: m.ones(4).sum(),
    "a_detached_copy": lambda m, x: m.stop(x * 2.0).sum(),
    "a_clamp_that_saturates": lambda m, x: m.maximum(x, 0.0 * x + 5.0).sum(),
    "a_factor_of_zero": lambda m, x: (x * (0.0 * m.ones(4))).sum(),
    "an_exponential_that_underflows": lambda m, x: m.exp(-200.0 - x).sum(),
    "a_max_with_a_tie": lambda m, x: m.maximum(x, 0.0 * x + 0.5).sum(),
    "abs_at_zero": lambda m, x: m.abs(x).sum(),
    "a_tie_of_atomic_mins": lambda m, x: (0.0 * x + 0.25 + (x - m.stop(x))).min() ** 2,
    "a_branch_at_its_edge": lambda m, x: m.where(x >= 0.5, 3.0 * (x - 0.5), 0.0 * x).sum(),
    "a_gradient_of_ones_own_off_by_a_hundredth": lambda m, x: _squares(m, x, 1.01),
    "the_same_in_single_precision": lambda m, x: _squares(m, x, 1.017),
    "a_gradient_of_ones_own_with_the_wrong_sign": lambda m, x: _squares(m, x, -1.0),
    "a_gradient_of_ones_own_that_does_nothing": lambda m, x: _squares(m, x, 0.0),
    "an_index_out_of_bounds": lambda m, x: sum(x[min(i + 1, 4)] for i in range(4)),
    **{f.__name__: f for f in (
        asin_at_one_in_a_loop, a_product_that_overflows_after_steps, an_overwritten_field,
        overwritten_by_python, a_loop_bound_that_nobody_set, a_loss_that_does_not_depend_on_it,
        a_number_that_goes_through_python, the_second_of_three_steps,
        a_value_that_changes_in_place_before_the_gradient, a_gradient_that_is_cleared_after,
        a_gradient_that_is_not_cleared,
    )},
}  # fmt: skip
TORCH_ONLY = {
    "a_value_that_changes_in_place_before_the_gradient": {"debug_nans": CLOSED},
    "a_gradient_that_is_cleared_after": {"debug_nans": NO_LEFT, "differences": NO_LEFT},
    "a_gradient_that_is_not_cleared": {"debug_nans": NO_LEFT, "differences": NO_LEFT},
}
NONE = {
    "a_gradient_of_ones_own_that_leaves_what_is_overwritten": (NO_OVERWRITING,) * 3,
    "a_loss_that_is_not_seeded": (NO_SEED, NO_SEED, NO_SEED),
    "a_bound_that_changes_before_the_gradient": ("nothing like it: loops are unrolled as they ran",) * 3,
    "a_race_that_the_compiler_sees": (NO_RACES,) * 3,
    "a_race_that_only_data_shows": (NO_RACES,) * 3,
}
SINGLE = {"an_exponential_that_underflows", "the_same_in_single_precision"}
TIED = {"a_tie_of_atomic_mins"}


def point(name: str) -> Any:
    values = [0.25] * 4 if name in TIED else [0.0, 0.5, 1.0, 2.0]
    return np.array(values, np.float32 if name in SINGLE else np.float64)


# --- what is measured -----------------------------------------------------------------------------------------------


def lines(f: Callable[..., Any]) -> set[int]:
    """The numbers of the lines that are to blame, in the program or in a function that it calls."""
    if f.__name__ == "<lambda>" and "_squares" not in f.__code__.co_names:
        return {f.__code__.co_firstlineno}
    source, first = inspect.getsourcelines(f if f.__name__ in PROGRAMS else _squares)
    return {first + n for n, line in enumerate(source) if "# HERE" in line}


def first_words(e: BaseException) -> str:
    return re.split(r"\. |: |\n", str(e))[0].rstrip(".")[:110]


def told(f: Callable[..., Any], what: str, places: str) -> str:
    """The cell of the table: the message ``what``, and whether the traceback ``places`` names the line to blame."""
    named = {int(n) for n in re.findall(re.escape(Path(__file__).name) + r'", line (\d+)', places)}
    what = " ".join(what.split()).replace("|", "/")
    return f"{what}; {'names' if named & lines(f) else 'not'} the line"


def with_torch() -> dict[str, dict[str, str]]:
    import torch

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, f: Any, df: Any, v: Any) -> Any:
            ctx.save_for_backward(v)
            ctx.df = df
            return f(v)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None, None, ctx.df(*ctx.saved_tensors, g)

    class Torch:
        stop = staticmethod(lambda v: v.detach())
        to_int = staticmethod(lambda v: v.to(torch.int32))
        number = staticmethod(lambda v: v.item())
        ones = staticmethod(lambda n: torch.ones(n, dtype=torch.float64))
        own = staticmethod(lambda f, df, v: Own.apply(f, df, v))

        @staticmethod
        def no_grad(f: Any) -> Any:
            with torch.no_grad():
                return f()

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    def anomaly(f: Callable[..., Any], x: Any) -> str:
        said = io.StringIO()
        try:
            with warnings.catch_warnings(record=True) as shown, redirect_stderr(said):
                warnings.simplefilter("always")
                with torch.autograd.detect_anomaly():
                    f(Torch(), x).backward()
        except (RuntimeError, IndexError) as e:
            places = "".join(str(w.message) for w in shown) + said.getvalue() + traceback.format_exc()
            return told(f, first_words(e), places)
        finite = x.grad is None or bool(torch.isfinite(x.grad).all())
        return "says nothing" if finite else "says nothing, and leaves an infinite gradient"

    def differences(f: Callable[..., Any], x: Any) -> str:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.autograd.gradcheck(lambda v: f(Torch(), v), x)
        except (RuntimeError, IndexError, ValueError) as e:
            what = first_words(e)
            return "differs" if "mismatch" in what or "expected to be zero" in what else f"error: {what}"
        return "passes"

    found: dict[str, dict[str, str]] = {}
    for name, f in PROGRAMS.items():
        x = [torch.tensor(point(name), requires_grad=True) for _ in range(2)]
        known = TORCH_ONLY.get(name, {}).get("differences")
        found[name] = {"anomaly mode": anomaly(f, x[0]), "differences": known or differences(f, x[1])}
    return found


def with_jax() -> dict[str, dict[str, str]]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_debug_nans", True)

    def with_own(f: Any, df: Any, v: Any) -> Any:
        g = jax.custom_vjp(f)
        g.defvjp(lambda a: (f(a), a), lambda a, up: (df(a, up),))
        return g(v)

    class Jax:
        stop = staticmethod(jax.lax.stop_gradient)
        to_int = staticmethod(lambda v: v.astype(jnp.int32))
        number = staticmethod(float)
        no_grad = staticmethod(lambda f: jax.lax.stop_gradient(f()))
        own = staticmethod(with_own)

        def __getattr__(self, name: str) -> Any:
            return getattr(jnp, name)

    def nans(f: Callable[..., Any], x: Any) -> str:
        try:
            g = jax.grad(lambda v: f(Jax(), v))(x)
        except Exception as e:  # any error may be the report
            return told(f, first_words(e), traceback.format_exc())
        return "says nothing" if bool(jnp.isfinite(g).all()) else "says nothing, and leaves an infinite gradient"

    return {
        name: TORCH_ONLY.get(name) or {"debug_nans": nans(f, jnp.asarray(point(name)))} for name, f in PROGRAMS.items()
    }


def with_the_doctor() -> dict[str, dict[str, str]]:
    sys.path.insert(0, str(ROOT / "tests"))
    sys.path.insert(0, str(ROOT))
    from check import defects_numbers, defects_programs  # noqa: F401  # importing them fills the table
    from check.bench import DEFECTS, Bench

    import quadrants_lab as qd

    found = {}
    for name, d in DEFECTS.items():
        qd.init(arch=qd.cpu, default_fp=qd.f32 if d.f32 else qd.f64)
        bench = Bench(qd.f32 if d.f32 else qd.f64)
        report = qd.ad.check(d.make(bench), bench.y, bench.x)
        causes = [*report.causes, *(c for v in report.verdicts for c in v.causes)]
        cause = next((c for c in causes if c.kind == d.kind), None)
        line = "" if not d.line or cause is None else f"; {'names' if cause.line == d.here else 'not'} the line"
        found[name] = {"the doctor": f"{cause.kind}{line}" if cause is not None else "says nothing"}
        qd.reset()
    return found


def table() -> dict[str, dict[str, str]]:
    """The rows of the table, as the page has them."""
    found: dict[str, dict[str, str]] = {}
    for row in re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text() if PAGE.exists() else "", re.MULTILINE):
        found[row[0]] = dict(zip(COLUMNS, row[1].split(" | "), strict=True))
    return found


def main() -> None:
    rows = table()
    for measure in (with_the_doctor, with_torch, with_jax):
        with suppress(ModuleNotFoundError):
            for name, said in measure().items():
                rows.setdefault(name, {}).update(said)
    for name, others in NONE.items():
        rows.setdefault(name, {}).update(zip(COLUMNS[1:], others, strict=True))
    head = PAGE.read_text().partition("| defect |")[0]
    made = [f"| defect | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    made += [f"| `{name}` | {' | '.join(row.get(c, 'not measured') for c in COLUMNS)} |" for name, row in rows.items()]
    PAGE.write_text(head + "\n".join(made) + "\n")


if __name__ == "__main__":
    main()
