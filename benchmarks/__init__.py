"""Benchmarks: measures quadrants_lab and the pip package quadrants (the peer) on the same kernels, in turns. `make
bench` runs them. In this folder an engine is one of the packages that are compared, and a case is one program that is
timed."""
