"""From lowered IR to the source of a language with C's expressions and control flow: what MSL and C share."""
