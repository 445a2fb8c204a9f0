"""Documented, differentiable sample kernels. Each module shows one idea, with its mathematics and shapes."""

if not __name__.startswith("quadrants_lab."):
    raise ImportError("this folder is the package quadrants_lab.kernels: import it by that name")
