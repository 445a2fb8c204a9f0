"""Passes over the IR: each is a function Kernel -> Kernel; `quadrants_lab.pipelines` says which run, in which order."""
