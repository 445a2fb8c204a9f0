"""LLVM's functions in llvmlite's library, which are called without llvmlite's modules."""

import ctypes

import llvmlite.binding.ffi as ffi
import pytest

from quadrants_lab.backends import llvm_binding as binding

WORDS = {ctypes.c_char_p: "s", ctypes.c_int: "i", ctypes.c_uint: "u", ctypes.c_bool: "b", ctypes.c_size_t: "n"}
WORDS |= {ctypes.POINTER(ctypes.c_char_p): "t", ctypes.c_void_p: "p", None: "-"}
FUNCTION = "define i32 @twice(i32 %a) {\n  %b = shl i32 %a, 1\n  ret i32 %b\n}\n"
UNUSED = "define internal i32 @unused(i32 %a) {\n  ret i32 %a\n}\n"


def word(kind: object) -> str:
    return WORDS.get(kind, "p")  # type: ignore[call-overload]  # ctypes' kinds, and pointers to objects


@pytest.mark.parametrize("name", binding.SIGNATURES)
def test_a_function_is_called_as_llvmlite_calls_it(name: str) -> None:
    """As far as llvmlite says how. Only of the pipeline at a level one argument more is given: see `optimise`."""
    function = getattr(ffi.lib, f"LLVMPY_{name}")
    result, arguments = word(function.restype), function.argtypes
    ours = binding.SIGNATURES[name].removesuffix("i" if name == "buildPerModuleDefaultPipeline" else "-")
    assert ours[:1].replace("-", "") in ("", result)
    assert arguments is None or ours[1:] == "".join(map(word, arguments))


def test_a_module_is_linked_optimised_and_emitted() -> None:
    binding.initialise_all()
    machine = binding.Machine(level=2)
    module = binding.parse("declare i32 @twice(i32)\n" + UNUSED, library={"twice": FUNCTION})
    module.verify()
    assert {f.name: f.is_declaration for f in module.functions()} == {"unused": False, "twice": False}
    copy = module.clone()
    binding.optimise(module, machine, ("GlobalDCE",))
    assert [f.name for f in module.functions()] == ["twice"]
    assert "@unused" in str(copy)
    for f in copy.functions():
        f.export(f.name == "unused")
        f.add_attribute("alwaysinline")
    binding.optimise(copy, machine, level=3, loop_unrolling=False)
    assert "@twice" not in str(copy)
    assert "alwaysinline" in str(copy)
    assert "twice:" in machine.assembly(module.clone())
    assert b"twice" in machine.object_code(module)


@pytest.mark.parametrize("text", ["define i32 @f( {", b"no bitcode"])
def test_what_llvm_cannot_read_is_an_error(text: str | bytes) -> None:
    with pytest.raises(RuntimeError, match="LLVM IR parsing error\n."):
        binding.parse(text)


def test_what_is_not_valid_is_an_error() -> None:
    module = binding.parse("define i32 @f(i32 %a) {\n  %b = add i32 %c, 1\n  %c = add i32 %a, 1\n  ret i32 %b\n}\n")
    with pytest.raises(RuntimeError, match="dominate"):
        module.verify()


def test_another_type_of_a_library_function_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"twice is called as float \(float\), but the library's is i32 \(i32\)"):
        binding.parse("declare float @twice(float)\n", library={"twice": FUNCTION})


def test_an_unknown_system_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="target"):
        binding.Machine("nowhere-unknown-none")
