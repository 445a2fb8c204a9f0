"""Emits lowered IR as the text of LLVM IR, for all devices that LLVM compiles for.

Lanes are iterations that run side by side in vector registers. The emitter works for any number of lanes, which is
a part of each type (`text.Ty`). Every branch on a value goes through `control`, every access to memory through
`memory`. With one lane, a branch is a jump. With more lanes, on the CPU, `lanes` replaces branches and accesses by
masked code; all other code is the same.
"""
