"""Runs samples with the peer, in f64: ``samples_peer.py FOLDER NAME...`` writes what each returns to FOLDER/NAME.npz,
or why it does not to FOLDER/NAME.txt."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import quadrants as qd

HOW = {"arch": qd.cpu, "default_fp": qd.f64, "log_level": qd.ERROR, "offline_cache": False}
HOW |= {"ad_stack_experimental_enabled": True}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        qd.init(**HOW)
        module = importlib.import_module(f"samples.{name}")
        try:
            np.savez(folder / f"{name}.npz", **module.make(qd)(**getattr(module, "PARAMS", {})))
        except Exception as error:
            (folder / f"{name}.txt").write_text(f"{type(error).__name__}: {error}")
