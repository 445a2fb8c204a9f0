"""Which parallel tasks run in the lanes of vector registers (see `_llvm.lanes`): `choose` says which gain and how many
lanes they take, `vector_loops` which loops LLVM's vectoriser takes, and `functions` lowers elementary functions."""
