"""What programs ask of the internals of Quadrants: options, extensions, sets of dtypes."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError

session = session_of(EVERYWHERE)


def test_options_of_the_session():
    config = qd.lang.impl.current_cfg()
    assert config is qd.cfg
    qd.init(arch=qd.cpu, default_fp=qd.f64, debug=True, opt_level=3, print_full_traceback=False)
    assert (config.arch, config.default_fp, config.default_ip) == (qd.cpu, qd.f64, qd.i32)
    assert (config.debug, config.opt_level, config.max_block_dim) == (True, 3, 1024)
    runtime = qd.lang.impl.get_runtime()
    runtime.materialize()
    runtime.sync()
    assert (runtime.default_fp, runtime.prog.alive) == (qd.f64, True)
    with pytest.raises(AttributeError, match="no option 'optlevel'"):
        str(config.optlevel)
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2000"):
        str(config.debug)


def test_options_are_changed_for_later_launches():
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, shape=3)

    @qd.kernel
    def tenth() -> qd.f64:
        return 0.1

    @qd.kernel
    def put(i: qd.i32):
        x[i] = 1.0

    assert tenth() == np.float32(0.1)
    put(0)
    qd.cfg.default_fp, qd.cfg.check_out_of_bound, qd.cfg.opt_level = qd.f64, True, 2
    assert (tenth(), qd.cfg.default_fp, qd.cfg.opt_level) == (0.1, qd.f64, 2)
    with pytest.raises(qd.QuadrantsAssertionError, match="QL2070"):
        put(7)
    for name, value, why in ("arch", qd.cuda, "call qd.init"), ("depth", 1, "no option 'depth'"):
        with pytest.raises(qd.QuadrantsRuntimeError, match=f"QL2038.*\n.*{why}"):
            setattr(qd.cfg, name, value)
    with pytest.raises(TypeError, match="debug must be True or False"):
        qd.cfg.debug = "perhaps"


def test_a_static_loop_beyond_the_limit_is_told():
    @qd.kernel
    def k() -> qd.i32:
        s = 0
        for i in qd.static(range(9)):
            s += i
        return s

    qd.init(arch=qd.cpu, unrolling_limit=8)
    with pytest.warns(qd.QuadrantsWarning, match="QL1907.*9 times"):
        assert k() == 36


def test_options_are_printed(capsys):
    qd.init(arch=qd.cpu, random_seed=7)
    qd.dump_compile_config()
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert "random_seed=7" in lines


def test_extensions_and_sets():
    assert qd.is_extension_enabled(qd.extension.adstack)
    assert not qd.is_extension_enabled(qd.extension.quant)
    with pytest.raises(TypeError, match="sparse"):
        qd.is_extension_enabled("sparse")
    assert qd.lang.misc.is_arch_supported(qd.cpu)
    assert qd.lang.misc.loop_config is qd.loop_config
    assert {qd.f16, qd.f32, qd.f64, float} == qd.types.primitive_types.real_types
    assert qd.types.is_tensor(qd.math.vec2)
    assert not qd.types.is_tensor(qd.f32)
    assert qd.ndarray(qd.f32, 4).get_type() == qd.types.ndarray(qd.f32, 1)


@qd.pure
@qd.kernel
def hinted(x: qd.types.ndarray()):
    qd.block_local(x)
    qd.cache_read_only(x)
    for i in x:
        x[i] = qd.cast(obj=x[i] + 0.5, dtype=qd.i32)


def test_hints_change_nothing():
    x = np.array([1, 2], np.float32)
    hinted(x)
    assert x.tolist() == [1, 2]


def test_members_of_tensors():
    x = qd.tensor(qd.f32, 3)
    qd.Tensor.fill(x, val=2)
    assert x.to_numpy().tolist() == [2] * 3
    v = qd.Vector.field(2, qd.f32, 2)
    qd.Tensor.fill(v, qd.Vector([1.0, 2.0]))
    assert qd.VectorTensor.to_numpy(v).tolist() == [[1, 2]] * 2
    with pytest.raises(TypeError, match="not a list"):
        qd.Tensor.fill([1.0], 2)
    with pytest.raises(AttributeError, match=r"qd\.Tensor has no attribute 'fil'; did you mean qd\.Tensor\.fill"):
        qd.Tensor.fil(x, 2)


def test_a_traceback_has_the_users_frames_and_one_of_ours():
    x = qd.field(qd.f32, shape=3)

    @qd.kernel
    def put(i: qd.i32):
        x[i] = not_there  # noqa: F821

    @qd.kernel
    def flat(v: qd.math.vec2):
        x[v] = 1.0

    for launch in lambda: put(1), lambda: put("a"), lambda: flat(qd.math.vec2(1)), lambda: put.grad(1):
        for full in False, True:
            qd.cfg.print_full_traceback = full
            with pytest.raises(QuadrantsError) as raised:
                launch()
            files = [str(f.path) for f in raised.traceback if str(f.path).startswith(qd.__path__[0])]
            assert (len(files) <= 3) == (not full)
