"""What a Tape knows of a program: its launches, what they overwrote that gradients need, and the way back.

`recorder` records launches and Python's writes as steps (`step`); it knows from `route` where each launch reads and
writes, keeps (`keeper`) in `parts` what `followed` memory loses, and joins steps to `segments` where a budget asks for
it. `back` runs the gradients, last first, and lets them read what is kept where it lies (`stand_ins`).
"""
