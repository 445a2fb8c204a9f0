"""Operations that are written in the kernel language itself, one idea a file.

The front end reads them and inlines them where they are called; the text under each ``def`` is not Python that runs.

Algorithms that iterate see their argument ``detached``: no derivative goes through the iteration. What they found is
handed out by ``custom_jvp(value, change)``, which has that value and the derivative of ``change``: a formula for how
the result moves with the argument. So a gradient costs no stacks and is as exact as the result.
"""

from quadrants_lab.frontend.library import complexes, geometry, linear, randn, rotations, scalars, spectral
from quadrants_lab.frontend.library.core import FUNCTIONS, LibraryFunction

__all__ = ["FUNCTIONS", "LibraryFunction", "complexes", "geometry", "linear", "randn", "rotations", "scalars",
           "spectral"]  # fmt: skip
