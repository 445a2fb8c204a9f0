"""A parallel task whose iterations run side by side in the lanes of vector registers (SPMD on SIMD).

`divergence` tells uniform values, which all lanes share, from divergent ones; `choose` says which tasks gain and how
many lanes they take, `vector_loops` which loops LLVM's vectoriser takes; `task` emits the chunk function, `body`
arithmetic, and `control`, `memory` and `functions` the other statements. Where control flow diverges, a mask says
which lanes take part. Loads and stores obey it; arithmetic runs in all lanes, and its results in the other lanes,
which may be poison, are never used.

After Pharr and Mark, "ispc: A SPMD compiler for high-performance CPU programming" (2012), and Karrenberg and Hack,
"Whole-function vectorization" (2011).
"""
