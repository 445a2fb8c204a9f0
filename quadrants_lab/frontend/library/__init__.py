"""Operations that are written in the kernel language itself.

The front end inlines them where they are called; Python never runs the bodies of these functions.

Iterative algorithms work on the ``detached`` argument, so that no derivative flows through the iterations. They return
``custom_jvp(value, change)``, which has that value and the derivative of ``change``, a formula for the differential of
the result. So their gradient needs no stacks and is as exact as the result.
"""
