"""The IR at the ground of everything: types, source spans, statements, primitives, text, verifier."""
