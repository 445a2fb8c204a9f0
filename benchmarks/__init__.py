"""Races quadrants_lab against the pip package quadrants on the same kernels: `make bench`."""
