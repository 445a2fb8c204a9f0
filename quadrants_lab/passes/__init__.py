"""Passes over the IR: each is a function Kernel -> Kernel; `pipelines` says which run and in which order."""
