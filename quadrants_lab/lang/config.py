"""The options of `qd.init`, and functions that start, end and wait for sessions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import enumerate as threads, get_ident
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends.disk_cache import MOST_BYTES, default_path
from quadrants_lab.errors import (
    QuadrantsError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
    QuadrantsWarning,
)
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DTYPES, DType, f16, f32, f64, i32, i64
from quadrants_lab.lang import arch as A
from quadrants_lab.lang.elsewhere import closest
from quadrants_lab.runtime import session
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.observe.observers import OBSERVERS, open_recording
from quadrants_lab.runtime.session import Settings


class UnknownOption(QuadrantsError, KeyError):
    """An option that `init` does not know."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Option:
    """A row of `OPTIONS`: ``read(name, value)`` checks and converts a value. ``note`` is a warning that is given when
    the value differs from the default."""

    read: Callable[[str, Any], Any]
    default: Any
    note: str = ""


def _bad(name: str, value: Any, want: str) -> QuadrantsRuntimeTypeError:
    key = _variable(name)
    of = f"environment variable {key}" if value == os.environ.get(key) else f"qd.init: {name}"
    return QuadrantsRuntimeTypeError(f"{of} must be {want}, not {value!r}", code="QL2030")


def _flag(name: str, value: Any) -> bool:  # also as text, because environment variables are text
    words = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False, "": False}
    found = words.get(str(value).lower())
    if found is None:
        raise _bad(name, value, "True or False")
    return found


def _count(name: str, value: Any) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise _bad(name, value, "an integer") from None
    if number < 0:
        raise _bad(name, value, "0 or more")
    return number


def _dtype(allowed: tuple[DType, ...]) -> Callable[[str, Any], DType]:
    def read(name: str, value: Any) -> DType:
        found = DTYPES.get(str(value))
        if found not in allowed:
            raise _bad(name, value, " or ".join(f"qd.{t}" for t in allowed))
        return found

    return read


LEVELS = ("trace", "debug", "info", "warn", "error", "critical", "off")


def _level(name: str, value: Any) -> str:
    if value not in LEVELS:
        raise _bad(name, value, "one of " + ", ".join(LEVELS))
    return str(value)


# values of ``check``: each includes the checks of the values before it, and adds the check that it names
CHECKS = ("", "bounds", "races", "nan", "gradients")
_SEES_LAUNCHES = CHECKS[CHECKS.index("nan") :]  # the values whose checks look at each launch
_OFF_AND_ON = {"0": "", "off": "", "false": "", "none": "", "1": CHECKS[-1], "on": CHECKS[-1], "true": CHECKS[-1]}


def _checks(name: str, value: Any) -> str:
    """A value of ``check``; True and 1 mean all of them."""
    text = str(value).lower()
    found = _OFF_AND_ON.get(text, text)
    if found not in CHECKS:
        raise _bad(name, value, f"True, False or one of {', '.join(map(repr, CHECKS[1:]))}")
    return found


