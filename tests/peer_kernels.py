"""Runs sample kernels with the peer, which they then import in the place of quadrants_lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from child import run
from conftest import ROOT, peer_python

# In the peer's process: argv is the programs (module -> code that leaves its answer in `found`), options, the folder.
PROCESS = """
import json, sys, numpy as np, quadrants
programs, options, folder = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
options = {k: getattr(quadrants, v) for k, v in options.items()}
quadrants.init(arch=quadrants.cpu, ad_stack_experimental_enabled=True, log_level=quadrants.ERROR, **options)
sys.modules["quadrants_lab"] = quadrants
found = {}
for name, code in programs.items():
    path = f"{folder}/{name}.py"
    space = {"__name__": name, "__file__": path}
    exec(compile(open(path).read(), path, "exec"), space)
    exec(code, space)
    found[name] = space["found"]
print("RESULT", json.dumps(found))
"""


def peer_values(programs: dict[str, str], folder: Path, **options: str) -> dict[str, Any]:
    """What ``found`` is after each program's code, run in the module of kernels/ that is its key; in ``folder``.

    ``options`` of the peer's `init` are names of its attributes.
    """
    done = run(
        peer_python(), "-c", PROCESS, json.dumps(programs), json.dumps(options), ROOT / "kernels", cwd=folder
    )
    values: dict[str, Any] = json.loads(done.stdout.split("RESULT", 1)[1])
    return values
