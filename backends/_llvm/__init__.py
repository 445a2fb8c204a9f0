"""From lowered IR to the text of LLVM IR, for all devices that LLVM compiles for.

The emitter is written over a number of lanes, which the types carry (`text.Ty`). Every branch on a value goes through
`control`, every access to memory through `memory`. With one lane, a branch is a jump. With more lanes, on the CPU,
`lanes` replaces branches and accesses by masked code; all other code is the same.
"""
