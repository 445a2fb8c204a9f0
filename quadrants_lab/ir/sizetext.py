"""The text form of SizeExpr; `parse.parse_size` reads it back."""

from quadrants_lab.ir import sizeexpr as S

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_TIGHT = {"add": 1, "sub": 1, "mul": 2, "floordiv": 2, "mod": 2}


def print_size(e: S.SizeExpr, outer: int = 0) -> str:
    """One line, e.g. ``sum(j%7 in 0..@n[]: 1 + j%7)``."""
    match e:
        case S.SizeConst(value):
            return str(value) if value >= 0 else f"({value})"
        case S.SizeArg(arg):
            return f"arg {arg}"
        case S.SizeShape(buffer, axis):
            return f"@{buffer}.shape[{axis}]"
        case S.SizeLoad(buffer, index):
            return f"@{buffer}[{', '.join(print_size(i) for i in index)}]"
        case S.SizeVar(id, name):
            return f"{name}%{id}"
        case S.SizeCounted(stack):
            return f"counted ${stack}"
        case S.SizeOp(op, a, b) if op in _INFIX:
            tight = _TIGHT[op]
            text = f"{print_size(a, tight)} {_INFIX[op]} {print_size(b, tight + 1)}"
            return f"({text})" if tight < outer else text
        case S.SizeOp(op, a, b):
            return f"{op}({print_size(a)}, {print_size(b)})"
        case S.SizeRange(op, var, begin, end, body):
            return f"{op}({print_size(var)} in {print_size(begin)}..{print_size(end)}: {print_size(body)})"
    raise TypeError(f"not a SizeExpr: {e!r}")
