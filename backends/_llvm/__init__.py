"""From offloaded, exit-free IR to LLVM IR text; shared by the devices that LLVM compiles for.

The emitter is written over a lane count: types carry their lanes (`text.Ty`), every branch on a value goes through
`control`, every access to memory, adstacks too, through `memory`. With one lane branches are real branches; with more,
those two places turn them into masks and the rest stays as it is.
"""