def _path(name: str, value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        raise _bad(name, value, "a path") from None


def _version(name: str, value: Any) -> Any:
    """The value of ``require_version`` as it was given; an error if this package has the language of an older
    Quadrants."""
    try:
        wanted = tuple(int(part) for part in (value.split(".") if isinstance(value, str) else value))
    except (TypeError, ValueError):
        raise _bad(name, value, 'a version such as "1.3.0"') from None
    if wanted > REFERENCE:
        here = ".".join(map(str, REFERENCE))
        what = f"qd.init: the program needs Quadrants {value}, and the language here is that of {here}"
        raise QuadrantsRuntimeError(what, code="QL2030", help="leave require_version out, and see what is missing")
    return value


REFERENCE = (1, 3, 3)  # the version of Quadrants whose language this is

OPTIONS: dict[str, Option] = {
    "default_ip": Option(_dtype((i32, i64)), i32),
    "default_fp": Option(_dtype((f32, f64, f16)), f32),
    "debug": Option(_flag, False),
    "check_out_of_bound": Option(_flag, False),
    "check": Option(_checks, ""),
    "fast_math": Option(_flag, True),
    "cpu_max_num_threads": Option(_count, 0),
    "device": Option(_count, None),
    "random_seed": Option(_count, 0),
    "offline_cache": Option(_flag, True),
    "offline_cache_file_path": Option(_path, ""),
    "offline_cache_max_size_of_files": Option(_count, MOST_BYTES),
    "log_level": Option(_level, "warn"),
    "verbose": Option(_flag, False),
    "ad_stack_size": Option(_count, 0),
    "ad_stack_budget_bytes": Option(_count, 0),
    "default_ad_stack_size": Option(
        _count, 0, "default_ad_stack_size is accepted and ignored: adstacks are sized by analysis before each launch"
    ),
    "ad_stack_sparse_threshold_bytes": Option(_count, 100 << 20),
    "ad_unroll": Option(_count, 0),
    "ad_stack_experimental_enabled": Option(
        _flag, True, "ad_stack_experimental_enabled=False is ignored: adstacks are always on"
    ),
    "enable_fallback": Option(_flag, True),
    "simulate": Option(_flag, False),
    "kernel_profiler": Option(_flag, False),
    "print_full_traceback": Option(_flag, False),
    "print_non_pure": Option(_flag, False),
    "require_version": Option(_version, None),
    "unrolling_limit": Option(_count, 0),
}
# Options of Quadrants' own pipeline, drivers and logs, with their defaults. They are accepted, so that programs that
# were written for Quadrants run, and have no effect.
_OFF = """
experimental_auto_mesh_local external_metal_command_queue_is_torch_queue flatten_if force_scalarize_matrix
gdb_trigger half2_vectorization mesh_localize_all_attr_mappings mesh_localize_from_end_mapping
move_loop_invariant_outside_if print_accessor_ir print_ir print_ir_dbg_info
print_kernel_amdgcn print_kernel_asm print_kernel_llvm_ir print_kernel_llvm_ir_optimized
print_preprocessed_ir print_struct_llvm_ir raise_on_templated_floats timeline
"""
_ON = """
advanced_optimization cache_loop_invariant_global_vars cfg_optimization demote_dense_struct_fors
demote_no_access_mesh_fors detect_read_only make_block_local make_cpu_multithreading_loop
make_mesh_block_local make_thread_local mesh_localize_to_end_mapping optimize_mesh_reordered_mapping
quant_opt_atomic_demotion quant_opt_store_fusion real_matrix_scalarize short_circuit_operators src_ll_cache
"""
WITHOUT_EFFECT: dict[str, Any] = {
    **dict.fromkeys(_OFF.split(), False), **dict.fromkeys(_ON.split(), True),
    "auto_mesh_local_default_occupacy": 4, "cuda_stack_limit": 0, "debug_dump_path": "",
    "default_cpu_block_dim": 32, "default_gpu_block_dim": 128, "default_up": "u32", "device_memory_GB": 1.0,
    "device_memory_fraction": 0.0, "external_metal_command_queue": 0, "max_block_dim": 1024,
    "num_compile_threads": 4, "offline_cache_cleaning_factor": 0.25, "offline_cache_cleaning_policy": "lru",
    "opt_level": 1, "saturating_grid_dim": 0, "vk_api_version": "",
}  # fmt: skip
PRINTING = ("print_ir", "print_kernel", "print_pre", "print_acc")  # prefixes of the names of options that print
INSTEAD = (
    "print(kernel.ir()) and print(kernel.code()) show it after a call, kernel.export('kernel.html') writes every stage "
    "into a page, and python -m quadrants_lab inspect PROGRAM --html PAGE does so for a program"
)


_observing = ExitStack()  # the contexts of the default session's profiler and checks
_observes = False  # whether `_observing` holds any


def _is_on(name: str, given: Any = None) -> bool:
    value = os.environ.get(f"QD_{name.upper()}", "0") if given is None else given
    return value not in (False, 0, "", "0")


def init(arch: Any = None, default_fp: Any = None, default_ip: Any = None, **options: Any) -> None:
    """Starts the default session. The previous one ends, and its fields with it.

    ``arch``: qd.cpu (the default), another arch, its name, or a list, of which the first usable one is taken. If none
    can be used, there is a warning and the CPU is taken (an error with ``enable_fallback=False``). With ``simulate``,
    an arch whose device is absent runs on a simulation, if there is one (Metal). ``default_fp``, ``default_ip``: dtypes
    of literals and of untyped arithmetic. ``debug``: asserts, bounds, integer division and adstack pushes are checked;
    ``check_out_of_bound``: bounds alone. ``check``, or QL_CHECK=1 in the environment: errors at run time are reported
    at the line where they happen. Each of these values includes the checks of the values before it: "bounds" (indices
    and asserts), "races" (between iterations), "nan" (the operation that makes the first NaN; of gradients, also the
    first infinity), "gradients" (a gradient that is zero because it is lost on the way); True means the last one.
    Launches take several times as long, and their data are recorded for `Kernel.reproduce`. ``fast_math``: contraction,
    reassociation, approximate functions. ``cpu_max_num_threads``: 0 for all. ``device``: the number of one of several
    GPUs (CUDA, AMDGPU). ``ad_stack_size``: the number of slots of each adstack; 0 sizes them by analysis.
    ``ad_stack_budget_bytes``: a gradient that needs more bytes of adstacks is an error before it is launched (0: no
    limit). ``ad_stack_sparse_threshold_bytes``: on GPUs, a gradient whose adstacks would take more bytes first counts
    the iterations that push. ``kernel_profiler``: launches are counted and timed, see `qd.profiler`. ``ad_unroll``: how
    many iterations of a loop are unrolled into one if its gradient stores 32 bytes or more in an iteration; the memory
    is divided by this number, and more is computed. 0 takes a default of the arch, 1 does not unroll.
    ``offline_cache``: compiled kernels are kept on disk, in ``offline_cache_file_path``, at most
    ``offline_cache_max_size_of_files`` bytes. ``unrolling_limit``: a static loop of more iterations causes a warning
    (0: never). ``print_non_pure``: names of kernels without ``fastcache`` are printed when they are compiled.
    ``print_full_traceback``: the traceback of an error in a kernel has the frames of the compiler, too.
    ``require_version``: the least version of Quadrants that the program needs. An option that is not given is read from
    the environment variable QD_ followed by its name in capitals. An unknown option is a KeyError.
    """
    settings = _settings(arch, {**options, "default_fp": default_fp, "default_ip": default_ip})
    try:
        session.start(settings)  # may raise an error of a launch for which nobody has waited
    finally:
        _observe_default()
    values = settings.options
    if values["verbose"] or LEVELS.index(values["log_level"]) <= LEVELS.index("info"):
        print(f"[quadrants_lab] starting on arch={settings.arch}")


def _observe_default() -> None:
    """Attaches the profiler and the checks of the default session, if it has any, to launches from now on, and detaches
    those of the session before."""
    global _observes
    now = session.default()
    options = {} if now is None else now.settings.options
    checked, profiled = options.get("check", "") in _SEES_LAUNCHES, options.get("kernel_profiler", False)
    if not (_observes or checked or profiled):  # entering a session around each launch must be fast
        return
    _observing.close()
    _observes = checked or profiled
    if checked:
        checks = import_module("quadrants_lab.runtime.check.checked_session")
        _observing.enter_context(checks.checking_session(now))
    if profiled:
        _observing.enter_context(import_module("quadrants_lab.profiler").profiling(now))


class AnotherSession:
    """A session beside the default one. ``with`` makes it the default one of all threads until its block ends, and only
    one thread at a time can be within such a block. Its fields and kernels live until `close`, or as long as this
    object. No Tape may be open when a ``with`` begins."""

    _within: list[int] = []  # the threads that are within such a block

    def __init__(self, settings: Settings) -> None:
        self._session = session.Session(settings)
        self._open: list[AbstractContextManager[None]] = []

    def __enter__(self) -> AnotherSession:
        if open_recording() is not None or not all(getattr(o, "of_session", False) for o in OBSERVERS.get()):
            raise QuadrantsRuntimeError(
                "a session cannot begin under a Tape or a recorder, which records one session only",
                code="QL2004",
                help="put the with of the session around that of the Tape",
            )
        if not self._session.alive:
            raise QuadrantsRuntimeError(
                "the session is closed", code="QL2001", help="make another with qd.another_session"
            )
        others = set(self._within) - {get_ident()}
        if others and others & {t.ident for t in threads()}:
            raise QuadrantsRuntimeError(
                "another thread is within the `with` of a session, which is the session of all threads until it ends",
                code="QL2004",
                help="enter the sessions one after the other in one thread, or use a process for each",
            )
        self._open.append(self._as_default())
        try:
            self._open[-1].__enter__()
        except BaseException:  # Ctrl-C
            self._open.pop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.pop().__exit__(None, None, None)

    @contextmanager
    def _as_default(self) -> Iterator[None]:
        me = get_ident()
        try:
            self._within.append(me)
            with session.as_default(self._session):
                _observe_default()
                yield
        finally:
            self._within.remove(me)
            _observe_default()

    def sync(self) -> None:
        """Waits until every kernel that was launched in this session is done."""
        self._session.finish()

    def close(self) -> None:
        """Ends the session and its fields."""
        if self._session.alive:
            self._session.end()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def another_session(arch: Any = None, default_fp: Any = None, default_ip: Any = None, **options: Any) -> AnotherSession:
    """Makes a session beside the default one, with the options of `init`: for a second GPU, or another arch.

    Fields made and kernels launched within a ``with`` of the session belong to it. A launch on a GPU does not wait for
    the GPU, so several sessions compute at the same time.
    """
    return AnotherSession(_settings(arch, {**options, "default_fp": default_fp, "default_ip": default_ip}))


def _settings(arch: Any, options: dict[str, Any]) -> Settings:
    given = {k: v for k, v in options.items() if v is not None}
    for name in given:
        if name not in OPTIONS and name not in WITHOUT_EFFECT:
            close = closest(name, [*OPTIONS, "arch"])
            raise UnknownOption(
                f"unrecognized keyword argument for qd.init: {name}",
                code="QL2031",
                help=f"did you mean {close}?" if close else "the options are " + ", ".join(OPTIONS),
            )
    values: dict[str, Any] = {}
    for name, row in OPTIONS.items():
        raw = _from_environment(name, given.get(name))
        values[name] = row.default if raw is None else row.read(name, raw)
        if row.note and values[name] != row.default:
            warnings.warn(row.note, QuadrantsWarning, stacklevel=3)
    printing = [name for name in WITHOUT_EFFECT if name.startswith(PRINTING) and _is_on(name, given.get(name))]
    ignored = f"{printing[0]} prints" if printing else "QD_DUMP_IR writes" if _is_on("dump_ir") else ""
    if ignored:
        warnings.warn(f"{ignored} nothing here: {INSTEAD}", QuadrantsWarning, stacklevel=3)
    chosen = _usable(_from_environment("arch", arch), values["enable_fallback"], values["simulate"])
    capabilities, device = backend(chosen.backend).CAPABILITIES, values["device"]
    if device and not capabilities.many:
        raise QuadrantsRuntimeError(f"qd.init: device={device}, and {chosen.name} has one device here", code="QL2032")
    return Settings(
        arch=chosen.name,
        backend=chosen.backend,
        device=device if capabilities.many else None,
        compile=_compile_options(values, CompileOptions(on_host=capabilities.on_host)),
        threads=values["cpu_max_num_threads"] if chosen.backend == "cpu" else 0,
        cache_path=default_path(values["offline_cache_file_path"]) if values["offline_cache"] else None,
        cache_bytes=values["offline_cache_max_size_of_files"],
        ad_stack_budget=values["ad_stack_budget_bytes"],
        ad_stack_threshold=values["ad_stack_sparse_threshold_bytes"],
        **{name: values[name] for name in ("random_seed", "ad_unroll", "log_level")},
        options={**values, **{k: v for k, v in given.items() if k in WITHOUT_EFFECT}, "arch": chosen},
    )


def _compile_options(values: dict[str, Any], base: CompileOptions) -> CompileOptions:
    return replace(
        base,
        **{name: values[name] for name in CHANGEABLE if name != "check_out_of_bound"},
        check_out_of_bound=values["check_out_of_bound"] or values["debug"] or bool(values["check"]),
        asserts=bool(values["check"]),
        check_races=CHECKS.index(values["check"]) >= CHECKS.index("races"),
        verify=values["debug"],
    )


# the options of kernels, which `qd.cfg` can change; `CompileOptions` has attributes of the same names
CHANGEABLE = (
    "default_ip", "default_fp", "fast_math", "debug", "check_out_of_bound", "ad_stack_size", "unrolling_limit",
)  # fmt: skip


def change_option(name: str, value: Any) -> None:
    """Changes an option of the current session for kernels that are launched from now on."""
    now = session.current()
    options = now.settings.options
    if name in WITHOUT_EFFECT or name == "print_full_traceback":
        now.settings = replace(now.settings, options={**options, name: value})
        return
    if name not in CHANGEABLE:
        known = f"call qd.init({name}=...)" if name in options else f"qd.init has no option {name!r}"
        raise QuadrantsRuntimeError(
            f"this option of a session cannot be changed: qd.cfg.{name}", code="QL2038", help=known
        )
    values = {**options, name: OPTIONS[name].read(name, value)}
    now.settings = replace(now.settings, options=values, compile=_compile_options(values, now.settings.compile))
    now.recompile()


def shortened(error: Exception) -> Exception:
    """The error of a launch, without the traceback's frames of the compiler, because the text of a diagnostic names the
    user's line. An error that is no diagnostic keeps all frames, as does every error with
    ``print_full_traceback=True``."""
    now = session.default()
    full = now is not None and now.settings.options.get("print_full_traceback")
    return error.with_traceback(None) if isinstance(error, QuadrantsError) and not full else error


def reset() -> None:
    """Ends the default session: its fields and ndarrays cannot be used any more."""
    try:
        session.stop()
    finally:
        _observe_default()


def sync() -> None:
    """Waits until every launched kernel is done. A launch on the CPU returns only when it is done."""
    session.current().finish()


def set_logging_level(level: str) -> None:
    """Messages below ``level`` (trace, debug, info, warn, error, critical) are not shown from now on."""
    now = session.current()
    now.settings = replace(now.settings, log_level=_level("level", level))


def is_logging_effective(level: str) -> bool:
    """Whether messages of this level are shown."""
    return LEVELS.index(_level("level", level)) >= LEVELS.index(session.current().settings.log_level)


def _variable(name: str) -> str:
    """The name of the environment variable of an option: QD_ and the name in capitals; for ``check``, which Quadrants
    does not have, QL_CHECK."""
    return "QL_CHECK" if name == "check" else f"QD_{name.upper()}"


def _from_environment(name: str, given: Any) -> Any:
    """``given``, or if it is None the value of the environment variable; a warning if both are set."""
    key = _variable(name)
    value = os.environ.get(key)
    if given is None:
        return value
    if value is not None:
        what = f'environment variable {key}={value} overridden by qd.init argument "{name}"'
        warnings.warn(what, QuadrantsWarning, stacklevel=4)
    return given


def _usable(asked: Any, fallback: bool, simulate: bool) -> A.Arch:
    """The first usable arch among ``asked``, which is one arch or a list; the CPU for None."""
    if asked is None:
        return A.cpu
    wanted = [A.find(a) for a in (asked if isinstance(asked, (list, tuple)) else [asked])]
    if not wanted:
        raise QuadrantsRuntimeTypeError("qd.init: arch is an empty list", code="QL2030", help="name one, as qd.cpu")
    reasons = []
    for candidate in wanted:
        reason = why_not(candidate, simulate)
        if not reason:
            return candidate
        reasons.append(f"{candidate.name}: {reason}")
    message = "; ".join(reasons)
    if not fallback:
        raise QuadrantsRuntimeError(f"no arch that was asked for can be used: {message}", code="QL2032")
    warnings.warn(f"{message.rstrip('.')}; falling back to the CPU", QuadrantsWarning, stacklevel=4)
    return A.cpu


@cache
def _load_compiler() -> None:
    """Starts to import, in the background, the modules that a process needs for its first kernel. Meanwhile the caller
    waits for a device."""
    modules = "quadrants_lab.runtime.launch.gradient_plan", "quadrants_lab.runtime.compile.compile"
    forks.start(lambda: [import_module(name) for name in modules], name="imports")


def why_not(arch: A.Arch, simulate: bool) -> str:
    """The reason why kernels cannot run on this arch on this machine; "" if they can. With ``simulate`` a simulation of
    the arch is good enough."""
    if arch.backend == "cpu":
        return "" if arch is A.cpu else f"this machine's processor is {A.cpu.name}"
    name = f"quadrants_lab.backends.{arch.backend}"
    if find_spec(name) is None:
        return "this backend does not exist yet"
    _load_compiler()
    module = import_module(name)
    reason = str(module.probe())
    if reason and simulate and hasattr(module, "probe_simulation"):
        return str(module.probe_simulation())
    return reason
