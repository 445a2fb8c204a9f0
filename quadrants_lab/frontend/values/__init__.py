"""Values of expressions while a kernel is lowered, the places that can be written, and arithmetic."""
