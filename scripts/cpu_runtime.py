"""``python scripts/cpu_runtime.py [FOLDER]``: compiles the CPU runtime to the LLVM text that is checked in beside it.

The sources are backends/cpu/runtime/*.c. The compiler is clang 19, whose text every llvmlite since 0.45 can read.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from quadrants_lab.backends.cpu import layout  # noqa: E402

SOURCES = ROOT / "quadrants_lab" / "backends" / "cpu" / "runtime"
CLANG = "clang-19"
FLAGS = (
    "-std=c17 -O2 -Wall -Wextra -Wno-unused-parameter -Werror -ffreestanding -fPIC -fno-strict-aliasing "
    "-fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-finite-loops -fno-asynchronous-unwind-tables "
    "-S -emit-llvm -x c - -o -"
)
ORDER = ("launch.c", "report.c", "threads.c", "copies.c", "moves.c", "shares.c", "monitor.c", "entry.c")
FRAME = "DEVICE ENTRY STATUS RELEASE_GIL ZERO_AT ZERO_BYTES FAILED FAIL_WHAT FAIL_COUNT FAIL_VALUES LAUNCH REPLAY"
FRAME += " SLAB_BYTES LANES COPIES_AT COPIES_STRIDE COPIES_SHIFT SHARES_AT SHARE MOVE"
DEVICE = "CANCEL THREADS PRINT_LOCK PRINT_BYTES PRINT_ROOM PRINT_DATA PRINT_LOST RUNNING AGE THREAD_STATE FP_MODE NEXT"
DEVICE += " HEAP LAUNCHES SEED COPIES_ROOM COPIES_BYTES ADD_TO ADD_FROM ADD_STRIDE ADD_COPIES"


def texts() -> dict[str, str]:
    """The LLVM text by file name: of the runtime for every processor, and of the parts that differ between
    processors."""
    whole = [f'#include "{name}"' for name in ORDER]
    for struct, names in (("Frame", FRAME), ("Device", DEVICE)):
        whole += [
            f"_Static_assert(offsetof({struct}, {n.lower()}) == {getattr(layout, n)}, {n!r});".replace("'", '"')
            for n in names.split()
        ]
    made = {"runtime.ll": _compiled("\n".join(whole), "x86_64")}
    for machine in ("x86_64", "aarch64"):
        made[f"{machine}.ll"] = _compiled('#include "processor.c"', machine)
    return made


def sources() -> str:
    """A hash of everything that determines the text, except clang."""
    text = b"".join(p.read_bytes() for p in sorted((*SOURCES.glob("*.[ch]"), Path(layout.__file__), Path(__file__))))
    return hashlib.sha256(text).hexdigest()[:16]


# The parts that are removed from the text: they belong to one target (triple, layout, processor), or are hints for
# passes that have already run.
PASSED = r"^(;.*|source_filename.*|target .*|attributes .*|!.*)\n|, ![a-z.]+ ![0-9]+"
HINTS = r" (#[0-9]+|local_unnamed_addr|noundef|nonnull|nocapture|readonly|range\([^)]*\))(?=[ ,)\n])"


def _compiled(program: str, machine: str) -> str:
    command = [CLANG, f"--target={machine}-unknown-linux-gnu", *FLAGS.split(), "-I", str(SOURCES)]
    text = subprocess.run(command, input=program + "\n", capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^(define .*) {$", r"\1 nounwind {", re.sub(PASSED, "", text, flags=re.M), flags=re.M)
    text = re.sub(r"\n+(?=declare|\Z)", r"\n", re.sub(HINTS, "", text))
    return f"; made by scripts/cpu_runtime.py from the sources {sources()}\n" + text


if __name__ == "__main__":
    for name, text in texts().items():
        Path(*sys.argv[1:] or [SOURCES], name).write_text(text)
