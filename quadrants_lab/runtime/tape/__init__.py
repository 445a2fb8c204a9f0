"""Records the launches of a program on a Tape, and runs its backward pass.

`recorder` records launches and Python's writes as steps (`step`). `access_summary` says what each launch reads and
writes. If `tracked` memory is overwritten, the old values are saved as `parts` (`keeper`). To stay within a budget,
neighbouring steps are joined to segments, which are recomputed (`recomputation`). `backward` runs the gradients, last
first; gradients can read saved copies directly (`stand_ins`). If a program is run again unchanged, its launches are a
`recording`: the launches of an equal Tape (`rerun`), or of a `program`.
"""
