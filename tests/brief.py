"""IR text for people who read golden tests."""

import re

_CONSTANT = re.compile(r"^ *(%\d+): (\w+) = const (\S+).*\n", re.MULTILINE)


def brief(text: str) -> str:
    """The text with constants without a name where they are read: of those that are no i32 or f32 the dtype, too. One
    that nothing reads stays; the numbers that are missing say how many went."""
    found = {id: value if t in ("i32", "f32") else f"{value}:{t}" for id, t, value in _CONSTANT.findall(text)}
    left = _CONSTANT.sub(lambda m: "" if len(re.findall(rf"{m[1]}\b", text)) > 1 else m[0].replace("%", "\0"), text)
    return re.sub(r"%\d+", lambda m: found.get(m[0], m[0]), left).replace("\0", "%")
