"""What a Tape records of a program, and its backward pass.

`recorder` records launches and Python's writes as steps (`step`). `access_summary` says where each launch reads and
writes. Values of `tracked` memory that are overwritten are saved as `parts` (`keeper`), and steps are joined to
segments to stay within a budget (`recomputation`). `backward` runs the gradients, last first; they can read saved
copies directly (`stand_ins`). Launches that are repeated unchanged are a `recording`: the launches of an equal Tape
(`rerun`) and of a `program`.
"""
