"""From lowered IR to the text of LLVM IR, for all devices that LLVM compiles for.

The emitter is written over a number of lanes, which the types carry (`text.Ty`). Every branch on a value goes through
`control`, every access to memory through `memory`. With one lane branches are real branches; with more, the CPU's
`lanes` put masks in place of those two parts, and the rest stays as it is.
"""
