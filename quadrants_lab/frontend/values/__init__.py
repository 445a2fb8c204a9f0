"""What expressions stand for while a kernel is lowered: values, where they can be written, and arithmetic on them."""
