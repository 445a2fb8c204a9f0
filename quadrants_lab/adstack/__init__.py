"""Computes how deep each adstack, a stack that a gradient needs, must be. The depth is a formula (SizeExpr),
derived from the control flow of the forward slice, the part of a gradient that pushes."""
