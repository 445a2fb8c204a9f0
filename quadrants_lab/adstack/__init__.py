"""Adstacks: how deep each of them must be, as a SizeExpr, from the control flow of the forward slice."""
