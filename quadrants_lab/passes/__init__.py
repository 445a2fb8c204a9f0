"""Transforms kernels. Each pass is a function Kernel -> Kernel; `quadrants_lab.pipelines` says which of them run,
in which order."""
