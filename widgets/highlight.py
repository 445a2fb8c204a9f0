"""Syntax colours as HTML, line by line, by one regular expression for each language."""

import html
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

IR = re.compile(
    r"""(?P<hs>"(?:\\.|[^"\\])*"|'[^']*')|(?P<hv>[%$][\w]+)|(?P<hf>@[\w.$]+)|(?P<hc>[#!~]\S+)"""
    r"""|(?P<ht>\b(?:u1|[iu](?:8|16|32|64)|f(?:16|32|64))\b)"""
    r"""|(?P<hk>\b(?:kernel|buffer|field|ndarray|temp|ret|offload|range_for|struct_for|serial|bounds|do|for|while|if"""
    r"""|else|carry|yield|break|continue|load|store|atomic|const|adstack_\w+|reversed|in|grad|next|forward|reverse"""
    r"""|count|reason|size|primal)\b)"""
    r"""|(?P<hn>-?\b\d[\w.]*(?:[eE][-+]?\d+)?)"""
)

_WORDS = {
    "python": "and as assert async await break class continue def del elif else except finally for from global if "
    "import in is lambda nonlocal not or pass raise return try while with yield None True False",
    "c": "break case const constant continue default device do else enum extern for goto if inline kernel restrict "
    "return sizeof static struct switch threadgroup typedef using namespace volatile while",
}
_KEYWORD = {name: rf"(?P<hk>\b(?:{'|'.join(words.split())})\b)" for name, words in _WORDS.items()}
_NUMBER = r"(?P<hn>(?<![\w.])[-$]?(?:0x[\da-fA-F]+|\d[\d_.]*(?:[eE][-+]?\d+)?\w*))"
_C = re.compile(
    r"""(?P<hc>//.*|/\*.*?\*/)|(?P<hs>"(?:\\.|[^"\\])*")|(?P<hf>^\s*\#\w+|\b\w+(?=\())|"""
    rf"""{_KEYWORD["c"]}|(?P<ht>\b(?:void|bool|char|short|half|int|long|float|double|u?int\d*(?:_t)?|\w+_t)\b)|{_NUMBER}"""
)
RULES = {
    "ir": IR,
    "spirv": re.compile(
        r"""(?P<hs>"[^"]*")|(?P<hv>%[\w.-]+)|(?P<hk>\bOp\w+)|(?P<hc>;.*)|"""
        r"""(?P<hn>(?<= )-?\d[\w.]*\b)|(?P<ht>\b[A-Z]\w+)"""
    ),
    "llvm": re.compile(
        r"""(?P<hc>;.*)|(?P<hs>"[^"]*")|(?P<hv>[%!#][\w.$-]+)|(?P<hf>@[\w.$-]+)|"""
        rf"""(?P<ht>\b(?:i\d+|half|float|double|ptr|void|label)\b)|(?P<hk>(?<![\w.$-])[a-z][a-z_]+\b)|{_NUMBER}"""
    ),
    "gas": re.compile(
        r"""(?P<hc>[#;].*|//.*)|(?P<hs>"[^"]*")|(?P<hf>^[\w.$@]+:)|(?P<ht>(?<![\w.])\.[a-z]\w*)|(?P<hv>%\w+)|"""
        rf"""(?P<hk>^\s+[a-z]\w*)|{_NUMBER}"""
    ),
    "ptx": re.compile(
        rf"""(?P<hc>//.*)|(?P<hv>%[\w.]+)|(?P<hf>^[\w$]+:)|(?P<ht>\.\w+)|(?P<hk>^\s*(?:@!?%\w+\s+)?[a-z]+)|{_NUMBER}"""
    ),
    "c": _C,
    "cpp": _C,
    "python": re.compile(
        r"""(?P<hc>\#[^\n]*)|(?P<hs>[rbfRBF]*(?:\"{3}[\s\S]*?(?:\"{3}|\Z)|'{3}[\s\S]*?(?:'{3}|\Z)"""
        r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))|(?P<hf>@[\w.]+|(?<=def )\w+|(?<=class )\w+)|"""
        rf"""{_KEYWORD["python"]}|{_NUMBER}"""
    ),
}
"""Language -> what its pieces look like: hk keywords, ht types, hs texts, hn numbers, hf functions, hv values, hc
comments."""


def _class(kind: str) -> str:
    return f'class="{kind}"'


def highlight(lines: Sequence[str], language: str, look: Callable[[str], str] = _class) -> list[str]:
    """HTML for each line, with spans of the kinds of `RULES`, to which ``look`` gives attributes. Without a language:
    escaped text."""
    if language not in RULES:
        return [html.escape(line) for line in lines]
    if language == "python":  # a text may be several lines long
        return _marked("\n".join(lines), language, look).split("\n")
    return [_marked(line, language, look) for line in lines]


@lru_cache(maxsize=1 << 14)  # passes and stages change few lines
def _marked(text: str, language: str, look: Callable[[str], str]) -> str:
    out, at = [], 0
    for m in RULES[language].finditer(text):
        begin = f"<span {look(str(m.lastgroup))}>"
        told = html.escape(m.group()).replace("\n", f"</span>\n{begin}")
        out += [html.escape(text[at : m.start()]), begin, told, "</span>"]
        at = m.end()
    return "".join(out) + html.escape(text[at:])
