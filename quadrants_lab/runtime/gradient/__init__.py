"""Gradient launches: sizes of adstacks, budgets, what is launched before."""
