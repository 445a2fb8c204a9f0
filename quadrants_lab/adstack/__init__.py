"""Adstacks: how deep each must be, in SizeExpr, from the control flow graph of the forward slice."""
