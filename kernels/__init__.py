"""A library of documented, differentiable sample kernels: each module one idea, its mathematics and shapes."""

if not __name__.startswith("quadrants_lab."):
    raise ImportError("this folder is the package quadrants_lab.kernels: import it by that name")
