"""How deep each stack of a gradient (adstack) must be: a formula, a SizeExpr, derived from the control flow of the
forward slice, which pushes to the stacks."""
