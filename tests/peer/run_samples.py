"""Runs samples with the peer, in f64: ``run_samples.py FILE NAME...`` writes the arrays that each returns to a file
of numpy, as NAME/ARRAY."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import quadrants as qd

HOW = {"arch": qd.cpu, "default_fp": qd.f64, "log_level": qd.ERROR, "offline_cache": False}
HOW |= {"ad_stack_experimental_enabled": True}

if __name__ == "__main__":
    found = {}
    for name in sys.argv[2:]:
        qd.init(**HOW)
        module = importlib.import_module(f"samples.{name}")
        found |= {f"{name}/{k}": a for k, a in module.make(qd)(**getattr(module, "PARAMS", {})).items()}
    np.savez(sys.argv[1], **found)
