"""`qd.init` and the names of the package."""

import pytest

import quadrants_lab as qd
from quadrants_lab.lang.elsewhere import NotSupportedYet
from quadrants_lab.runtime import session


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    for name in ("QD_ARCH", "QD_DEBUG", "QD_DEFAULT_FP"):
        monkeypatch.delenv(name, raising=False)
    qd.reset()
    yield
    qd.reset()


def test_without_a_session_everything_says_what_to_do() -> None:
    for use in (lambda: qd.field(qd.f32, 1), lambda: qd.ndarray(qd.f32, 1), qd.sync, qd.ad.clear_all_gradients):
        with pytest.raises(qd.QuadrantsRuntimeError, match="call qd.init"):
            use()


def test_defaults() -> None:
    qd.init()
    settings = session.current().settings
    options = settings.compile
    assert (options.default_fp, options.default_ip, options.debug, options.fast_math) == (qd.f32, qd.i32, False, True)
    assert settings.arch == qd.cpu.name
    assert settings.cache_path is not None


@pytest.mark.parametrize(
    ("given", "message"), [({"defalt_fp": qd.f64}, "did you mean default_fp"), ({"nonsense": 1}, "the options are")]
)
def test_an_unknown_option_is_an_error(given, message) -> None:
    with pytest.raises(KeyError, match=message):
        qd.init(arch=qd.cpu, **given)
    with pytest.raises(qd.QuadrantsRuntimeError):
        qd.sync()  # nothing was started


@pytest.mark.parametrize("given", [
    {"debug": "x"},
    {"default_fp": qd.i32},
    {"default_ip": qd.u32},
    {"cpu_max_num_threads": -1},
    {"ad_stack_size": 1.5},
    {"log_level": "loud"},
    {"offline_cache_file_path": 5},
    {"arch": "gpuu"},
])
def test_a_bad_value_is_an_error(given) -> None:
    with pytest.raises(TypeError, match=r"qd\.init"):
        qd.init(**given)


def test_ad_stack_sparse_threshold_bytes() -> None:
    qd.init(arch=qd.cpu)
    assert session.current().settings.ad_stack_threshold == 100 << 20
    qd.init(arch=qd.cpu, ad_stack_sparse_threshold_bytes=1 << 20)
    assert session.current().settings.ad_stack_threshold == 1 << 20


def test_default_ad_stack_size_warns_once_and_is_ignored() -> None:
    with pytest.warns(qd.QuadrantsWarning, match="sized by analysis") as seen:
        qd.init(arch=qd.cpu, default_ad_stack_size=256)
    assert len(seen) == 1
    assert session.current().settings.compile.ad_stack_size == 0


def test_an_arch_that_is_not_here_falls_back_with_a_warning() -> None:
    other = qd.arm64 if qd.cpu is qd.x64 else qd.x64
    with pytest.warns(qd.QuadrantsWarning, match=r"[^.]; falling back to the CPU"):
        qd.init(arch=other)
    with pytest.raises(RuntimeError, match="can be used"):
        qd.init(arch=other, enable_fallback=False)


def test_the_environment_speaks_where_no_argument_does(monkeypatch) -> None:
    monkeypatch.setenv("QD_DEFAULT_FP", "f64")
    qd.init(arch=qd.cpu)
    assert session.current().settings.compile.default_fp is qd.f64
    with pytest.warns(qd.QuadrantsWarning, match="overridden"):
        qd.init(arch=qd.cpu, default_fp=qd.f32)
    assert session.current().settings.compile.default_fp is qd.f32
    monkeypatch.setenv("QL_CHECK", "foo")
    with pytest.raises(TypeError, match="environment variable QL_CHECK must be .*, not 'foo'"):
        qd.init(arch=qd.cpu)


def test_unsupported_names_say_so() -> None:
    with pytest.raises(NotSupportedYet, match=r"qd\.Mesh is not supported: meshes are outside"):
        qd.Mesh  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean qd.field"):
        qd.feild  # noqa: B018
    assert not hasattr(qd, "MeshInstance")


def test_operations_compute_outside_of_kernels() -> None:
    assert qd.sin(0.5) == pytest.approx(0.479425538604203)
    assert qd.max(1, 2, 3) == 3
    assert qd.raw_div(-7, 2) == -3
    assert qd.raw_mod(-7, 2) == -1
    assert qd.cast(2.7, qd.i32) == 2
    assert qd.static(3) == 3
    assert list(qd.ndrange(2, (1, 3))) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    with pytest.raises(qd.QuadrantsRuntimeError, match="inside a kernel"):
        qd.random()
    with pytest.raises(SyntaxError, match="inside a kernel"):
        qd.atomic_add(1, 2)
    for call in (lambda: qd.cast("a", qd.i32), lambda: qd.sin("a"), lambda: qd.max(1, "a"), lambda: qd.atan2(1)):
        with pytest.raises(TypeError, match=r"QL2012\]: qd\.\w+\(.*\) cannot take "):
            call()


@pytest.mark.filterwarnings("error::quadrants_lab.QuadrantsWarning")
def test_options_that_would_print_name_what_shows_it_instead(monkeypatch) -> None:
    with pytest.warns(qd.QuadrantsWarning, match=r"print_ir prints nothing here: .*kernel\.export\('kernel\.html'\)"):
        qd.init(arch=qd.cpu, print_ir=True)
    monkeypatch.setenv("QD_PRINT_KERNEL_ASM", "1")
    with pytest.warns(qd.QuadrantsWarning, match="print_kernel_asm prints nothing here"):
        qd.init(arch=qd.cpu)
    monkeypatch.setenv("QD_PRINT_KERNEL_ASM", "0")
    qd.init(arch=qd.cpu, print_ir=False)
    monkeypatch.setenv("QD_DUMP_IR", "1")
    with pytest.warns(qd.QuadrantsWarning, match="QD_DUMP_IR writes nothing here"):
        qd.init(arch=qd.cpu)
