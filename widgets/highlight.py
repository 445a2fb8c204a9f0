"""Colours code as HTML, line by line: by Pygments, or by regexes for our IR and for SPIR-V."""

import html
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String

_CLASSES = (
    (Comment, "hc"), (Operator.Word, "hk"), (Keyword.Type, "ht"), (Keyword, "hk"), (String, "hs"), (Number, "hn"),
    (Name.Decorator, "hf"), (Name.Function, "hf"), (Name.Builtin, "hf"), (Name.Variable, "hv"),
)  # fmt: skip

IR = re.compile(
    r"""(?P<hs>"(?:\\.|[^"\\])*"|'[^']*')|(?P<hv>[%$][\w]+)|(?P<hf>@[\w.$]+)|(?P<hc>[#!~]\S+)"""
    r"""|(?P<ht>\b(?:u1|[iu](?:8|16|32|64)|f(?:16|32|64))\b)"""
    r"""|(?P<hk>\b(?:kernel|buffer|field|ndarray|temp|ret|offload|range_for|struct_for|serial|bounds|do|for|while|if"""
    r"""|else|carry|yield|break|continue|load|store|atomic|const|adstack_\w+|reversed|in|grad|next|forward|reverse"""
    r"""|count|reason|size|primal)\b)"""
    r"""|(?P<hn>-?\b\d[\w.]*(?:[eE][-+]?\d+)?)"""
)

_SPIRV = re.compile(
    r"""(?P<hs>"[^"]*")|(?P<hv>%[\w.-]+)|(?P<hk>\bOp\w+)|(?P<hc>;.*)|(?P<hn>(?<= )-?\d[\w.]*\b)|(?P<ht>\b[A-Z]\w+)"""
)
_OURS = {"ir": IR, "spirv": _SPIRV}
_BY_LINE = ("c", "cpp", "gas", "llvm", "ptx")  # nothing that the compiler writes in them goes on in the next line


def _class(kind: str) -> str:
    return f'class="{kind}"'


def highlight(lines: Sequence[str], language: str, look: Callable[[str], str] = _class) -> list[str]:
    """HTML for each line, with spans of the kinds hk ht hs hn hf hv hc, to which ``look`` gives attributes. Without a
    language: escaped text."""
    if not language:
        return [html.escape(line) for line in lines]
    if language in _OURS:
        return [_by_regex(line, language, look) for line in lines]
    if language in _BY_LINE:
        return [_by_pygments(line, language, look) for line in lines]
    done = _by_pygments("\n".join(lines), language, look).split("\n")
    return (done + [""] * len(lines))[: len(lines)]


@lru_cache(maxsize=1 << 15)  # stages and modes share most of their lines
def _by_pygments(text: str, language: str, look: Callable[[str], str]) -> str:
    out, at = [], 0
    alike = _NUMBERED.sub(lambda found: "1" * len(found[0]), text) if language == "llvm" else text
    for kind, length in _tokens(alike, language):
        told = html.escape(text[at : at + length])
        at += length
        if kind:
            begin = f"<span {look(kind)}>"
            told = "\n".join(f"{begin}{line}</span>" if line else "" for line in told.split("\n"))
        out.append(told)
    return "".join(out)


_NUMBERED = re.compile(r"(?<=[A-Za-z_.%$@!])\d+")  # the number of a name in LLVM's IR, which no token depends on


@lru_cache(maxsize=1 << 13)  # most lines of code differ in the numbers of values alone
def _tokens(text: str, language: str) -> list[tuple[str, int]]:
    """(kind, length) of each token; kind "" for text between tokens."""
    found = [("", 0)]
    for _, token, part in _lexer(language).get_tokens_unprocessed(text):
        if (kind := _kind(token)) or found[-1][0]:
            found.append((kind, len(part)))
        else:
            found[-1] = "", found[-1][1] + len(part)
    return found


@cache
def _kind(token: Any) -> str:
    return next((name for kind, name in _CLASSES if token in kind), "")


_lexer = cache(get_lexer_by_name)


@lru_cache(maxsize=1 << 13)  # passes change few lines
def _by_regex(line: str, language: str, look: Callable[[str], str]) -> str:
    out, at = [], 0
    for m in _OURS[language].finditer(line):
        out.append(html.escape(line[at : m.start()]))
        out.append(f"<span {look(str(m.lastgroup))}>{html.escape(m.group())}</span>")
        at = m.end()
    return "".join(out) + html.escape(line[at:])
