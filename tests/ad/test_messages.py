"""Every warning and error of the derivatives, as text: what is wrong, where, why, and what to do."""

import re
import warnings
from pathlib import Path

from ad import messages

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError

HERE = Path(__file__).parent
SOURCES = ("autodiff", "runtime", "lang")


def shown(case) -> str:
    """Warnings and then the error of one case."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            case()
        except QuadrantsError as e:
            texts.append(f"{type(e).__name__}: {e}")
        finally:
            qd.reset()
    texts = [str(w.message) for w in caught] + texts
    return "\n".join(texts).replace(messages.__file__, "messages.py")


def test_text(golden) -> None:
    texts = {case.__name__: shown(case) for case in messages.CASES}
    assert all(texts.values()), [name for name, text in texts.items() if not text]
    golden(HERE / "messages.txt", "\n".join(f"--- {name}\n{text}\n" for name, text in texts.items()))


def test_every_code_of_autodiff_is_shown() -> None:
    package = Path(qd.__file__).parent / "autodiff"
    used = {code for p in package.glob("*.py") for code in re.findall(r'"(QL04\d\d)"', p.read_text())}
    assert used <= set(re.findall(r"QL\d{4}", (HERE / "messages.txt").read_text()))
