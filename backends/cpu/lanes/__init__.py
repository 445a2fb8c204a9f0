"""A parallel task whose iterations run side by side in the lanes of vector registers (SPMD on SIMD).

`divergence` tells values that all lanes share from those that differ; `choose` says which tasks gain and how many
lanes they take; `task` is the chunk function, `body` the statements: arithmetic there, `control`, `memory`
and `functions` the rest. Where lanes part, a mask says which take part: loads and stores obey it, arithmetic
runs in all of them, and what it makes of the others, which may be poison, is never looked at.

After Pharr and Mark, "ispc: A SPMD compiler for high-performance CPU programming" (2012), and Karrenberg and Hack,
"Whole-function vectorization" (2011).
"""
