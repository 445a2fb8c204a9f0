"""Whether calls fit the functions that they call, in LLVM's text and in PTX. Neither LLVM nor ptxas objects to a call
of a function with other types."""

import re

_TYPE = r"(?:void|half|float|double|i\d+|ptr(?: addrspace\(\d+\))?|<\d+ x \w+>|\[\d+ x \w+\]|\{[^}]*\})"
_HEAD = re.compile(rf"^(?:define|declare) (?:[a-z_]+ )*?({_TYPE}) @([\w.]+)\((.*)", re.M)
_CALL = re.compile(rf"\bcall (?:[a-z]+ )*?({_TYPE}) @([\w.]+)\((.*)")
_FUNC = re.compile(r"\.func\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*\(([^)]*)\)")
_SEQUENCE = re.compile(r"\{ // callseq.*?\} // callseq", re.S)
_PTX_CALL = re.compile(r"^\s*call(?:\.uni)?\s*(?:\(([^)]*)\),)?\s*([%\w$]+)(?:,\s*\(([^)]*)\))?", re.M)
_PARAM = re.compile(r"\.param\s+(?:\.align \d+\s+)?\.[bfsu](\d+)\s+([\w$]+)(?:\[(\d+)\])?")


def llvm_misfits(text: str) -> list[str]:
    """A line for each call of a function that takes or returns something else. LLVM's own functions need no
    declaration, and its verifier checks their calls."""
    heads = {name: (result, _types(rest)) for result, name, rest in _HEAD.findall(text)}
    calls = dict.fromkeys((name, (result, _types(rest))) for result, name, rest in _CALL.findall(text))
    wrong = [(name, how) for name, how in calls if heads.get(name, how if name[:5] == "llvm." else None) != how]
    return [f"{name} is {heads.get(name)}, called as {how}" for name, how in wrong]


def _types(rest: str) -> tuple[str, ...]:
    """The types of parameters or arguments, from behind their opening bracket on."""
    depth, part, parts = 0, "", []
    for c in rest:
        depth += (c in "([{<") - (c in ")]}>")
        if depth < 0:
            break
        if c == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += c
    found = [re.match(_TYPE, p.strip()) for p in (*parts, part) if p.strip()]
    return tuple(m[0] if m else "?" for m in found)


def ptx_misfits(text: str) -> list[str]:
    """As `llvm_misfits`; also a line for each function that is missing and each call of an address, which is how LLVM
    calls a function with other types."""
    out = [line.strip() for line in text.splitlines() if ".callprototype" in line or ".extern" in line]
    heads = {name: (_sizes(result), _sizes(params)) for result, name, params in _FUNC.findall(text)}
    for block in _SEQUENCE.findall(text):
        ((result, name, args),) = _PTX_CALL.findall(block)
        sizes = dict(zip((n for _, n, _ in _PARAM.findall(block)), _sizes(block), strict=True))
        how = tuple(tuple(sizes[n.strip()] for n in names.split(",") if n.strip()) for names in (result, args))
        if heads.get(name) != how:
            out.append(f"{name} is {heads.get(name)}, called as {how}")
    return out


def _sizes(params: str) -> tuple[int, ...]:
    """The size in bytes of each parameter."""
    return tuple(int(bits) // 8 * int(count or 1) for bits, _, count in _PARAM.findall(params))
